"""Cancellation: whatever is cancelled, at whichever await and however often, leaves nothing behind."""

import asyncio
import gc
import os
import stat
import sys
import threading
from contextlib import suppress

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import ClientClosedError, RetryPolicy
from payclient._shared.until_done import in_thread, until_done
from payclient.client._stream import stream
from payclient.testing import FakeService, serve
from support.fakes import ScriptedTransport, answer, cancel_at_each_turn, client, now, throttled
from support.raw_server import RawServer

DOWN = answer(b'{"success": false, "message": "try later"}', 500)
MOMENTS = st.tuples(st.integers(0, 60), st.sampled_from([1, 2, 3, 50]))


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


async def stubborn(reference):
    """Take some turns to end, as a transport does that closes a connection."""
    try:
        await asyncio.sleep(1000)
    finally:
        for _ in range(5):
            await asyncio.sleep(0)


async def read_some(pay):
    async with pay.stream_transactions((f"T{n}" for n in range(100)), concurrency=4) as outcomes:
        async for outcome in outcomes:
            if outcome.index == 20:
                break


async def share_a_lookup(pay):
    await asyncio.gather(*(pay.get_transaction("T1") for _ in range(3)))


async def use_and_close(pay):
    async with pay:
        await pay.get_transactions(["T1", "T2"])
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, pay.get_transaction("T3"))
        await asyncio.sleep(0)


@pytest.mark.parametrize("use", [read_some, share_a_lookup, use_and_close])
@given(moment=MOMENTS)
def test_nothing_is_left(use, moment):
    """Cancelled k times from the n-th turn on, a use of the client leaves no task, slot, attempt or shared lookup."""

    async def run():
        transport = ScriptedTransport(T1=[DOWN, DOWN])
        pay = client(transport)
        task = asyncio.create_task(use(pay))
        await cancel_at_each_turn(task, first=moment[0], count=moment[1])
        for straggler in other_tasks():  # of `use_and_close`, which starts one that belongs to nobody
            if straggler.get_name().startswith("payclient"):
                pytest.fail(f"{straggler} was left")
            straggler.cancel()
        await asyncio.sleep(0)
        assert (transport.in_flight, pay.stats.in_flight, len(pay._calls)) == (0, 0, 0)

    asyncio.run(run())


@given(moment=MOMENTS)
def test_no_worker_outlives_its_block(moment):
    """After three or fifty quick cancellations, every worker has ended when the block ends."""

    async def run():
        left = None

        async def use():
            nonlocal left
            try:
                async with stream(stubborn, map(str, range(100)), concurrency=4):
                    await asyncio.sleep(1000)
            finally:
                left = {task for task in other_tasks() if task.get_name().startswith("payclient-stream")}

        task = asyncio.create_task(use())
        await cancel_at_each_turn(task, first=moment[0] + 1, count=moment[1])
        assert task.cancelled()
        assert left == set()

    asyncio.run(run())


@pytest.mark.virtual_time
async def test_no_worker_outlives_a_cancel_scope():
    """A cancel scope of anyio cancels again at each turn; every worker has ended when the block ends."""
    with anyio.move_on_after(1) as scope:
        try:
            async with stream(stubborn, map(str, range(100)), concurrency=4):
                await asyncio.sleep(1000)
        finally:
            left = other_tasks()
    assert (scope.cancelled_caught, left) == (True, set())


@pytest.mark.virtual_time
async def test_worker_that_swallows_its_cancellation():
    """A lookup function that swallows its cancellation cannot keep the block from ending."""

    async def deaf(reference):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    async with stream(deaf, map(str, range(100)), concurrency=2):
        await asyncio.sleep(0.5)
    assert other_tasks() == set()


@pytest.mark.virtual_time
async def test_closed_in_a_cancel_scope():
    """A client that is closed within a cancelled scope still closes its transport."""
    pay = client(None)
    with anyio.CancelScope() as scope:
        async with pay:
            await asyncio.sleep(1)
            scope.cancel()
            await asyncio.sleep(1)
    assert (scope.cancelled_caught, pay._session._transport._connections._is_closed) == (True, True)


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "too long"])
async def test_closed_with_a_lookup_in_flight(is_cancelled):
    """A close that is cancelled while it waits for a lookup, or waits too long, still closes its transport."""

    async def silence(connection):
        await connection.request()
        await connection.request()

    async with RawServer(silence) as server:
        pay = client(None, base_url=server.url, timeout=5.0)
        lookup = asyncio.create_task(pay.with_options(timeout=20.0).get_transaction("T1"))
        await asyncio.sleep(1)
        closing = asyncio.create_task(pay.aclose())
        await asyncio.sleep(1)
        if is_cancelled:
            closing.cancel()
        await asyncio.gather(closing, lookup, return_exceptions=True)
        assert (closing.cancelled(), pay._session._transport._connections._is_closed) == (is_cancelled, True)
        assert asyncio.get_running_loop().time() == pytest.approx(2.0 if is_cancelled else 6.0)


@pytest.mark.virtual_time
async def test_closed_in_another_loop():
    """All that sleeps in the loop of the client ends at once: in a pause, in back-off, between polls, for a key."""

    async def hang():
        await asyncio.Event().wait()

    paused = client(ScriptedTransport(T1=[throttled(60)]))
    failing = client(ScriptedTransport(T1=[DOWN]), retry=RetryPolicy(initial_backoff=5000.0, max_backoff=5000.0))
    polling, keyless = client(ScriptedTransport()), client(ScriptedTransport(), api_key=hang)
    waits = [
        paused.with_options(deadline=90.0).get_transaction("T1"),
        failing.with_options(deadline=None).get_transaction("T1"),
        polling.wait_for("T1", until={"Paid"}, interval=100.0, max_interval=100.0, deadline=300.0),
        keyless.get_transaction("T1"),
    ]
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.sleep(1)
    for pay in (paused, failing, polling, keyless):
        await asyncio.to_thread(asyncio.run, pay.aclose())
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert ([type(end) for end in ends], now()) == ([ClientClosedError] * 4, 1.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_other_loop", [False, True])
async def test_stream_that_was_entered_by_hand(is_other_loop):
    """A stream that is entered by hand and dropped ends with its client, also if its outcomes are not read."""
    pay = client(ScriptedTransport(latency=0.1))
    stream = await pay.stream_transactions(map(str, range(100)), concurrency=2).__aenter__()
    await asyncio.sleep(1)
    await (asyncio.to_thread(asyncio.run, pay.aclose()) if is_other_loop else pay.aclose())
    await asyncio.sleep(0.2)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    read = []
    with pytest.raises(ClientClosedError):
        async for outcome in stream:
            read.append(outcome.index)
    assert 2 <= len(read) <= 4
    assert read == [*range(len(read))]


@pytest.mark.virtual_time
async def test_closed_transport_is_no_outage():
    """What we closed ourselves is not told as a failure of the service."""
    pay = client(ScriptedTransport(default=lambda _: ClientClosedError("the transport has been closed")))
    ends = await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(20)), return_exceptions=True)
    await asyncio.sleep(2)
    ends += await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(20)), return_exceptions=True)
    assert ({type(end) for end in ends}, pay.stats.last_failure) == ({ClientClosedError}, "")


def sockets():
    """Return the descriptors of all open sockets."""
    found = set()
    for descriptor in range(1024):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.add(descriptor)
    return found


async def test_served_in_a_cancel_scope():
    """When its block is cancelled by a scope, the test kit's server has stopped and its port is free."""
    before = sockets()
    with anyio.CancelScope() as scope:
        try:
            async with serve(FakeService()) as url:
                port = int(url.rpartition(":")[2])
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                await reader.read()  # the server is up
                writer.close()
                scope.cancel()
                await asyncio.sleep(1000)
        finally:
            left = other_tasks()
    assert (scope.cancelled_caught, left) == (True, set())
    assert sockets() <= before
    with pytest.raises(OSError, match=r"."):
        await asyncio.open_connection("127.0.0.1", port)


async def test_cancellation_is_not_lost():
    """`until_done` raises a cancellation only after all tasks are done."""
    others = [asyncio.create_task(asyncio.sleep(0.01)) for _ in range(3)]
    waiting = asyncio.create_task(until_done(others))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [task.done() and not task.cancelled() for task in others] == [True] * 3


async def test_thread_ends_first():
    """`in_thread` lets other tasks run, and raises a cancellation only after the thread has ended."""
    began, may_end, steps = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def step():
        loop.call_soon_threadsafe(began.set)
        steps.append(may_end.wait(60))

    waiting = asyncio.create_task(in_thread(step))
    await began.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    assert (waiting.done(), steps) == (False, [])
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert steps == [True]


async def test_thread_that_fails_when_cancelled():
    """When the step fails after the cancellation, its error is the cause, and asyncio has none that nobody has seen."""
    began, may_end, unseen = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unseen.append(context))

    def step():
        loop.call_soon_threadsafe(began.set)
        may_end.wait(60)
        raise ZeroDivisionError

    async def use():
        try:
            await in_thread(step)
        except asyncio.CancelledError as error:
            return repr(error.__cause__)

    waiting = asyncio.create_task(use())
    await began.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert await waiting == "ZeroDivisionError()"
    gc.collect()
    assert unseen == []


class ClockError(Exception):
    """The clock of the event loop cannot be read."""


@pytest.mark.virtual_time
async def test_a_clock_that_fails_holds_no_slot():
    """Whichever reading of the clock fails, in whichever part of a lookup, every slot is free again."""
    loop = asyncio.get_running_loop()
    read, left = loop.time, 0

    def time():
        nonlocal left
        if sys._getframe(1).f_globals["__name__"].startswith("payclient."):
            left -= 1
            if left == 0:
                raise ClockError
        return read()

    loop.time = time
    loop.set_exception_handler(None)  # a callback of a timer may be the reader
    throttled = answer(b"{}", 429, retry_after="1")
    for answers in ([], [throttled], [DOWN], [answer(b"{", 200)], [TimeoutError()]):
        for at in range(1, 150):
            transport = ScriptedTransport(latency=0.1, T1=[*answers])
            pay = client(transport, max_concurrency=1, deadline=20)
            left = at
            lookups = [asyncio.create_task(pay.get_transaction(reference)) for reference in ("T1", "T2", "T3")]
            await asyncio.wait(lookups, timeout=60)
            is_reached, left = left <= 0, 0
            assert (answers, at, pay.stats.in_flight) == (answers, at, 0)
            assert (answers, at, (await pay.get_transaction("T4")).reference) == (answers, at, "T4")
            [lookup.exception() for lookup in lookups]
            if not is_reached:
                break
        else:
            pytest.fail("the clock is read more often than this")
