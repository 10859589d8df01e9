"""What the clients of a run do, and what must come of it."""

import asyncio
from contextlib import suppress

import payclient.client._stream
from payclient import errors
from payclient.client._lookup import POLL
from payclient.protocol import Failed, Found
from simulation import oracles, waiting
from simulation.crowd import ask, crowd
from simulation.plan import CALLERS
from simulation.reconciling import reconciliation
from simulation.world import CallerError

MAX_UNREACHED = 3
"""Lookups that could not connect, before any was answered, after which a stream may give up."""
_STOPS = (errors.ConnectionFailedError, errors.AuthenticationError, errors.KeySourceError, CallerError, *oracles.FINAL)
"""What a stream may end with."""
HEALTHY = 600.0
"""Seconds for the lookups after all faults, pauses included."""


def lookups(world):
    """Await single lookups, all over the place."""
    world.run(_lookups(world))


def batch(world):
    """Await one call for all references."""
    world.run(_batch(world))


def stream(world):
    """Read a stream, or leave it."""
    world.run(_stream(world))


def waits(world):
    """Wait for references to be paid."""
    world.run(_waits(world))


def in_a_crowd(world):
    """Ask for the same references in every way."""
    world.run(_in_a_crowd(world))


class _Clients:
    """The clients of a run, and their end."""

    def __init__(self, world):
        self.world = world
        made = [world.make_client() for _ in range(world.plan.clients)]
        self.clients = [client for client, _ in made]
        self.also = [other for _, other in made if other is not None]
        self._closing, self._gone = [], []
        if world.plan.work in ("lookups", "stream", "batch"):
            world.acts["reader gone for ever"] = self._lose_reader

    def __iter__(self):
        return iter(self.clients)

    def of(self, reference):
        return self.clients[int(reference[1:]) % len(self.clients)]

    def close_early(self, _=None):
        """Close the next client now, whatever it does; in the end one that is closed."""
        self.world.is_closing, self.world.closing_at = True, self.world.loop.time()
        client = self.clients[len(self._closing) % len(self.clients)]
        asleep = {each for each in client._last_polls if POLL not in client._calls.get(each, ())}
        self.world.asleep |= {(client, each) for each in asleep}
        back_offs = self._back_offs(client)
        self.world.loop.call_later(0.1 + oracles.slack(self.world), self._check_back_offs, client, back_offs)
        self._closing.append(self.world.loop.create_task(self._close(client)))

    def _back_offs(self, client):
        clock = client._session._clock
        phases = () if clock is None else tuple(clock._timeouts)
        return {each for each in phases if getattr(each, "name", "") == "backoff"}

    def _check_back_offs(self, client, before):
        if left := self._back_offs(client) & before:
            self.world.fail("close", f"{len(left)} lookups of a closed client still back off")

    def _lose_reader(self, _):
        """Have somebody open a stream, read one outcome, and never come back."""
        self._gone.append(self.world.loop.create_task(self._never_read_on()))

    async def _never_read_on(self):
        references = [f"T{number}" for number in range(200, 212)]
        async with self.clients[0].stream_transactions(references, concurrency=2) as outcomes:
            await anext(outcomes)
            await self.world.loop.create_future()

    async def _close(self, client):
        loop, world = self.world.loop, self.world
        began, jumped = loop.time(), loop.jumped
        await client.aclose()
        seconds = loop.time() - began - (loop.jumped - jumped)
        if seconds > world.plan.timeout + 1 + oracles.slack(world):
            world.fail("close", f"took {seconds:.1f} s at a time-out of {world.plan.timeout} s")

    async def finish(self):
        """See that each client that is open still works, and close them all."""
        world = self.world
        await asyncio.gather(*self._closing)
        world.calm()
        for client in self.clients:
            if not client._session._is_closed:
                await self._check_health(client)
        for client in self.clients:
            await self._close(client)
        for each in self._gone:
            each.cancel()
        await asyncio.gather(*self._gone, return_exceptions=True)
        for client in self.also:
            await client.aclose()

    async def _check_health(self, client):
        world = self.world
        if world.plan.seed % 2 and not client.stats.in_flight:
            await asyncio.sleep(6.0)
            if client.stats.outage_seconds:
                world.fail("recovers", "an outage is known to go on, although nothing was asked for six seconds")
        view = client.with_options(deadline=HEALTHY, timeout=HEALTHY / 10)
        references = [f"T{number}" for number in range(100, 100 + 2 * world.plan.concurrency)]
        answers = [await self._answer(view, "T99")]
        answers += await asyncio.gather(*(self._answer(view, each) for each in references))
        for reference, answer in zip(("T99", *references), answers, strict=True):
            if isinstance(answer, errors.PayClientError):
                world.fail("recovers", f"{reference} after all faults: {type(answer).__name__}: {answer}")
            else:
                oracles.check_answer(world, reference, answer)
        if not client.stats.is_ready:
            world.fail("recovers", "an outage goes on, although lookups are answered")
        oracles.check_pools(world, client)

    async def _answer(self, view, reference):
        """Ask as a web application does, again when it is told to; return the answer or the last error."""
        loop, calm_at = self.world.loop, self.world.loop.time()
        while True:
            try:
                return await view.get_transaction(reference)
            except errors.OutageError as error:
                if loop.time() > calm_at + HEALTHY:
                    return error
                await asyncio.sleep(error.retry_after)
            except errors.PayClientError as error:
                # One that fails in an outage was the probe, with less time than others.
                if view.stats.is_ready or loop.time() > calm_at + HEALTHY:
                    return error
                await asyncio.sleep(1.0)


async def _lookups(world):
    clients = _Clients(world)
    users = [asyncio.create_task(_user(world, clients, each)) for each in world.plan.references]
    cancelled = set()

    def cancel(number):
        if not users[int(number)].done():
            cancelled.add(int(number))
            users[int(number)].cancel()

    world.schedule({"cancel": cancel, "close": clients.close_early})
    await asyncio.wait(users)
    for number, user in enumerate(users):
        if user.cancelled():
            if number not in cancelled:
                world.fail("cancelled", f"lookup {number}, which nobody cancelled")
        elif user.exception() is not None:
            world.fail("error", f"lookup {number} raised {user.exception()!r}")
    await clients.finish()


async def _user(world, clients, reference):
    await asyncio.sleep(world.plan.spread * world.chance.random())
    client = clients.of(reference)
    answer = await ask(world, client, reference, lambda: client.get_transaction(reference))
    if answer is not None:
        oracles.check_answer(world, reference, answer)


async def _in_a_crowd(world):
    clients = _Clients(world)
    await crowd(world, clients)
    await clients.finish()


async def _waits(world):
    clients = _Clients(world)
    await waiting.wait(world, clients)
    await clients.finish()


async def _batch(world):
    clients = _Clients(world)
    work = asyncio.create_task(_ask_batch(world, clients))
    cancelled = []
    world.schedule({"cancel": lambda _: (cancelled.append(1), work.cancel()), "close": clients.close_early})
    await asyncio.wait([work])
    if work.cancelled():
        if not cancelled:
            world.fail("cancelled", "a batch that nobody cancelled")
    elif work.exception() is not None:
        world.fail("error", f"a batch raised {work.exception()!r}")
    await clients.finish()


async def _ask_batch(world, clients):
    references = world.plan.references
    try:
        outcomes = await clients.clients[0].get_transactions(references)
    except errors.ClientClosedError:
        if not world.is_closing:
            raise
        return
    except (errors.RateLimitedError, *_STOPS) as error:
        _check_stop(world, clients.clients[0], references[0], error)
        return
    _check_once(world, references, outcomes, is_complete=True)
    for outcome in outcomes:
        _check_outcome(world, outcome)


def _check_outcome(world, outcome):
    answer = outcome.transaction if isinstance(outcome, Found) else outcome.error
    world.loop.note("outcome", outcome.index, type(answer).__name__)
    world.count(f"answer {type(answer).__name__}")
    oracles.check_answer(world, outcome.reference, answer)


def _check_once(world, references, outcomes, *, is_complete):
    seen = [outcome.index for outcome in outcomes]
    if len(set(seen)) != len(seen):
        world.fail("one outcome", f"indexes {sorted(i for i in seen if seen.count(i) > 1)} came twice")
    if any(outcome.reference != references[outcome.index] for outcome in outcomes):
        world.fail("one outcome", "an outcome has the index of another")
    if is_complete and len(set(seen)) != len(references):
        world.fail("one outcome", f"{len(references) - len(set(seen))} references have none")


def _check_stop(world, client, reference, error):
    """Allow a stream to give up on an address that it has never reached, and on what every reference would get."""
    if isinstance(error, CallerError):
        return
    if not isinstance(error, errors.ConnectionFailedError):
        oracles.check_answer(world, reference, error)
        return
    number = world.clients.index(client)
    is_answered = world.counts.get(f"answered by client {number}", 0) > 0
    if error.sent != "no" or (is_answered and world.counts.get(f"unreached by client {number}", 0) < MAX_UNREACHED):
        world.fail("error", f"a stream ended with {error!r}")


async def _stream(world):
    clients = _Clients(world)
    readers = []
    for client in clients.clients:
        own = [each for each in world.plan.references if clients.of(each) is client]
        readers.append(asyncio.create_task(_read(world, client, own)))
    cancelled = set()

    def cancel(number):
        reader = int(number) % len(readers)
        if not readers[reader].done():
            cancelled.add(reader)
            readers[reader].cancel()

    world.schedule({"cancel": cancel, "close": clients.close_early})
    await asyncio.wait(readers)
    for number, reader in enumerate(readers):
        if reader.cancelled():
            if number not in cancelled:
                world.fail("cancelled", "a stream that nobody cancelled")
        elif reader.exception() is not None:
            world.fail("error", f"a stream raised {reader.exception()!r}")
    await clients.finish()


async def _references(world, references):
    for number, reference in enumerate(references):
        await world.stall("input stalls", number)
        oracles.check_held_up(world)
        await asyncio.sleep(world.plan.spread * world.chance.random() / len(references))
        yield reference


async def _read(world, client, references):
    chance = world.chance
    is_lazy, pace = chance.random() < 0.5, chance.choice((0.0, 0.0, 2.0))
    leaves_after = chance.randrange(len(references) + 1) if chance.random() < 0.1 else None
    outcomes = []
    source = _references(world, references) if is_lazy else list(references)
    has_ended = False
    try:
        concurrency = chance.choice((None, 1, 6))
        opened = client.stream_transactions(source, concurrency=concurrency)
        async with oracles.without_survivors(world, opened) as stream:
            try:
                has_ended = await _read_in_block(world, stream, outcomes, pace=pace, leaves_after=leaves_after)
            except _STOPS:
                _check_drained(world, client, references, outcomes)
                raise
    except errors.ClientClosedError:
        if not world.is_closing:
            raise
    except _STOPS as error:
        _check_stop(world, client, references[0], error)
    except errors.DeadlineExceededError:
        # Before any was answered, nothing tells those that never are from an outage.
        readable = (concurrency or world.plan.concurrency) * payclient.client._stream._DEFERRED_PER_WORKER
        if any(reference[0] == "T" for reference in references[:readable]):
            raise
    finally:
        if is_lazy:
            with suppress(RuntimeError):
                await source.aclose()
        _check_once(world, references, outcomes, is_complete=False)
    _check_once(world, references, outcomes, is_complete=has_ended)


async def _read_in_block(world, stream, outcomes, *, pace, leaves_after):
    """Read a stream, and return whether it was read to its end."""
    last_at = world.loop.time()
    async for outcome in stream:
        outcomes.append(outcome)
        last_at = world.loop.time()
        _check_row(world, outcome)
        if leaves_after is not None and len(outcomes) >= leaves_after:
            return False
        if pace:
            await asyncio.sleep(pace * world.chance.random())
        await world.stall("reader stalls", len(outcomes))
    _check_end(world, last_at + pace + sum(fault.value for fault in world.plan.faults if fault.kind in CALLERS))
    return True


def _check_drained(world, client, references, outcomes):
    """A stream that ends early has given every answer that it has got until then."""
    answered = world.answered.get(world.clients.index(client), set()) & set(references)
    if lost := answered - {outcome.reference for outcome in outcomes}:
        world.fail("lost", f"{sorted(lost)} were answered, and came out of no stream")


def _check_end(world, expected):
    """The end of a stream is seen soon after its last outcome."""
    late = world.loop.time() - expected - world.loop.jumped
    if late > world.plan.spread + 1 + oracles.slack(world):
        world.fail("end of a stream", f"{late:.3f} s after its last outcome")


def _check_row(world, outcome):
    """A row of a stream is asked until it has an answer: what passes is not the end of it."""
    _check_outcome(world, outcome)
    is_given_up = isinstance(outcome, Failed) and isinstance(outcome.error, oracles.PASSING)
    has_time = world.plan.timeout >= 5 and world.plan.deadline >= 20
    if is_given_up and has_time and outcome.reference[0] != "C":
        world.fail("unanswered", f"a stream gave {outcome.reference} up: {outcome.error!r}")


WORKLOADS = {
    "lookups": lookups,
    "stream": stream,
    "batch": batch,
    "wait": waits,
    "crowd": in_a_crowd,
    "reconcile": reconciliation,
}
