"""One run: loop, network, service and clients of one plan, and what it came to."""

import asyncio
import gc
import logging
import random
import sys
import warnings
from collections import Counter
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest import mock

import httpx
from anyio._backends._asyncio import CancelScope
from attrs import field, frozen

import payclient.client._client
import payclient.client._session
import payclient.client._stream
import payclient.client.policies._limiter
import payclient.protocol._wire
import payclient.reconcile._journal.answers
import payclient.reconcile._run
import payclient.transports._connections
from payclient import AsyncClient, RetryPolicy
from payclient.client._stream import Stream
from payclient.client.policies._retry import MAX_OWN_WAIT, MAX_PAUSE
from simulation import cells, host, oracles, proxy
from simulation.keys import Keys
from simulation.loop import SimulatedLoop, StuckError, Task
from simulation.network import Network, SimulatedSocket
from simulation.plan import AIMED, BREAKING, CALLERS, EXTRA, HARMLESS, IDLE, KEYS, RATE, REVOKED, ROTATES, SLOW, SLOWING
from simulation.service import Service
from support.fakes import KEY

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CONNECT_SECONDS = 5.0
"""The default of `connect_timeout`."""


UNNOTICED = {"cancel", "close", "idle end", "wall clock", *HARMLESS}
UNNOTICED |= {*CALLERS, "reader gone for ever", "proxy idle end", "proxy idle reset", "proxy announces"}
"""Faults that no lookup notices: it is answered by its first attempt."""


@frozen
class Result:
    """What a run came to."""

    seed: int  # of its plan
    trace: str  # a hash of all that happened
    problems: tuple[str, ...]  # what did not hold, as `name: what`
    seconds: float  # virtual ones
    ticks: int  # steps of the loop
    requests: int  # what the service was sent
    counts: dict[str, int]  # of whatever the run counted
    cells: dict[tuple[str, str], int] = field(factory=dict)  # how often each was reached
    order: tuple[tuple[int, int], ...] = ()  # the turns in which another task than asyncio's next has run, and which


class CallerError(Exception):
    """What code of a caller's raises."""

    def __init__(self, owner=None):
        super().__init__()
        self.owner = owner  # number of the caller, if it is known as the error is raised


class _Log(logging.Handler):
    """Looks for the key in what is logged."""

    def __init__(self, world):
        super().__init__()
        self._world = world

    def emit(self, record):
        if any(secret in record.getMessage() for secret in oracles.SECRETS):
            self._world.fail("key", "in the log")


class _Date(datetime):
    """The wall clock of the run."""

    world = None

    @classmethod
    def now(cls, tz=None):
        return cls.world.wall().astimezone(tz)


class World:
    """All that one plan needs."""

    def __init__(self, plan):
        self.plan = plan  # what is run
        self.problems = []  # what did not hold
        self.limiters, self.clients = [], []  # limiters: One per client
        self.counts, self.signals, self.cells = {}, {}, Counter()
        self.streams = []  # every stream and batch
        self._hearing, self.answered = {}, {}
        self._observed, self.acts = 0, {}
        self._turns, self.order = 0, []  # order: The turns in which another task than asyncio's next has run, and which
        self._order = dict(plan.order or ())
        self.newest = {}
        self.outages, self.asked = [], {}
        self.keyless = set()  # references of which a lookup has waited for a key
        self.is_closing = False  # whether a client is closed under way
        self.closing_at = float("inf")
        self.asleep = set()  # client and reference of each wait without a poll as its client is closed
        self._graves = []
        self._wall_offset = 0.0
        is_orderly = plan.limit.kind == "none" and not plan.loss and plan.deadline >= 20 and plan.max_rate is None
        # A handshake over a slow network takes two seconds, and through a proxy three more.
        is_orderly = is_orderly and (plan.timeout >= 10 and plan.deadline >= 60 if plan.proxy else plan.timeout >= 5)
        # httpx's own pool does not ask again when a kept-alive connection turns out to be closed.
        noticed = {"idle end"} if plan.transport == "injected" else set()
        self.is_quiet = is_orderly and {fault.kind for fault in plan.faults} <= UNNOTICED - noticed
        kinds = {fault.kind for fault in plan.faults}
        ways = 12 if plan.proxy else 7  # of the messages that it takes to connect and to be answered
        needed = ways * plan.latency[1] + plan.work_seconds + 0.1
        self.is_prompt = not kinds & set(SLOWING) and not plan.loss and not plan.tick and needed < plan.timeout
        self._longest = CONNECT_SECONDS if needed < CONNECT_SECONDS < plan.timeout else plan.timeout
        # A connection on which an answer is late counts as idle; and another one amid its parts is not HTTP.
        disturbing = {*IDLE, *(kind for kind in EXTRA if kind.endswith("later"))}
        is_breaking = kinds & set(BREAKING) or (kinds & set(SLOW) and kinds & disturbing)
        self.is_unbroken = plan.transport != "injected" and not is_breaking and plan.timeout >= 5
        self._chances = {name: random.Random(f"{name} {plan.seed}") for name in ("loop", "net", "service", "work")}
        self.chance = self._chances["work"]
        self._new_loop(0.0)
        self.service = Service(self.loop, plan, self._chances["service"], self.wall)
        self.service.on_reuse = lambda: oracles.check_reuse(self)
        self.service.on_fault = self.strike
        self.proxy = proxy.Proxy(self) if plan.proxy else None  # on the way to the service, or None
        self.keys = Keys(self)
        self.has_bad_source = bool(kinds & {*KEYS})
        self._is_key_doubtful = kinds & {REVOKED, *KEYS} or sum(f.kind == ROTATES for f in plan.faults) > 1
        self._may_raise = [int(fault.at) for fault in plan.faults if fault.kind == "observer raises"]
        self.service.takes = lambda key: key in self.keys.valid
        self._entry = {host.NAME: host.ADDRESSES[host.NAME]} if self.proxy is None else proxy.ADDRESSES
        self._new_network()

    def _new_loop(self, now):
        plan, chance = self.plan, self._chances["loop"]
        choose = self._choose if plan.is_shuffled else None
        tick = (lambda: chance.random() * plan.tick) if plan.tick else None
        self.loop = SimulatedLoop(choose, tick)
        if "late timers" in plan.troubles:
            late = random.Random(f"late {plan.seed}")
            self.loop.lateness = lambda: late.random() * oracles.LATENESS
        self.loop.advance(now)

    def _choose(self, options):
        """Draw which of the tasks runs next, or take it from the plan."""
        self._turns += 1
        if self.plan.order is None:
            choice = self._chances["loop"].randrange(options)
        else:
            choice = min(self._order.get(self._turns, 0), options - 1)
        if choice:
            self.order.append((self._turns, choice))
        return choice

    def _new_network(self):
        plan = self.plan
        self.network = self.loop.network = Network(
            self.loop,
            self._chances["net"],
            self._accept,
            addresses={**host.ADDRESSES, **self._entry},
            latency=plan.latency,
            loss=plan.loss,
            pieces=plan.pieces,
        )
        self.network.on_connect = (self.proxy or self.service).on_connect
        self.network.on_write = self._on_write
        self.address = f"https://{host.NAME}" if plan.is_tls else "http://127.0.0.1:8080"

    def _on_write(self, transport):
        oracles.check_write(self, transport)
        oracles.check_known_head(self, transport)

    def _accept(self, connection):
        return self.proxy.accept(connection) if self.proxy is not None else self.serve(connection).receive

    def serve(self, connection, *, is_stranger=False):
        """Return the service's side of a connection."""

        def on_bytes(data):
            if self.plan.is_tls:
                oracles.check_bytes(self, data)
            self.service.on_bytes(peer)

        def on_request(peer, request):
            oracles.check_request(self, request)
            if is_stranger:
                self.fail("key", "sent to a server that has not proven who it is")
            self.service.on_request(peer, request)

        tls = host.Tls(host.server_context(host.NAME, is_trusted=not is_stranger)) if self.plan.is_tls else None
        peer = host.Peer(connection, tls=tls, on_request=on_request, on_bytes=on_bytes)
        self.service.add(peer)
        return peer

    # For workloads

    def fail(self, name, what):
        """Note that something did not hold."""
        self.loop.note("problem", name)
        self.problems.append(f"{name}: {what}")

    def count(self, name):
        """Count one more, and return how many there are."""
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.counts[name]

    def strike(self, kind):
        """Count the states in which a fault finds the world."""
        group = cells.GROUPS.get(kind, kind)
        self.cells.update((group, state) for state in {*cells.states(self)})

    def has(self, kind):
        """Return whether the plan has a fault of that kind."""
        return any(fault.kind == kind for fault in self.plan.faults)

    async def stall(self, kind, number):
        """Let a caller's code wait, if a fault of that kind says so."""
        for fault in self.plan.faults:
            if fault.kind == kind and fault.at == number and not self.service.is_calm:
                self.strike(kind)
                await asyncio.sleep(fault.value)

    def _raise(self):
        """Raise as an observer does, if a fault says so."""
        self._observed += 1
        if self._observed in self._may_raise and not self.service.is_calm:
            self.strike("observer raises")
            raise CallerError

    def blame(self, error, number):
        """Complain of what code of one caller has raised, and another one gets."""
        if error.owner is None:
            error.owner = number
        elif error.owner != number:
            self.fail("another's error", f"{number} got what code of {error.owner} raised")

    def may_be_refused(self):
        """Return whether a lookup may end because the service has refused the key."""
        return self.service.has_revoked and bool(self._is_key_doubtful or not self.plan.has_source)

    def note_response(self):
        """Note that the attempt of this task has got an answer."""
        self._hearing[asyncio.current_task(self.loop)] = True

    def hears(self):
        """Return whether the last attempt of this task has got an answer, and forget it."""
        return self._hearing.pop(asyncio.current_task(self.loop), False)

    def wall(self):
        """Return the date of this run."""
        return NOON + timedelta(seconds=self.loop.time() + self._wall_offset)

    def make_client(self):
        """Return a client of the plan's kind, and what must be closed after it."""
        plan, also = self.plan, None
        options = {}
        through = proxy.ADDRESS if plan.proxy else None
        if plan.transport in ("httpx", "fast"):
            options = {"transport": plan.transport, "proxy": through}
        else:
            trust = host.client_context()
            limits = httpx.Limits(max_connections=plan.concurrency)
            also = httpx.AsyncClient(verify=trust, limits=limits, timeout=30, trust_env=False)
            options["http_client"] = also
        client = AsyncClient(
            api_key=self.keys.source_of(len(self.clients)) if plan.has_source else KEY,
            base_url=self.address,
            max_concurrency=plan.concurrency,
            max_rate=plan.max_rate,
            workers=plan.clients,
            timeout=plan.timeout if plan.deadline is None else min(plan.timeout, plan.deadline),
            deadline=plan.deadline,
            retry=RetryPolicy(),
            on_attempt=self._on_attempt(len(self.limiters)),
            **options,
        )
        client._session._transport = oracles.Heard(self, client._session._transport)
        self.clients.append(client)
        self.outages.append(oracles.KnownOutage(self))
        return client, also

    def _on_attempt(self, number):
        plan_raises = self.plan.work in ("stream", "crowd")

        def on_attempt(attempt):
            self.loop.note("attempt", attempt.reference, attempt.status, attempt.error)
            self.count(f"{attempt.error or 'found'}")
            self.outages[number].hear(attempt)
            oracles.check_late(self, attempt)
            self.asked[attempt.reference] = self.asked.get(attempt.reference, 0.0) + attempt.seconds
            # httpx's own pool may have given a connection in doubt to another lookup before it is closed.
            is_certain = self.plan.transport != "injected" or all(each[0] == "T" for each in self.plan.references)
            if self.is_quiet and is_certain and attempt.error in ("ConnectionFailedError", "AttemptTimeoutError"):
                self.fail("unanswered", f"an attempt for {attempt.reference} ended with {attempt.error}")
            elif self.is_prompt and self._is_too_slow(attempt) and self.plan.transport != "injected":
                self.fail("slow", f"an attempt for {attempt.reference} waited until its time was over")
            elif self.is_unbroken and attempt.error == "ConnectionFailedError":
                self.fail("stale", f"an attempt for {attempt.reference} failed, and nothing broke its connection")
            is_last = attempt.number >= RetryPolicy().max_attempts
            if (
                is_last
                and attempt.error == "ConnectionFailedError"
                and f"answered by client {number}" not in self.counts
            ):
                self.count(f"unreached by client {number}")
            if (
                attempt.seconds > self.plan.timeout + self.loop.jumped + oracles.slack(self)
                and not self.service.is_calm
            ):
                self.fail("time-out", f"an attempt for {attempt.reference} took {attempt.seconds:.3f} s")
            if attempt.status is not None:
                self.count(f"answered by client {number}")
                self._on_answer(attempt, self.limiters[number])
            if plan_raises:
                self._raise()
            if not attempt.error:
                self.answered.setdefault(number, set()).add(attempt.reference)

        return on_attempt

    def _is_too_slow(self, attempt):
        """Return whether an attempt had all the time to connect, or more; a probe in an outage has less."""
        return attempt.error == "AttemptTimeoutError" and attempt.seconds >= self._longest - 0.001

    def _on_answer(self, attempt, limiter):
        exchanges, began = self.service.exchanges, self.loop.time() - attempt.seconds
        # Of two requests for one reference at a time, either may be that of this attempt.
        own = [each for each in exchanges if each.reference == attempt.reference and each.sent_at > began - 1e-6]
        if attempt.status in (429, 503) and own and all(each.pause for each in own):
            self._expect_pause(limiter, min(each.pause for each in own))
        if attempt.error == "ReferenceMismatchError":
            oracles.check_mismatch(self, attempt.reference, {each.fault for each in exchanges})

    def _expect_pause(self, limiter, seconds):
        if seconds <= MAX_OWN_WAIT:  # it holds the refused request only
            return
        until = self.loop.time() + min(seconds, MAX_PAUSE)
        limiter.paused_by_service_until = max(limiter.paused_by_service_until, until)

    def calm(self):
        """End all faults."""
        self.service.is_calm = True
        self.network.heal({**host.ADDRESSES, **self._entry})

    def schedule(self, acts):
        """Let the plan's faults happen."""
        timed = {
            "partition": self.network.block,
            "restart": self.service.restart,
            "idle end": lambda _: self.service.end_idle(),
            "mute": lambda _: self.service.mute(),
            "slowness": self.service.slow_down,
            "wall clock": self._move_wall,
            "dead address": lambda _: self.network.dead_addresses.add(next(iter(self._entry.values()))[0]),
            "dead name": self._lose_name,
            REVOKED: self.service.revoke,
            ROTATES: self.keys.rotate,
            RATE: self._change_rate,
            "address dead for ever": self._lose_address,
            "one a second for ever": lambda _: setattr(self.service, "is_slow", True),
        } | ({} if self.proxy is None else self.proxy.timed())
        timed.update(self.acts)
        for fault in self.plan.faults:
            if fault.kind in timed:
                self.loop.call_later(fault.at, self._act, fault.kind, timed[fault.kind], fault.value)
            elif fault.kind == "jump":
                self._at_tick(fault, self.loop.jump)
            elif fault.kind in acts:
                self._at_tick(fault, acts[fault.kind])
        self.service.on_answered = lambda number, reference: self._aim(acts, number, reference)

    def _aim(self, acts, number, reference):
        if reference not in self.plan.references:  # one of those that are asked for when all faults are over
            return
        for fault in self.plan.faults:
            act = acts.get(fault.kind.partition(" as ")[0])
            if fault.kind in AIMED and fault.at == number and act is not None:
                where = self.plan.references.index(reference)
                self.loop.call_later(fault.value, self._act, fault.kind, act, where)

    def _act(self, kind, act, value):
        if not self.service.is_calm:
            self.strike(kind)
            act(value)

    def _at_tick(self, fault, act):
        strike = partial(self._act, fault.kind, act, fault.value)
        if fault.kind == "close" and fault.value:
            strike = partial(self.loop.call_later, fault.value, strike)
        self.loop.at_tick.setdefault(int(fault.at), []).append(strike)

    def _lose_address(self, _):
        if self.plan.is_tls:  # else there is no other
            address = next(iter(self._entry.values()))[0]
            self.network.dead_for_ever.add(address)
            self.network.dead_addresses.add(address)

    def _change_rate(self, rate):
        for client in self.clients:
            if not client._session._is_closed:
                client.set_max_rate(rate)

    def _move_wall(self, seconds):
        self._wall_offset += 100 * (seconds - 10)

    def _lose_name(self, seconds):
        known = self.network._addresses
        for name in self._entry:
            known.pop(name, None)
        self.loop.call_later(seconds, known.update, self._entry)

    # The process

    def run(self, work):
        """Run *work* to its end."""
        self.loop.run_until_complete(work)

    def bury(self):
        """Go on as another process: nothing of this one runs any more, and the system closes what it had open."""
        for connection in self.network.connections:
            connection.vanish()
            connection.client._socket.close()
        for sock in self.network.sockets:
            sock.close()
        self._graves.append((self.loop, self.network, self.clients, self.limiters))
        now, trace = self.loop.time(), self.loop.trace
        self.clients, self.limiters, self.outages = [], [], []
        self.streams = []
        self.keys.calls.clear()
        self._new_loop(now)
        self.loop.note(trace)
        self.service.move(self.loop)
        if self.proxy is not None:
            self.proxy.move()
        self._new_network()

    def check_end(self):
        """Complain of what a process leaves behind that has come to its end."""
        if self.proxy is not None:
            self.proxy.check_end()
        for client in self.clients:
            oracles.check_nothing_left(self, client)
        connections, sockets = self.network.open_connections()
        if (connections or sockets) and not (self.plan.transport == "injected" and self.plan.is_tls):
            # httpcore's own pool leaves it to the garbage collector to close a socket whose handshake was cancelled.
            self.fail("left behind", f"{len(connections)} connections and {len(sockets)} sockets are open")
        if tasks := asyncio.all_tasks(self.loop):
            self.fail("left behind", f"tasks {sorted(task.get_name() for task in tasks)}")
        for timer in self.loop._scheduled:
            module = (
                getattr(timer._callback, "__module__", None)
                or type(getattr(timer._callback, "__self__", None)).__module__
            )
            if not timer._cancelled and module.startswith("payclient"):
                self.fail("left behind", f"a timer of {module}")
        for context in self.loop.complaints:
            self.fail("loop", f"{context.get('message')}: {context.get('exception')!r}")

    def close(self):
        """Free what the run holds, and what its dead processes hold."""
        for loop, network, *_ in [*self._graves, (self.loop, self.network)]:
            loop.close()
            for connection in network.connections:
                connection.client._socket.close()
        if self._graves:
            self._graves.clear()
            gc.collect()


class _InOrder(dict):
    """A set in the order of its making; one of anyio's scopes is otherwise in that of their addresses."""

    def add(self, item):
        self[item] = None

    def remove(self, item):
        del self[item]


def _make_in_order(scope, *arguments, make=CancelScope.__init__, **options):
    make(scope, *arguments, **options)
    scope._child_scopes = _InOrder()


_OF_A_JOURNAL = (
    (payclient.reconcile._journal.answers, "_ROWS_PER_COMMIT"),
    (payclient.reconcile._journal.answers, "_ANSWERS_PER_WRITE"),
    (payclient.reconcile._run, "_ROWS_PER_TURN"),
)


def _troubled(undo, troubles):
    """Disturb the client itself."""
    patch = mock.patch.object
    if "small buffers" in troubles:
        undo.enter_context(patch(payclient.transports._connections, "_BUFFER", 7))
    if "queues of one" in troubles:
        undo.enter_context(patch(payclient.client._stream, "_DEFERRED_PER_WORKER", 1))
    if "a commit for each row" in troubles:
        for module, name in _OF_A_JOURNAL:
            undo.enter_context(patch(module, name, 1))


def _kept(make, world, name):
    def make_and_keep(*arguments, **options):
        made = make(*arguments, **options)
        getattr(world, name).append(made)
        return made

    return make_and_keep


def _in_loop(_, function, *arguments):
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)


@contextmanager
def _patched(world):
    log, logger = _Log(world), logging.getLogger("payclient")
    level = logger.level
    _Date.world = world
    with ExitStack() as undo:
        patch = mock.patch.object
        undo.enter_context(patch(payclient.client._client, "Session", lambda **o: oracles.ObservedSession(world, **o)))
        undo.enter_context(patch(payclient.client._session, "Limiter", lambda **o: oracles.ObservedLimiter(world, **o)))
        undo.enter_context(patch(payclient.client.policies._limiter, "Capacity", oracles.ObservedCapacity))
        undo.enter_context(patch(asyncio, "Task", Task))  # a stream makes its workers without the loop's factory
        undo.enter_context(patch(payclient.client._stream, "Stream", _kept(Stream, world, "streams")))
        undo.enter_context(patch(payclient.protocol._wire, "datetime", _Date))
        undo.enter_context(patch(payclient.transports._connections, "_system_trust", host.client_context))
        undo.enter_context(patch(payclient.transports._connections, "in_new_thread", _in_loop))
        if world.plan.proxy or world.plan.is_tls:  # which write before there is a transport
            undo.enter_context(patch(payclient.transports._connections, "_new_socket", lambda _: SimulatedSocket()))
        _troubled(undo, world.plan.troubles)
        state = random.getstate()
        undo.callback(random.setstate, state)
        random.seed(f"jitter {world.plan.seed}")
        logger.addHandler(log)
        logger.setLevel(logging.DEBUG)
        undo.callback(logger.setLevel, level)
        undo.callback(logger.removeHandler, log)
        undo.enter_context(patch(sys, "unraisablehook", lambda _: None))
        undo.enter_context(patch(CancelScope, "__init__", _make_in_order))
        yield


def run(plan):
    """Return what the run of a plan came to."""
    from simulation.threads import in_threads  # noqa: PLC0415  they need a world
    from simulation.workloads import WORKLOADS  # noqa: PLC0415

    gc.disable()  # what it finalises, and when, is not drawn from the seed
    world = World(plan)
    try:
        with _patched(world), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                (in_threads if plan.work == "threads" else WORKLOADS[plan.work])(world)
                world.check_end()
            except StuckError as error:
                world.fail("waits for ever", str(error))
            except Exception as error:  # noqa: BLE001  whatever it is, the seed has found it
                world.fail("crash", repr(error))
            finally:
                world.close()
            return Result(
                seed=plan.seed,
                trace=world.loop.trace,
                problems=tuple(world.problems),
                seconds=world.loop.time(),
                ticks=world.loop.ticks,
                requests=len(world.service.exchanges),
                counts=world.counts,
                order=tuple(world.order),
                cells={cell: count for cell, count in world.cells.items() if cell in cells.POSSIBLE},
            )
    finally:
        gc.enable()
