"""
Batches of references on their way through one stream of lookups, in order, several at a time.

Design rules:

- The source is read, and batches are given back, in the caller's thread; lookups run in the resident's. Whole batches
  go from one to the other, never single rows.
- Lookups do not stop at the edge of a batch: the next batch is taken while the slow rows of the last are under way.
- A reference is asked once, however many rows and batches of the window have it.
- The consumer's pace is the pace of everything: what is held is bounded, and nothing is taken unless it is asked for.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import define, field, frozen

from payclient._models import Found, Outcome
from payclient._telemetry import Attempt
from payclient.engines._resident import Resident
from payclient.errors import (
    ClientClosedError,
    ConfigurationError,
    InvalidReferenceError,
    TransactionNotFoundError,
)

_HELD_WINDOWS = 4
"""So many windows of rows are held when the first batch waits for a slow row and those behind it are answered."""

_Payload = TypeVar("_Payload")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@frozen
class Result:
    """
    How asking for one reference ended.

    Attributes:
        outcome: What was found, or why nothing was.
        status_code: Of the last attempt; None when it got no answer, or there was none.
        attempts: HTTP exchanges so far, those of earlier passes included.
        observed_at: When it ended, in UTC; None when nothing could be asked.
    """

    outcome: Outcome
    status_code: int | None
    attempts: int
    observed_at: datetime | None


@define(eq=False)
class Batch(Generic[_Payload]):
    """
    Rows that come and go together.

    Attributes:
        payload: Whatever its owner wants back with the results.
        rows: How many there are.
        references: What to ask for, each once.
        entries: The ledger's rows, by reference; nothing where nothing is compared.
        first: By reference, what `Digest` made of the result.
        second: The same of asking again, where that was done.
    """

    payload: _Payload
    rows: int
    references: Sequence[str]
    entries: Mapping[str, Sequence[Any]] = field(factory=dict[str, Sequence[Any]])
    first: dict[str, Any] = field(init=False, factory=dict)
    second: dict[str, Any] = field(init=False, factory=dict)

    @property
    def is_answered(self) -> bool:
        """Whether every reference has its result."""
        return len(self.first) == len(self.references)


Digest: TypeAlias = Callable[[Outcome, int | None, int, datetime | None], Any]
"""Makes of what a `Result` holds that which is kept until the batch is answered; the less, the better."""

IsDoubtful: TypeAlias = Callable[[Any, Any], bool]
"""Says of a ledger's row and of what `Digest` made of a first result whether to ask again."""


class _Question:
    """One reference under way."""

    __slots__ = ("attempts", "batches", "first", "status_code")

    def __init__(self, batch: Batch[Any]) -> None:
        self.batches = [batch]
        self.first: Any = None
        self.attempts = 0
        self.status_code: int | None = None


class _Feed:
    """The references that no worker of the stream has taken yet; used in the event loop only."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._news = asyncio.Event()
        self._is_over = False

    def __aiter__(self) -> _Feed:
        return self

    async def __anext__(self) -> str:
        while not self._waiting:
            if self._is_over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()

    def add(self, references: Iterable[str]) -> None:
        self._waiting.extend(references)
        self._news.set()

    def end(self) -> None:
        self._is_over = True
        self._news.set()


class Window:
    """
    One pass over a source of batches.

    Args:
        resident: Whose client asks.
        rows: References under way below which the next batch is taken.
        stall_timeout: Seconds without any answer after which it ends.
        digest: Called in the resident's thread with each result.
        is_doubtful: Whether a first result is to be seen twice; never, if not given.
        canary: A reference that has to be found before anything else is asked.
        clock: Tells the time of each result; aware, in UTC.
    """

    def __init__(
        self,
        resident: Resident,
        *,
        rows: int,
        stall_timeout: float = 900.0,
        digest: Digest = Result,
        is_doubtful: IsDoubtful | None = None,
        canary: str | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._resident = resident
        self._client = resident.client.with_options(on_attempt=self._note)
        self._rows = rows
        self._stall_timeout = stall_timeout
        self._digest = digest
        self._is_doubtful = is_doubtful
        self._canary = canary
        self._clock = clock
        self._process = os.getpid()
        # Of the caller's thread.
        self._held: deque[Batch[Any]] = deque()
        self._held_rows = 0
        self._largest = 0
        self._taken = 0
        self._wants_more = False
        # Written by the event loop's thread, read by the caller's.
        self._answered = 0
        self._failure: BaseException | None = None
        self._changed = threading.Event()
        self._is_over = threading.Event()
        self.found = 0
        """How many references were found so far."""
        # Of the event loop's thread.
        self._questions: dict[str, _Question] = {}
        self._feed = _Feed()
        self._is_finished = False
        self._task: asyncio.Task[None] | None = None

    # The caller's thread

    def through(self, batches: Iterator[Batch[_Payload]]) -> Generator[Batch[_Payload]]:
        """
        Ask for all that *batches* hold, and give each back when it is answered.

        Shape:
            In the order of *batches*, which is read in the thread that reads this, and not much further ahead than the
            window. Leaving early ends every lookup under way.

        Raises:
            PayClientError: When no other lookup could succeed either; what was answered before is given first.
        """
        self._resident.loop.call_soon_threadsafe(self._start)
        try:
            yield from self._flow(batches)
        finally:
            self._end()

    def _flow(self, batches: Iterator[Batch[_Payload]]) -> Generator[Batch[_Payload]]:
        is_more = True
        while is_more or self._held:
            self._changed.clear()  # before looking, so that nothing that changes meanwhile is missed
            is_broken = self._is_over.is_set() or self._process != os.getpid()
            self._wants_more = is_more and not is_broken and self._held_rows < self._most_held()
            if self._wants_more and self._is_low():
                batch = next(batches, None)
                is_more = batch is not None
                self._take(batch)
            elif self._held and self._held[0].is_answered:
                batch = self._held.popleft()
                self._held_rows -= max(1, batch.rows)
                yield batch
            elif is_broken:
                raise self._why()
            else:
                self._changed.wait()

    def _most_held(self) -> int:
        return max(self._rows * _HELD_WINDOWS, 2 * self._largest)

    def _is_low(self) -> bool:
        return self._taken - self._answered < self._rows

    def _take(self, batch: Batch[Any] | None) -> None:
        if batch is None:
            self._call(self._finish)
            return
        rows = max(1, batch.rows)
        self._largest = max(self._largest, rows)
        self._held_rows += rows
        self._taken += len(batch.references)
        self._held.append(batch)
        if batch.references:
            self._call(self._accept, batch)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have *function* called in the event loop, unless the end has come there."""
        if not self._is_over.is_set():
            self._resident.loop.call_soon_threadsafe(function, *arguments)

    def _why(self) -> BaseException:
        if self._process != os.getpid():
            return ClientClosedError("these batches are read in another process; begin with them after the fork")
        return self._failure or ClientClosedError("the lookups were ended, because their process ends")

    def _end(self) -> None:
        if self._process == os.getpid() and not self._is_over.is_set():
            self._call(self._cancel)
            if not self._resident.is_this_thread:  # where the garbage collector may end a forgotten generator
                self._is_over.wait()

    # The event loop's thread

    def _start(self) -> None:
        self._task = self._resident.loop.create_task(self._ask(), name="payclient-window")
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _settle(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._failure = task.exception()
        self._is_over.set()
        self._changed.set()

    def _accept(self, batch: Batch[Any]) -> None:
        fresh: list[str] = []
        for reference in batch.references:
            question = self._questions.get(reference)
            if question is None:
                self._questions[reference] = _Question(batch)
                fresh.append(reference)
            else:
                question.batches.append(batch)
        self._feed.add(fresh)

    def _finish(self) -> None:
        self._is_finished = True
        self._end_feed()

    def _end_feed(self) -> None:
        # What is to be asked again comes back to the feed, so that it cannot end before the last answer.
        if self._is_finished and not (self._is_doubtful and self._questions):
            self._feed.end()

    async def _ask(self) -> None:
        if self._canary is not None:
            await self._ask_canary(self._canary)
        async with self._client.stream_transactions(self._feed, stall_timeout=self._stall_timeout) as outcomes:
            async for outcome in outcomes:
                self._note_outcome(outcome)

    async def _ask_canary(self, canary: str) -> None:
        async with self._client.stream_transactions([canary], stall_timeout=self._stall_timeout) as outcomes:
            async for outcome in outcomes:
                self.found += isinstance(outcome, Found)
                if not isinstance(outcome, Found) and isinstance(outcome.error, TransactionNotFoundError):
                    message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                    raise ConfigurationError(message) from outcome.error

    def _note(self, attempt: Attempt) -> None:
        question = self._questions.get(attempt.reference)
        if question is not None:
            question.attempts += 1
            question.status_code = attempt.status

    def _note_outcome(self, outcome: Outcome) -> None:
        reference = outcome.reference
        question = self._questions[reference]
        result = self._result(question, outcome)
        if self._is_doubted(question, reference, result):
            question.first = result
            self._feed.add((reference,))
            return
        del self._questions[reference]
        is_complete = False
        for batch in question.batches:
            if question.first is not None:
                batch.second[reference] = result
            batch.first[reference] = result if question.first is None else question.first
            is_complete = is_complete or batch.is_answered
        self._answered += len(question.batches)
        if is_complete or (self._wants_more and self._is_low() and not self._changed.is_set()):
            self._changed.set()
        if self._is_finished:
            self._end_feed()

    def _result(self, question: _Question, outcome: Outcome) -> Any:
        if isinstance(outcome, Found):
            self.found += 1
        elif isinstance(outcome.error, InvalidReferenceError):
            return self._digest(outcome, None, 0, None)
        return self._digest(outcome, question.status_code, question.attempts, self._clock())

    def _is_doubted(self, question: _Question, reference: str, result: Any) -> bool:
        is_doubtful = self._is_doubtful
        if is_doubtful is None or question.first is not None:
            return False
        return any(is_doubtful(entry, result) for batch in question.batches for entry in batch.entries[reference])
