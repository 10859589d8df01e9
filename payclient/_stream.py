"""
Look up many references through one function: bounded, lazy and safe to cancel.

Design rules:

- A worker takes the next reference only when it has finished the last one, and the queue of
  results is bounded. So memory and look-ahead depend on the concurrency, not on the input.
- Rows that wait for a later pass are bounded too (backpressure): above the bound, no new row is taken.
- Deferred rows do not wait for the input: they are retried even while the input yields nothing.
- All workers end before the block does, even if the block is cancelled repeatedly.
- A stream is read inside its block only; reading after it raises.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
)
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, TypeAlias

from attrs import define, field

from payclient._options import STALL_TIMEOUT
from payclient._until_done import until_done
from payclient.errors import DeadlineExceededError, PayClientError
from payclient.policies import PASSES, Clock, Deferral, Disposition, PendingRow, Timeout, is_passing
from payclient.protocol import Failed, Found, Outcome, Transaction

LookupFunction: TypeAlias = Callable[[str], Awaitable[Transaction]]
References: TypeAlias = Iterable[str] | AsyncIterable[str]

# Not an argument: between a stream and its client stands a function of one reference, often the caller's own around
# `get_transaction`, which could not pass it on.
in_bulk: Final = ContextVar("payclient_in_bulk", default=False)
"""Whether a lookup is a row that waits out an outage: if it were refused, it would only be asked again later."""

_DEFERRED_PER_WORKER = 16
_END: Final = object()


@asynccontextmanager
async def stream(
    lookup: LookupFunction,
    references: References,
    *,
    concurrency: int,
    stall_timeout: float = STALL_TIMEOUT,
    defer: bool = True,
    known: str | None = None,
    malformed_passes: int = PASSES,
    was_reached: bool = False,
    random: Callable[[], float] = random.random,
) -> AsyncGenerator[AsyncIterator[Outcome]]:
    """Look up *references*, and yield the outcomes in order of completion."""
    deferral = Deferral(
        is_on=defer,
        max_retry_after=stall_timeout,
        random=random,
        malformed_passes=malformed_passes,
        was_reached=was_reached,
    )
    clock, results = Clock(asyncio.get_running_loop()), asyncio.Queue[Outcome | object](concurrency)
    run = _Stream(lookup, _Rows(references), concurrency, stall_timeout, deferral, known, clock, results)
    run.start()
    try:
        yield run
    finally:
        await run.stop()


class _Rows:
    def __init__(self, references: References) -> None:
        self._next: Callable[[], Awaitable[str]] | None = None
        if isinstance(references, AsyncIterable):
            self._next = aiter(references).__anext__
        else:
            self._iterator = iter(references)
        self._lock = asyncio.Lock()
        self._count = 0
        self.is_exhausted = False
        self.is_awaited = False

    async def take(self) -> PendingRow | None:
        if self._next is not None:
            return await self._take_in_turn(self._next)
        if self.is_exhausted:
            return None
        for reference in self._iterator:
            return self._row(reference)
        self.is_exhausted = True
        return None

    async def _take_in_turn(self, following: Callable[[], Awaitable[str]]) -> PendingRow | None:
        """Await the next reference; an async iterator serves one worker at a time."""
        async with self._lock:
            if self.is_exhausted:
                return None
            self.is_awaited = True
            try:
                return self._row(await following())
            except StopAsyncIteration:
                self.is_exhausted = True
                return None
            finally:
                self.is_awaited = False

    def _row(self, reference: str) -> PendingRow:
        row = PendingRow(self._count, reference)
        self._count += 1
        return row


@define(eq=False, repr=False)
class _Stream:
    """The workers of one stream, and the iterator over their outcomes."""

    _lookup: LookupFunction
    _source: _Rows
    _concurrency: int
    _stall_timeout: float
    _deferral: Deferral
    _known: str | None
    _clock: Clock
    _results: asyncio.Queue[Outcome | object]
    _deferred: list[tuple[float, int, PendingRow, asyncio.Handle]] = field(factory=list, init=False)  # a heap
    _workers: set[asyncio.Task[None]] = field(factory=set, init=False)
    _started: int = field(default=0, init=False)
    _asking: int = field(default=0, init=False)
    _asleep: int = field(default=0, init=False)
    _began: float = field(default=0.0, init=False)
    _ended_at: float = field(default=0.0, init=False)  # the last row with an outcome
    _busy_since: float = field(default=0.0, init=False)
    _last_error: PayClientError | None = field(default=None, init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _is_draining: bool = field(default=False, init=False)
    _reader: asyncio.Task[Any] | None = field(default=None, init=False)  # that has seen the end
    _is_over: bool = field(default=False, init=False)
    _is_stopping: bool = field(default=False, init=False)

    # What the caller sees

    def __aiter__(self) -> _Stream:
        if self._reader is not None and self._reader is asyncio.current_task():  # others may share what is left
            message = "this stream has been read to its end; open another one for a second pass"
            raise RuntimeError(message)
        return self

    async def __anext__(self) -> Outcome:
        item = _END if self._is_over else await self._receive()
        if isinstance(item, Found | Failed):
            return item
        if not self._results.full():
            self._results.put_nowait(_END)  # for others that read the same stream
        if self._is_stopping:
            message = (
                "the block of this stream has ended, or its context manager was dropped; "
                "read the outcomes inside `async with client.stream_transactions(...) as outcomes:`"
            )
            raise RuntimeError(message)
        if not self._is_over:
            self._is_over = True
            if self._failure is not None:
                raise self._failure
        self._reader = asyncio.current_task()
        raise StopAsyncIteration

    async def _receive(self) -> Outcome | object:
        if not self._results.empty() and (item := self._results.get_nowait()) is not _END:
            return item
        waiting_since = self._clock.now()
        while not (self._results.empty() and self._is_done()):
            stalls_at = max(waiting_since, self._busy_since) + self._stall_timeout
            with Timeout(self._clock, stalls_at):
                # Behind a mark of the end are outcomes of workers that were waiting for the input then.
                if (item := await self._results.get()) is not _END:
                    return item
                continue
            if not self._is_busy():
                waiting_since = self._clock.now()  # the source has nothing to ask, as it may
            elif self._busy_since + self._stall_timeout <= stalls_at:  # and not busy again only just now
                self._failure = self._stalled()
                break
        return _END

    def _is_busy(self) -> bool:
        return bool(self._asking or self._asleep or self._deferred)

    @property
    def _max_deferred(self) -> int:
        return self._concurrency * _DEFERRED_PER_WORKER

    def _is_done(self) -> bool:
        # When draining, workers that only wait, for a reference or for a later pass, do not count.
        return not self._workers or (self._is_draining and not self._asking)

    def _stalled(self) -> DeadlineExceededError:
        message = (
            f"no lookup succeeded for {self._stall_timeout:g} s; "
            "the references without an outcome can be asked for again"
        )
        error = DeadlineExceededError(message)
        error.__cause__ = self._last_error
        return error

    # The workers
    #
    # A row is in one place at a time: in the input; with a worker (`_asking`); deferred, with a timer (`_deferred`);
    # with a worker that sleeps until it is due, because there is nothing else to do (`_asleep`); in `_results`.
    # The first worker is started by the block, the others by a worker that takes a row, once the service has been
    # reached. `_help` starts one beside them for a row that is due while the input is awaited.
    # A worker ends when the input is exhausted and no row is deferred. A failure of the stream ends it with its row
    # (`_is_draining`), the end of the block at once (`_is_stopping`).

    def start(self) -> None:
        """Start one worker; once the service has been reached, each worker that finds work starts another."""
        self._began = self._began or self._clock.now()
        self._started += 1
        self._begin(self._work())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        worker = asyncio.create_task(work, name=f"payclient-stream-{self._started}")
        self._workers.add(worker)
        worker.add_done_callback(self._settle)

    async def stop(self) -> None:
        self._is_draining = self._is_stopping = True
        for worker in self._workers:
            worker.cancel()
        try:
            await until_done(self._workers)
        finally:
            while self._deferred:
                self._pop_deferred()
            while not self._results.empty():
                self._results.get_nowait()
            self._results.put_nowait(_END)
            self._clock.stop()

    def _settle(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        error = None if worker.cancelled() else worker.exception()  # read in any case, or asyncio logs it
        if self._is_stopping:
            return
        if worker.cancelled():
            message = "a lookup of the stream was cancelled from outside"
            self._fail(RuntimeError(message))
        elif error is not None:
            self._fail(error)  # the caller's own: in the references, or in the lookup function
        self._wake_at_end()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._is_draining = True

    def _wake_at_end(self) -> None:
        # With a full queue no reader is waiting, and the next one sees that it is done.
        if self._is_done() and not self._results.full():
            self._results.put_nowait(_END)

    async def _work(self) -> None:
        in_bulk.set(self._deferral.is_on)
        while (row := await self._next_row()) is not None:
            if self._started < self._concurrency and not (self._is_draining or self._deferral.is_one_enough):
                self.start()
            await self._work_on(row)

    async def _work_on(self, row: PendingRow) -> None:
        if self._is_stopping:  # the caller's iterator has suppressed the cancellation
            return
        self._asking += 1
        try:
            outcome = await self._ask(row)
            if outcome is not None and not self._is_stopping:
                await self._results.put(outcome)
        finally:
            self._asking -= 1
        self._wake_at_end()

    async def _next_row(self) -> PendingRow | None:
        while not self._is_draining:
            now = self._clock.now()
            is_due = bool(self._deferred) and self._deferred[0][0] <= now
            if not is_due and len(self._deferred) < self._max_deferred:
                row = await self._source.take()
                if row is not None:
                    if not self._is_busy():
                        self._busy_since = self._clock.now()
                    return row  # even if draining has begun: the row has been taken out of the input
            if not self._deferred:
                return None
            due, row = self._pop_deferred()
            self._asleep += 1  # the row is nowhere else while its worker sleeps
            try:
                await asyncio.sleep(due - self._clock.now())  # the input may have taken long to end
            finally:
                self._asleep -= 1
            if not self._is_draining:
                return row
        return None

    async def _ask(self, row: PendingRow) -> Outcome | None:
        row.answers_when_sent = self._deferral.answers
        try:
            transaction = await self._lookup(row.reference)
        except PayClientError as error:
            await self._ask_known(row, error)
            return self._judge(row, error)
        self._deferral.succeed()
        self._known, self._ended_at = row.reference, self._clock.now()
        return Found(row.reference, transaction, index=row.index)

    async def _ask_known(self, row: PendingRow, error: PayClientError) -> None:
        """Look up a known-good reference if no other row can show whether the service answers, or has been reached."""
        # Otherwise one bad row at the end of the input, or before a gap in it, would look like an outage, and so would
        # bad rows that hold up the input; some at its beginning would look like a wrong address. A row with a single
        # pass is not retried to find out.
        is_held_up = len(self._deferred) + self._asking >= self._max_deferred
        is_dry = self._source.is_exhausted or self._source.is_awaited or is_held_up or self._deferral.passes(error) == 1
        is_alone = is_dry and self._deferral.answers == row.answers_when_sent
        is_unclear = is_alone or not self._deferral.is_reached
        if not (is_unclear and self._known is not None and is_passing(error)):
            return
        with suppress(PayClientError):  # the row's own error is reported instead
            await self._lookup(self._known)
            self._deferral.succeed()

    def _judge(self, row: PendingRow, error: PayClientError) -> Failed | None:
        self._last_error = error
        # At the end of the input, a pass of a last row is worth as much time as all others have taken.
        longest = self._ended_at - self._began if self._source.is_exhausted else inf
        decision = self._deferral.decide(row, error, longest=longest)
        if decision is Disposition.FINAL:
            self._ended_at = self._clock.now()
            return Failed(row.reference, error, index=row.index)
        if decision is Disposition.FATAL:
            self._fail(error)
        else:
            due = self._clock.now() + decision
            heappush(self._deferred, (due, row.index, row, self._clock.loop.call_at(due, self._help, due)))
        return None

    def _pop_deferred(self) -> tuple[float, PendingRow]:
        due, _, row, timer = heappop(self._deferred)
        timer.cancel()  # the caller looks after the row from now on
        return due, row

    def _help(self, due: float) -> None:
        """Start another worker for a row that is due, because all others may be waiting for the input."""
        if self._source.is_awaited and self._asking < self._concurrency and not self._is_stopping:
            self._begin(self._work_on_what_is_due(due))

    async def _work_on_what_is_due(self, due: float) -> None:
        in_bulk.set(self._deferral.is_on)
        # Includes rows that become due meanwhile, whose own call found no free slot.
        while self._deferred and self._deferred[0][0] <= max(due, self._clock.now()) and not self._is_draining:
            await self._work_on(self._pop_deferred()[1])
        if self._source.is_exhausted:  # then the other workers may have ended, and the row may be deferred again
            await self._work()
