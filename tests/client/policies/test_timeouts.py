"""Time-outs: blocks that end when their time has come, as `asyncio.timeout_at` would end them."""

import asyncio
import math
import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.client.policies._timeouts import Clock, Timeout

pytestmark = pytest.mark.virtual_time
MAX_BEFORE = 2 if sys.version_info >= (3, 11, 3) else 0
"""Earlier cancellations beside which asyncio's own block is compared; before 3.11.3 (gh-102780) it counted them."""


@pytest.fixture
async def clock():
    return Clock(asyncio.get_running_loop())


async def bounded(clock, when, work):
    """Return what *work* returns, or when it was ended."""
    with Timeout(clock, when):
        return await work
    return f"ended at {clock.now():g}"


async def bounded_by_asyncio(clock, when, work):
    """The same with what asyncio has for it."""
    try:
        async with asyncio.timeout_at(when):
            return await work
    except TimeoutError:
        return f"ended at {clock.now():g}"


async def asleep(seconds):
    await asyncio.sleep(seconds)
    return "done"


async def test_any_order(clock):
    """Each block ends at its own time, in any order of starting."""
    whens = [3.0, 1.0, 2.0, math.inf, 1.5]
    found = await asyncio.gather(*(bounded(clock, when, asleep(10)) for when in whens))
    assert found == ["ended at 3", "ended at 1", "ended at 2", "done", "ended at 1.5"]


async def test_late_timer_decides_nothing(clock):
    """After the event loop was blocked, a block has some time to read what has come, and not more."""
    late, read = bounded(clock, 1.0, asleep(9.0)), bounded(clock, 1.0, asleep(5.05))
    blocks = asyncio.gather(late, read)
    await asyncio.sleep(0.5)
    clock.loop.advance(4.5)
    assert await blocks == ["ended at 5.1", "done"]


@pytest.mark.parametrize("seconds", [0.0, 0.02])
async def test_block_that_is_over_as_it_begins(clock, seconds):
    """After the event loop was blocked, a block whose time is over ends no other one before that has read."""
    read = asyncio.create_task(bounded(clock, 1.0, asleep(5.05)))
    await asyncio.sleep(0.5)
    clock.loop.advance(4.5)
    await asyncio.sleep(seconds)  # at 0.0 the late timer has not fired yet
    with Timeout(clock, 0.6):
        await asyncio.sleep(9.0)
    assert await read == "done"


async def test_ended_twice(clock):
    """A block that is ended twice before its task runs cancels that once."""
    block = Timeout(clock, clock.now() + 9.0)
    for _ in range(2):
        clock.loop.call_later(1.0, block.fire)
    with block:
        await asyncio.sleep(5.0)
    await asyncio.sleep(1.0)
    assert (clock.now(), asyncio.current_task().cancelling()) == (2.0, 0)


async def test_one_in_another(clock):
    """Of two blocks, one in the other, the one whose time is over ends: the outer one with the inner, or that alone."""
    ended = []
    for outer, inner in ((2.0, 5.0), (5.0, 2.0)):
        began = clock.now()
        with Timeout(clock, began + outer):
            with Timeout(clock, began + inner):
                await asyncio.sleep(10)
            ended.append(("inner", clock.now() - began))
            await asyncio.sleep(1)
        ended.append(("outer", clock.now() - began))
    assert ended == [("outer", 2.0), ("inner", 2.0), ("outer", 3.0)]


async def test_one_timer(clock):
    """A thousand blocks use one timer of the event loop, and none after `stop`."""
    loop = asyncio.get_running_loop()
    never = loop.create_future()
    tasks = [asyncio.create_task(bounded(clock, 10.0 + n, never)) for n in range(1000)]
    await asyncio.sleep(1)
    under_way = len(loop.pending_timers())
    clock.stop()
    still = len(loop.pending_timers())
    never.set_result("done")
    found = set(await asyncio.gather(*tasks))
    clock.stop()
    assert (found, under_way, still, loop.pending_timers()) == ({"done"}, 1, 1, [])


async def test_timer_stays(clock):
    """The timer stays when a block ends, so that blocks one after the other need no timer each."""
    await bounded(clock, 100.0, asleep(1))
    before = clock.loop.pending_timers()
    await bounded(clock, 200.0, asleep(1))
    after = clock.loop.pending_timers()
    clock.stop()
    assert (after, len(before), clock.loop.pending_timers()) == (before, 1, [])


async def test_stopped_while_pending(clock):
    """A clock that is stopped lets what is pending end in time, and its timer goes with the last of it."""
    loop = asyncio.get_running_loop()
    never, soon = loop.create_future(), loop.create_future()
    tasks = [asyncio.create_task(bounded(clock, when, what)) for when, what in ((2.0, never), (10.0, soon))]
    await asyncio.sleep(1)
    clock.stop()
    ended = await tasks[0]
    soon.set_result("done")
    assert (ended, await tasks[1], loop.pending_timers()) == ("ended at 2", "done", [])


async def test_works_again_after_stop(clock):
    """After `stop`, a clock still fires later time-outs."""
    await bounded(clock, 5.0, asleep(1))
    clock.stop()
    assert await bounded(clock, 9.0, asleep(30)) == "ended at 9"


async def test_early_by_the_resolution_of_the_clock(clock):
    """A timer that is early by the resolution of the clock still fires its time-out."""
    clock.now = lambda: clock.loop.time() - 1e-4
    await bounded(clock, 2.0, asleep(30))
    assert clock.loop.time() == pytest.approx(2.0, abs=1e-5)


async def test_crowd(clock, monkeypatch):
    """Blocks that end close together are ended in groups, none early, none late by more than 5 ms."""
    lateness = []

    async def one(when):
        await bounded(clock, when, asyncio.sleep(100))
        lateness.append(clock.now() - when)

    scans, schedule = [], clock._schedule
    monkeypatch.setattr(clock, "_schedule", lambda when: scans.append(when) or schedule(when))
    await asyncio.gather(*(one(1 + n / 10_000) for n in range(1000)))
    assert (len(lateness), len(scans)) == (1000, 21)
    assert -1e-6 <= min(lateness) <= max(lateness) <= 0.005 + 1e-6


@pytest.mark.parametrize("is_timeout_first", [True, False], ids=["timeout-first", "cancelled-first"])
async def test_cancelled_as_it_fires(clock, is_timeout_first):
    """A cancellation from elsewhere has priority, even if the time-out fires in the same tick."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(asyncio.Event().wait())
    bound = asyncio.ensure_future(bounded(clock, math.inf, task))
    await asyncio.sleep(0)
    timeout = next(iter(clock._timeouts))
    for call in (timeout.fire, bound.cancel) if is_timeout_first else (bound.cancel, timeout.fire):
        loop.call_soon(call)
    with pytest.raises(asyncio.CancelledError):
        await bound


async def test_outside_of_a_task(clock):
    """Outside a task a time-out is refused, because there is nothing to cancel."""
    refused = clock.loop.create_future()

    def call():
        try:
            Timeout(clock, 1.0).__enter__()
        except RuntimeError as error:
            refused.set_result(str(error))

    clock.loop.call_soon(call)
    assert "in a task" in await refused


class MisfortuneError(Exception):
    pass


async def work(seconds, when_cancelled):
    """Take so long; when cancelled resume, fail, or obey, at once or after a while."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if when_cancelled == "fail":
            raise MisfortuneError from None
        if when_cancelled == "resume":
            return "resumed"
        if when_cancelled == "tidy up":
            await asyncio.sleep(2)
        raise
    return "done"


async def outcome(way, when, seconds, cancelled_at, when_cancelled, *, before):
    """Return how it ended, when, and how many cancellations its task had left, which had some before."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    left = []

    async def run():
        for _ in range(before):
            asyncio.current_task().cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        try:
            return await way(Clock(loop), began + when, work(seconds, when_cancelled))
        finally:
            left.append((loop.time() - began, asyncio.current_task().cancelling()))

    task = asyncio.create_task(run())
    if cancelled_at is not None:
        loop.call_at(began + cancelled_at, task.cancel)
    try:
        ended = await task
    except (MisfortuneError, asyncio.CancelledError) as error:
        ended = type(error)
    else:
        ended = ended.partition(" at ")[0]
    return ended, left, task.cancelled()


@given(
    when=st.integers(0, 6),
    seconds=st.integers(0, 6).map(lambda n: n + 0.25),
    cancelled_at=st.none() | st.integers(0, 6).map(lambda n: n + 0.5),
    when_cancelled=st.sampled_from(["obey", "resume", "fail", "tidy up"]),
    before=st.integers(0, MAX_BEFORE),
)
async def test_as_asyncio(when, seconds, cancelled_at, when_cancelled, before):
    """In all cases of ending and cancelling, a block behaves like `asyncio.timeout_at`."""
    script = when, seconds, cancelled_at, when_cancelled
    ours, theirs = [await outcome(way, *script, before=before) for way in (bounded, bounded_by_asyncio)]
    assert ours == theirs


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_cancelled_before(before):
    """A task that survived cancellations before the block sees the block end, and keeps count of them."""
    assert await outcome(bounded, 2, 5.25, None, "obey", before=before) == ("ended", [(2.0, before)], False)
