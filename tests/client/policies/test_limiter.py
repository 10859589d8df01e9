"""The limiter, one rule at a time; what it learns is tested with its capacity."""

import asyncio
import math

import pytest

from payclient.client.policies._limiter import Limiter, Priority
from payclient.client.policies._retry import MAX_OWN_WAIT, MAX_PAUSE, pause_of
from payclient.errors import OverloadedError, RateLimitedError, Signal
from support.fakes import now

pytestmark = pytest.mark.virtual_time


class TurnedAwayError(Exception):
    pass


def make(max_concurrency=64, *, initial=4.0):
    return Limiter(max_concurrency=max_concurrency, initial=initial, random=lambda: 0.5)


async def take(limiter, count):
    return [await limiter.acquire() for _ in range(count)]


def give_back(limiter, tickets, signal, **more):
    for ticket in tickets:
        limiter.release(ticket, signal, **more)


async def queue_up(limiter, count):
    """Let so many tasks wait, in order."""
    tasks = [asyncio.create_task(limiter.acquire()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


def done(tasks):
    return [task.done() for task in tasks]


async def call_off(tasks):
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


# Admission


@pytest.mark.parametrize(
    ("max_rate", "refused", "told"),
    [
        (None, 0, "the limit of attempts in flight is 4"),
        (12.0, 0, "max_rate allows this client 12/s"),
        (12.0, 8, "the service takes 0.5/s of this client"),
        (0.1, 8, "max_rate allows this client 0.1/s"),
        (None, 8, "the service takes 0.5/s of this client"),
    ],
)
async def test_bound(max_rate, refused, told):
    """What keeps the next attempt waiting is named: the lower of `max_rate` and the rate that was learnt."""
    limiter = make()
    limiter.share(max_rate, 1)
    for _ in range(refused):
        ticket = await limiter.acquire()
        await asyncio.sleep(0.1)
        limiter.release(ticket, Signal.THROTTLED)
    assert limiter.bound() == told


def test_outside_a_loop():
    """A limiter can be created and inspected without an event loop."""
    limiter = make()
    assert (limiter.limit, limiter.in_flight, limiter.waiting, limiter.paused_seconds()) == (4.0, 0, 0, 0.0)


def test_initial():
    """A limiter starts with a small limit by default, and with `max_concurrency` at most."""
    assert (Limiter(max_concurrency=64).limit, make(2).limit) == (4.0, 2.0)


async def test_free_slot_does_not_suspend():
    """An acquire that finds a free slot does not suspend."""
    limiter = make()
    with pytest.raises(StopIteration):
        limiter.acquire().send(None)
    assert limiter.in_flight == 1


async def test_wait_for_a_release_needs_no_timer():
    """Waiting for a slot that only a release can free sets no timer."""
    limiter = make(1)
    await limiter.acquire()
    waiters = await queue_up(limiter, 2)
    assert limiter._timer is None
    await call_off(waiters)


async def test_ticket():
    """A ticket has the time of its grant and the number in flight, itself included."""
    limiter = make()
    first = await limiter.acquire()
    await asyncio.sleep(5)
    ticket = await limiter.acquire()
    assert (ticket.number > first.number, ticket.started_at, ticket.load) == (True, now(), 2)


KINDS = {"l": Priority.AWAITED, "b": Priority.BULK, "p": Priority.POLL}


async def grants_in_order(limiter, kinds):
    """Let lookups (`l`) and polls (`p`) queue up behind a held slot; return them in the order of their grants."""
    held, order = await limiter.acquire(), []

    async def pass_through(kind):
        ticket = await limiter.acquire(KINDS[kind])
        order.append(kind)
        limiter.release(ticket, Signal.SILENT)

    tasks = [asyncio.create_task(pass_through(kind)) for kind in kinds]
    await settle()
    limiter.release(held, Signal.SILENT)
    await asyncio.gather(*tasks)
    return "".join(order)


async def test_polls_go_last():
    """Others are granted before polls that queued earlier, but after eight of them a poll is granted."""
    expected = {"pppll": "llppp", "pp" + "l" * 20: "l" * 8 + "p" + "l" * 8 + "p" + "l" * 4}
    assert {kinds: await grants_in_order(make(1), kinds) for kinds in expected} == expected


async def test_rows_of_streams_go_between():
    """Whoever is awaited goes before rows of streams, and those before polls; nobody is passed over for ever."""
    expected = {"pbl": "lbp", "pb" + "l" * 20: "l" * 8 + "bp" + "l" * 8 + "l" * 4, "pp" + "b" * 10: "b" * 8 + "pbbp"}
    assert {kinds: await grants_in_order(make(1), kinds) for kinds in expected} == expected


async def order_after(seconds, *, until=math.inf, count=4):
    """Let callers come a second apart; return in which order they have the slot that is held for *seconds*."""
    limiter, order = make(1), []
    held = await limiter.acquire()

    async def come(number):
        try:
            limiter.release(await limiter.acquire(began_at=now(), until=now() + until), Signal.SILENT)
            order.append(number)
        except OverloadedError:
            order.append(f"no {number}")

    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(come(number)))
        await asyncio.sleep(1)
    await asyncio.sleep(seconds - count)
    limiter.release(held, Signal.SILENT)
    await asyncio.gather(*tasks)
    return order


async def test_oldest_first_in_a_short_queue():
    """A queue that has not stood for fifteen seconds is first in, first out."""
    assert await order_after(14.5) == [0, 1, 2, 3]


async def test_newest_first_in_a_standing_queue():
    """In a queue that has stood for longer, the newest is first."""
    assert await order_after(15.5) == [3, 2, 1, 0]


async def test_no_slot_for_nothing():
    """Who has less than 1.2 mean round trips left gets no slot while others wait, and is told; the last one asks."""
    assert await order_after(4.5, until=4.0) == ["no 0", 1, 2, 3]
    assert await order_after(4.5, until=1.0) == ["no 0", "no 1", "no 2", 3]


@pytest.mark.parametrize("options", [{"max_rate": 10.0}, {"max_concurrency": 1}], ids=["rate", "one at once"])
async def test_told_at_once(options):
    """Of three hundred who come together and can wait for three seconds, those who cannot be served know it at once."""
    limiter, told, served = Limiter(**{"max_concurrency": 64, **options}), [], []
    ticket = await limiter.acquire()  # what an answer takes is not known before the first
    await asyncio.sleep(0.1)
    limiter.release(ticket, Signal.ACCEPTED)
    began = now()

    async def come():
        try:
            ticket = await limiter.acquire(began_at=now(), until=now() + 3.0)
            await asyncio.sleep(0.1)
            limiter.release(ticket, Signal.ACCEPTED)
            served.append(now() - began)
        except OverloadedError as error:
            told.append((now() - began, error.waiting > 0, error.retry_after >= 2.9))

    await asyncio.gather(*(come() for _ in range(300)))
    assert set(told) == {(0.0, True, True)}
    assert (len(served), max(served) < 3.01) == (pytest.approx(30, abs=2), True)


NEWCOMERS = {
    # A poll that waits, a poll that comes, and which of the two then has the slot
    "a lookup behind a lookup": (Priority.AWAITED, Priority.AWAITED, [True, False]),
    "a poll behind a lookup": (Priority.AWAITED, Priority.POLL, [True, False]),
    "a poll behind a poll": (Priority.POLL, Priority.POLL, [True, False]),
    "a lookup before a poll": (Priority.POLL, Priority.AWAITED, [False, True]),
}


async def test_newcomer_while_a_slot_is_free(subtests):
    """A slot that has become free is the first waiter's, and no newcomer's; but a lookup takes it before a poll."""
    for case, (waits, comes, granted) in NEWCOMERS.items():
        with subtests.test(case):
            limiter = make()
            limiter.pause(1.0)
            waiting = asyncio.create_task(limiter.acquire(waits))
            await settle()
            asyncio.get_running_loop().advance(2.0)  # the pause is over, and the limiter's own timer has not run yet
            newcomer = asyncio.create_task(limiter.acquire(comes))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert done([waiting, newcomer]) == granted
            await call_off([waiting, newcomer])


async def test_poll_that_does_not_wait():
    """While a poll waits, another one is not granted at once; a lookup is."""
    limiter = make()
    limiter.pause(1.0)
    poll = asyncio.create_task(limiter.acquire(Priority.POLL))
    await settle()
    asyncio.get_running_loop().advance(2.0)  # the pause is over, and the limiter's own timer has not run yet
    assert limiter.acquire_now(Priority.POLL) is None
    assert limiter.acquire_now() is not None
    await call_off([poll])


async def test_cancelled_poll():
    """A poll that is cancelled holds no place in the queue; one cancelled in the tick of its grant, no slot."""
    limiter = make(1)
    held = await limiter.acquire()
    polls = [asyncio.create_task(limiter.acquire(Priority.POLL)) for _ in range(2)]
    await settle()
    polls[1].cancel()
    await settle()
    assert limiter.waiting == 1
    limiter.release(held, Signal.SILENT)
    await call_off([polls[0]])
    assert (limiter.waiting, limiter.in_flight) == (0, 0)


async def test_cancelled_in_the_tick_of_its_grant():
    """A slot granted to a task that is cancelled in the same tick, before or after, goes to the next one."""
    for is_granted_first in (True, False):
        limiter = make(1)
        held = await limiter.acquire()
        first, second = await queue_up(limiter, 2)
        steps = [lambda: limiter.release(held, Signal.SILENT), first.cancel]  # noqa: B023  called below
        for step in steps if is_granted_first else reversed(steps):
            step()
        await settle()
        assert (first.cancelled(), second.done(), limiter.in_flight) == (True, True, 1), is_granted_first


# Pause


@pytest.mark.parametrize("asked", [30.0, MAX_PAUSE, 86400.0, 9999999999.0, math.inf])
async def test_nothing_during_a_pause(asked):
    """No ticket is granted during a pause; of a longer one than `MAX_PAUSE` one is after that, to ask again."""
    limiter, seconds = make(), pause_of(RateLimitedError("later", asked_pause=asked))
    limiter.pause(seconds)
    asking = [asyncio.create_task(limiter.acquire()) for _ in range(2)]
    await asyncio.sleep(min(asked, MAX_PAUSE) - 1)
    assert (done(asking), limiter.paused_seconds()) == ([False, False], 1.0)
    await asyncio.sleep(1)
    await settle()
    assert sorted(done(asking)) == [False, True]
    limiter.release(next(each for each in asking if each.done()).result(), Signal.THROTTLED, pause=seconds)
    assert limiter.paused_seconds() == min(asked, MAX_PAUSE)
    await call_off(asking)


async def test_smaller_pause_does_not_shorten():
    """A pause that ends earlier changes nothing."""
    limiter = make()
    await take(limiter, 1)
    limiter.pause(60.0)
    limiter.pause(1.0)
    assert limiter.paused_seconds() == 60.0


async def test_longer_pause_extends():
    """A later pause replaces an earlier one, also for those that wait already."""
    limiter = make()
    limiter.pause(2.0)
    (waiter,) = await queue_up(limiter, 1)
    limiter.pause(5.0)
    assert (await waiter).started_at == 5.0


async def test_pause_of_a_refusal():
    """The pause of a refusal also delays those that queued before it, and does not shorten the gap of the rate."""
    for max_rate, seconds, expected in ((None, 7.0, 7.0), (0.125, 7.0, 8.0)):
        limiter, began = part(max_rate=max_rate, initial=1.0), now()
        held = await limiter.acquire()
        (waiter,) = await queue_up(limiter, 1)
        limiter.release(held, Signal.THROTTLED, pause=seconds)
        assert (await waiter).started_at - began == expected


@pytest.mark.parametrize("asked", [math.nan, -math.inf, -1.0, 0.0, None, MAX_OWN_WAIT])
async def test_unusable_pause(asked):
    """Only a positive, finite number of seconds, and more than one lookup waits alone, is a pause."""
    limiter = make()
    seconds = pause_of(RateLimitedError("later", asked_pause=asked))
    limiter.release(await limiter.acquire(), Signal.SILENT, pause=seconds)
    assert (limiter.paused_seconds(), limiter.limit) == (0.0, 4.0)


async def test_pause_counts_down():
    """`paused_seconds` decreases to 0 at the end of a pause."""
    limiter = make()
    limiter.pause(10.0)
    await asyncio.sleep(4)
    left = limiter.paused_seconds()
    await asyncio.sleep(10)
    assert (left, limiter.paused_seconds()) == (6.0, 0.0)


async def test_no_stampede_after_a_pause():
    """After a pause one waiter is granted first, and its answer admits two more."""
    limiter = make(initial=32.0)
    limiter.pause(10.0)
    waiters = await queue_up(limiter, 32)
    await asyncio.sleep(11)
    first = limiter.in_flight
    limiter.release(waiters[0].result(), Signal.ACCEPTED)
    await settle()
    assert (first, limiter.in_flight) == (1, 2)
    await call_off(waiters)


# Close


async def test_close_turns_waiters_away():
    """When the limiter is closed, each waiter gets an error of its own, in order, and polls do too."""
    limiter = make(1)
    await limiter.acquire()
    waiters = [*await queue_up(limiter, 3), asyncio.create_task(limiter.acquire(Priority.POLL))]
    await settle()
    numbers = iter(range(4))
    limiter.close(lambda: TurnedAwayError(next(numbers)))
    assert [error.args for error in await asyncio.gather(*waiters, return_exceptions=True)] == [(0,), (1,), (2,), (3,)]


async def test_close_turns_newcomers_away():
    """An acquire after the close raises, even if slots are free; a ticket from before it can still be given back."""
    limiter = make()
    ticket = await limiter.acquire()
    limiter.close(TurnedAwayError)
    with pytest.raises(TurnedAwayError):
        await limiter.acquire()
    limiter.release(ticket, Signal.ACCEPTED)
    assert limiter.in_flight == 0


async def test_close_and_cancel_in_one_tick():
    """A waiter that is failed and cancelled in the same tick gives back no slot."""
    limiter = make(1)
    await limiter.acquire()
    waiters = await queue_up(limiter, 1)
    limiter.close(TurnedAwayError)
    await call_off(waiters)
    assert limiter.in_flight == 1


# One key, many workers


def part(workers=1, max_rate=None, initial=64.0):
    return Limiter(max_concurrency=64, initial=initial, max_rate=max_rate, workers=workers, random=lambda: 0.25)


ONE_OF_FOUR = {"workers": 4, "max_rate": 10.0}
STARTS = {
    # What happens before: attempts that start, seconds that pass, pauses and new rates
    "the first at once, the others with the gap of the rate": ({}, [], [0.0, 0.1, 0.2, 0.3]),
    "one of four workers: a quarter, from a random offset in the first gap": (ONE_OF_FOUR, [], [0.1, 0.5, 0.9]),
    "after idle time at once, and then a full gap later": ({}, [1, 60.05], [60.05, 60.15, 60.25]),
    "none in a pause, and the gaps after it as before": ({}, [("pause", 30.0)], [30.0]),
    "a new rate does not shorten a pause": ({}, [("pause", 30.0), ("share", 1000.0, 1)], [30.0]),
    "a lower rate": ({}, [1, ("share", 5.0, 1)], [0.2, 0.4]),
    "a higher rate": ({}, [1, ("share", 20.0, 1)], [0.05, 0.1]),
    "more workers": ({}, [1, ("share", 10.0, 3)], [0.3, 0.6]),
    "no rate any more": ({}, [1, ("share", None, 1)], [0.0, 0.0]),
    "a rate that comes later: at random offsets too": (
        {"workers": 4, "max_rate": None},
        [1, ("share", 10.0, 4)],
        [0.1, 0.5],
    ),
    "a gap shortened below the time that has passed: not all at once": (
        ONE_OF_FOUR,
        [1, 0.3, ("share", 40.0, 4)],
        [0.425, 0.525],
    ),
}


async def test_starts(subtests):
    """A worker starts its part of the rate, evenly spaced, whatever was before; those that wait already follow."""
    for case, (options, steps, expected) in STARTS.items():
        limiter, began = part(**{"max_rate": 10.0, **options}), now()
        for step in steps:
            if isinstance(step, tuple):
                getattr(limiter, step[0])(*step[1:])
            else:
                await (take(limiter, step) if isinstance(step, int) else asyncio.sleep(step))
        with subtests.test(case):
            started_at = [ticket.started_at - began for ticket in await take(limiter, len(expected))]
            assert started_at == pytest.approx(expected)


LATE = {
    # The rate, seconds that the timer is late, and the starts after the first
    "a timer": (10.0, 0.009, [0.109, 0.2]),
    "a busy loop": (10.0, 0.03, [0.13, 0.23]),
    "less than two short gaps": (1000.0, 0.0009, [0.0019, 0.002, 0.003]),
    "several short gaps": (1000.0, 0.0035, [0.0045, 0.0055, 0.0065]),
}


@pytest.mark.parametrize(("rate", "late", "expected"), LATE.values(), ids=LATE)
async def test_lateness(rate, late, expected):
    """A slightly late timer does not lower the rate; of more lateness, at most one gap is compensated."""
    limiter = part(max_rate=rate)
    await take(limiter, 1)
    waiters = await queue_up(limiter, len(expected))
    asyncio.get_running_loop().advance(1 / rate + late)
    assert [ticket.started_at for ticket in await asyncio.gather(*waiters)] == pytest.approx(expected)


async def test_share_while_running():
    """A new rate applies from the last attempt on, also to those that wait already."""
    limiter = part(max_rate=10.0)
    await take(limiter, 1)
    waiters = await queue_up(limiter, 2)
    limiter.share(20.0, 1)
    assert [ticket.started_at for ticket in await asyncio.gather(*waiters)] == pytest.approx([0.05, 0.1])


async def test_probe():
    """A probe takes no slot of the limit, but keeps to the maximum, the rate and pauses; that it fails cuts nothing."""
    limiter = Limiter(max_concurrency=5, initial=1.0, max_rate=2.0)
    ticket = await limiter.acquire()
    assert limiter.probe() is None  # the rate
    await asyncio.sleep(0.5)
    probe = limiter.probe()
    assert (limiter.in_flight, probe.is_probe, limiter.limit) == (2, True, 1.0)
    for _ in range(3):
        await asyncio.sleep(0.5)
        assert limiter.probe() is not None
    await asyncio.sleep(0.5)
    assert limiter.probe() is None  # the maximum
    limiter.release(probe, Signal.OVERLOADED)
    assert (limiter.in_flight, limiter.limit) == (4, 1.0)
    limiter.pause(3.0)
    await asyncio.sleep(2.9)
    assert limiter.probe() is None
    limiter.release(ticket, Signal.ACCEPTED)
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.2)
    assert waiting.done()  # of the three probes in flight, none takes its slot
