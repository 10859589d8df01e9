"""Who may make an attempt, who waits and who is told that waiting is in vain, without a transport."""

import asyncio
import math

import pytest

from payclient import errors
from payclient.client._admission import CANCELLED, FOUND, Admission, Result
from payclient.client._lookup import Lookup
from payclient.client.policies import Clock, Limiter

pytestmark = pytest.mark.virtual_time
DOWN = errors.ServiceError("down", status_code=503)


class Desk:
    """An admission, and lookups that ask it."""

    def __init__(self, **options):
        self.clock, self.lookups = Clock(asyncio.get_running_loop()), {}
        self.admission = Admission(Limiter(**{"max_concurrency": 4, **options}), self.lookups)

    def lookup(self, reference, *, deadline=30.0, is_rejectable=True):
        lookup = Lookup(reference, self.clock, self.clock.now() + deadline, None, (), is_rejectable, max_pause=900.0)
        self.lookups[lookup] = None
        return lookup

    async def admit(self, lookup, ticket=None):
        ticket = ticket or await self.admission.admit(lookup)
        self.admission.outage.sent(ticket, lookup.reference, self.clock)
        return ticket

    async def play(self, reference, *results, seconds=0.1, gap=0.0):
        """Make attempts for *reference* with these results; return what each was judged to be."""
        lookup, judged = self.lookup(reference), []
        for result in results:
            ticket = await self.admit(lookup)
            await asyncio.sleep(0.01 if isinstance(result, Exception) else seconds)
            error = None
            if isinstance(result, Exception):
                error = self.admission.judged(result, ticket, self.clock.now())
            self.admission.settle(ticket, reference, Result.of(error) if error else FOUND, self.clock.now())
            judged.append(type(error))
            await asyncio.sleep(gap)
        del self.lookups[lookup]
        return judged


async def test_slots():
    """Slots are given at once while there are some; then a lookup waits for one to be free."""
    desk = Desk(max_concurrency=2)
    tickets = [await desk.admit(desk.lookup(f"T{number}")) for number in range(2)]
    waiting = asyncio.create_task(desk.admit(desk.lookup("T2")))
    await asyncio.sleep(1.0)
    assert (waiting.done(), desk.admission.limiter.waiting) == (False, 1)
    desk.admission.settle(tickets[0], "T0", CANCELLED, desk.clock.now())
    assert (await waiting).started_at == desk.clock.now()


async def test_outage():
    """In an outage the next lookup is the probe, others are told, and one that is to wait queues."""
    desk = Desk()
    for number in range(3):
        await desk.play(f"T{number}", DOWN, gap=0.5)
    assert desk.admission.outage.is_on
    probe = await desk.admission.admit(desk.lookup("T3"))
    assert probe.is_probe
    with pytest.raises(errors.OutageError, match="the last failure was ServiceError: down"):
        await desk.admission.admit(desk.lookup("T4"))
    assert not (await desk.admission.admit(desk.lookup("T5", is_rejectable=False))).is_probe
    desk.admission.settle(probe, "T3", FOUND, desk.clock.now())
    assert not desk.admission.outage.is_on


async def test_pause():
    """A pause that lasts longer than a lookup has time ends it at once, also one that waits."""
    desk = Desk()
    ticket, short, long = await desk.admit(desk.lookup("T0")), desk.lookup("T1", deadline=9.0), desk.lookup("T2")
    later = errors.RateLimitedError("later", status_code=429, asked_pause=10.0)
    desk.admission.settle(ticket, "T0", Result.of(later), desk.clock.now())
    assert isinstance(desk.admission.too_late(short), errors.RateLimitedError)
    assert desk.admission.too_late(long) is None
    queued = asyncio.create_task(desk.admission.admit(long))
    await asyncio.sleep(9.9)
    assert not queued.done()
    await asyncio.sleep(0.2)
    assert queued.done()


async def test_limit():
    """A 503 that alternates with answers, and comes sooner, is a rate limit; with none between, it is an outage."""
    desk = Desk()
    for number in range(2):
        assert await desk.play(f"T{number}", DOWN, FOUND) == [errors.ServiceError, type(None)]
    assert await desk.play("T3", DOWN, FOUND) == [errors.RateLimitedError, type(None)]
    ticket = await desk.admit(desk.lookup("T4"))
    error = desk.admission.judged(DOWN, ticket, desk.clock.now())
    assert (error.status_code, error.message) == (
        503,
        "the service limits requests: it refuses some at once, and answers others (HTTP 503)",
    )
    assert desk.admission.judged(DOWN, ticket, desk.clock.now() + 0.2) is DOWN
    desk.admission.settle(ticket, "T4", FOUND, desk.clock.now() + 0.2)
    found = []
    while not desk.admission.outage.is_on:
        found.append(await desk.play(f"V{len(found)}", DOWN, gap=0.3))
    assert (found[0], found[-1]) == ([errors.RateLimitedError], [errors.ServiceError])
    assert len(found) < 25


async def test_late():
    """A late answer frees no slot a second time, and ends an outage."""
    desk = Desk()
    ticket = await desk.admit(desk.lookup("T0"))
    desk.admission.settle(ticket, "T0", CANCELLED, desk.clock.now())
    desk.admission.settle(ticket, "T0", FOUND, desk.clock.now() + 1.0, is_late=True)
    assert desk.admission.limiter.in_flight == 0
    assert desk.admission.outage.answered_at == desk.clock.now() + 1.0
    assert math.isclose(desk.admission.outage.allowed, 2.0)


REFUSED = errors.RateLimitedError("slow down", status_code=429, asked_pause=5.0)
ALONE = {
    # After 200 answers, what is asked for in turn; whether the last refusal is about that. A capital is refused once,
    # others are answered twenty times.
    "a first refusal": ("R", False),
    "another reference that is refused": ("R a b c S", False),
    "a second one, after an answer to another": ("R a R", True),
    "a second one, without an answer to another": ("R R", False),
    "a third one, without an answer to another after the second": ("R a R R", False),
    "a second one, where many others are refused": ("S a T b U c V d W e R f R", False),
    "a second one, after its own answer": ("R a r b R", False),
}


@pytest.mark.parametrize("name", ALONE)
async def test_refused_alone(name):
    """A reference that is refused again, while others are answered, pauses neither the client nor its learning."""
    asked, is_alone = ALONE[name]
    desk = Desk()
    await desk.play("first", *[None] * 200)
    for each in asked.split():
        await asyncio.sleep(desk.admission.limiter.paused_seconds())
        await desk.play(each.lower(), *([REFUSED] if each.isupper() else [None] * 20))
    assert desk.admission.refused[asked[-1].lower()].is_alone is is_alone
    assert (desk.admission.limiter.paused_seconds() == 0) is is_alone


async def test_refused_long_ago():
    """A refusal of ten minutes ago says nothing."""
    desk = Desk()
    for _ in range(2):
        await desk.play("first", *[None] * 300)
        await desk.play("r", REFUSED)
        await asyncio.sleep(600.0)
    assert desk.admission.refused["r"].times == 1
