"""One poll serves all who wait for one reference."""

import asyncio
from functools import partial

import pytest

from payclient import (
    ClientClosedError,
    RetryPolicy,
    ServiceError,
    Transaction,
    TransactionNotFoundError,
    WaitDeadlineError,
)
from payclient.client.waiting import Polls, Terms, Wait, poll_until
from payclient.errors import DeadlineExceededError
from support.fakes import DOWN, client, now, timeline

pytestmark = pytest.mark.virtual_time

PAID = {"Paid"}


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
    return asyncio.create_task(poll_until(wait, polls, partial(service.poll, name)))


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
    """A wait that begins when the last result is older than the shortest interval asks, and all plan from there."""
    polls, service = Polls(), Service(paid_at=25)
    first = waiting(polls, service)
    await asyncio.sleep(10)
    await asyncio.gather(first, waiting(polls, service))
    assert [at for at, _ in service.asked] == [0, 10, 21, 32]


async def test_newcomers_start_from_a_young_result():
    """Waits that begin within the shortest interval of a result start from it, and ask nothing."""
    polls, service = Polls(), Service(paid_at=25)
    waits = []
    for _ in range(400):
        waits.append(waiting(polls, service))
        await asyncio.sleep(0.02)
    assert [at for at, _ in service.asked] == [0]
    await asyncio.gather(*waits)
    assert len(service.asked) <= 5
    assert waiting(polls, service).cancel()


async def test_young_failure_ends_no_newcomer():
    """A failure of before only puts the first poll of a new wait off, even one that would end it."""
    polls, calls = Polls(), []

    async def poll():
        calls.append(now())
        if now() < 5:
            raise TransactionNotFoundError("no such transaction", status_code=404)
        return Transaction(reference="T1", amount=1, status="Paid")

    def start(**terms):
        terms = Terms(until={"Paid"}, deadline=60.0, interval=10.0, **terms)
        return asyncio.create_task(poll_until(Wait("T1", terms, began_at=now(), random=lambda: 1.0), polls, poll))

    patient = start(appear=60.0)
    await asyncio.sleep(1)
    hasty = start(appear=0.0)
    await asyncio.gather(patient, hasty)
    assert calls == [0, 8]


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
    short = poll_until(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, poll)
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
    waits = [poll_until(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, poll) for _ in range(5)]
    errors = await asyncio.gather(*waits, return_exceptions=True)
    assert ({type(error) for error in errors}, calls) == ({WaitDeadlineError}, [0, 11])


async def test_foreign_error():
    """An error that is not ours is a bug: it ends the wait that made the poll, and no other."""
    polls, service = Polls(), Service(paid_at=0)

    async def broken():
        await asyncio.sleep(1)
        raise ZeroDivisionError

    terms = Terms(until={"Paid"}, deadline=900.0)
    first = asyncio.create_task(poll_until(Wait("T1", terms, began_at=0.0, random=lambda: 1.0), polls, broken))
    await asyncio.sleep(0.5)
    second = waiting(polls, service)
    with pytest.raises(ZeroDivisionError):
        await first
    assert (await second).status == "Paid"


async def test_failing_predicate():
    """What a predicate raises ends its own wait, and no other of the reference."""
    pay = client(timeline({"T1": [(0, "Pending"), (20, "Paid")]}))
    options = {"deadline": 60.0, "interval": 5.0, "max_interval": 5.0}

    def broken(transaction):
        return transaction.no_such_field

    async def later(until):
        await asyncio.sleep(6.0)
        return await pay.wait_for("T1", until=until, **options)

    uses = [pay.wait_for("T1", until=until, **options) for until in (broken, PAID, broken)]
    found = await asyncio.gather(*uses, later(PAID), later(broken), return_exceptions=True)
    kinds = [type(each) for each in found]
    assert kinds == [AttributeError, Transaction, AttributeError, Transaction, AttributeError]
    assert len(pay._polls) == 0


async def test_close_ends_all():
    """Closing the client ends waits at once, except for the one whose poll is in flight."""
    transport = timeline(latency=2.0)
    pay = client(transport, timeout=5.0)
    options = {"until": PAID, "deadline": 900.0, "max_interval": 60.0, "interval": 60.0}

    async def timed(use):
        with pytest.raises(ClientClosedError):
            await use
        return now() - began

    began = now()
    uses = [pay.wait_for(each, **options) for each in ("T1", "T1", "T3")]
    ends = [asyncio.create_task(timed(use)) for use in uses]
    await asyncio.sleep(10)
    ends.append(asyncio.create_task(timed(pay.wait_for("T4", **options))))  # its poll is in flight
    await asyncio.sleep(0.5)
    closing = now() - began
    await pay.aclose()
    *at_once, in_flight = [await end - closing for end in ends]
    assert max(at_once) < 0.5 < in_flight
    assert len(pay._polls) == 0


@pytest.mark.parametrize("held_up", ["back-off", "key source"])
async def test_close_ends_what_is_held_up(held_up):
    """Closing the client ends the back-off of a poll, and a call of the key source that hangs, at once."""
    options = {"retry": RetryPolicy(initial_backoff=60.0, max_backoff=60.0)}
    if held_up == "key source":
        options["api_key"] = partial(asyncio.sleep, 1000)
    pay = client(timeline({"T1": [(0, DOWN)]}), **options)
    wait = asyncio.create_task(pay.wait_for("T1", until=PAID, deadline=900.0))
    await asyncio.sleep(1)
    await pay.aclose()
    with pytest.raises(ClientClosedError):
        await wait
    assert (now(), asyncio.all_tasks()) == (1.0, {asyncio.current_task()})


async def test_nothing_is_kept():
    """When all waits have ended, nothing is known of the reference, and no timer is left."""
    polls, service = Polls(), Service(paid_at=15)
    await asyncio.gather(*(waiting(polls, service) for _ in range(3)))
    left = asyncio.get_running_loop().pending_timers()
    assert (len(polls), "T1" in polls, left) == (0, False, [])
