"""What the limiter keeps under any schedule, and what many workers make of one limit."""

import asyncio
import itertools
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient.client.policies._limiter import Limiter, Priority
from payclient.errors import Signal
from support.chance import examples
from support.fakes import now
from support.sharing import limits_of, share_key

pytestmark = pytest.mark.virtual_time

SEEDS = [0, 1]
# The price of a hidden limit: every lookup answered, with few refused requests and little time lost.

# Many workers with one key: 250 per second, which half of them leave for the others at last.


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 16, 64])
@pytest.mark.parametrize(("name", "part"), [("token bucket", 1.0), ("fixed window", 0.95)])
async def test_split_is_never_refused(name, part, count, seed):
    """Workers that split the rate of a bucket, or 95 % of a window's, are never refused, and get equal shares."""
    service = limits_of(250, seed)[name]
    sharing = await share_key(service, 250, count=count, seed=seed, until=20.0, max_rate=part * 250, workers=count)
    assert sharing.refused(0, 20) == 0, f"seed {seed}"
    assert sharing.used(5, 20) > 0.98 * part, f"seed {seed}"
    assert sharing.fairness(5, 20) > 0.99, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("count", [16, 256])
async def test_split_after_half_have_left(count):
    """When half of the workers leave, half of a split rate is used, and all of it once the others know."""
    service = limits_of(250, 0)["token bucket"]
    times = {"half_leaves_at": 20.0, "rest_is_told_at": 40.0, "until": 60.0}
    sharing = await share_key(service, 250, count=count, seed=0, max_rate=250.0, workers=count, **times)
    assert sharing.used(25, 40) == pytest.approx(0.5, abs=0.02)
    assert sharing.used(41, 60) > 0.95
    assert sharing.refused(0, 60) < 0.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "most_refused", "least_fair"), [("token bucket", 0.02, 0.75), ("fixed window", 0.06, 0.9)]
)
async def test_workers_adapt_together(name, most_refused, least_fair, seed):
    """
    With `workers=16`, few requests are refused, nearly all of the limit is used, and freed capacity is found.

    Jain's index depends on the seed: of eight it is 0.78 to 0.91 with a bucket, and 0.93 to 0.98 with a window.
    """
    service = limits_of(250, seed)[name]
    sharing = await share_key(service, 250, count=16, seed=seed, workers=16, half_leaves_at=60.0, until=100.0)
    assert sharing.refused(0, 60) < most_refused, f"seed {seed}"
    assert sharing.used(0, 60) > 0.92, f"seed {seed}"
    assert sharing.fairness(0, 60) > least_fair, f"seed {seed}"
    assert sharing.seconds_until_used(60.0, 100.0) <= 30, f"seed {seed}"


# What holds whatever happens: any schedule of requests, answers, pauses and cancellations.


class Watched(Limiter):
    """
    A limiter that writes down what it does.

    Attributes:
        grants: For each, how many were in flight and how many might be, and the seconds left of a pause.
        granted_at: When each of them was.
        cuts: When the learnt rate was cut, and when the attempt had started that cut it.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.grants, self.granted_at, self.cuts = [], [], []

    def _grant(self, now, priority):
        self.granted_at.append(now)
        self.grants.append((self._in_flight, int(self.limit), self.paused_until - now))
        return super()._grant(now, priority)

    def release(self, ticket, signal, **options):
        cut_at = self.capacity._cut_at
        super().release(ticket, signal, **options)
        if self.capacity._cut_at != cut_at:
            self.cuts.append((now(), ticket.started_at))


async def hold(limiter, seconds, signal, pause, granted, number, priority=Priority.AWAITED):
    ticket = await limiter.acquire(priority)
    granted[ticket.number] = number
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        limiter.release(ticket, Signal.SILENT)
        raise
    limiter.release(ticket, signal, pause=pause)


def in_order_of_grants(granted):
    return [number for _, number in sorted(granted.items())]


short = st.sampled_from([0.0, 0.0, 0.001, 0.05, 0.1, 0.3, 2.0])
lookups = st.tuples(
    short,  # seconds until it is asked for, after the one before
    short,  # seconds it takes
    st.sampled_from(Signal),
    st.sampled_from([0.0, 0.0, 0.0, 0.2, 5.0, math.nan]),  # the pause
    st.none() | short,  # seconds until it is cancelled, or never
)


any_schedule = given(plan=st.lists(lookups, min_size=1, max_size=60), highest=st.integers(1, 6))
many_times = examples(100)


async def play(plan, highest, *, priority=Priority.AWAITED, **options):
    """Return a limiter that has been through *plan*, and the numbers of its lookups in the order of their grants."""
    limiter = Watched(max_concurrency=highest, **options)
    granted, tasks = {}, []
    for number, (wait, seconds, signal, pause, cancelled_after) in enumerate(plan):
        await asyncio.sleep(wait)
        task = asyncio.create_task(hold(limiter, seconds, signal, pause, granted, number, priority))
        tasks.append(task)
        if cancelled_after is not None:
            asyncio.get_running_loop().call_later(cancelled_after, task.cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}
    return limiter, in_order_of_grants(granted)


@many_times
@any_schedule
async def test_any_schedule(plan, highest):
    """
    Under any schedule of answers, pauses and cancellations no slot is lost, and no place in the queue.

    None is granted above the current limit or `max_concurrency`, nor in a pause that the service asked for. An attempt
    that was sent before the last cut does not cut again.
    """
    limiter, _ = await play(plan, highest)
    assert (limiter.in_flight, limiter.waiting) == (0, 0)
    assert [grant for grant in limiter.grants if grant[0] >= min(grant[1], highest)] == []
    assert [grant for grant in limiter.grants if grant[2] > 0] == []
    cuts = itertools.pairwise(limiter.cuts)
    assert [(earlier, later) for earlier, later in cuts if later[1] < earlier[0] or later[0] < earlier[0]] == []


@many_times
@any_schedule
@pytest.mark.parametrize("priority", [Priority.BULK, Priority.POLL])
async def test_first_come_first_served(priority, plan, highest):
    """Under any schedule, slots are granted to rows and to polls first in, first out."""
    _, order = await play(plan, highest, priority=priority)
    assert order == sorted(order)


@many_times
@any_schedule
@example(
    plan=[
        (0.0, 0.0, Signal.ACCEPTED, 0.0, None),
        (0.001, 0.0, Signal.ACCEPTED, None, 0.0),  # given up before its turn
        (0.1, 0.0, Signal.ACCEPTED, 0.0, None),
        (0.0, 0.0, Signal.ACCEPTED, 0.0, None),
    ],
    highest=1,
)
async def test_never_above_its_rate(plan, highest):
    """Under any schedule, no two attempts start closer together than the rate allows."""
    limiter, _ = await play(plan, highest, max_rate=10.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(limiter.granted_at)]
    assert [gap for gap in gaps if gap < 0.1 - 1e-5] == []


def most_early(granted_at, gap):
    """Return how many seconds less than a gap for each the attempts of the busiest stretch have taken."""
    due_at = [at - number * gap for number, at in enumerate(granted_at)]
    return max((latest - due for latest, due in zip(itertools.accumulate(due_at, max), due_at, strict=True)), default=0)


@many_times
@given(
    count=st.integers(2, 40),
    busy=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.sampled_from([0.0005, 0.003, 0.009, 0.02, 0.3]))),
    max_rate=st.sampled_from([10.0, 50.0, 1000.0]),
)
async def test_rate_on_a_busy_loop(count, busy, max_rate):
    """With late timers, n + 1 attempts take at least n gaps minus 10 ms, or minus one gap if that is shorter."""
    loop, gap = asyncio.get_running_loop(), 1 / max_rate
    at = itertools.accumulate((gaps * gap + late for gaps, late in busy), initial=loop.time())
    handles = [loop.call_at(when, loop.advance, late) for when, (_, late) in zip(at, busy, strict=False)]
    limiter, _ = await play([(0.0, 0.0, Signal.ACCEPTED, 0.0, None)] * count, 6, max_rate=max_rate)
    for handle in handles:
        handle.cancel()
    assert most_early(limiter.granted_at, gap) <= min(0.01, gap) + 1e-5


class InjectedError(Exception):
    pass


@pytest.mark.parametrize(("injected", "raised"), [(InjectedError, InjectedError), (StopIteration, RuntimeError)])
async def test_failure_is_of_one_lookup(injected, raised):
    """When the error for one waiter cannot be made, that waiter has the reason, and the others their errors."""
    for at in range(1, 6):
        limiter, made = Limiter(max_concurrency=1), itertools.count(1)
        held = await limiter.acquire()
        tasks = [
            asyncio.create_task(limiter.acquire(Priority.POLL if number > 3 else Priority.AWAITED))
            for number in range(5)
        ]
        await asyncio.sleep(0)

        def make():
            if next(made) == at:  # noqa: B023  called in this turn
                raise injected
            return ConnectionError()

        limiter.close(make)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [raised if n == at else ConnectionError for n in range(1, 6)]
        limiter.release(held, Signal.ACCEPTED)
        assert (limiter.in_flight, limiter.waiting) == (0, 0)


async def test_failure_of_a_release():
    """When nothing can be learnt from an attempt, its slot is free, and the next lookup has it."""
    limiter = Limiter(max_concurrency=1)
    held = await limiter.acquire()
    waiting = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    with pytest.raises(TypeError):
        limiter.release(held, Signal.ACCEPTED, now="no time")
    async with asyncio.timeout(1):
        assert (await waiting).load == 1
