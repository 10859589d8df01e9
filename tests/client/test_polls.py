"""One poll serves all who wait for one reference."""

import asyncio
from functools import partial

import pytest

from payclient import ClientClosedError, RetryPolicy, Transaction, WaitDeadlineError, WaitUnansweredError
from support.fakes import DOWN, client, now, timeline

pytestmark = pytest.mark.virtual_time

PAID = {"Paid"}


OPTIONS = {"until": PAID, "deadline": 900.0, "interval": 10.0, "max_interval": 10.0}


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch):
    monkeypatch.setattr("random.random", lambda: 1.0)


def waiting(pay, **terms):
    return asyncio.create_task(pay.wait_for("T1", **{**OPTIONS, **terms}))


def paid_at(seconds, **options):
    return timeline({"T1": [(0, "Pending"), (seconds, "Paid")]}, **options)


async def test_one_poll_for_all():
    """A hundred waits for one reference ask as often as one, and all learn at the same lookup."""
    transport = paid_at(35, latency=1.0)
    pay, ended_at = client(transport), set()
    waits = [waiting(pay) for _ in range(100)]
    for wait in waits:
        wait.add_done_callback(lambda _: ended_at.add(now()))
    await asyncio.gather(*waits)
    await asyncio.sleep(0)
    assert (transport.times(), ended_at) == ([0, 11, 22, 33, 44], {45})


async def test_one_at_a_time():
    """A second wait does not ask while a poll is under way, however long that takes."""
    transport = paid_at(0, latency=100.0)
    pay = client(transport, timeout=200.0, deadline=None)
    first = waiting(pay)
    await asyncio.sleep(50)
    await asyncio.gather(first, waiting(pay))
    assert len(transport.sent) == 1


@pytest.mark.parametrize(("later", "times"), [(10, [0, 10, 20, 30]), (5, [0, 10.1, 20.2, 30.3])])
async def test_newcomer_hears_of_the_others(later, times):
    """A wait asks at once only if the last result is older than four fifths of its interval; each result is for all."""
    transport = paid_at(25)
    pay = client(transport)
    first = waiting(pay)
    await asyncio.sleep(later)
    await asyncio.gather(first, waiting(pay))
    assert transport.times() == pytest.approx(times, abs=0.5)


async def test_newcomers_start_from_a_young_result():
    """Waits that begin within the shortest interval of a result start from it, and ask nothing."""
    transport = paid_at(25)
    pay, waits = client(transport), []
    for _ in range(400):
        waits.append(waiting(pay))
        await asyncio.sleep(0.02)
    assert transport.times() == [0]
    await asyncio.gather(*waits)
    assert len(transport.sent) <= 5


async def test_cancelled_asker():
    """When the wait that makes the poll is cancelled, another one makes it again, at once."""
    transport = paid_at(0)
    pay = client(transport)
    first, second = waiting(pay), waiting(pay)
    await asyncio.sleep(0.05)
    first.cancel()
    await second
    assert (transport.times(), first.cancelled()) == ([0, 0.05], True)


async def test_asker_without_time():
    """When the deadline of the one who asks cuts a poll, it ends with its own error, and another one asks."""
    transport = paid_at(0, latency=5.0)
    pay = client(transport)
    first = waiting(pay, deadline=3.0)
    await asyncio.sleep(1)
    second = waiting(pay)
    with pytest.raises(WaitDeadlineError):
        await first
    await second
    assert transport.times() == [0, 3]


async def test_failure_is_told_to_all():
    """A poll that fails counts for all as well, and each has an error of its own."""
    transport = timeline({"T1": [(0, DOWN)]})
    pay = client(transport, retry=None)
    errors = await asyncio.gather(*(waiting(pay, deadline=15.0) for _ in range(5)), return_exceptions=True)
    assert ({type(error) for error in errors}, len({*map(id, errors)})) == ({WaitUnansweredError}, 5)
    assert transport.times() == pytest.approx([0, 10.1])


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
    assert len(pay._calls) == 0


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
    assert len(pay._calls) == 0


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
    pay = client(paid_at(15))
    await asyncio.gather(*(waiting(pay) for _ in range(3)))
    await pay.aclose()
    left = asyncio.get_running_loop().pending_timers()
    assert (len(pay._calls), len(pay._last_polls), left) == (0, 0, [])
