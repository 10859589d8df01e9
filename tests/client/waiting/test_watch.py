"""Watch many references: what is told, in which order, and what is left behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sysconfig

import pytest

from payclient import (
    AuthenticationError,
    ConfigurationError,
    Failed,
    InvalidReferenceError,
    Transaction,
    TransactionNotFoundError,
    WaitDeadlineError,
)
from payclient.client.waiting import Change, Polls, Terms, watch
from support.fakes import NOT_FOUND, answer, client, now, timeline

pytestmark = pytest.mark.virtual_time

PAID = {"Paid"}
REFUSED = answer(b'{"success": false, "message": "invalid key"}', 401)


def becoming(*times):
    """Return a service of T0, T1, … of which each is paid at its time."""
    return timeline({f"T{number}": [(0, "Pending"), (at, "Paid")] for number, at in enumerate(times)})


async def told(pay, references, **options):
    """Watch to the end; return what was told, in short."""
    async with pay.watch(references, **{"until": PAID, "deadline": 900.0, **options}) as changes:
        return [in_short(change) async for change in changes]


def in_short(change):
    if isinstance(change, Failed):
        return change.reference, type(change.error)
    return change.reference, change.previous, change.transaction.status, change.is_last


async def test_each_change_once():
    """The first status of a reference is told, and each new one, the last of them as the last."""
    transport = timeline({"T0": [(0, "Pending"), (20, "Review"), (60, "Paid")]})
    assert await told(client(transport), ["T0"]) == [
        ("T0", None, "Pending", False),
        ("T0", "Pending", "Review", False),
        ("T0", "Review", "Paid", True),
    ]


async def test_end_of_each():
    """A reference that has ended is not asked again, and the iteration ends with the last of them."""
    transport = becoming(0, 50)
    await told(client(transport), ["T0", "T1"])
    assert len(transport.times("T0")) == 1
    assert 50 < now() < 90


async def test_position():
    """A change or failure says where its reference stands in the input, and equal references are told of both."""
    async with client(becoming(0)).watch(["T0", " ", "T0"], until=PAID, deadline=9.0) as changes:
        assert sorted([change.index async for change in changes]) == [0, 1, 2]


async def test_wait_and_watch_share_polls():
    """A watch and a wait for one reference share its polls."""
    transport = becoming(100)
    pay = client(transport)
    wait = pay.wait_for("T0", until=PAID, deadline=900.0, interval=10.0, max_interval=10.0)
    await asyncio.gather(wait, told(pay, ["T0"], interval=10.0, max_interval=10.0))
    assert len(transport.asked) <= 1 + 110 / (10 * 0.8)
    assert len(pay._polls) == 0


async def test_poll_of_a_wait_that_is_cancelled():
    """A watch polls on when the wait that was polling for it is cancelled."""
    pay = client(becoming(20))
    wait = asyncio.create_task(pay.wait_for("T0", until=PAID, deadline=900.0))
    await asyncio.sleep(0.05)
    watch = asyncio.create_task(told(pay, ["T0"]))
    await asyncio.sleep(0.01)
    wait.cancel()
    assert await watch == [("T0", None, "Pending", False), ("T0", "Pending", "Paid", True)]
    assert now() < 60


async def test_predicate_without_new_status():
    """A predicate may hold without a new status; then the last change says so."""
    pay = client(timeline())
    began = now()
    assert await told(pay, ["T0"], until=lambda _: now() > began + 20) == [
        ("T0", None, "Pending", False),
        ("T0", "Pending", "Pending", True),
    ]


async def test_deadline():
    """What is open at the deadline is told as failed, with what was seen; then the iteration ends."""
    async with client(becoming(0, 1000)).watch(["T0", "T1"], until=PAID, deadline=60.0) as changes:
        *_, last = [change async for change in changes]
    assert (type(last.error), last.index, last.error.transaction.status) == (WaitDeadlineError, 1, "Pending")
    assert (now(), list(last.error.statuses)) == (pytest.approx(60.0), ["Pending"])


async def test_input_that_was_not_read():
    """When the deadline comes before the input was read to its end, the iteration says so."""
    seen = []
    with pytest.raises(WaitDeadlineError, match="2 references watched in 60 s; others were not asked for") as caught:
        async with client(timeline()).watch(["T0", "T1", "T2"], until=PAID, deadline=60.0, at_once=2) as changes:
            async for change in changes:
                seen.append(in_short(change))
    assert seen == [
        ("T0", None, "Pending", False),
        ("T1", None, "Pending", False),
        ("T0", WaitDeadlineError),
        ("T1", WaitDeadlineError),
    ]
    assert caught.value.waited == 60.0


async def test_tasks_are_forgotten():
    """A watch keeps no task of a poll that has ended, however long it runs."""
    async with client(becoming(1000)).watch(
        ["T0"], until=PAID, deadline=9000.0, interval=1.0, max_interval=1.0
    ) as seen:
        assert [change.is_last async for change in seen] == [False, True]
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            gc.collect()  # what nobody keeps may still be there
        kept = [task for task in gc.get_objects() if isinstance(task, asyncio.Task)]
        assert len([task for task in kept if task.get_name() == "payclient-watch"]) < 10


async def test_reference_that_cannot_be_watched():
    """What cannot be asked, or is not found for too long, is told as failed; the others go on."""
    transport = timeline({"T0": [(0, NOT_FOUND)], "T1": [(0, "Pending"), (50, "Paid")]})
    assert await told(client(transport), [" ", "T0", "T1"]) == [
        (" ", InvalidReferenceError),
        ("T1", None, "Pending", False),
        ("T0", TransactionNotFoundError),
        ("T1", "Pending", "Paid", True),
    ]


async def test_fatal():
    """What is the same for every reference ends the watch, once, after what was found before."""
    transport = timeline({f"T{number}": [(0, "Pending"), (20, REFUSED)] for number in range(5)})
    seen = []
    with pytest.raises(AuthenticationError):
        async with client(transport).watch([f"T{number}" for number in range(5)], until=PAID, deadline=900) as changes:
            async for change in changes:
                seen.append(change)
    assert (len(seen), now() < 50, transport.in_flight) == (5, True, 0)


async def test_at_once():
    """No more references are watched at once than asked for; the next is asked for when one has ended."""
    read = []

    def references():
        for number in range(6):
            read.append((number, now()))
            yield f"T{number}"

    transport = becoming(30, 60, 90, 0, 0, 0)
    await told(client(transport), references(), at_once=2)
    assert [number for number, at in read if at < 25] == [0, 1, 2]  # one is read ahead
    assert {reference for at, reference in transport.asked if at < 25} == {"T0", "T1"}
    assert {reference for at, reference in transport.asked if at < 55} == {"T0", "T1", "T2"}


async def test_unread_ends_hold_up_the_input():
    """References that have ended and were not taken yet count as watched, so that a slow reader bounds the memory."""
    given = itertools.count(1)
    references = (" " for _ in given)
    async with client(timeline()).watch(references, until=PAID, deadline=60.0, at_once=5) as changes:
        await asyncio.sleep(10)
        assert next(given) <= 5 + 2
        assert (await anext(changes)).index == 0


async def test_slow_input():
    """References that come late are watched from then on, and those before them do not wait."""

    async def references():
        yield "T0"
        await asyncio.sleep(200)
        yield "T1"

    transport = becoming(30, 0)
    seen = await told(client(transport), references())
    assert [each[0] for each in seen] == ["T0", "T0", "T1"]
    assert min(transport.times("T1")) == pytest.approx(200)


async def test_slow_reader_loses_nothing():
    """As long as a change was not taken, its reference is not asked again: each is told in its turn."""
    transport = timeline({"T0": [(0, "Pending"), (20, "Review"), (300, "Paid")]})
    seen = []
    async with client(transport).watch(["T0"], until=PAID, deadline=900.0) as changes:
        async for change in changes:
            seen.append(change.transaction.status)
            await asyncio.sleep(100)
            if seen == ["Pending"]:
                assert max(transport.times()) < 30  # when the second change was found
    assert seen == ["Pending", "Review", "Paid"]


async def test_broken_input():
    """An error of the input is raised where it is read, after what was found before."""

    def references():
        yield "T0"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        await told(client(becoming(0)), references())


async def test_nothing_left_at_the_end():
    """A watch that has ended by itself leaves no timer, however far its deadline is."""
    pay = client(becoming(0))
    await told(pay, ["T0"])
    await pay.aclose()
    assert asyncio.get_running_loop().pending_timers() == []


async def test_left_early():
    """Leaving the block ends all polls: no task, no slot, no timer and no listener is left."""
    transport = timeline(latency=5.0)
    pay = client(transport)
    async with pay.watch(
        (f"T{number}" for number in itertools.count()), until=PAID, deadline=900.0, at_once=100
    ) as seen:
        await anext(seen)
    await pay.aclose()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    timers = asyncio.get_running_loop().pending_timers()
    assert (timers, tasks, transport.in_flight, pay.stats.in_flight, len(pay._polls)) == ([], set(), 0, 0, 0)


class Pollster:
    """Polls that take five seconds each, and how many are under way; all at the same intervals."""

    def __init__(self):
        self.asked, self.under_way, self.most = [], 0, 0

    async def poll(self, reference, until):
        self.asked.append((now(), reference))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(5)
        self.under_way -= 1
        return Transaction(reference=reference, amount=1, status="Pending")

    async def watch(self, references):
        terms = Terms(until=PAID, deadline=60.0, interval=10.0, max_interval=10.0)
        options = {"polls": Polls(), "concurrency": 3, "at_once": 100, "random": lambda: 1.0}
        async with watch(self.poll, references, terms, **options) as changes:
            return [change async for change in changes]


async def test_polls_at_once():
    """No more polls are under way at once than asked for, and what is due longest comes first."""
    pollster = Pollster()
    await pollster.watch([f"T{number}" for number in range(9)])
    assert pollster.most == 3
    assert [reference for _, reference in pollster.asked[:12]] == [f"T{number % 9}" for number in range(12)]


async def test_equal_references_that_are_due_together():
    """References that stand in the input twice and are due in the same turn are asked for once."""
    pollster = Pollster()
    await pollster.watch(["T0"] * 5)
    assert pollster.asked == [(at, "T0") for at in (0, 15, 30, 45)]


async def test_one_change_that_was_not_taken():
    """A reference has at most one change that was not taken, although others ask for it meanwhile."""
    transport = timeline({"T0": [(0, "Pending"), (20, "Review"), (40, "Held"), (300, "Paid")]})
    pay, seen = client(transport), []
    waiting = asyncio.create_task(pay.wait_for("T0", until=PAID, deadline=900.0))
    async with pay.watch(["T0"], until=PAID, deadline=900.0) as changes:
        await asyncio.sleep(100)
        async for change in changes:
            seen.append((change.previous, change.transaction.status))
    await waiting
    assert seen == [(None, "Pending"), ("Pending", "Held"), ("Held", "Paid")]


@pytest.mark.parametrize(
    "options",
    [{"until": set()}, {"deadline": None}, {"at_once": 0}, {"interval": -1}],
    ids=["until", "deadline", "at_once", "interval"],
)
async def test_refused(options):
    """What cannot be used is refused at once, and not in the block."""
    with pytest.raises(ConfigurationError):
        client(timeline()).watch(["T0"], **{"until": PAID, "deadline": 900.0, **options})


async def test_after_the_block():
    """After its block, a watch cannot be read; one of nothing ends at once."""
    assert (await told(client(timeline()), []), now()) == ([], 0.0)
    async with client(becoming(0)).watch(["T0"], until=PAID, deadline=9.0) as changes:
        pass
    with pytest.raises(RuntimeError, match=r"the block of this watch has ended.*client\.watch\("):
        await anext(changes)


def test_change_is_a_value():
    """Changes with the same fields are equal."""
    assert Change("T0", None, None, is_last=False) == Change("T0", None, None, is_last=False)
