"""One poll serves all who wait for one reference."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from payclient import ServiceError, Transaction, WaitDeadlineError
from payclient.errors import DeadlineExceededError
from payclient.waiting import Polls, Terms, Wait, wait_until_held
from support.simulated import now

pytestmark = pytest.mark.virtual_time


class Service:
    """Counts who asks when; the transaction is paid from a time on."""

    def __init__(self, *, paid_at=float("inf"), latency=1.0):
        self.paid_at = paid_at
        self.latency = latency
        self.asked = []
        self.in_flight = 0

    async def poll(self, name=None):
        self.asked.append((now(), name))
        self.in_flight += 1
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.in_flight -= 1
        return Transaction(reference="T1", amount=1, status="Paid" if now() >= self.paid_at else "Pending")


def waiting(polls, service, name=None, **terms):
    terms = Terms(**{"until": {"Paid"}, "deadline": 900.0, "interval": 10.0, "max_interval": 10.0, **terms})
    wait = Wait("T1", terms, began_at=now(), random=lambda: 1.0)
    return asyncio.create_task(wait_until_held(wait, polls, partial(service.poll, name)))


async def test_one_poll_for_all():
    """A hundred waits for one reference ask as often as one, and all learn at the same lookup."""
    polls, service = Polls(), Service(paid_at=35)
    waits = [waiting(polls, service) for _ in range(100)]
    ended_at = set()
    for wait in waits:
        wait.add_done_callback(lambda _: ended_at.add(now()))
    await asyncio.gather(*waits)
    await asyncio.sleep(0)
    assert ([at for at, _ in service.asked], ended_at) == ([0, 11, 22, 33, 44], {45})


async def test_one_at_a_time():
    """A second wait does not ask while a poll is under way, however long that takes."""
    polls, service = Polls(), Service(latency=100.0, paid_at=0)
    first = waiting(polls, service)
    await asyncio.sleep(50)
    await asyncio.gather(first, waiting(polls, service))
    assert len(service.asked) == 1


async def test_newcomer_hears_of_the_others():
    """A wait that begins later asks at once, and all plan their next poll from there."""
    polls, service = Polls(), Service(paid_at=25)
    first = waiting(polls, service)
    await asyncio.sleep(6)
    await asyncio.gather(first, waiting(polls, service))
    assert [at for at, _ in service.asked] == [0, 6, 17, 28]


async def test_cancelled_asker():
    """When the wait that makes the poll is cancelled, another one makes it again, at once."""
    polls, service = Polls(), Service(paid_at=0)
    first, second = waiting(polls, service, "first"), waiting(polls, service, "second")
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert (service.asked, first.cancelled()) == ([(0, "first"), (0.5, "second")], True)


async def test_asker_without_time():
    """When the deadline of the one who asks cuts a poll, it ends with its own error, and another one asks."""
    polls, service = Polls(), Service(paid_at=0, latency=5.0)

    async def cut():
        async with asyncio.timeout(3.0):
            await service.poll("first")

    async def poll():
        try:
            await cut()
        except TimeoutError:
            raise DeadlineExceededError("no time") from None

    terms = Terms(until={"Paid"}, deadline=3.0)
    short = wait_until_held(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, poll)
    first = asyncio.create_task(short)
    await asyncio.sleep(1)
    second = waiting(polls, service, "second")
    with pytest.raises(WaitDeadlineError):
        await first
    await second
    assert service.asked == [(0, "first"), (3, "second")]


async def test_failure_is_told_to_all():
    """A poll that fails counts for all as well."""
    polls, calls = Polls(), []

    async def poll():
        calls.append(now())
        await asyncio.sleep(1)
        raise ServiceError("down", status_code=503)

    terms = Terms(until={"Paid"}, deadline=15.0, interval=10.0, max_interval=10.0)
    waits = [wait_until_held(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, poll) for _ in range(5)]
    errors = await asyncio.gather(*waits, return_exceptions=True)
    assert ({type(error) for error in errors}, calls) == ({WaitDeadlineError}, [0, 11])


async def test_foreign_error():
    """An error that is not ours is a bug: it ends the wait that made the poll, and no other."""
    polls, service = Polls(), Service(paid_at=0)

    async def broken():
        await asyncio.sleep(1)
        raise ZeroDivisionError

    terms = Terms(until={"Paid"}, deadline=900.0)
    first = asyncio.create_task(wait_until_held(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, broken))
    await asyncio.sleep(0.5)
    second = waiting(polls, service)
    with pytest.raises(ZeroDivisionError):
        await first
    assert (await second).status == "Paid"


async def test_nothing_is_kept():
    """When all waits have ended, nothing is known of the reference, and no timer is left."""
    polls, service = Polls(), Service(paid_at=15)
    await asyncio.gather(*(waiting(polls, service) for _ in range(3)))
    left = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
    assert (len(polls), "T1" in polls, left) == (0, False, [])
