"""What must hold in every run, whatever goes wrong, and who notices when it does not."""

import asyncio
import pickle
import traceback
from collections import deque
from contextlib import asynccontextmanager

from payclient import Transaction, errors
from payclient.client._keys import _TAKEOVER
from payclient.client._session import Session
from payclient.client.policies._capacity import _MIN_RATE, Capacity
from payclient.client.policies._limiter import Limiter
from payclient.errors import Signal
from pools import late, pools
from simulation import proxy
from simulation.keys import EVERY
from simulation.service import amount_of, is_known

SECRETS = (*EVERY, *proxy.SPELLINGS)
STEPS = 60
"""Steps of the loop that may lie between a moment and what follows from it at once."""
SCAN = 0.006
"""Seconds by which the shared timer may be late."""
LATENESS = 0.008
"""Seconds by which a timer of the client is late at most, where it is disturbed so."""
LATE_TIMER = 0.01
"""Seconds by which a late timer may shorten the gap after it."""
PASSING = (
    errors.KeySourceError,
    errors.RateLimitedError,
    errors.ServiceError,
    errors.TransportError,
    errors.DeadlineExceededError,
    errors.UnexpectedResponseError,
)
"""What a lookup may end with when something goes wrong that passes."""
FAILURES = (
    *("ServiceError", "ConnectionFailedError", "AttemptTimeoutError"),
    *("UnexpectedResponseError", "ReferenceMismatchError"),
)
"""What attempts end with that say nothing of the service but that it did not answer."""
FINAL = (errors.TLSVerificationError, errors.ProxyRefusedError)
"""What it may end with for a reason that does not pass; only a proxy gives one here."""


def slack(world):
    """Return the seconds by which what follows at once may be late: by the steps in between, and the shared timer."""
    jumps = sum(fault.kind == "jump" for fault in world.plan.faults)  # after each, the loop has time to read
    return SCAN + STEPS * world.plan.tick + 10 * LATENESS * ("late timers" in world.plan.troubles) + 0.1 * jumps


class KnownOutage:
    """What a client knows from its own attempts, told apart from what it makes of that."""

    def __init__(self, world):
        self._world = world
        self.since = None  # when it has seen enough to call it an outage; None while it has not
        self._slowest, self._answered_at, self._spoken_at = 0.0, 0.0, 0.0
        self._failures, self._failing = [], {}
        self._heard_at = 0.0  # when the last attempt ended

    def hear(self, attempt):
        """Take in one attempt that has ended."""
        now = self._world.loop.time()
        if now - attempt.seconds >= self._heard_at + 5.0:  # nothing was asked meanwhile, so what was known is too old
            self.since, self._failures = None, []
        self._heard_at = now
        is_elsewhere = attempt.status is not None and 300 <= attempt.status < 500
        if attempt.error in ("cancelled", "OutageError", "DeadlineExceededError"):
            return
        if attempt.error == "RateLimitedError" and attempt.status >= 500:
            self._answered_at, self._failures, self.since = now, [], None  # a limit, whatever its reference
            return
        if attempt.error not in FAILURES or (attempt.error == "UnexpectedResponseError" and is_elsewhere):
            self.answered()
            if attempt.error not in ("ProxyRefusedError", "TLSVerificationError"):  # final, but not of the service
                self._spoken_at = now
            self._failing.pop(attempt.reference, None)
            self._slowest = max(self._slowest, attempt.seconds)
            return
        is_of_program = attempt.status is not None and (attempt.status == 500 or attempt.status < 300)
        is_beside = is_of_program and now < self._spoken_at + max(1.3, 2 * self._slowest)  # it may be the reference
        if self._failing.setdefault(attempt.reference, now) >= self._answered_at and not is_beside:
            began = max(now - attempt.seconds, self._answered_at)
            self._failures.append((began, attempt.reference))
            is_enough = len(self._failures) >= 3 and len({reference for _, reference in self._failures}) >= 2
            if is_enough and self.since is None:
                began = min(began for began, _ in self._failures)
                self.since = max(now, began + max(0.8, 2 * self._slowest))

    def answered(self):
        """Forget the failures before an answer, which may come after its caller has left, and isn't an attempt then."""
        now = self._world.loop.time()
        self._failures, self.since, self._answered_at = [], None, now

    def check(self, reference, began, asked, error):
        """Complain of a caller who has waited for what was known, or was refused while another one was answered."""
        now = self._world.loop.time()
        answered = now - self._spoken_at
        is_since = isinstance(error, errors.OutageError) and began < self._spoken_at
        if is_since and slack(self._world) < answered < 0.8 - slack(self._world):
            self._world.fail("refused", f"{reference}, {answered:.3f} s after an answer")
        if self.since is None:
            return
        waited = now - max(began, self.since) - asked - self._world.loop.jumped
        # The caller of a probe is told after the time allowed, and the probe goes on. One who waits for a key has twice
        # that time, as if an attempt were in flight.
        allowed = max(1.3, 2 * self._slowest) * (2 if reference in self._world.keyless else 1)
        if waited > allowed + slack(self._world):
            self._world.fail("waits", f"{reference} for {waited:.3f} s in a known outage: {type(error).__name__}")


def check_paused(world, client, reference, began, error):
    """Complain of a caller who has waited for his deadline in a pause that was known to be longer."""
    session = client._session
    in_flight = {each for _, each, _ in session.outage._in_flight.values()}
    is_in_flight = "[step" in error.message or reference in in_flight
    waited = world.loop.time() - max(began, session._limiter.paused_at) - world.loop.jumped
    if session._limiter.paused_seconds() and not is_in_flight and waited > slack(world):
        world.fail("waits", f"{reference} for {waited:.3f} s in a known pause")


def check_late(world, attempt):
    """Complain of an attempt that was ended by a late timer before the loop has read what had come."""
    late = attempt.seconds - world.plan.timeout
    is_in_jump = 0.1 < late < world.loop.jumped - slack(world)  # else its timer had fired before
    if world.plan.transport == "injected":  # whose timers are its own
        return
    if attempt.error == "AttemptTimeoutError" and is_in_jump and world.loop.time() < world.loop.jumped_at + 0.09:
        world.fail("late timer", f"{attempt.reference}, by a timer that was {late:.3f} s late")


class ObservedCapacity(Capacity):
    """A capacity that says when it cuts its rate twice for one congestion, or grows by what shows nothing."""

    def __init__(self, **options):
        super().__init__(**options)
        self.fail = lambda *_: None

    def opens_at(self, now):
        opens_at = super().opens_at(now)
        latest = max(now, self._sent_at) + 1 / _MIN_RATE + self.round_trip  # after a pause, if there is one
        if opens_at > latest + 1e-6:  # whatever came before
            self.fail("recovers", f"the next attempt is due in {opens_at - now:.3f} s")
        return opens_at

    def accepted(self, ticket, now, **options):
        before, is_old = self._slow_start, ticket.started_at < self._cut_at
        super().accepted(ticket, now, **options)
        has_grown = self._slow_start > before  # a bound grows with the time in round trips, which each answer changes
        if has_grown and is_old:
            self.fail("growth", f"by ticket {ticket.number}, sent before the last cut")
        if has_grown and ticket.load * 2 < before and self._opened_at < now:  # a closed time begins it again, at one
            self.fail("growth", f"from {before:.3f} by an attempt that was one of {ticket.load}")

    def _cut(self, now):
        before, cut_at = self._cubic(now), self._cut_at
        super()._cut(now)
        if now < cut_at + 1.0 - 1e-6:
            self.fail("limiter", f"cut {now - cut_at:.3f} s after a cut")
        if self.w_max > max(before, _MIN_RATE) + 1e-9:
            self.fail("limiter", f"a cut raised the rate from {before:.3f} to {self.w_max:.3f}")


class ObservedLimiter(Limiter):
    """A limiter that holds itself to its laws at each grant."""

    def __init__(self, world, *, max_concurrency, max_rate=None, workers=1, **options):
        self._world = world
        if "a limit of one" in world.plan.troubles:
            options["initial"] = 1.0
        self._most = max_concurrency
        self._expected_gap = None if max_rate is None else workers / max_rate
        self._granted_at = deque(maxlen=40)
        self._outstanding, self._signals = set(), set()  # and how attempts have ended
        self._probed_at = deque(maxlen=2)  # of references that have failed before, and of others
        self._is_out = False
        self.paused_by_service_until = float("-inf")
        self.pause_begins = float("inf")
        self.paused_at = float("-inf")
        super().__init__(max_concurrency=max_concurrency, max_rate=max_rate, workers=workers, **options)
        self.capacity.fail = world.fail
        world.limiters.append(self)

    def _grant(self, now, priority):
        limit, before = self.limit, self._in_flight
        may_grow = before < limit or self.capacity.grows_at(now, before) <= now
        ticket = super()._grant(now, priority)
        self._outstanding.add(ticket.number)
        fail = self._world.fail
        if self._in_flight > self._most:
            fail("limiter", f"{self._in_flight} attempts in flight where {self._most} are allowed")
        if not may_grow:
            fail("limiter", f"{self._in_flight} attempts in flight at a limit of {limit:.3f}")
        if self.limit > self._most:
            fail("limiter", f"a limit of {self.limit}, above {self._most}")
        if now < self.paused_by_service_until - 1e-6:
            fail("pause", f"granted {self.paused_by_service_until - now:.3f} s before the end of a pause")
        self._check_rate(now)
        self._granted_at.append(now)
        check_abandoned(self._world)
        return ticket

    @property
    def _outage(self):
        return self._world.clients[self._world.limiters.index(self)]._session.outage

    def _check_rate(self, now):
        if self._expected_gap is None:
            return
        for count, earlier in enumerate(reversed(self._granted_at), 1):
            if now - earlier < count * self._expected_gap - LATE_TIMER - 1e-6:
                seconds = now - earlier
                self._world.fail("rate", f"{count + 1} grants in {seconds:.3f} s at a gap of {self._expected_gap:.3f}")
                return

    def probe(self):
        ticket = super().probe()
        if ticket is None:
            return None
        now, fail = ticket.started_at, self._world.fail
        self._outstanding.add(ticket.number)
        self._world.count("probes")
        if self.in_flight > self._most:
            fail("limiter", f"{self.in_flight} attempts in flight, a probe among them, where {self._most} are allowed")
        if now < self.paused_by_service_until - 1e-6:
            fail("pause", f"a probe {self.paused_by_service_until - now:.3f} s before the end of a pause")
        self._check_rate(now)
        self._granted_at.append(now)
        if len(self._probed_at) == 2 and now - self._probed_at[0] < 1 - 1e-6:
            fail("probes", f"three within {now - self._probed_at[0]:.3f} s")
        self._probed_at.append(now)
        self._is_out = self._outage.is_on  # else it has ended since its caller was refused
        return ticket

    def overloaded(self, earliest):
        known = max(self._now(), self.paused_until, self._due_at) + self.waiting * self._gap  # pauses and `max_rate`
        if Signal.ACCEPTED not in self._signals and earliest > known + 1e-6:
            self._world.fail("refused", f"{earliest - self._now():.3f} s too early, by a guess")
        return super().overloaded(earliest)

    def pause(self, seconds):
        """Note since when a pause is known."""
        before = self.paused_until
        super().pause(seconds)
        self.paused_at = self._now() if self.paused_until > before + 1 else self.paused_at

    async def acquire(self, *place, **options):
        try:
            return await super().acquire(*place, **options)
        except asyncio.CancelledError:
            if self._closed is None and self.waiting and self._opens_at(self._now()) <= self._now():
                self._world.fail("slots", f"one is free, and {self.waiting} wait")
            raise

    def share(self, max_rate, workers):
        """Change the rate, and with it what is expected."""
        self._expected_gap = None if max_rate is None else (workers or self._workers) / max_rate
        self._granted_at.clear()
        super().share(max_rate, workers)

    def release(self, ticket, signal, *, pause=0.0, is_late=False, **options):
        self._signals.add(signal)
        if is_late:
            self._learn_late(ticket, signal, pause)
            return
        before, is_answered = self.capacity._slow_start, self._world.hears()
        if ticket.number not in self._outstanding:
            self._world.fail("slots", f"ticket {ticket.number} was released twice")
        self._outstanding.discard(ticket.number)
        self._world.signals[signal] = self._world.signals.get(signal, 0) + 1
        if signal is Signal.SILENT and pause:
            self._world.fail("pause", "a silent attempt brought a pause")
        if pause and not any(each.pause for each in self._world.service.exchanges):
            self._world.fail("pause", "the service has asked for none")
        super().release(ticket, signal, pause=pause, **options)
        outage = self._outage
        has_ended, self._is_out = self._is_out and not outage.is_on, self._is_out and outage.is_on
        has_ended &= is_answered and signal in (Signal.ACCEPTED, Signal.THROTTLED)  # later, slow start has doubled
        if has_ended and outage.rejected > outage._rejected_before and self.limit > 2.0 + 1e-9:
            self._world.fail("slow start", f"{self.limit:.3f} attempts at once after an outage")
        if self.capacity._slow_start > before and not is_answered and signal in (Signal.ACCEPTED, Signal.SILENT):
            self._world.fail("growth", f"from {before:.3f} by an attempt without an answer")

    def _learn_late(self, ticket, signal, pause):
        in_flight = self.in_flight
        self._is_out &= signal is not Signal.ACCEPTED  # by which the limit grows
        self._world.count("late responses")
        if signal in (Signal.ACCEPTED, Signal.THROTTLED):
            self._world.outages[self._world.limiters.index(self)].answered()
        if ticket.number in self._outstanding:
            self._world.fail("slots", f"ticket {ticket.number} is held, although its caller has left")
        if self._closed is not None:
            self._world.fail("closing", "a response was learnt from after the client was closed")
        super().release(ticket, signal, pause=pause, is_late=True)
        if self.in_flight < in_flight:
            self._world.fail("slots", f"ticket {ticket.number} was released twice")


class ObservedSession(Session):
    """A session of which is known since when each lookup waits for a call of the source."""

    def __init__(self, world, **options):
        super().__init__(**options)
        self._world = world
        self._since, self._left_at = {}, 0.0

    async def _renew_key(self, lookup):
        self._since[id(lookup)] = self._world.loop.time()
        self._world.keyless.add(lookup.reference)
        try:
            await super()._renew_key(lookup)
        finally:
            self._left_at = self._world.loop.time()
            del self._since[id(lookup)]

    def check_used(self):
        """Complain of a call that goes on although no lookup has waited for it for some time."""
        unused = 0.0 if self._since else self._world.loop.time() - self._left_at
        if unused > _TAKEOVER + slack(self._world) and not self._world.loop.jumped:
            self._world.fail("source", f"a call that no lookup has waited for, for {unused:.3f} s")

    def check_ended(self):
        """Complain of a call that was ended while a lookup waits for it, or before another one could take it over."""
        now = self._world.loop.time()
        waited, unused = now - min(self._since.values(), default=now), now - self._left_at
        is_too_early = waited > slack(self._world) or unused < _TAKEOVER - 1e-6
        if is_too_early and not (self._is_closed or self._world.is_closing):
            self._world.fail("source", f"a call was ended {unused:.3f} s after one left, {waited:.3f} s after one came")


class Heard:
    """A transport that notes which attempts have got an answer."""

    def __init__(self, world, transport):
        self._world, self._transport = world, transport

    def __getattr__(self, name):
        return getattr(self._transport, name)

    async def send(self, request):
        """Send as the transport does."""
        self._world.hears()
        response = await self._transport.send(request)
        self._world.note_response()
        return response


def check_answer(world, reference, answer):
    """Complain of an answer that is not true, and of an error that cannot be explained."""
    if isinstance(answer, Transaction):
        if answer.reference != reference or not is_known(reference) or answer.amount != amount_of(reference):
            world.fail("another transaction", f"{answer.reference}, {answer.amount} was returned for {reference}")
        return
    check_secret(world, answer)
    is_told = isinstance(answer, errors.OutageError | errors.OverloadedError)
    is_of_connection = isinstance(answer, errors.TransportError) and not is_told
    if world.proxy is not None and is_of_connection:
        check_hop(world, reference, answer)
        check_sent(world, reference, answer)
    kind = reference[0]
    if isinstance(answer, errors.AuthenticationError):
        if not world.may_be_refused():
            world.fail("error", f"the key is refused for {reference}, and the service takes it: {answer}")
    elif isinstance(answer, (errors.TransactionNotFoundError, errors.RejectedError)):
        name, truth = ("rejected", "R") if isinstance(answer, errors.RejectedError) else ("not found", "U")
        if kind != truth:
            world.fail(name, f"said of {reference}, which the service knows: {answer}")
    elif not (_is_temporary(world, answer) or is_of_the_proxy(world, answer)):
        world.fail("error", f"{type(answer).__name__} for {reference}: {answer}")
    # Four attempts that a slow service works on look like an outage.
    elif (
        world.is_quiet
        and kind != "C"
        and not (isinstance(answer, errors.OutageError) and world.plan.work_seconds > 0.4)
    ):
        world.fail("unanswered", f"{type(answer).__name__} for {reference}, where nothing went wrong: {answer}")


def _is_temporary(world, error):
    if isinstance(error, errors.KeySourceError):
        return world.has_bad_source and (world.is_closing or "was cancelled" not in error.message)
    is_elsewhere = isinstance(error, errors.UnexpectedResponseError) and "base_url" in error.message
    return isinstance(error, PASSING) and not isinstance(error, FINAL) and not is_elsewhere


def is_of_the_proxy(world, error):
    """Return whether the proxy has done what *error*, which is final, says of it."""
    if world.proxy is None:
        return False
    if isinstance(error, errors.ProxyRefusedError):
        return error.status_code in world.proxy.refusals
    return isinstance(error, errors.TLSVerificationError) and world.proxy.has_spoilt_tls


def check_hop(world, reference, error):
    """Complain of an error that does not say that a proxy is on the way, and which."""
    name = f"the proxy {proxy.NAME}:{proxy.PORT}"
    hosts = {address.rpartition(":")[0] for address in error.address.split(", ")}
    if name not in error.message or not hosts <= {"", *proxy.ADDRESSES[proxy.NAME]}:
        world.fail("hop", f"{type(error).__name__} for {reference}, at {error.address!r}: {error.message}")


def check_sent(world, reference, error):
    """Complain of an error of a connection that was never made, and that may have sent a request."""
    is_first = error.attempts == 1 or not world.service.peers
    if is_first and error.step in ("name", "connect", "proxy", "tls") and error.sent != "no":
        world.fail("sent", f"{error.sent!r} of {reference} at step {error.step!r}: {error.message}")


def check_held_up(world):
    """Complain of a row that is due for a later pass, and that nobody asks for because the input is awaited."""
    for stream in [] if world.loop.jumped else world.streams:
        late = world.loop.time() - stream._deferred[0][0] if stream._deferred else 0.0
        is_full = len(stream._ready) >= stream._concurrency  # of outcomes that the reader has not taken
        if late > slack(world) and not (stream._asking or stream._is_ending or is_full):
            world.fail("held up", f"{stream._deferred[0][2].reference} for {late:.3f} s behind the input")


@asynccontextmanager
async def without_survivors(world, opened):
    """Open a stream, and complain of tasks of it whose block has ended, however that ends."""
    results = None
    try:
        async with opened as results:
            yield results
    finally:
        if results is not None and any(not task.done() for task in results._tasks):
            world.fail("left behind", "tasks of a stream whose block has ended")


def check_secret(world, error):
    """Complain of the key in what an error shows."""
    texts = [str(error), repr(error), repr(pickle.dumps(error))]
    if world.count("errors searched") <= 3:  # with locals it takes milliseconds
        shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        texts.append("".join(shown.format()))
    if any(secret in text for secret in SECRETS for text in texts):
        world.fail("key", f"in what {type(error).__name__} shows")


def check_bytes(world, data):
    """Complain of the key in bytes that leave over TLS, before the service has decrypted them."""
    if any(key.encode() in data for key in EVERY):
        world.fail("key", "in plain text over TLS")


def check_request(world, request):
    """Complain of the key anywhere but in the header that is for it."""
    for line in (*request.head.split(b"\r\n"), request.body):
        allowed = EVERY if line.lower().startswith(b"authorization:") else []
        if any(secret.encode() in line for secret in SECRETS if secret not in allowed):
            world.fail("key", f"in {line[:20]!r}")


def check_write(world, transport):
    """Complain of a request over a connection on which something waits to be read: it would be taken for the answer."""
    plan, since = world.plan, transport.unread_since
    if since is None or plan.is_tls or plan.transport == "injected":
        return
    world.fail("out of step", f"a request over a connection with something unread for {world.loop.time() - since} s")


def check_known_head(world, transport):
    """Complain of a head that a connection knows before it has brought a response."""
    parser = getattr(transport.get_protocol(), "parser", None)  # a pool that is not ours has none
    is_first = parser is not None and parser._exchanges <= 1 and not parser.received
    if is_first and parser.known_head is not None:
        world.fail("known head", "a connection knows the head of another one")


def check_reuse(world):
    """Complain of a request over a connection behind whose last answer another one had come."""
    if world.plan.transport != "injected":
        world.fail("out of step", "a request over a connection that has brought an answer too many")


def check_abandoned(world):
    """Complain of requests without an answer, over connections that are open, which belong to no attempt in flight."""
    if world.plan.transport == "injected":  # whose own pool closes them a few steps later
        return
    open_ends = [
        peer
        for peer in world.service.peers
        if peer.is_busy and peer.is_open and not peer.connection.client.is_closing()
    ]
    in_flight = sum(limiter.in_flight for limiter in world.limiters)
    in_flight += sum(len(late(client._session._transport)) for client in world.clients)
    if len(open_ends) > in_flight:
        world.fail("abandoned", f"{len(open_ends)} requests are under way, and {in_flight} attempts in flight")


def check_mismatch(world, reference, faults):
    """Complain of a mismatch where no fault was one that only the answer itself can show."""
    if world.plan.transport == "injected":  # whose own pool does not look behind an answer
        return
    surprises = {"other transaction", "other not found", "one behind"}
    late = (", later", ", next", *([", same write"] if world.plan.pieces > 1 else []))  # whose parts come apart
    if not any(fault in surprises or fault.endswith(late) for fault in faults):
        world.fail("out of step", f"{reference} got the answer of another reference, after {sorted(faults)}")


def check_pools(world, client):
    """Complain of connections in a pool that are neither in use nor to be used again: they would grow in number."""
    transport, in_flight = client._session._transport, client._session._limiter.in_flight  # of a reader who is gone
    if world.plan.transport == "injected" and not world.plan.is_tls:  # httpcore keeps a handshake that was cancelled
        theirs = transport._client._transport._pool.connections
        if sum(not each.is_idle() and not each.is_closed() for each in theirs) > in_flight:
            world.fail("left behind", "a connection of httpcore's pool that is in use, and nobody uses it")
    lost = sum(len(pool.connections) - len(pool.idle) for pool in pools(transport)) - len(late(transport))
    if lost > in_flight:
        world.fail("left behind", f"{lost} connections of a pool that nobody uses")


def check_nothing_left(world, client):
    """Complain of what a client still holds when nobody uses it."""
    session = client._session
    limiter = session._limiter
    left = {
        "slots": limiter.in_flight,
        "places in the queue": limiter.waiting,
        "lookups": session._pending,
        "equal lookups and polls": len(client._calls),
        "time-outs": 0 if session._clock is None else len(session._clock._timeouts),
    }
    for what, number in left.items():
        if number:
            world.fail("left behind", f"{number} {what}")
