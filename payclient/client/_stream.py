"""
Look up many references through one function: bounded, lazy and safe to cancel.

Design rules:

- A worker takes the next reference only when it has finished the last one, and fewer outcomes are unread than there
  are workers. So memory and look-ahead depend on the concurrency, not on the input.
- Rows that wait for a later pass are bounded too (backpressure): above the bound, no new row is taken.
- Deferred rows do not wait for the input: they are retried even while the input yields nothing. A row waits for the
  input only if no answer has arrived since it failed. Otherwise rows that always fail would delay all others.
- All workers end before the block does, even if the block is cancelled repeatedly.
- A stream is read only inside its block. Reading after it raises.
- A transient failure is final only after several failed passes, if the service answered other lookups in each. During
  an outage, no row is to blame.
- A failure that every reference would have ends the stream once, instead of failing every row.
- A redirect, or a 404 of another program, is about its row, wherever the row stands. It means a wrong address only if
  the stream begins with three of them, or if twenty follow each other.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from enum import Enum
from heapq import heappop, heappush
from math import inf
from typing import Any, ClassVar, Final, NoReturn, Self, TypeAlias

from attrs import Factory, define, field

from payclient import errors
from payclient._shared.options import STALL_TIMEOUT
from payclient._shared.until_done import until_done
from payclient.client.policies import Clock, Signal, Timeout, classify, pause_of
from payclient.protocol import Failed, Found, Outcome, Transaction

LookupFunction: TypeAlias = Callable[[str], Awaitable[Transaction]]
References: TypeAlias = Iterable[str] | AsyncIterable[str]

# Not an argument: between a stream and its client stands a function of one reference, often the caller's own around
# `get_transaction`, which could not pass it on.
in_bulk: Final = ContextVar("payclient_in_bulk", default=False)
"""Whether a lookup is a row that waits out an outage: if it were rejected, it would only be asked again later."""

_ALONE = 5.0  # seconds without an outcome until another row is tried: one bad reference blocks no other
_DEFERRED_PER_WORKER = 16
PASSES: int = 4
_FIRST_WAIT = 5.0
_OUTAGE_WAIT = 10.0
_MAX_REFUSED_IN_A_ROW = 20  # without a response between them
_MAX_UNREACHED = 3
"""After this many failures without a connection, a key or an answer, the address or the key source is wrong."""


class Disposition(Enum):
    """Whether a failure is final for its row or for the whole stream."""

    FINAL = "final"
    FATAL = "fatal"


@define
class PendingRow:
    """One reference of the stream, without an outcome so far."""

    index: int
    reference: str
    failed_passes: int = 0  # passes where other lookups were answered
    answers_when_sent: int = 0  # answers to the stream by then
    error: errors.PayClientError | None = None  # the last pass's


@define(kw_only=True)
class Deferral:
    """Decides about the failures of one stream."""

    is_on: bool
    max_pause: float  # seconds. A longer one ends the stream
    random: Callable[[], float]
    malformed_passes: int = PASSES
    is_reached: bool = field(default=False, alias="was_reached")  # the service, by this stream or an earlier one
    _refused_in_a_row: int = field(default=0, init=False)
    _unreached: int = field(default=0, init=False)
    answers: int = field(default=0, init=False)

    def succeed(self) -> None:
        self.answers += 1
        self._refused_in_a_row = 0
        self.is_reached = True

    def passes(self, error: errors.PayClientError) -> int:
        """Return the number of failed passes that make *error* final."""
        is_malformed = isinstance(error, errors.UnexpectedResponseError) and error.is_about_reference
        return self.malformed_passes if is_malformed else PASSES

    def decide(self, row: PendingRow, error: errors.PayClientError, *, longest: float = inf) -> Disposition | float:
        verdict, is_temporary, is_elsewhere = classify(error), is_passing(error), _is_elsewhere(error)
        if verdict.signal is Signal.ACCEPTED:
            self.succeed()
        if (verdict.is_fatal and not is_temporary) or self._is_hopeless(error, is_elsewhere=is_elsewhere):
            return Disposition.FATAL
        if not (self.is_on and is_temporary):
            return Disposition.FINAL
        # Another program's answers are not an outage of the service, once the service is reached.
        if self.answers == row.answers_when_sent and not (self.is_reached and is_elsewhere):
            wait = _OUTAGE_WAIT
        else:
            row.failed_passes += 1
            if row.failed_passes >= self.passes(error):
                return Disposition.FINAL
            wait = min(_FIRST_WAIT * 4.0 ** (row.failed_passes - 1), max(_FIRST_WAIT, longest))
        return max(pause_of(error), wait * (0.5 + self.random()))

    def _is_hopeless(self, error: errors.PayClientError, *, is_elsewhere: bool) -> bool:
        is_refused = is_elsewhere or isinstance(error, errors.PermissionDeniedError)
        self._refused_in_a_row = self._refused_in_a_row + 1 if is_refused else 0
        last = error.__cause__ if isinstance(error, errors.DeadlineExceededError) else error
        is_unsent = isinstance(last, errors.TransportError) and last.sent == "no"
        is_keyless = isinstance(error, errors.KeySourceError) and not error.attempts
        if is_elsewhere or is_keyless or (is_unsent and isinstance(error, errors.ConnectionFailedError)):
            self._unreached += 1
        elif isinstance(last, errors.PayClientError) and not is_unsent:
            self.is_reached = True  # from now on, failures are an outage, not a wrong address or source
        is_never_reached = self._unreached >= _MAX_UNREACHED and not self.is_reached
        is_pause_too_long = isinstance(error, errors.RateLimitedError) and pause_of(error) > self.max_pause
        return is_never_reached or is_pause_too_long or self._refused_in_a_row >= _MAX_REFUSED_IN_A_ROW


def is_passing(error: errors.PayClientError) -> bool:
    return error.is_retryable or _is_elsewhere(error)


def _is_elsewhere(error: errors.PayClientError) -> bool:
    """Return whether *error* is a response that suggests a wrong address."""
    return isinstance(error, errors.UnexpectedResponseError) and classify(error).is_fatal


def stream(
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
) -> "Stream":
    """Look up *references*, and give the outcomes in order of completion, in a block."""
    deferral = Deferral(
        is_on=defer, max_pause=stall_timeout, random=random, malformed_passes=malformed_passes, was_reached=was_reached
    )
    source = aiter(references) if isinstance(references, AsyncIterable) else iter(references)
    return Stream(lookup, source, concurrency, stall_timeout, deferral, known)


@define(eq=False, repr=False)
class Stream:
    """The workers of one stream, its block, and the iterator over their outcomes, for any number of readers."""

    # A row is in one place at a time: in the input, read from an async input (`_following`), with a worker
    # (`_asking`), in `_deferred`, or in `_ready`.
    # One of the workers without a row has the turn: it waits for the input and for the first deferred row at the same
    # time, and the others wait for the turn. A worker that gets a row starts another one, once the service has been
    # reached. A worker ends when the input is exhausted and no row is deferred, or when nothing new is begun.
    # Outcomes that are ready are read first, then the failure is raised, once, and then the iteration ends. Each reader
    # that finds nothing waits for `_wakeup`, and looks again.

    _lookup: LookupFunction
    _source: AsyncIterator[str] | Iterable[str]  # an iterator in either case
    _concurrency: int
    _stall_timeout: float
    _deferral: Deferral
    _known: str | None
    _clock: Clock = field(factory=lambda: Clock(asyncio.get_running_loop()), init=False)
    _ready: deque[Outcome] = field(init=False, factory=deque)
    _tasks: dict[asyncio.Task[None], None] = field(init=False, factory=dict)  # ordered by start
    _wakeup: asyncio.Event = field(init=False, factory=asyncio.Event)
    _failure: BaseException | None = field(init=False, default=None)
    _reader: asyncio.Task[Any] | None = field(init=False, default=None)  # the worker that has seen the end
    _is_ending: bool = field(init=False, default=False)  # nothing new is begun
    _is_stopping: bool = field(init=False, default=False)  # the block has ended
    _turn: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _news: asyncio.Event = field(factory=asyncio.Event, init=False)  # wakes the worker that reads next
    _room: asyncio.Event = field(factory=asyncio.Event, init=False)  # set while unread outcomes fit
    _wanted: asyncio.Event = field(factory=asyncio.Event, init=False)
    _following: PendingRow | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)
    _deferred: list[tuple[float, int, PendingRow]] = field(factory=list, init=False)  # a heap, by the time when due
    _started: int = field(default=0, init=False)
    _asking: dict[int, PendingRow] = field(factory=dict, init=False)  # keys are indexes
    _began: float = field(default=Factory(lambda self: self._clock.now(), takes_self=True), init=False)
    _ended_at: float = field(default=0.0, init=False)  # the last row with an outcome
    _busy_since: float = field(default=0.0, init=False)
    _is_reading: bool = field(default=False, init=False)  # waits for the next reference of an async input
    _is_exhausted: bool = field(default=False, init=False)

    # The reader

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all tasks and readers, even if this is cancelled repeatedly."""
        self._is_stopping = True
        try:
            await until_done(self.close(None))
        finally:
            self._ready.clear()
            self._deferred.clear()
            self._clock.cancel(self)
            self._clock.stop()
            self._wakeup.set()

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("read a stream in its block: `async with client.stream_transactions(...) as outcomes:`")

    __iter__: ClassVar[Callable[..., NoReturn]] = _refuse
    __next__: ClassVar[Callable[..., NoReturn]] = _refuse
    __enter__: ClassVar[Callable[..., NoReturn]] = _refuse
    __exit__: ClassVar[Callable[..., NoReturn]] = _refuse
    __await__: ClassVar[Callable[..., NoReturn]] = _refuse

    def __aiter__(self) -> Self:
        if not self._started:
            self._refuse()
        if self._reader is not None and self._reader is asyncio.current_task():  # other tasks may read the rest
            raise RuntimeError("this stream has been read to its end: open another one")
        return self

    async def __anext__(self) -> Outcome:
        if not self._started:
            self._refuse()
        since = self._clock.now()
        while not self._is_stopping:
            if self._ready:
                outcome = self._ready.popleft()
                if len(self._ready) < self._concurrency:
                    self._room.set()
                return outcome
            if self._is_done():
                failure, self._failure = self._failure, None
                self._reader = self._reader if failure else asyncio.current_task()
                raise failure or StopAsyncIteration
            self._wakeup.clear()
            since = await self._wait(since)
        message = "the block of this stream has ended: read its outcomes inside the block"
        raise RuntimeError(message)

    def close(self, failure: errors.ClientClosedError | None) -> Collection[asyncio.Task[None]]:
        """Cancel all tasks, and return them. What is ready can still be read, before *failure*."""
        self._end(failure)
        for task in self._tasks:
            task.cancel()
        return self._tasks

    def _is_done(self) -> bool:
        # At the end, workers that only wait, for a reference or for a later pass, do not count.
        return not self._tasks or (self._is_ending and not self._asking)

    async def _wait(self, since: float) -> float:
        """Wait for a wake-up. Return since when the reader has been waiting in vain."""
        stalls_at = max(since, self._busy_since) + self._stall_timeout
        with Timeout(self._clock, stalls_at):
            await self._wakeup.wait()
            return since
        if not self._is_busy():
            return self._clock.now()  # the source may have to wait for its next reference
        if self._busy_since + self._stall_timeout <= stalls_at:  # unless it became busy only just now
            message = (
                f"no lookup succeeded for {self._stall_timeout:g} s: "
                "the references without an outcome can be asked for again"
            )
            rows = self._asking | {row.index: row for *_, row in self._deferred}
            stalled = errors.DeadlineExceededError(message)
            stalled.__cause__ = next((row.error for row in rows.values() if row.error), None)
            self._ready += (Failed(rows[n].reference, rows[n].error or stalled, index=n) for n in sorted(rows))
            self._asking.clear()
            self._deferred.clear()
            self._end(stalled)
        return since

    def _is_busy(self) -> bool:
        return bool(self._asking or self._deferred)

    # The workers

    def start(self) -> None:
        self._started += 1
        self._begin(self._work(), f"payclient-stream-{self._started}")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        # Not by the loop's factory: an eager one would begin each worker inside the previous one.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), name=name)
        self._tasks[task] = None
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        cancelled = RuntimeError("a lookup of the stream was cancelled from outside") if task.cancelled() else None
        if error := cancelled or task.exception():  # read in any case, or asyncio logs it
            self._end(error)  # raised by the caller's code, such as its references
        if self._is_done():
            self._wakeup.set()

    def _end(self, failure: BaseException | None) -> None:
        """Begin nothing new. Only the first failure counts."""
        if not self._is_ending:
            self._is_ending, self._failure = True, failure
            self._wakeup.set()

    async def _work(self) -> None:
        while (row := await self._next_row()) is not None and not self._is_stopping:
            if self._deferral.is_on and not self._deferral.is_reached:
                self._clock.schedule(self, self._clock.now() + _ALONE)
            else:
                self.fire()
            self._asking[row.index] = row
            try:
                outcome = await self._ask(row)
            finally:
                is_asked = self._asking.pop(row.index, None) is not None  # otherwise the stream has given up on it
            # The lookup may have suppressed the cancellation.
            if outcome is not None and is_asked and not self._is_stopping:
                self._ready.append(outcome)
            if outcome is not None or self._is_ending:
                self._wakeup.set()
            while len(self._ready) >= self._concurrency:
                self._room.clear()
                await self._room.wait()

    def fire(self) -> None:
        """Start one more worker: before the service is reached, only if nothing was heard for some seconds."""
        if self._started < self._concurrency and not self._is_ending:
            self.start()

    async def _next_row(self) -> PendingRow | None:
        async with self._turn:
            while (row := self._due(has_news=True) or self._read() or self._due()) is None:
                if self._is_ending or (self._is_exhausted and not self._deferred):
                    return None
                self._news.clear()
                with Timeout(self._clock, self._deferred[0][0]) if self._deferred else nullcontext():
                    await self._news.wait()
        return row

    def _due(self, *, has_news: bool = False) -> PendingRow | None:
        """Return the first row that is due. With *has_news*, only if another row was answered since it was sent."""
        is_due = self._deferred and self._deferred[0][0] <= self._clock.now() and not self._is_ending
        if not is_due or (has_news and self._deferral.answers == self._deferred[0][2].answers_when_sent):
            return None
        return heappop(self._deferred)[2]

    def _read(self) -> PendingRow | None:
        """Return the next row of the input if it is there. If the input is async, begin to wait for it."""
        row, self._following = self._following, None  # it has been taken out of the input, even if all is ending
        is_full = len(self._deferred) >= self._concurrency * _DEFERRED_PER_WORKER
        if row is None and not (self._is_ending or self._is_exhausted or is_full):
            if isinstance(self._source, AsyncIterator):
                if self._count == 0 and not self._is_reading:
                    self._begin(self._read_on(self._source), "payclient-stream-input")
                self._is_reading = True
                self._wanted.set()
                return None
            row = next(map(self._row, self._source), None)
            self._is_exhausted = row is None
        if row is not None and not self._is_busy():
            self._busy_since = self._clock.now()
        return row

    async def _read_on(self, source: AsyncIterator[str]) -> None:
        async for reference in source:
            self._following, self._is_reading = self._row(reference), False
            self._news.set()
            self._wanted.clear()
            await self._wanted.wait()
        self._is_exhausted, self._is_reading = True, False
        self._news.set()

    def _row(self, reference: str) -> PendingRow:
        self._count += 1
        return PendingRow(self._count - 1, reference)

    async def _ask(self, row: PendingRow) -> Outcome | None:
        row.answers_when_sent = self._deferral.answers
        try:
            transaction = await self._in_bulk(row.reference)
        except errors.PayClientError as error:
            await self._ask_known(row, error)
            return self._judge(row, error)
        self._deferral.succeed()
        self._known, self._ended_at = row.reference, self._clock.now()
        return Found(row.reference, transaction, index=row.index)

    async def _in_bulk(self, reference: str) -> Transaction:
        # Not for the whole worker, which also reads the input: tasks that the input starts are not rows.
        token = in_bulk.set(self._deferral.is_on or in_bulk.get())
        try:
            return await self._lookup(reference)
        finally:
            in_bulk.reset(token)

    async def _ask_known(self, row: PendingRow, error: errors.PayClientError) -> None:
        """Look up a known-good reference if no other row can show whether the service answers, or has been reached."""
        # Otherwise a bad row would look like an outage if it is the last one, stands before a gap in the input or
        # delays it, and bad first rows would look like a wrong address. A row with a single pass is not retried to find
        # out.
        is_due = bool(self._deferred) and self._deferred[0][0] <= self._clock.now()
        is_held_up = is_due or len(self._deferred) + len(self._asking) >= self._concurrency * _DEFERRED_PER_WORKER
        is_dry = self._is_exhausted or self._is_reading or is_held_up or self._deferral.passes(error) == 1
        is_alone = is_dry and self._deferral.answers == row.answers_when_sent
        is_unclear = is_alone or not self._deferral.is_reached
        if not (is_unclear and self._known is not None and is_passing(error)):
            return
        with suppress(errors.PayClientError):  # the row's own error is reported instead
            await self._in_bulk(self._known)
            self._deferral.succeed()

    def _judge(self, row: PendingRow, error: errors.PayClientError) -> Failed | None:
        row.error = error
        # At the end of the input, a last row waits at most as long as all others took.
        longest = self._ended_at - self._began if self._is_exhausted else inf
        decision = self._deferral.decide(row, error, longest=longest)
        if decision is Disposition.FINAL:
            self._ended_at = self._clock.now()
            return Failed(row.reference, error, index=row.index)
        if decision is Disposition.FATAL:
            self._end(error)
        else:
            heappush(self._deferred, (self._clock.now() + decision, row.index, row))
            self._news.set()
        return None
