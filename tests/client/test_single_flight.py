"""One flight per key."""

import asyncio
import math
from itertools import count

import pytest

from payclient.client._lookup import InFlight, SingleFlight
from payclient.errors import ServiceError


class Calls:
    """Calls that take as long as the test wants, and number their answers from 1."""

    priority, until = 0, math.inf

    def __init__(self):
        self.flights = SingleFlight()
        self.gate = asyncio.Event()
        self.numbers = count(1)
        self.begun = []
        self.failure = None
        self.sent_at = None

    async def begin(self, count):
        """Return so many tasks, of which the first has begun the call and the others wait for it."""
        tasks = [self.start() for _ in range(count)]
        await settle()
        return tasks

    def start(self, key="a", **options):
        return asyncio.create_task(self.ask(key, **options))

    async def ask(self, key, *, after=-math.inf):
        while (other := self.flights.joinable(key, "", after=after, is_fresh=False)) is not None:
            answer = await other.join(self)
            if answer is not None:
                return answer
        with InFlight(key, self.flights, self) as flight:
            flight.value = await self.call(key)
            return flight.value

    async def call(self, key):
        number = next(self.numbers)
        self.begun.append(key)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return f"{key}{number}"


async def settle():
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def ended(*tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_equal_keys_share():
    """Calls for the same key at the same time share one call."""
    calls = Calls()
    tasks = await calls.begin(5)
    calls.gate.set()
    assert (await ended(*tasks), calls.begun) == (["a1"] * 5, ["a"])


async def test_other_keys_do_not():
    """Calls for different keys do not wait for each other."""
    calls = Calls()
    tasks = [calls.start(key) for key in "abab"]
    await settle()
    calls.gate.set()
    assert (await ended(*tasks), calls.begun) == (["a1", "b2", "a1", "b2"], ["a", "b"])


async def test_later_callers_ask_again():
    """A result is shared with current waiters only, and not cached."""
    calls = Calls()
    calls.gate.set()
    assert [await calls.start(), await calls.start()] == ["a1", "a2"]


async def test_newer_than_a_moment():
    """A caller that needs a newer result joins no call that was sent before, but one that is still to be sent."""
    calls = Calls()
    old = calls.start()
    await settle()
    joined = calls.start(after=7.0)
    await settle()
    calls.sent_at = 7.0
    newer = calls.start(after=7.0)
    await settle()
    calls.sent_at = 7.1
    later = [calls.start(after=7.0), calls.start()]
    await settle()
    left = len(calls.flights)
    calls.gate.set()
    assert (await ended(old, joined, newer, *later), left) == (["a1", "a1", "a2", "a2", "a2"], 1)
    assert len(calls.flights) == 0


async def test_end_without_a_result():
    """A call that ends without a result leaves a newer one to be joined."""
    calls = Calls()
    calls.sent_at = 1.0
    old = calls.start()
    await settle()
    newer = calls.start(after=1.0)
    await settle()
    old.cancel()
    await settle()
    joined = calls.start()
    await settle()
    calls.gate.set()
    assert await ended(newer, joined) == ["a2", "a2"]


async def test_leader_is_cancelled():
    """When the calling task is cancelled, a waiter makes the call, and the others get its result."""
    calls = Calls()
    leader, *waiters = await calls.begin(4)
    leader.cancel()
    await settle()
    calls.gate.set()
    assert (await ended(*waiters), calls.begun, leader.cancelled()) == (["a2"] * 3, ["a", "a"], True)


async def test_each_leader_is_cancelled():
    """The last waiter gets its result, even if all callers before it are cancelled one by one."""
    calls = Calls()
    tasks = [calls.start() for _ in range(4)]
    for task in tasks[:-1]:
        await settle()
        task.cancel()
    await settle()
    calls.gate.set()
    assert (await tasks[-1], len(calls.begun)) == ("a4", 4)


async def test_waiter_is_cancelled():
    """A cancelled waiter does not affect the others."""
    calls = Calls()
    leader, unlucky, waiter = await calls.begin(3)
    unlucky.cancel()
    await settle()
    calls.gate.set()
    assert (await ended(leader, waiter), calls.begun, unlucky.cancelled()) == (["a1"] * 2, ["a"], True)


async def test_heir_is_cancelled():
    """A waiter that is cancelled in the tick in which it should take over, or as it wakes, is replaced by the next."""
    for is_awake in (False, True):
        calls = Calls()
        leader, heir, waiter = await calls.begin(3)
        leader.cancel()
        if is_awake:
            await asyncio.sleep(0)  # the leader ends, and wakes both
        heir.cancel()
        await settle()
        calls.gate.set()
        assert (await waiter, heir.cancelled()) == ("a2", True), is_awake


async def test_failure_is_shared():
    """All waiters get a copy of the error with its cause, and none repeats the call; one would collect tracebacks."""
    calls = Calls()
    calls.failure = ServiceError("down", status_code=503, asked_pause=7.0, attempts=4)
    calls.failure.__cause__ = ServiceError("before")
    tasks = await calls.begin(3)
    calls.gate.set()
    results = await ended(*tasks)
    shown = [(type(error), str(error), vars(error), str(error.__cause__)) for error in results]
    assert shown == [(ServiceError, "down [retry after 7 s]", vars(calls.failure), "before")] * 3
    assert (calls.begun, len({id(error) for error in results})) == (["a"], 3)


async def test_bug_is_not_shared():
    """Other exceptions are raised in the calling task only; the next waiter makes the call."""
    calls = Calls()
    calls.failure = ZeroDivisionError()
    tasks = await calls.begin(3)
    calls.gate.set()
    kinds = [type(error) for error in await ended(*tasks)]
    assert (kinds, calls.begun, len(calls.flights)) == ([ZeroDivisionError] * 3, ["a"] * 3, 0)


@pytest.mark.virtual_time
async def test_waiting_callers_keep_their_own_time():
    """A waiter that exceeds its own deadline does not affect the others."""
    calls = Calls()
    leader = calls.start()
    await settle()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await calls.ask("a")
    calls.gate.set()
    assert (await leader, calls.begun) == ("a1", ["a"])
