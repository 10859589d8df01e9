"""
Ask many references through one lookup function: bounded, lazy and safe to cancel.

Design rules:

- A worker takes the next reference only when it has finished the last one, and the queue of
  results is bounded: memory and look-ahead follow the concurrency, never the input.
- Rows that wait for a later pass are bounded too; when they are too many, no new row is taken.
- They do not wait for the input: when it has nothing for now, they are asked again all the same.
- Every worker ends before the block does, whatever happens.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from payclient._alarm import Alarm, Clock
from payclient._deferral import Deferral, Fate, Row
from payclient._models import Failed, Found, Outcome, Transaction
from payclient._retry import judge
from payclient.errors import DeadlineExceededError, PayClientError

Lookup: TypeAlias = Callable[[str], Awaitable[Transaction]]
References: TypeAlias = Iterable[str] | AsyncIterable[str]

_DEFERRED_PER_WORKER = 16
_END: Final = object()


@asynccontextmanager
async def stream(
    lookup: Lookup,
    references: References,
    *,
    concurrency: int,
    stall_timeout: float = 900.0,
    defer: bool = True,
) -> AsyncGenerator[AsyncIterator[Outcome]]:
    """
    Look up *references*, and give the outcomes as they come.

    Args:
        lookup: Asks for one reference; raises a `PayClientError` when it cannot.
        references: Read lazily, one at a time.
        concurrency: Lookups under way at once.
        stall_timeout: Seconds without any outcome, while lookups are outstanding, after which the
            stream ends.
        defer: Ask rows that failed for passing reasons again later, instead of giving them up.

    Shape:
        One outcome per reference, in order of completion; `index` is the place in the input.

    Raises:
        PayClientError: Out of the iteration, once, when no other lookup could succeed either. The
            lookups under way are finished and given first; rows without an outcome can be asked
            for again.
        DeadlineExceededError: Out of the iteration, when nothing came for *stall_timeout*.
    """
    deferral = Deferral(is_on=defer, longest_pause=stall_timeout, random=random.random)
    run = _Run(lookup, references, concurrency, stall_timeout, deferral)
    run.start()
    try:
        yield run
    finally:
        await run.stop()


class _Source:
    """Hands the references out one by one."""

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

    async def take(self) -> Row | None:
        """Return the next row, or None when there is none."""
        if self._next is not None:
            return await self._take_in_turn(self._next)
        if self.is_exhausted:
            return None
        for reference in self._iterator:
            return self._row(reference)
        self.is_exhausted = True
        return None

    async def _take_in_turn(self, following: Callable[[], Awaitable[str]]) -> Row | None:
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

    def _row(self, reference: str) -> Row:
        row = Row(self._count, reference)
        self._count += 1
        return row


class _Run:
    """The workers of one stream, and the iterator over what they bring."""

    def __init__(
        self, lookup: Lookup, references: References, concurrency: int, stall_timeout: float, deferral: Deferral
    ) -> None:
        self._lookup = lookup
        self._source = _Source(references)
        self._concurrency = concurrency
        self._stall_timeout = stall_timeout
        self._deferral = deferral
        self._deferred: list[tuple[float, int, Row]] = []
        self._results: asyncio.Queue[Outcome | object] = asyncio.Queue(maxsize=concurrency)
        self._workers: set[asyncio.Task[None]] = set()
        self._started = 0
        self._asking = 0
        self._asleep = 0
        self._busy_since = 0.0
        self._known: str | None = None
        self._last_error: PayClientError | None = None
        self._failure: BaseException | None = None
        self._clock = Clock(asyncio.get_running_loop())
        self._is_draining = False
        self._is_over = False
        self._is_stopping = False

    # What the caller sees

    def __aiter__(self) -> _Run:
        return self

    async def __anext__(self) -> Outcome:
        if self._is_over:
            raise StopAsyncIteration
        item = await self._receive()
        if isinstance(item, Found | Failed):
            return item
        self._is_over = True
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    async def _receive(self) -> Outcome | object:
        if not self._results.empty():
            return self._results.get_nowait()
        waiting_since = self._clock.now()
        while not self._is_done():
            stalls_at = max(waiting_since, self._busy_since) + self._stall_timeout
            with Alarm(self._clock, stalls_at):
                return await self._results.get()
            if not self._is_busy():
                waiting_since = self._clock.now()  # the source has nothing to ask, as it may
            elif self._busy_since + self._stall_timeout <= stalls_at:  # and not busy again only just now
                self._failure = self._stalled()
                break
        return _END

    def _is_busy(self) -> bool:
        return bool(self._asking or self._asleep or self._deferred)

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

    def start(self) -> None:
        """Begin with one worker; once the service was reached, each that finds work brings the next."""
        self._started += 1
        self._begin(self._work())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        worker = asyncio.create_task(work, name=f"payclient-stream-{self._started}")
        self._workers.add(worker)
        worker.add_done_callback(self._settle)

    async def stop(self) -> None:
        """End every worker, even when this is interrupted."""
        self._is_over = self._is_stopping = True
        for worker in self._workers:
            worker.cancel()
        interruption: asyncio.CancelledError | None = None
        while self._workers:
            try:
                await asyncio.wait(self._workers)
            except asyncio.CancelledError as error:
                interruption = error
            # The set empties in callbacks, which run after this wake-up.
            await asyncio.sleep(0)
        self._clock.rest()
        if interruption is not None:
            raise interruption

    def _settle(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if self._is_stopping:
            return
        if worker.cancelled():
            message = "a lookup of the stream was cancelled from outside"
            self._fail(RuntimeError(message))
        elif (error := worker.exception()) is not None:
            self._fail(error)  # the caller's own: in the references, or in the lookup function
        self._wake_at_end()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._is_draining = True

    def _wake_at_end(self) -> None:
        # With a full queue nobody is waiting, and whoever comes next will see that it is done.
        if self._is_done() and not self._results.full():
            self._results.put_nowait(_END)

    async def _work(self) -> None:
        while (row := await self._next_row()) is not None:
            if self._started < self._concurrency and not (self._is_draining or self._deferral.is_one_enough):
                self.start()
            await self._work_on(row)

    async def _work_on(self, row: Row) -> None:
        self._asking += 1
        try:
            outcome = await self._ask(row)
            if outcome is not None:
                await self._results.put(outcome)
        finally:
            self._asking -= 1
        self._wake_at_end()

    async def _next_row(self) -> Row | None:
        while not self._is_draining:
            now = self._clock.now()
            is_due = bool(self._deferred) and self._deferred[0][0] <= now
            if not is_due and len(self._deferred) < self._concurrency * _DEFERRED_PER_WORKER:
                row = await self._source.take()
                if row is not None:
                    if not self._is_busy():
                        self._busy_since = self._clock.now()
                    return row  # also when draining began meanwhile: it has been taken out of the input
            if not self._deferred:
                return None
            due, _, row = heappop(self._deferred)
            self._asleep += 1  # the row is nowhere else while its worker sleeps
            try:
                await asyncio.sleep(due - now)
            finally:
                self._asleep -= 1
            if not self._is_draining:
                return row
        return None

    async def _ask(self, row: Row) -> Outcome | None:
        row.witness = self._deferral.answers
        try:
            transaction = await self._lookup(row.reference)
        except PayClientError as error:
            await self._call_witness(row, error)
            return self._judge(row, error)
        self._deferral.succeed()
        self._known = row.reference
        return Found(row.reference, transaction, index=row.index)

    async def _call_witness(self, row: Row, error: PayClientError) -> None:
        """
        Ask for a reference that is known to exist, when no other row is there to show who is to blame.

        Without it, one bad row at the end of the input, or before a gap in it, would look like an outage.
        """
        is_dry = self._source.is_exhausted or self._source.is_awaited
        is_alone = is_dry and self._deferral.answers == row.witness
        if not (is_alone and self._known is not None and judge(error).is_passing):
            return
        with suppress(PayClientError):  # the row's own error is the one to tell of
            await self._lookup(self._known)
            self._deferral.succeed()

    def _judge(self, row: Row, error: PayClientError) -> Failed | None:
        self._last_error = error
        ruling = self._deferral.rule(row, error)
        if ruling.fate is Fate.FINAL:
            return Failed(row.reference, error, index=row.index)
        if ruling.fate is Fate.FATAL:
            self._fail(error)
        else:
            due = self._clock.now() + ruling.wait
            heappush(self._deferred, (due, row.index, row))
            self._clock.loop.call_at(due, self._help, due)
        return None

    def _help(self, due: float) -> None:
        """Bring one more worker for a row that is due: the others may all be waiting for the input."""
        if self._source.is_awaited and self._asking < self._concurrency and not self._is_stopping:
            self._begin(self._work_on_what_is_due(due))

    async def _work_on_what_is_due(self, due: float) -> None:
        # Also on what comes due meanwhile, for which there may have been no place.
        while self._deferred and self._deferred[0][0] <= max(due, self._clock.now()) and not self._is_draining:
            await self._work_on(heappop(self._deferred)[2])
        if self._source.is_exhausted:  # by now, so that the others may have gone, and the row may be deferred again
            await self._work()
