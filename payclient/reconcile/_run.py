"""
Reconcile a ledger with what a lookup function answers.

Phases, one after the other: read the whole ledger; ask for each reference; ask again for each that
differed; judge every row. No lookup is under way when a row is given, so leaving early leaves nothing behind.
With a journal that an earlier run has begun, each phase goes on where that one ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import TypeAlias

from attrs import define, field

from payclient._models import Found, Outcome, Transaction
from payclient._stream import Lookup, stream
from payclient.errors import (
    ConfigurationError,
    InvalidReferenceError,
    PayClientError,
    TransactionNotFoundError,
)
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.reconcile._errors import StoppedError
from payclient.reconcile._journal import Journal, Look
from payclient.reconcile._judge import judge, needs_confirmation
from payclient.reconcile._observation import Answer, Observation, failure
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._question import Question
from payclient.reconcile._row import Row
from payclient.reconcile._rules import STRICT, Rules
from payclient.reconcile._status import Status

Entries: TypeAlias = Iterable[Entry | RejectedEntry] | AsyncIterable[Entry | RejectedEntry]

_ROWS_PER_TURN = 200
"""After so many rows without waiting for anything, the rest of the event loop gets its turn."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def reconcile(
    entries: Entries,
    lookup: Lookup,
    *,
    concurrency: int = 50,
    journal: Journal | None = None,
    canary: str | None = None,
    rules: Rules = STRICT,
    stall_timeout: float = 900.0,
    stop: asyncio.Event | None = None,
    clock: Callable[[], datetime] = _utc_now,
    on_progress: OnProgress | None = None,
) -> AsyncGenerator[Row, None]:
    """
    Compare each ledger entry with what the service says about its reference.

    Args:
        entries: The ledger; read once, completely, before anything is asked.
        lookup: Asks for one reference, such as `client.get_transaction`; raises a `PayClientError`
            when it cannot.
        concurrency: Lookups under way at once.
        journal: Keeps what is known; with one on disk, an interrupted run is gone on with by calling this again
            with the same entries.
        canary: A reference that is known to exist. It is asked first, and that it is found is what
            makes "not found" credible when nothing else is found.
        rules: How differences are judged.
        stall_timeout: Seconds without any answer after which the run ends.
        stop: When it is set, nothing more is asked; what is under way is finished, and the run ends.
        clock: Tells the time of each answer; aware.
        on_progress: Gets a snapshot after each answer, and now and then between.

    Shape:
        One row per entry, in the order of the ledger, each final. A reference is asked once however
        many rows have it, and a second time when it differs. Rows wait in the journal, or else in a temporary
        database, so memory does not grow with the ledger; `Transaction.raw` is not kept.

    Raises:
        PayClientError: After the last row, when the run ended early because no other lookup could
            succeed. Rows that were not asked, or not confirmed, are unresolved then.
        ConfigurationError: In the same way, when the canary is not found.
        StoppedError: When *stop* was set.
        JournalError: When the journal began with other entries.
        JournalWriteError: When the journal cannot be written, at once; it can be gone on with later.
    """
    with Journal() if journal is None else nullcontext(journal) as kept:
        run = _Run(kept, lookup, concurrency, stall_timeout, rules, stop, clock, on_progress)
        await run.read(entries)
        if kept.count_references():
            await run.ask(canary)
        total = kept.rows
        for row in replay(kept, rules=rules):
            yield row
            if run.is_turn_over():
                await run.give_way(Phase.JUDGING, total)
        if run.ended_by is not None:
            raise run.ended_by


def replay(journal: Journal, *, rules: Rules = STRICT, reference: str | None = None) -> Iterator[Row]:
    """
    Judge every row of a journal again, without asking anybody.

    Args:
        journal: Of a run that has read its whole ledger; rows that it did not ask for are unresolved.
        rules: How differences are judged.
        reference: Only the rows that have it.

    Shape:
        In the order of the ledger, lazily; the same rows each time.
    """
    return (judge(case, rules=rules) for case in journal.cases(reference))


@define
class _Run:
    """One reconciliation under way."""

    _journal: Journal
    _lookup: Lookup
    _concurrency: int
    _stall_timeout: float
    _rules: Rules
    _stop: asyncio.Event | None
    _clock: Callable[[], datetime]
    _on_progress: OnProgress | None
    _questions: dict[str, Question] = field(init=False, factory=dict)
    _look: Look = field(init=False, default=0)
    _done: int = field(init=False, default=0)
    _unresolved: int = field(init=False, default=0)
    _differences: int = field(init=False, default=0)
    _differences_amount: int = field(init=False, default=0)
    _is_canary_found: bool = field(init=False, default=False)
    ended_by: PayClientError | None = field(init=False, default=None)

    # Read

    async def read(self, entries: Entries) -> None:
        """Take the whole ledger into the journal."""
        self._journal.begin_ledger()
        if isinstance(entries, AsyncIterable):
            async for entry in entries:
                self._journal.add(entry)
                if self.is_turn_over():
                    await self.give_way(Phase.READING, None)
        else:
            for entry in entries:
                self._journal.add(entry)
                if self.is_turn_over():
                    await self.give_way(Phase.READING, None)
        self._journal.finish_ledger()
        self._tell(Phase.READING, self._done)

    # Ask

    async def ask(self, canary: str | None) -> None:
        """Ask for everything once, and again for what differs, unless something ends it early."""
        self._journal.forget_failures()
        self._differences, self._differences_amount = self._journal.doubted()
        try:
            if canary is not None:
                await self._ask_canary(canary)
            total = self._journal.count_references()
            await self._ask_all(Phase.ASKING, self._journal.to_ask(), total, total - self._journal.count_to_ask())
            # Two answers that were confirmed can make a third one doubtful, so until there is no doubt.
            while self._has_witness() and (doubted := self._journal.count_to_confirm()):
                await self._ask_all(Phase.CONFIRMING, self._journal.to_confirm(), doubted, 0)
        except StoppedError:
            self._journal.commit()
            raise
        except PayClientError as error:
            self.ended_by = error
        self._begin()
        ended_by = None if self.ended_by is None else failure(self.ended_by, at=self._now())
        self._journal.end(ended_by, is_canary_found=self._is_canary_found)

    def _has_witness(self) -> bool:
        # Where nothing was found, "not found" is not believed, however often it is said.
        return self._is_canary_found or self._journal.count_found() > 0

    async def _ask_canary(self, canary: str) -> None:
        async with self._stream(self._lookup, [canary]) as outcomes:
            async for outcome in outcomes:
                self._is_canary_found = isinstance(outcome, Found)
                if not isinstance(outcome, Found) and isinstance(outcome.error, TransactionNotFoundError):
                    message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                    raise ConfigurationError(message) from outcome.error

    async def _ask_all(self, phase: Phase, questions: Iterator[Question], total: int, done: int) -> None:
        self._begin(done)
        self._tell(phase, total)
        self._look = 0 if phase is Phase.ASKING else 1
        async with self._stream(self._look_up, self._references(questions)) as outcomes:
            async for outcome in outcomes:
                if not isinstance(outcome, Found):
                    self._take(outcome.reference, failure(outcome.error, at=self._now()))
                self._done += 1
                self._tell(phase, total)
        self._journal.commit()

    def _stream(self, lookup: Lookup, references: Iterable[str]) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        return stream(lookup, references, concurrency=self._concurrency, stall_timeout=self._stall_timeout)

    def _references(self, questions: Iterator[Question]) -> Iterator[str]:
        for question in questions:
            self._check_stop()
            self._questions[question.reference] = question
            yield question.reference

    def _check_stop(self) -> None:
        if self._stop is not None and self._stop.is_set():
            message = "the reconciliation was stopped; what was answered is kept"
            raise StoppedError(message)

    async def _look_up(self, reference: str) -> Transaction:
        """Ask, and have the answer in the journal before the worker of the stream goes on."""
        try:
            transaction = await self._lookup(reference)
        except (TransactionNotFoundError, InvalidReferenceError) as error:
            self._take(reference, failure(error, at=self._now()))
            await self._journal.committed()
            raise
        self._take(reference, Observation(answer=Answer.FOUND, at=self._now(), transaction=transaction))
        await self._journal.committed()
        return transaction

    def _take(self, reference: str, observation: Observation) -> None:
        """Note an answer, unless there is one: a stream asks for a reference again to see if the service is there."""
        question = self._questions.pop(reference, None)
        if question is None:
            return
        is_doubted = self._look == 0 and self._is_different(question, observation)
        self._unresolved += observation.answer is Answer.FAILED
        self._journal.add_answer(
            question.position,
            observation,
            look=self._look,
            is_doubted=is_doubted,
            paid_reff=self._paid_reff(observation.transaction),
        )

    def _is_different(self, question: Question, observation: Observation) -> bool:
        if observation.answer in (Answer.FAILED, Answer.UNASKABLE):
            return False
        different = [e for e in question.entries if needs_confirmation(e, observation, rules=self._rules)]
        if not different:
            return False
        self._differences += 1
        self._differences_amount += sum(e.amount for e in different if isinstance(e.amount, int))
        return True

    def _paid_reff(self, transaction: Transaction | None) -> str | None:
        if transaction is None or self._rules.read_status(transaction.status) is not Status.PAID:
            return None
        return transaction.merchant_reff or None

    def _now(self) -> datetime:
        now = self._clock()
        if now.tzinfo is None:
            message = "clock must return an aware datetime, got one without a time zone"
            raise ValueError(message)
        return now if now.tzinfo is UTC else now.astimezone(UTC)

    # Progress

    def _begin(self, done: int = 0) -> None:
        self._done, self._unresolved = done, 0

    def is_turn_over(self) -> bool:
        """Count one row, and say whether others have to run now."""
        self._done += 1
        return self._done % _ROWS_PER_TURN == 0

    async def give_way(self, phase: Phase, total: int | None) -> None:
        """Let others run."""
        self._tell(phase, total)
        self._check_stop()
        await asyncio.sleep(0)

    def _tell(self, phase: Phase, total: int | None) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    phase=phase,
                    done=self._done,
                    total=total,
                    differences=self._differences,
                    differences_amount=self._differences_amount,
                    unresolved=self._unresolved,
                )
            )
