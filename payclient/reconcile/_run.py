"""
Reconcile a ledger against a lookup function.

The phases run one after the other: read the whole ledger, look up each reference, look up each difference a second
time, judge every row. No lookup is in flight when a row is yielded, so a caller may stop iterating at any time.
With the journal of an interrupted run, each phase resumes where that run stopped.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from inspect import signature
from typing import TypeAlias, cast

from attrs import define, field, frozen, setters, validators

from payclient._shared.checks import is_callback, is_count, is_seconds
from payclient._shared.escape import plural, quote
from payclient._shared.until_done import in_thread
from payclient.client import PASSES, LookupFunction, is_passing, stream
from payclient.errors import InvalidReferenceError, PayClientError, TransactionNotFoundError
from payclient.protocol import Found, Outcome, Transaction
from payclient.reconcile._journal.journal import REUSED, Journal, Reuse, replay, take_over
from payclient.reconcile._judgement.compare import StatementSum, stated_money, usable_line
from payclient.reconcile._judgement.errors import StoppedError
from payclient.reconcile._judgement.findings import Row
from payclient.reconcile._judgement.judge import PendingLookup, differing, paid_reff_of
from payclient.reconcile._judgement.records import PreviousRun, Records
from payclient.reconcile._judgement.rules import STRICT, LineKinds, Rules, check_currencies, duration_text
from payclient.reconcile._judgement.sides import Answer, Observation, ask_canary, check_canary, observe, utc_now
from payclient.reconcile.ledger import ABSENT, Entry, Ledger, LedgerError, RejectedEntry

Entries: TypeAlias = Iterable[Entry | RejectedEntry] | AsyncIterable[Entry | RejectedEntry]

_ROWS_PER_TURN = 200  # between two yields to the event loop


class Phase(StrEnum):
    """The phases of a run, in order."""

    READING = "reading"
    ASKING = "asking"
    CONFIRMING = "confirming"
    JUDGING = "judging"


@frozen(kw_only=True)
class Progress:
    """
    A snapshot.

    Attributes:
        phase: The current phase.
        done: Ledger rows read or judged, or references looked up, in this phase.
        total: The number at the end of this phase. None while the ledger is read.
        differences: References whose first lookup differed from the ledger.
        differences_amount: Their total amount in the ledger.
        unresolved: References without an answer in this phase.
        waiting: Reason for waiting without a lookup in flight. Empty otherwise.
    """

    phase: Phase
    done: int
    total: int | None
    differences: int
    differences_amount: int
    unresolved: int
    waiting: str = ""


OnProgress: TypeAlias = Callable[[Progress], object]
"""Receives a snapshot after each step. Called on the event loop, so it must not block."""


async def reconcile(  # noqa: PLR0913  one option each, only by name
    entries: Entries,
    lookup: LookupFunction,
    *,
    confirm: LookupFunction | None = None,
    concurrency: int = 50,
    journal: Journal | None = None,
    canary: str | None = None,
    rules: Rules = STRICT,
    stall_timeout: float = 900.0,
    confirm_after: float = 0.0,
    stop: asyncio.Event | None = None,
    clock: Callable[[], datetime] = utc_now,
    on_progress: OnProgress | None = None,
    previous: tuple[PreviousRun, Records] | None = None,
    statement: Iterable[Entry | RejectedEntry] | None = None,
    reuse: Reuse | None = None,
) -> AsyncGenerator[Row, None]:
    """
    Compare each ledger entry with the service's record of its reference.

    Args:
        entries: The ledger. Read completely before the first lookup.
        lookup: Looks up one reference, such as `client.get_transaction`. Raises a `PayClientError`
            when it cannot.
        confirm: Looks up a reference whose answer differs a second time. By default *lookup*, with `fresh=True` if it
            has such an argument, as `client.get_transaction` has: over a new connection, sharing no earlier request.
        concurrency: Lookups in flight at once.
        journal: Stores the state. With one on disk, call this again with the same entries to resume an interrupted
            run.
        canary: A reference that is known to exist. It is looked up first. Finding it makes "not found" credible when
            nothing else is found.
        rules: For the judgement of differences.
        stall_timeout: Seconds without an answer until the run ends.
        confirm_after: Minimum seconds between a first answer that differs and the second lookup.
        stop: When set, no new lookup starts. Those in flight finish, and the run ends.
        clock: Returns the time of each answer. Aware.
        on_progress: Receives a snapshot after each answer, and regularly in between.
        previous: The previous run, and its records about each reference. Its breaks, and its open and unresolved rows,
            are looked up again if the ledger no longer has them, and follow all others.
        statement: A second list of references, such as a settlement report. References that only it has are looked up
            too, and follow all other rows.
        reuse: Selects answers of the previous run to use again for rows that matched in it. None to look up every
            reference.

    Note:
        Yields one final row per entry, in the order of the ledger. A reference is looked up once for all its rows,
        and a second time when it differs. Rows wait in the journal or in a temporary database, so memory does not
        grow with the ledger. `Transaction.raw` is not kept.

    Raises:
        PayClientError: After the last row, when the run ended early because no other lookup could
            succeed. Rows that were not looked up, or not confirmed, are then unresolved.
        ConfigurationError: Likewise, when the canary is not found.
        StoppedError: When *stop* was set.
        RulesError: When the rules count business days and name no time zone, when they give the kinds of lines no
            meaning, or when they limit the age of rows without one.
        LedgerError: When refunds of one kind have different signs, or *entries* and *statement* different currencies.
        JournalError: When the journal began with other entries.
        JournalWriteError: At once, when the journal cannot be written. The run can be resumed later.
    """
    rules.check_zone()
    if isinstance(entries, str | bytes):
        raise TypeError(f"entries must be ledger entries, got {type(entries).__name__}: read a file with open_ledger")
    if canary is not None:
        check_canary(canary)
    with Journal() if journal is None else nullcontext(journal) as kept:
        limits = concurrency, stall_timeout, confirm_after
        run = _Reconciler(kept, lookup, confirm or _second(lookup), *limits, rules, stop, clock, on_progress, previous)
        await run.read(entries, has_statement=statement is not None)
        if statement is not None:
            await run.read_statement(statement, entries)
        if reuse is not None:
            await run.reuse(reuse)
        if kept.count_references():
            await run.ask(canary)
        run.begin(Phase.JUDGING, kept.rows)
        for row in replay(kept, rules=rules):
            yield row
            await run.turn()
        if run.ended_by is not None:
            raise run.ended_by


def _second(lookup: LookupFunction) -> LookupFunction:
    try:
        takes_fresh = "fresh" in signature(lookup).parameters
    except (TypeError, ValueError):  # not written in Python
        takes_fresh = False
    return partial(cast("Callable[..., Awaitable[Transaction]]", lookup), fresh=True) if takes_fresh else lookup


async def _each(entries: Entries) -> AsyncGenerator[Entry | RejectedEntry, None]:
    if isinstance(entries, AsyncIterable):
        async for entry in entries:
            yield entry
    else:
        for entry in entries:
            yield entry


@define(on_setattr=setters.NO_OP)  # each row sets some
class _Reconciler:
    _journal: Journal
    _lookup: LookupFunction
    _confirm: LookupFunction
    _concurrency: int = field(validator=is_count)
    _stall_timeout: float = field(validator=is_seconds)
    _confirm_after: float
    _rules: Rules
    _stop: asyncio.Event | None
    _clock: Callable[[], datetime]
    _on_progress: OnProgress | None = field(validator=validators.optional(is_callback))
    _previous: tuple[PreviousRun, Records] | None
    _pending: dict[str, PendingLookup] = field(init=False, factory=dict)
    _failed: dict[str, str] = field(init=False, factory=dict)
    _known: str | None = field(init=False, default=None)
    _was_reached: bool = field(init=False, default=False)
    _waiting: str = field(init=False, default="")
    _phase: Phase = field(init=False, default=Phase.READING)
    _total: int | None = field(init=False, default=None)
    _done: int = field(init=False, default=0)
    _unresolved: int = field(init=False, default=0)
    _differences: int = field(init=False, default=0)
    _differences_amount: int = field(init=False, default=0)
    _is_canary_found: bool = field(init=False, default=False)
    ended_by: PayClientError | None = field(init=False, default=None)

    # Read

    async def read(self, entries: Entries, *, has_statement: bool) -> None:
        self._journal.begin_ledger()
        kinds, are_ageless = LineKinds(self._rules.lines.kind), set[bool]()
        async with aclosing(_each(entries)) as each:  # a cancellation would leave it to the garbage collector
            async for entry in each:
                if isinstance(entry, Entry):
                    are_ageless.add(entry.created_at is ABSENT)
                amount = entry.amount if isinstance(entry.amount, int) else entry.amount_received
                if not kinds.leaves_out(entry, amount, is_alone=entry.reference is None):
                    self._journal.add(entry)
                await self.turn()
        if are_ageless == {True}:
            self._rules.check_columns(("reference",), has_statement=has_statement)
        finish = partial(self._journal.finish_ledger, previous=self._previous, rules=self._rules)
        await in_thread(finish, kinds.ignored)
        self._total = self._done
        self._tell()

    async def read_statement(self, statement: Iterable[Entry | RejectedEntry], entries: Entries) -> None:
        """Copy the whole statement into the journal, and the references that only it has."""
        self._journal.begin_statement()
        total, how = StatementSum(self._rules), self._rules.statement
        kinds = LineKinds(how.kind, "statement.kind", are_fees_signed=bool(how.reading.debit_columns))
        for each in statement:
            if not kinds.leaves_out(each, stated_money(each)):
                line = usable_line(each, self._rules)
                total.add(line)
                self._journal.add_to_statement(line)
            await self.turn()
        if isinstance(entries, Ledger) and isinstance(statement, Ledger):
            check_currencies(entries, statement)
        totals = total.totals(kinds.ignored)
        if totals.rejected_lines == totals.lines > 0:
            message = f"the statement has {plural(totals.lines, 'line')} and none can be used; {totals.problems[0]}"
            raise LedgerError(message)
        await in_thread(self._journal.finish_statement, totals)

    async def reuse(self, reuse: Reuse) -> None:
        taking = take_over(self._journal, reuse, rules=self._rules, now=self._now())
        while (rows := await in_thread(lambda: next(taking, None))) is not None:
            self._done += rows
            await self._yield_to_loop()

    # Ask

    async def ask(self, canary: str | None) -> None:
        """Look up everything once, and differences a second time, unless an error ends the run early."""
        self._journal.forget_failures()
        self._differences, self._differences_amount = self._journal.answers.count_differences()
        try:
            if canary is not None:
                self._begin_asking()
                self._tell()
                self._is_canary_found = await ask_canary(canary, self._stream(self._lookup, [canary]))
                self._known, self._was_reached = (canary, True) if self._is_canary_found else (None, False)
            await self._ask_once()
            if not self._has_probe() and self._journal.answers.forget_one_reused():
                await self._ask_once()
            # Confirmed answers can make another row need confirmation, so repeat until none is left.
            # Until something was found, "not found" is not evidence, even if repeated.
            while self._has_probe() and (unconfirmed := self._journal.answers.count_to_confirm()):
                self.begin(Phase.CONFIRMING, unconfirmed)
                await self._wait_to_confirm()
                await self._ask_all(self._journal.answers.to_confirm())
                if self._forget_reused():
                    await self._ask_once()
        except StoppedError:
            self._journal.answers.commit()
            raise
        except PayClientError as error:
            self.ended_by = error
        ended_by = None if self.ended_by is None else observe(self.ended_by, at=self._now())
        self._journal.end(ended_by, is_canary_found=self._is_canary_found)

    async def _ask_once(self) -> None:
        """Look up references without an answer, and then reused ones that need two answers of this run."""
        is_left = True
        while is_left:
            self._begin_asking()
            await self._ask_all(self._journal.answers.to_ask())
            is_left = self._forget_reused()

    def _begin_asking(self) -> None:
        total = self._journal.count_references()
        self.begin(Phase.ASKING, total, total - self._journal.answers.count_to_ask())

    def _has_probe(self) -> bool:
        return self._is_canary_found or self._journal.answers.count_found() > 0

    def _forget_reused(self) -> bool:
        return self._journal.note(REUSED) is not None and self._journal.answers.forget_reused()

    async def _wait_to_confirm(self) -> None:
        """Wait for the state to settle. The time counts from the first answer, even in a resumed run."""
        last = self._journal.answers.last_to_confirm_at()
        if not self._confirm_after or last is None:
            return
        due = last + timedelta(seconds=self._confirm_after)
        seconds = min((due - self._now()).total_seconds(), self._confirm_after)
        if seconds <= 0:
            return
        self._waiting = f"until {due:%H:%M:%S} UTC for the second lookup"
        self._tell()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await (self._stop or asyncio.Event()).wait()
        finally:
            self._waiting = ""
        self._check_stop()

    async def _ask_all(self, pending: Iterator[PendingLookup]) -> None:
        self._tell()
        self._known = self._known or self._journal.answers.known_good()
        async with self._stream(self._look_up, self._references(pending)) as outcomes:
            async for outcome in outcomes:
                if not isinstance(outcome, Found):
                    self._take(outcome.reference, observe(outcome.error, at=self._now()))
                self._done += 1
                self._tell()
        self._journal.answers.commit()

    def _stream(
        self, lookup: LookupFunction, references: Iterable[str]
    ) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        return stream(
            lookup,
            references,
            concurrency=self._concurrency,
            stall_timeout=self._stall_timeout,
            known=self._known,
            was_reached=self._was_reached,
            malformed_passes=1,  # one lookup now and one to confirm. More would give the same
        )

    def _references(self, lookups: Iterator[PendingLookup]) -> Iterator[str]:
        for pending in lookups:
            self._check_stop()
            self._pending[pending.reference] = pending
            yield pending.reference

    def _check_stop(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise StoppedError("the reconciliation was stopped, and its answers are kept")

    async def _look_up(self, reference: str) -> Transaction:
        """Look up *reference*, and commit the answer before the worker takes the next one."""
        lookup = self._confirm if self._phase is Phase.CONFIRMING else self._lookup
        try:
            transaction = await lookup(reference)
        except (TransactionNotFoundError, InvalidReferenceError) as error:
            self._take(reference, observe(error, at=self._now()))
            await self._journal.answers.committed()
            raise
        except PayClientError as error:
            if reference in self._pending and is_passing(error):
                self._failed[reference] = type(error).__name__
                self._tell()
            raise
        self._take(reference, observe(transaction, at=self._now()))
        await self._journal.answers.committed()
        return transaction

    def _take(self, reference: str, observation: Observation) -> None:
        """Record an answer, unless there is one: a stream may repeat a lookup to probe the service."""
        self._was_reached |= observation.answer not in (Answer.FAILED, Answer.UNASKABLE)
        self._failed.pop(reference, None)
        pending = self._pending.pop(reference, None)
        if pending is None:
            return
        different = differing(pending, observation, self._journal.side_of(pending, self._rules), self._rules)
        is_second = self._phase is Phase.CONFIRMING
        if different and not is_second:
            self._differences += 1
            self._differences_amount += sum(e.amount for e in different if isinstance(e.amount, int))
        self._unresolved += observation.answer is Answer.FAILED
        self._journal.answers.add(
            pending.position,
            observation,
            is_second=is_second,
            needs_confirmation=bool(different),
            paid_reff=paid_reff_of(observation, rules=self._rules),
        )

    def _now(self) -> datetime:
        now = self._clock()
        if now.tzinfo is None:
            raise ValueError("clock must return an aware datetime, got one without a time zone")
        return now if now.tzinfo is UTC else now.astimezone(UTC)

    # Progress

    def begin(self, phase: Phase, total: int, done: int = 0) -> None:
        self._phase, self._total, self._done, self._unresolved = phase, total, done, 0

    async def turn(self) -> None:
        self._done += 1
        if self._done % _ROWS_PER_TURN == 0:
            await self._yield_to_loop()

    async def _yield_to_loop(self) -> None:
        """Report progress, and let the event loop run other tasks."""
        self._tell()
        self._check_stop()
        await asyncio.sleep(0)

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    phase=self._phase,
                    done=self._done,
                    total=self._total,
                    differences=self._differences,
                    differences_amount=self._differences_amount,
                    unresolved=self._unresolved,
                    waiting=self._waiting or self._held_up(),
                )
            )

    def _held_up(self) -> str:
        """Describe the failed lookups that will be repeated, when all in flight have failed. Empty otherwise."""
        if not self._failed or len(self._failed) < len(self._pending):
            return ""
        reference, error = next(iter(self._failed.items()))
        most = duration_text(timedelta(seconds=round(self._stall_timeout)))
        tries = f"{PASSES} failures each or " if self._known is not None or self._was_reached else ""
        first = f"{plural(len(self._failed), 'reference')}, first {quote(reference)} ({error})"
        return f"to retry {first}; gives up after {tries}{most} without an answer"
