"""Internal: what the service and a statement say about a reference, the findings, and the row with its bucket."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import partial
from typing import TypeAlias

from attrs import Factory, evolve, field, frozen

from payclient import errors
from payclient._shared.checks import invalid_option
from payclient.protocol import Found, Outcome, Transaction, check_reference
from payclient.reconcile._codec import register
from payclient.reconcile.judgement.codes import Code, Severity, Status
from payclient.reconcile.judgement.errors import UnknownCanaryError
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry


class Answer(Enum):
    """
    Evidence of an answer.

    Attributes:
        FOUND: There is such a transaction.
        NOT_FOUND: The service does not know it.
        UNASKABLE: The reference is invalid and was not sent, so the ledger row is at fault.
        UNUSABLE: Nothing: the service declined, or a field of its answer about this reference cannot be read.
        FAILED: Nothing. The lookup failed, or what came names no reference, such as a web page.
    """

    FOUND = "found"
    NOT_FOUND = "not found"
    UNASKABLE = "unaskable"
    UNUSABLE = "unusable"
    FAILED = "failed"


@frozen(kw_only=True)
class Observation:
    """
    One answer.

    Attributes:
        answer: Its evidence.
        at: When it came, in UTC.
        transaction: The found transaction.
        error: Name of the error class, when nothing was.
        message: The error's text.
        status_code: Status of the last attempt. None when it got no response, or was not watched.
        attempts: HTTP exchanges, including earlier passes. 0 when they were not watched.
        reused_from: Name of the earlier run that it is from. Empty for an answer of this run.

    A journal keeps neither `status_code` nor `attempts`.
    """

    answer: Answer
    at: datetime
    transaction: Transaction | None = None
    error: str | None = None
    message: str = ""
    status_code: int | None = None
    attempts: int = 0
    reused_from: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether it is about the transaction."""
        return self.answer not in (Answer.UNUSABLE, Answer.FAILED)

    def differs_from(self, first: Observation) -> bool:
        """
        Return whether the state has changed since the *first* answer.

        "Not found" before a transaction does not show that: it names no reference, so a lookup over a connection that
        was used before asks again by itself, and one over a fresh connection does not.
        """
        is_appeared = first.answer is Answer.NOT_FOUND and self.answer is Answer.FOUND
        return not is_appeared and (self.answer, self.transaction) != (first.answer, first.transaction)


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe(
    seen: Transaction | errors.PayClientError, *, at: datetime, status_code: int | None = None, attempts: int = 0
) -> Observation:
    """Return the observation of a lookup that ended with *seen*. The other arguments are as in `Observation`."""
    observed = partial(Observation, at=at, status_code=status_code, attempts=attempts)
    if isinstance(seen, Transaction):
        return observed(answer=Answer.FOUND, transaction=seen)
    answer = Answer.FAILED
    if isinstance(seen, errors.TransactionNotFoundError):
        answer = Answer.NOT_FOUND
    elif isinstance(seen, errors.InvalidReferenceError):
        answer = Answer.UNASKABLE
    elif isinstance(seen, errors.RejectedError) or getattr(seen, "is_about_reference", False):
        answer = Answer.UNUSABLE
    # Without how long a failed attempt took, which differs from run to run.
    message = seen.message if isinstance(seen, errors.TransportError) else str(seen)
    return observed(answer=answer, error=type(seen).__name__, message=message)


def check_canary(canary: object) -> None:
    try:
        check_reference(canary)
    except errors.InvalidReferenceError as error:
        raise invalid_option("canary", f"must be a reference that is known to exist: {error.message}") from error


async def ask_canary(canary: str, lookups: AbstractAsyncContextManager[AsyncIterator[Outcome]]) -> bool:
    """Return whether the stream of its lookup alone finds *canary*. Raise `UnknownCanaryError` if there is none."""
    async with lookups as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome, Found):
                return True
            if isinstance(outcome.error, errors.TransactionNotFoundError):
                message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                raise UnknownCanaryError(message) from outcome.error
    return False


_MAX_NAMED = 20


def named_lines(lines: Sequence[int]) -> str:
    """Return the numbers of *lines* in words, such as `lines 3, 7 and 12`, or the first of very many."""
    numbers = [str(line) for line in lines[:_MAX_NAMED]]
    if len(lines) > _MAX_NAMED:
        return f"lines {', '.join(numbers)} and {len(lines) - _MAX_NAMED:,} more"
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {', '.join(numbers[:-1])} and {numbers[-1]}"


@frozen(kw_only=True)
class Settled:
    """
    The lines of a statement for one reference, summed.

    Attributes:
        lines: Lines of the statement.
        amount: Money paid, less refunds. None if all lines lack it.
        amount_received: Money paid out for it. None if all lines lack it.
        money: The money paid out or, without it, the money paid. It adds to the total of the statement.
        before: The part that only statements of earlier runs have. None if they do not list it.
        charged: The money paid, before anything was taken back. None if no line charges it, so that its charge may be
            in a statement that no run has read.
        refund_fees: The part held back from refunds, such as a dispute fee. Usually 0 or less.
        others: Checksums of the lines that charge nothing, to recognise them in a later statement.
    """

    lines: tuple[int, ...]
    amount: int | None = None
    amount_received: int | None = None
    money: int = 0
    before: int | None = None
    charged: int | None = None
    refund_fees: int = 0
    others: tuple[str, ...] = ()

    @property
    def stated(self) -> int | None:
        """The amount or, without it, the amount received. None if all lines lack either."""
        return self.amount_received if self.amount is None else self.amount

    @property
    def where(self) -> str:
        """The lines in words."""
        if not self.lines:
            return "the statement of an earlier run"
        return f"{named_lines(self.lines)} of the statement" + ("" if self.before is None else " and on an earlier one")

    def lowest(self, amount: int) -> int:
        """Return the lowest sum without a loss, for a payment of *amount* that is not paid any more."""
        # An unknown charge is taken as paid in full. Without amounts, the fee was held back from a known one.
        if self.charged is None:
            return -abs(amount)
        return 0 if self.amount is not None else min(self.charged - abs(amount), 0)

    def with_earlier(self, earlier: Settled, listed: Settled) -> Settled:
        """Return the sum with the *earlier* statements. *listed* are all lines of this one, repeated ones included."""
        money = self.money + earlier.money
        has_net = (self.amount_received, earlier.amount_received) != (None, None)
        return Settled(
            lines=listed.lines,
            amount=stated_sum((earlier.amount, self.amount)),
            amount_received=money if has_net else None,
            money=money,
            before=money - listed.money,
            charged=stated_sum((earlier.charged, self.charged)),
            refund_fees=self.refund_fees + earlier.refund_fees,
            others=earlier.others + self.others,
        )


def stated_sum(numbers: Iterable[int | None]) -> int | None:
    stated = [number for number in numbers if number is not None]
    return sum(stated) if stated else None


@frozen(kw_only=True)
class StatementSide:
    """
    The statement's side of a case.

    Attributes:
        settled: Its lines for the reference, summed. None if it does not list it as settled.
        is_in_ledger: Whether the ledger has a usable row with the reference, too.
        unusable_line: A line with the reference that cannot be used. None without one.
    """

    settled: Settled | None
    is_in_ledger: bool = True
    unusable_line: int | None = None


@frozen(kw_only=True)
class Payout:
    """
    The lines of a statement that belong to one payout.

    Attributes:
        name: As the statement calls it. Empty for lines that name none.
        date: The last day of its lines. Empty if they have no time.
        lines: The number of them.
        gross: Money paid.
        refunds: Money taken back. 0 or less.
        fees: Money held back from payments, and lines of the kind *fee*. Usually below zero.
        refund_fees: Money held back from refunds, such as dispute fees. Usually below zero.
        unusable: Money of lines that cannot be used.
        net: Sum of what the lines add to the statement's total.
    """

    name: str = ""
    date: str = ""
    lines: int = 0
    gross: int = 0
    refunds: int = 0
    fees: int = 0
    refund_fees: int = 0
    unusable: int = 0
    net: int = 0

    @property
    def residual(self) -> int:
        """The part of the net that the others do not explain."""
        return self.net - self.gross - self.refunds - self.fees - self.refund_fees - self.unusable

    def __add__(self, other: Payout) -> Payout:
        sums = {each: getattr(self, each) + getattr(other, each) for each in PAYOUT_SUMS}
        return evolve(self, date=max(self.date, other.date), **sums)


PAYOUT_SUMS = ("lines", "gross", "refunds", "fees", "refund_fees", "unusable", "net")


@frozen(kw_only=True)
class StatementTotals:
    """
    A statement as a whole. Only the statement is needed.

    Attributes:
        lines: Lines that were read.
        total: Sum over all its lines of the money paid out or, for a line without it, paid.
        rejected_lines: Lines that cannot be used.
        rejected_amount: Sum of what these state.
        fee_lines: Fees that belong to no payment.
        fee_amount: Sum of these. 0 or less.
        is_net: Whether any line has the amount that was paid out.
        ignored_lines: Lines of kinds that the rules leave out, which are not among the others.
        ignored_amount: Sum of their amounts.
        problems: The first few lines that cannot be used, each with its line and why.
        payouts: Its payouts in their order or, if it names none, one for all of its lines.
    """

    lines: int = 0
    total: int = 0
    rejected_lines: int = 0
    rejected_amount: int = 0
    fee_lines: int = 0
    fee_amount: int = 0
    is_net: bool = False
    ignored_lines: int = 0
    ignored_amount: int = 0
    problems: tuple[str, ...] = ()
    payouts: tuple[Payout, ...] = ()


class BreakState(StrEnum):
    """
    State of a break between two runs.

    Attributes:
        NEW: The earlier run did not have it.
        STILL_OPEN: Both runs have it, with the same values.
        CHANGED: Both runs have it, with another amount or word.
        REOPENED: It was resolved in an earlier run, and is back.
        RESOLVED: It is gone. `BreakChange.by` has the reason.
        NOT_KNOWN: The later run does not know: the row is unresolved or rejected now, or was not asked about.
    """

    NEW = "new"
    STILL_OPEN = "still_open"
    CHANGED = "changed"
    REOPENED = "reopened"
    RESOLVED = "resolved"
    NOT_KNOWN = "not_known"

    @property
    def is_news(self) -> bool:
        """New, changed or reopened."""
        return self in (BreakState.NEW, BreakState.CHANGED, BreakState.REOPENED)


class ResolvedBy(StrEnum):
    """
    Reason for the end of a break.

    Attributes:
        LEDGER: The ledger differs from before.
        SERVICE: The service differs from before.
        STATEMENT: The statement lists it otherwise now.
        BOTH: Both sides differ from before, and agree.
        RULE: Both sides are unchanged, and the rules judge it otherwise.
        ACCEPTANCE: The difference was accepted.
    """

    LEDGER = "ledger"
    SERVICE = "service"
    STATEMENT = "statement"
    BOTH = "both"
    RULE = "rule"
    ACCEPTANCE = "acceptance"


def as_list(texts: Iterable[str]) -> str:
    """Return *texts* as one line, which `read_list` reads. One with a comma is in quotes."""
    return ", ".join('"' + each.replace('"', '""') + '"' if {*each} & {*',"'} else each for each in texts)


def read_list(line: str) -> list[str]:
    return next(csv.reader([line], skipinitialspace=True), list[str]())


@frozen
class FindingTotal:
    """A number of findings, and the sum of the amounts at stake in them."""

    count: int = 0
    amount: int = 0

    def __add__(self, other: FindingTotal) -> FindingTotal:
        return FindingTotal(self.count + other.count, self.amount + other.amount)

    def __sub__(self, other: FindingTotal) -> FindingTotal:
        return FindingTotal(self.count - other.count, self.amount - other.amount)


@frozen(kw_only=True)
class History:
    """
    The age of a break.

    Attributes:
        state: Its change since the previous run.
        first_seen: When the first run that had it looked it up, in UTC. None if unknown.
        first_run: The name of that run: of its folder.
        age_days: Days from then to the answer of this run, as a calendar in UTC counts them.
    """

    state: BreakState
    first_seen: datetime | None
    first_run: str
    age_days: int


_ORDER = {code: place for place, code in enumerate(Code)}

Side: TypeAlias = str | int | None
"""Raw value of one side."""
register(Side, read=lambda value: value)


@frozen
class Finding:
    """
    One difference or remark about a row.

    Attributes:
        code: The kind of finding.
        sentence: A description with the values of both sides. Safe to print.
        ledger: The ledger's value.
        service: The service's value.
        severity: The severity of its code if not given.
        waived: Why it does not count, such as `within the tolerance of 500 below`. Safe to print, empty if it counts.
        is_accepted: Whether a person accepted it, and no rule waives it.
        history: Its age, in a run that has a previous one. None if it is not a break.
        leakage: Money lost, for `short_received` and `fee_off_schedule`. Negative for a fee below its schedule.
        at_stake: The money that depends on it, in a row of a report: the leakage, the difference of its two numbers,
            the amounts of all rows of the reference but the smallest, or else the largest amount of the row. None if
            none is known.
    """

    code: Code
    sentence: str
    ledger: Side = field(default=None, kw_only=True)
    service: Side = field(default=None, kw_only=True)
    severity: Severity = field(default=Factory(lambda self: self.code.severity, takes_self=True), kw_only=True)
    waived: str = field(default="", kw_only=True)
    is_accepted: bool = field(default=False, kw_only=True)
    leakage: int = field(default=0, kw_only=True)
    at_stake: int | None = field(default=None, kw_only=True)
    history: History | None = field(default=None, kw_only=True)

    def weighed(self, *amounts: int | None) -> Finding:
        """Return a copy with `at_stake` computed from the row's *amounts*. Unchanged if it is already set."""
        if self.at_stake is not None:
            return self
        sides = [side if isinstance(side, int) else None for side in (self.ledger, self.service)]
        if self.leakage:
            numbers: list[int | None] = [self.leakage]
        elif self.code.is_of_two_numbers:
            numbers = [(sides[1] or 0) - (sides[0] or 0)]
        else:
            numbers = [*amounts, *(sides if self.code.is_of_statement else ())]
        return evolve(self, at_stake=max((abs(each) for each in numbers if each is not None), default=None))

    @property
    def is_decisive(self) -> bool:
        """Whether it makes its row a break: it is a difference, and it is not waived."""
        return not self.waived and not self.code.is_soft


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return *findings*, the most severe first and waived ones last."""
    return tuple(sorted(findings, key=lambda each: (bool(each.waived), -each.severity, _ORDER[each.code])))


_NEWEST = (BreakState.NEW, BreakState.REOPENED, BreakState.CHANGED, BreakState.STILL_OPEN, BreakState.NOT_KNOWN)


class Bucket(StrEnum):
    """
    The result of a row. Each row has exactly one.

    Attributes:
        MATCHED: Every compared field agrees, or the rules waive the difference.
        OPEN: Both sides are pending, and the expiry has not passed, or the row is within the grace.
        BREAK: A confirmed difference.
        UNRESOLVED: The service gave no answer that can be trusted, so the result is unknown.
        REJECTED: The ledger row itself cannot be used.
    """

    MATCHED = "matched"
    OPEN = "open"
    BREAK = "break"
    UNRESOLVED = "unresolved"
    REJECTED = "rejected"


class Origin(StrEnum):
    """
    What lists a row.

    Attributes:
        LEDGER: The ledger of this run.
        STATEMENT: Only the statement of this run.
        CARRIED: The ledger or the statement of an earlier run.
    """

    LEDGER = "ledger"
    STATEMENT = "statement"
    CARRIED = "carried"


@frozen(kw_only=True)
class Row:
    """
    One ledger row, reconciled, or one payment, if the rules put the rows of a reference together.

    Attributes:
        entry: The ledger's side. A payment of several lines has their sum, and the line of the first.
        bucket: The result.
        findings: The most severe first, waived ones last.
        transaction: The service's last answer, if it has one.
        reason: Why the row is unresolved or rejected. Empty otherwise.
        error: Class name of the error of a failed lookup. None otherwise.
        observed_at: Time of the first answer, in UTC.
        confirmed_at: Time of the second answer, in UTC. None without a second lookup.
        is_changed_during_run: The two answers differ. The second one counts.
        is_repeat: An earlier row has the same reference.
        ledger_status: Meaning of the ledger's status word, or the assumed one. None if unknown.
        service_status: Meaning of the service's status word. None if unknown, or without an answer.
        lacks_probe: Unresolved because no other reference was found in the run, so the answer is not trusted.
        parts: The ledger lines that were put together, in order. Empty if each row is for itself.
        carried_from: Name of the run that listed it last, for a row that is not in the ledger any more and was asked
            about again. Empty for a row of the ledger.
        other_side: The statement's lines for the reference. None without a statement.
        reused_from: Name of the earlier run that the answer is from. Empty if this run looked the reference up.
        state_before: The service's state, or word, in the previous run, if it had another one. Empty otherwise.
        was_paid: This run has no trustworthy answer, and the last one of an earlier run found it paid.
        is_material: As much is at stake as the rules call material.
    """

    entry: Entry | RejectedEntry
    bucket: Bucket
    findings: tuple[Finding, ...] = ()
    transaction: Transaction | None = None
    reason: str = ""
    error: str | None = None
    observed_at: datetime | None = None
    confirmed_at: datetime | None = None
    is_changed_during_run: bool = False
    is_repeat: bool = False
    ledger_status: Status | None = None
    service_status: Status | None = None
    lacks_probe: bool = False
    parts: tuple[Entry, ...] = ()
    carried_from: str = ""
    other_side: StatementSide | None = None
    reused_from: str = ""
    state_before: str = ""
    was_paid: bool = False
    is_material: bool = False

    @property
    def origin(self) -> Origin:
        """The file that lists it."""
        if self.carried_from:
            return Origin.CARRIED
        return Origin.LEDGER if self.other_side is None or self.other_side.is_in_ledger else Origin.STATEMENT

    @property
    def is_tolerated(self) -> bool:
        """Whether it matched only because the rules waive a difference."""
        found = self.findings if self.bucket is Bucket.MATCHED else ()
        return bool(found) and any(each.waived and not each.code.is_soft for each in found)

    @property
    def line(self) -> int:
        """Line in the ledger, or the first of several."""
        return self.entry.line

    @property
    def line_of(self) -> str:
        """The file of its line: `ledger` or `statement`, of the previous run if it was carried over."""
        is_in_ledger = self.other_side is None or self.other_side.is_in_ledger
        file = "ledger" if is_in_ledger else "statement"
        return f"{file} of {self.carried_from}" if self.carried_from else file

    @property
    def place(self) -> str:
        """Its line for people: `line 3`, with the name of the file if that is not the ledger of this run."""
        return f"line {self.line}" + ("" if self.line_of == "ledger" else f" of the {self.line_of}")

    @property
    def lines(self) -> tuple[int, ...]:
        """All its lines in the ledger, in order. Usually one."""
        return tuple(part.line for part in self.parts) or (self.entry.line,)

    @property
    def reference(self) -> str | None:
        """The reference that was looked up. None if the ledger row lacks it."""
        return self.entry.reference

    @property
    def is_status_assumed(self) -> bool:
        """Whether the ledger has no status column, and the row is assumed to be paid."""
        return self.entry.status is ABSENT and self.ledger_status is not None

    @property
    def state(self) -> str:
        """The service's state, or its word if that has no known meaning. Empty without one."""
        word = None if self.transaction is None else self.transaction.status
        return self.service_status.value if self.service_status else word or ""

    @property
    def primary(self) -> Finding | None:
        """The most important finding. None without findings."""
        return self.findings[0] if self.findings else None

    @property
    def severity(self) -> Severity:
        """Severity of the primary finding."""
        return self.findings[0].severity if self.findings else Severity.INFO

    @property
    def at_stake(self) -> int:
        """The money that depends on it: of the primary finding, or else the larger amount. 0 if unknown."""
        if self.findings and self.findings[0].at_stake is not None:
            return self.findings[0].at_stake
        return max(abs(self.ledger_amount or 0), abs(self.service_amount or 0))

    @property
    def rank(self) -> tuple[int, ...]:
        """A sort key: material rows, then the most severe, then those with the most at stake."""
        return self.is_material, self.severity, self.at_stake

    @property
    def history(self) -> History | None:
        """History of its newest finding: new before reopened, changed and still open. None without a previous run."""
        if not self.findings:
            return None
        known = [finding.history for finding in self.findings if finding.history is not None]
        return min(known, key=lambda each: _NEWEST.index(each.state), default=None)

    @property
    def ledger_amount(self) -> int | None:
        """The ledger's amount. None without one."""
        amount = self.entry.amount
        return amount if isinstance(amount, int) else None

    @property
    def service_amount(self) -> int | None:
        """The service's amount. None without a transaction."""
        return None if self.transaction is None else self.transaction.amount
