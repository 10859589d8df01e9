"""What waits keep whatever happens: the intervals, the limiter's order, and nothing left behind."""

import asyncio
import itertools
import random
import statistics
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.chance import examples
from support.fakes import DOWN, NOT_FOUND, cancel_at_each_turn, client, now, timeline
from support.limits import bucket

pytestmark = pytest.mark.virtual_time

PAID = {"Paid"}
steps = st.lists(
    st.tuples(st.floats(0, 200), st.sampled_from(["Pending", "Review", "Paid", "Canceled", DOWN, NOT_FOUND])),
    max_size=5,
).map(lambda found: [(0.0, "Pending"), *sorted(found, key=lambda step: step[0])])


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


@examples(60)
@given(
    timelines=st.lists(steps, min_size=1, max_size=4),
    intervals=st.tuples(st.floats(0.5, 20), st.floats(0.5, 20)).map(sorted),
    chance=st.integers(0, 99),
)
async def test_never_more_polls_than_the_intervals_allow(timelines, intervals, chance):
    """Between two lookups for a reference lies four fifths of the interval at least, however many wait for it."""
    random.seed(chance)
    began, interval = now(), intervals[0]
    shifted = {f"T{n}": [(began + at, said) for at, said in steps] for n, steps in enumerate(timelines)}
    transport = timeline(shifted)
    pay = client(transport, retry=None)
    options = {"until": PAID, "deadline": 150.0, "interval": interval, "max_interval": intervals[1]}
    waits = [pay.wait_for(f"T{n}", unless={"Canceled"}, **options) for n in range(len(timelines)) for _ in range(3)]
    await asyncio.gather(*waits, return_exceptions=True)
    for reference in shifted:
        found = [later - earlier for earlier, later in itertools.pairwise(transport.times(reference))]
        assert [gap for gap in found if gap < 0.8 * interval] == []


async def wait_for_two(pay):
    await asyncio.gather(*(pay.wait_for(name, until=PAID, deadline=100.0) for name in ("T1", "T1", "T2")))


@examples(150)
@given(moment=st.tuples(st.integers(0, 150), st.sampled_from([1, 2, 3, 50])))
async def test_cancelled_at_every_await(moment):
    """Cancelled k times from the n-th turn on, a wait leaves no slot, no task and no poll."""
    began = now()
    transport = timeline({"T2": [(0, "Pending"), (began + 30, "Paid")]}, latency=0.5)
    pay = client(transport, max_concurrency=1)
    task = asyncio.create_task(wait_for_two(pay))
    await cancel_at_each_turn(task, first=moment[0], count=moment[1])
    assert (transport.in_flight, pay.stats.in_flight, pay._session._limiter.waiting) == (0, 0, 0)
    assert (len(pay._calls), other_tasks()) == (0, set())


def broken(*_):
    raise ZeroDivisionError


@contextmanager
def broken_trace():
    yield broken


async def use_once(pay, kind):
    """Wait for T1, with code of the caller's that raises, or without."""
    if kind == "observer":
        pay = pay.with_options(on_attempt=broken)
    elif kind == "trace":
        pay = pay.with_options(tracing=broken_trace)
    options = {
        "until": broken if "predicate" in kind else PAID,
        "deadline": 100.0,
        "interval": 4.0,
        "max_interval": 4.0,
    }
    return (await pay.wait_for("T1", **options)).status


@examples(150)
@given(
    users=st.lists(
        st.tuples(
            st.sampled_from(["wait", "wait, predicate", "observer", "trace"]),
            st.floats(0, 30),
            st.sampled_from([None, 0.0, 0.05, 0.5, 7.0]),
        ),
        max_size=8,
    )
)
async def test_failing_code_of_one_ends_no_other(users):
    """Whatever a predicate, an observer or a trace raises, and who is cancelled: others learn the status in time."""
    began = now()
    pay = client(timeline({"T1": [(0, "Pending"), (began + 30, "Paid")]}))

    async def start(kind, at, patience):
        await asyncio.sleep(at)
        async with asyncio.timeout(patience):
            return await use_once(pay, kind), now()

    found = await asyncio.gather(*(start(*user) for user in users), return_exceptions=True)
    for (kind, _, patience), result in zip(users, found, strict=True):
        if isinstance(result, tuple):
            assert (result[0], result[1] <= began + 30 + 4.2) == ("Paid", True)
        elif isinstance(result, ZeroDivisionError):
            assert kind != "wait"
        else:
            assert (type(result), patience is None) == (TimeoutError, False)
    assert (len(pay._calls), other_tasks()) == (0, set())


async def idle_median(seed):
    """Return what a lookup takes beside nothing else."""
    pay = client(timeline(**behind_a_limit(seed)))
    return statistics.median([await timed(pay, number) for number in range(50)])


def behind_a_limit(seed):
    chance = random.Random(f"latency {seed}")
    return {"latency": lambda: chance.uniform(0.08, 0.12), "refuse": bucket(50, 10)}


async def timed(pay, number):
    began = now()
    await pay.get_transaction(f"I{number}")
    seconds = now() - began
    await asyncio.sleep(1.0)
    return seconds


async def crowd(count, *, max_interval, seed):
    """
    Wait for many references behind a hidden limit, with a lookup beside them each second.

    Returns:
        The longest time between a change and its being told, and the median of the lookups.
    """
    settled = 2 * max(max_interval, count / 50) + 20
    changed_at = settled + max_interval
    statuses = {f"T{number}": [(0, "Pending"), (changed_at, "Paid")] for number in range(count)}
    pay = client(timeline(statuses, **behind_a_limit(seed)), deadline=120.0)

    async def learn(reference):
        await pay.wait_for(
            reference, until=PAID, deadline=10 * changed_at, interval=max_interval, max_interval=max_interval
        )
        return now()

    waits = asyncio.gather(*map(learn, statuses))
    await asyncio.sleep(settled)
    lookups = [await timed(pay, number) for number in range(40)]
    return max(await waits) - changed_at, statistics.median(lookups)


@pytest.mark.parametrize(
    ("count", "max_interval"),
    [(1000, 30.0), pytest.param(10_000, 300.0, marks=pytest.mark.slow)],
    ids=["1,000", "10,000"],
)
async def test_crowd_behind_a_hidden_limit(count, max_interval):
    """
    Behind a hidden limit of 50 a second all references learn of a change within one interval.

    And a lookup beside them takes at most half as long again as in an idle client.
    """
    idle = await idle_median(0)
    longest, median = await crowd(count, max_interval=max_interval, seed=0)
    assert longest <= max_interval + 1
    assert median <= 1.5 * idle
