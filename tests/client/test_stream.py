"""Streams: bounded, lazy, cancel-safe, and just to every row."""

import asyncio
import gc
import tracemalloc
import types
from functools import partial

import pytest

from payclient import (
    AuthenticationError,
    DeadlineExceededError,
    Failed,
    Found,
    RateLimitedError,
    RejectedError,
    ServiceError,
    TLSVerificationError,
    Transaction,
)
from payclient.client._stream import stream
from support.fakes import now

pytestmark = pytest.mark.virtual_time


DOWN = ServiceError("down", status_code=500)
STALLED = "no lookup succeeded for 900 s: the references without an outcome can be asked for again"


def transaction(reference):
    return Transaction(reference=reference, amount=1, status="Paid")


async def found(reference):
    await asyncio.sleep(0)
    return transaction(reference)


def failing(error, *references):
    """Make a lookup that fails with *error* for *references*, or for all when none is given."""

    async def lookup(reference):
        await asyncio.sleep(0.01)
        if not references or reference in references:
            raise error
        return transaction(reference)

    return lookup


class Lookup:
    """
    A lookup that takes a second.

    Args:
        error: Returns the error of a lookup, or None, by the reference and how often it was asked for.
        seconds: Returns its seconds, likewise.

    Attributes:
        asked: The references.
        times: When each was asked for.
    """

    def __init__(self, error=lambda *_: None, seconds=lambda *_: 1.0):
        self.error, self.seconds = error, seconds
        self.asked, self.times = [], []
        self.under_way = self.most = 0

    async def __call__(self, reference):
        self.asked.append(reference)
        self.times.append(now())
        nth = self.asked.count(reference) if len(self.asked) < 1000 else 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self.seconds(reference, nth))
        self.under_way -= 1
        if (error := self.error(reference, nth)) is not None:
            raise error
        return transaction(reference)


def down_at_first(*references):
    """Return the errors of lookups of which the first fails for these references."""
    return lambda reference, nth: DOWN if reference in references and nth == 1 else None


async def collect(lookup, references, **options):
    async with stream(lookup, references, **{"concurrency": 4, **options}) as outcomes:
        return [outcome async for outcome in outcomes]


async def with_a_gap(before, *behind, seconds=3600):
    """Give references, nothing for an hour, and those behind it."""
    for name in before:
        yield name
    await asyncio.sleep(seconds)
    for name in behind:
        yield name


def three_in_an_hour():
    return with_a_gap(["T1", "T2", "T3"])


async def stubborn(reference):
    """Be a lookup that needs five seconds to end when it is cancelled."""
    try:
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(5)


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


class Resurrected:
    """An iterator that goes on after its end, as no iterator should."""

    def __init__(self):
        self.calls = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.calls += 1
        if self.calls == 3:
            raise StopIteration
        return f"T{self.calls}"


async def test_an_end_is_final():
    """An exhausted iterable of references is not read again by any worker."""
    references = Resurrected()
    assert (len(await collect(found, references)), references.calls) == (2, 3)


async def test_every_row_once():
    """Each reference has one outcome, whose index is its position in the input."""
    references = [f"T{n % 30}" for n in range(100)]
    outcomes = sorted(await collect(found, references), key=lambda o: o.index)
    assert outcomes == [Found(name, transaction(name), index=n) for n, name in enumerate(references)]


async def test_async_references():
    """An async iterable of references is accepted too; without references there are no outcomes."""

    async def references(count):
        for n in range(count):
            await asyncio.sleep(0)
            yield f"T{n}"

    assert [len(await collect(found, references(count))) for count in (0, 10)] == [0, 10]
    assert await collect(found, []) == []


async def test_bounded():
    """Lookups in flight reach the concurrency, and never exceed it."""
    lookup = Lookup()
    await collect(lookup, map(str, range(50)), concurrency=7)
    assert lookup.most == 7


async def test_lazy():
    """If outcomes are not read, the input is not read either: look-ahead is bounded by the concurrency."""
    taken = 0

    def references():
        nonlocal taken
        for n in range(10_000):
            taken += 1
            yield f"T{n}"

    async with stream(found, references(), concurrency=4) as outcomes:
        await anext(outcomes)
        await asyncio.sleep(60)
        assert taken <= 1 + 3 * 4


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_memory_is_flat(count):
    """A stream of many references needs no more memory than one of 2,000."""

    async def peak(count):
        tracemalloc.start()
        async with stream(found, (f"T{n}" for n in range(count)), concurrency=64) as outcomes:
            async for _ in outcomes:
                pass
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    await peak(100)
    small, large = await peak(2_000), await peak(count)
    assert large < small + 256 * 1024


@pytest.mark.parametrize("read", [0, 1, 1000])
async def test_after_leaving(read):
    """Reading after the block raises, whether or not all outcomes were read inside it."""
    async with stream(found, map(str, range(1000)), concurrency=8) as outcomes:
        for _ in range(read):
            await anext(outcomes)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"the block of this stream has ended"):
            await anext(outcomes)


async def test_read_by_others_when_the_block_ends():
    """All tasks that wait for an outcome when the block ends get the error that it has ended."""
    async with stream(failing(None, "none"), three_in_an_hour(), concurrency=2) as outcomes:
        [await anext(outcomes) for _ in range(3)]
        readers = [asyncio.ensure_future(anext(outcomes)) for _ in range(3)]
        await asyncio.sleep(1)
    ends = await asyncio.gather(*readers, return_exceptions=True)
    assert [type(end) for end in ends] == [RuntimeError] * 3
    assert now() < 5  # at once, and not when the stream would have stalled


async def test_read_by_others_at_the_end():
    """At the end of the outcomes, all tasks that wait for one stop, not only the first."""
    async with stream(failing(None, "none"), ["T1"], concurrency=1) as outcomes:
        readers = [asyncio.ensure_future(anext(outcomes, None)) for _ in range(3)]
        ends = await asyncio.gather(*readers)
    assert [type(end).__name__ for end in ends] == ["Found", "NoneType", "NoneType"]
    assert now() < 5


async def test_workers_have_names():
    """The tasks of a stream's workers have recognisable names."""
    async with stream(failing(None, "none"), map(str, range(9)), concurrency=2) as outcomes:
        await anext(outcomes)
        await asyncio.sleep(0)
        names = {task.get_name() for task in other_tasks()}
    assert names == {"payclient-stream-1", "payclient-stream-2"}


async def test_error_in_the_block():
    """The caller's own exception propagates unchanged, not in a group, and no worker is left."""
    with pytest.raises(KeyError, match="mine"):
        async with stream(found, map(str, range(1000)), concurrency=8):
            raise KeyError("mine")
    assert other_tasks() == set()


async def test_cancelled_while_leaving():
    """A cancellation while the workers end is not lost."""

    async def leave():
        async with stream(stubborn, ["T1"], concurrency=1):
            await asyncio.sleep(1)

    task = asyncio.create_task(leave())
    await asyncio.sleep(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other_tasks() == set()


async def test_error_in_the_references():
    """An exception of the caller's iterable propagates unchanged from the iteration."""

    def references():
        yield "T1"
        raise OSError("the ledger has gone")

    with pytest.raises(OSError, match="the ledger has gone"):
        await collect(found, references())


async def test_bug_in_the_lookup():
    """An exception that is not a `PayClientError` is a bug, and ends the stream unchanged."""
    with pytest.raises(ZeroDivisionError):
        await collect(failing(ZeroDivisionError()), ["T1"])


@pytest.mark.parametrize(("count", "seconds"), [(16, 0), (4, 40)])
async def test_bad_rows_that_hold_up_the_input(count, seconds):
    """Bad rows, as many as may be deferred or as are always due, are given up, and those behind them are looked up."""
    bad = [f"T{number}" for number in range(1, count + 1)]
    lookup = Lookup(lambda name, _: DOWN if name in bad else None, lambda name, _: seconds if name in bad else 0)
    outcomes = await collect(lookup, ["T0", *bad, "T17"], concurrency=1)
    failed = [outcome.reference for outcome in outcomes if isinstance(outcome, Failed)]
    assert (len(outcomes), sorted(failed)) == (count + 2, sorted(bad))


async def test_bug_while_leaving():
    """An exception of a lookup that is cancelled with its stream is not logged by asyncio."""
    logged = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))

    async def lookup(reference):
        if reference == "T0":
            return await found(reference)
        try:
            await asyncio.sleep(9)
        finally:
            raise ZeroDivisionError

    async with stream(lookup, ["T0", "T1", "T2"], concurrency=3) as outcomes:
        await anext(outcomes)
        await asyncio.sleep(1)
    gc.collect()
    assert logged == []


async def test_lookup_cancelled_from_outside():
    """A lookup that is cancelled from outside ends the stream with an error, so its row is not lost silently."""

    async def lookup(reference):
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match=r"^a lookup of the stream was cancelled from outside$"):
        await collect(lookup, ["T1"])


async def test_fatal_is_raised_once():
    """A refused key ends the stream: lookups in flight finish and are yielded first, and no other starts."""
    refused, outcomes = AuthenticationError("refused"), []
    lookup = Lookup(lambda name, _: refused if name == "3" else None, lambda name, _: int(name))
    with pytest.raises(AuthenticationError):
        async with stream(lookup, map(str, range(1, 100)), concurrency=5) as answers:
            async for outcome in answers:
                outcomes.append(outcome.reference)
    assert outcomes == ["1", "2", "4", "5", "6", "7"]
    assert lookup.asked == ["1", "2", "3", "4", "5", "6", "7"]


async def test_fatal_while_the_reader_stalls():
    """Outcomes that wait for the reader are yielded before the error, also to a reader who reads at once."""
    refused, outcomes = AuthenticationError("refused"), []
    lookup = Lookup(lambda name, _: refused if name == "T6" else None, lambda name, _: name == "T6")
    with pytest.raises(AuthenticationError):
        async with stream(lookup, [f"T{number}" for number in range(9)], concurrency=3) as answers:
            async for outcome in answers:
                outcomes.append(outcome.reference)
                if len(outcomes) == 1:
                    await asyncio.sleep(5)
    assert sorted(outcomes) == ["T0", "T1", "T2", "T3", "T4", "T5", "T7", "T8"]


async def test_after_the_end():
    """A stream raises its error once, and has ended afterwards."""
    async with stream(failing(AuthenticationError("refused")), ["T1"], concurrency=1) as outcomes:
        with pytest.raises(AuthenticationError):
            await anext(outcomes)
        assert [outcome async for outcome in outcomes] == []


async def test_fatal_does_not_wait_for_a_slow_source():
    """A failing stream does not wait for the next reference of the input."""
    refused = AuthenticationError("refused")
    with pytest.raises(AuthenticationError):
        await collect(failing(refused), with_a_gap(["T1"], "T2"))
    lookup = Lookup(lambda name, _: None if name == "T1" else refused, lambda name, _: int(name[1]))
    with pytest.raises(AuthenticationError):
        await collect(lookup, three_in_an_hour())
    assert now() < 7  # when the last lookup in flight had failed, too


async def test_first_failure_counts():
    """Of two failures in one turn of the event loop the first is raised."""
    errors = {"T2": AuthenticationError("refused"), "T3": TLSVerificationError("expired")}
    with pytest.raises(AuthenticationError):
        await collect(Lookup(lambda name, _: errors.get(name)), ["T1", "T2", "T3"])


async def test_one_by_one_until_somebody_is_there():
    """Until the service is first reached, rows are sent one by one; then up to the concurrency."""
    lookup = Lookup()
    await collect(lookup, map(str, range(10)), concurrency=4)
    assert [lookup.times.count(second) for second in range(4)] == [1, 4, 4, 1]


@pytest.mark.parametrize("place", [0, 500, 999])
async def test_one_bad_row(place):
    """A row that always fails is final after several passes, at any position, and no other row is affected."""
    lookup = Lookup(lambda name, _: DOWN if name == str(place) else None, lambda *_: 0.1)
    outcomes = await collect(lookup, map(str, range(1000)))
    assert [o.index for o in outcomes if isinstance(o, Failed)] == [place]
    assert 4 <= lookup.asked.count(str(place)) <= 5  # one pass may end before anybody else was answered


@pytest.mark.parametrize("hours", [0, 1, 9])
@pytest.mark.parametrize("after", [0, 1, 60], ids=["at once", "deferred", "due"])
async def test_bad_row_at_the_end_of_a_slow_input(hours, after):
    """A row that is deferred when a slow input ends is due when it was, however long a worker has waited for more."""

    async def references():
        for name in ("T1", "T2", "T3", "T4"):  # after which several workers wait
            yield name
        await asyncio.sleep(3600 * hours)
        yield "bad"
        await asyncio.sleep(after)

    lookup = Lookup(lambda name, _: DOWN if name == "bad" else None, lambda *_: 0.01)
    outcomes = await collect(lookup, references(), random=lambda: 0.5)
    assert [outcome.reference for outcome in outcomes if isinstance(outcome, Failed)] == ["bad"]
    assert lookup.times[-1] - 3600 * hours < 5 + 20 + 80 + after + 1


async def test_known_reference_is_asked_when_alone():
    """A row that fails at the end of the input is final only after a known-good reference has been answered again."""
    lookup = Lookup(lambda name, _: DOWN if name == "bad" else None)
    outcomes = await collect(lookup, ["good", "bad"], concurrency=1)
    assert [type(o) for o in outcomes] == [Found, Failed]
    assert lookup.asked == ["good", "bad", *["bad", "good"] * 4]  # at first nobody knows that it is the last


async def test_known_reference_is_not_asked_without_need():
    """No known-good reference is looked up while other rows are answered, or when the failed row is final."""
    odd, slow = RejectedError("no"), down_at_first("slow")
    lookup = Lookup(
        lambda name, nth: odd if name == "odd" else slow(name, nth), lambda name, _: 2 if name == "slow" else 1
    )
    await collect(lookup, ["slow", "good"], concurrency=2)
    await collect(lookup, ["fine", "odd"], concurrency=1)
    assert lookup.asked == ["slow", "good", "slow", "fine", "odd"]


async def test_deferred_rows_are_bounded():
    """When too many rows wait for a later pass, no new reference is taken; without an answer, no other is asked for."""
    lookup = Lookup(lambda *_: DOWN, lambda *_: 0.01)
    with pytest.raises(DeadlineExceededError):
        await collect(lookup, map(str, range(10_000)))
    assert len(set(lookup.asked)) <= 4 * 16 + 3  # the last of which four workers took at the same time


async def test_pause_is_kept_by_deferred_rows():
    """A deferred row is not looked up before the `Retry-After` of its refusal."""
    later = RateLimitedError("later", status_code=429, asked_pause=200)
    lookup = Lookup(lambda _, nth: later if nth == 1 else None)
    await collect(lookup, ["T1"])
    assert lookup.times[1] >= 200


async def test_absurd_pause():
    """A pause of 300 years is asked about again after five minutes, and the stream goes on."""
    years = RateLimitedError("later", status_code=429, asked_pause=9_999_999_999)
    lookup = Lookup(lambda _, nth: years if nth == 1 else None)
    await collect(lookup, ["T1"])
    assert 300 <= lookup.times[1] <= 301


@pytest.mark.virtual_time
async def test_pause_of_a_day():
    """A pause longer than `stall_timeout` ends the stream, with `retry_after` in the error."""
    with pytest.raises(RateLimitedError) as caught:
        await collect(failing(RateLimitedError("later", status_code=429, asked_pause=86400)), ["T1"], stall_timeout=200)
    assert (caught.value.retry_after, asyncio.get_running_loop().time() < 1) == (86400, True)


async def stalled(lookup, references):
    """Return the references with an outcome, their errors, and the error of a stream that stalls after 900 s."""
    outcomes = []
    with pytest.raises(DeadlineExceededError, match=f"^{STALLED}$") as caught:
        async with stream(lookup, references, concurrency=4) as read:
            async for outcome in read:
                outcomes.append(outcome)
    assert now() == pytest.approx(900, abs=1)
    return [each.reference for each in outcomes], {getattr(each, "error", None) for each in outcomes}, caught.value


@pytest.mark.parametrize(("count", "least"), [(1, 1), (10, 10), (1000, 64)])
async def test_stall(count, least):
    """Without any outcome for `stall_timeout` the stream ends: each row that was asked is `Failed`, with its error."""
    references, seen, failure = await stalled(failing(DOWN), map(str, range(count)))
    assert (references, seen) == ([*map(str, range(len(references)))], {DOWN})
    assert (failure.__cause__, len(references) >= least) == (DOWN, True)


async def test_stall_of_some():
    """Rows that are refused for ever, whatever is answered before them, get an outcome too."""
    refused = RateLimitedError("later", status_code=429, asked_pause=300)
    seen, errors, _ = await stalled(failing(refused, "T3", "T4"), ["T1", "T2", "T3", "T4"])
    assert (seen, errors) == (["T1", "T2", "T3", "T4"], {None, refused})


async def test_stall_without_an_error():
    """A lookup that never ends is a stall too, without a cause."""
    references, seen, failure = await stalled(Lookup(seconds=lambda *_: 10_000), ["T1", "T2"])
    assert (references, seen, failure.__cause__) == (["T1", "T2"], {failure}, None)


async def test_slow_source_is_no_stall():
    """An input that yields nothing for an hour does not end the stream, not even after rows were deferred."""
    assert len(await collect(found, with_a_gap(["T1"], "T2"))) == 2
    waiting = [*map(str, range(3 * 16 + 1))]  # as many as may wait, and one that a worker holds
    later = RateLimitedError("later", status_code=429, asked_pause=600)
    lookup = Lookup(lambda name, nth: later if name != "last" and nth == 1 else None, lambda *_: 0)
    outcomes = await collect(lookup, with_a_gap(waiting, "last"), concurrency=3)
    assert [type(o) for o in outcomes] == [Found] * 50


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_deferred_rows_do_not_wait_for_a_slow_source(concurrency):
    """While the input yields nothing, a deferred row is looked up when it is due and a slot is free."""
    # The second time takes so long that the next row comes due.
    lookup, when = Lookup(down_at_first("T2", "T3"), lambda _, nth: 1 if nth == 1 else 20), {}
    async with stream(lookup, three_in_an_hour(), concurrency=concurrency) as outcomes:
        async for outcome in outcomes:
            when[outcome.reference] = now()
    assert max(when.values()) < 60
    assert [lookup.asked.count(name) for name in ("T2", "T3")] == [2, 2]
    assert lookup.most <= concurrency


async def test_no_deferred_row_is_early():
    """A worker that has looked up a row that was due does not take rows that are not due."""
    spread, lookup = iter([0.0, 1.0]), Lookup(down_at_first("T2", "T3"))
    await collect(lookup, three_in_an_hour(), concurrency=1, random=lambda: next(spread))
    assert [*zip(lookup.asked, map(round, lookup.times), strict=True)][3:] == [("T2", 7), ("T3", 18)]


async def test_no_deferred_row_is_asked_when_no_other_can_succeed():
    """When a deferred row ends the stream, other rows that are due are not looked up."""
    refused, first = AuthenticationError("refused"), down_at_first("T2", "T3")
    lookup = Lookup(
        lambda name, nth: first(name, nth) or (refused if nth == 2 else None), lambda _, nth: 1 if nth == 1 else 20
    )
    with pytest.raises(AuthenticationError):
        await collect(lookup, three_in_an_hour(), concurrency=1)
    assert len(lookup.asked) == 4


async def test_no_worker_is_begun_after_the_end():
    """A row that is due in the tick in which the block ends is not looked up."""
    loop, lookup = asyncio.get_running_loop(), Lookup(lambda *_: DOWN, lambda *_: 0)

    def leave():
        left.set_result(None)
        loop.advance(0.5)

    left = loop.create_future()
    async with stream(lookup, with_a_gap(["T1"]), concurrency=1, random=lambda: 0.5):
        await asyncio.sleep(1)
        loop.call_at(9.75, leave)  # it is due at 10
        await left
    assert (lookup.asked, other_tasks()) == (["T1"], set())


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_one_bad_row_before_a_gap(concurrency):
    """A row that always fails becomes final even while the input yields nothing."""
    async with stream(failing(DOWN, "bad"), with_a_gap(["good", "bad"]), concurrency=concurrency) as outcomes:
        when = [now() async for outcome in outcomes if isinstance(outcome, Failed)]
    assert max(when) < 300


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_source_that_ends_while_a_deferred_row_is_asked(concurrency):
    """A deferred row is not lost if the input ends while it is looked up and it fails again."""

    async def references():
        yield "good"
        yield "bad"
        while lookup.asked.count("bad") < 2:
            await asyncio.sleep(0.1)

    lookup = Lookup(lambda name, _: DOWN if name == "bad" else None)
    outcomes = await collect(lookup, references(), concurrency=concurrency)
    assert {outcome.reference: type(outcome) for outcome in outcomes} == {"good": Found, "bad": Failed}


async def test_slow_consumer_is_no_stall():
    """A consumer that needs an hour for an outcome does not end the stream."""
    async with stream(found, map(str, range(50)), concurrency=2) as outcomes:
        assert len([await asyncio.sleep(3600) async for _ in outcomes]) == 50


async def test_deferred_rows_do_not_wait_for_the_end():
    """A deferred row is looked up when it is due, not only at the end of the input."""
    lookup = Lookup(down_at_first("0"))
    await collect(lookup, map(str, range(100)), concurrency=1)
    assert 5 <= lookup.asked.index("0", 1) <= 16


@types.coroutine
def _resumed(work, awaited):
    """Go on with *work*, whose first step has awaited something."""
    while True:
        try:
            received = yield awaited
        except BaseException as error:  # noqa: BLE001  thrown into it
            step = partial(work.throw, error)
        else:
            step = partial(work.send, received)
        try:
            awaited = step()
        except StopIteration as end:
            return end.value


async def _rest(work, awaited):
    return await _resumed(work, awaited)


def eager_factory(loop, work, **options):
    """Do the first step of a task at once, as `asyncio.eager_task_factory` of Python 3.12 does."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return asyncio.Task(asyncio.sleep(0), loop=loop, **options)
    return asyncio.Task(_rest(work, awaited), loop=loop, **options)


@pytest.mark.parametrize("concurrency", [8, 1000])
async def test_eager_tasks(concurrency):
    """However tasks are started, no worker of a stream begins inside of another, which would end in a recursion."""
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", eager_factory))

    async with stream(found, (f"T{number}" for number in range(3000)), concurrency=concurrency) as outcomes:
        assert sorted([outcome.index async for outcome in outcomes]) == list(range(3000))


async def test_first_row_that_lasts():
    """While nothing is heard of the first row, others are tried, so that one bad reference does not hold them up."""

    async def lookup(reference):
        await asyncio.sleep(600.0 if reference == "T0" else 0.1)
        return transaction(reference)

    async with stream(lookup, [f"T{number}" for number in range(100)], concurrency=10) as outcomes:
        for _ in range(99):
            assert (await anext(outcomes)).reference != "T0"
        assert 5.0 < now() < 8.0
