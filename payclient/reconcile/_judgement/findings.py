"""Internal: the findings about a ledger row with their state and age, and the row with its bucket."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from attrs import Factory, evolve, field, frozen

from payclient.protocol import Transaction
from payclient.reconcile._codec import register
from payclient.reconcile._judgement.codes import Code, Severity, Status
from payclient.reconcile._judgement.sides import StatementSide
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry


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
    """Return *texts* as one line, for `read_list`. One with a comma is in quotes."""
    return ", ".join('"' + text.replace('"', '""') + '"' if {*text} & {*',"'} else text for text in texts)


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
        since_run: The run that found it last, after it had been gone.
        age_days: Days from then to the answer of this run, by the calendar in UTC.
    """

    state: BreakState
    first_seen: datetime | None
    first_run: str
    age_days: int
    since_run: str = ""


_ORDER = {code: rank for rank, code in enumerate(Code)}

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
        history: Its age, if there was a previous run. None if it is not a break.
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
        return evolve(self, at_stake=max((abs(number) for number in numbers if number is not None), default=None))

    @property
    def is_decisive(self) -> bool:
        """Whether it makes its row a break: it is a difference, and it is not waived."""
        return not self.waived and not self.code.is_soft


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return *findings*, the most severe first and waived ones last."""
    return tuple(sorted(findings, key=lambda finding: (bool(finding.waived), -finding.severity, _ORDER[finding.code])))


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
        was_paid: This run lacks a trustworthy answer, and the last answer of an earlier run found it paid.
        was_rejected: An earlier run could not use it, and the ledger does not list it any more.
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
    was_rejected: bool = False
    is_material: bool = False

    @property
    def origin(self) -> Origin:
        """The file that lists it."""
        if self.carried_from:
            return Origin.CARRIED
        return Origin.LEDGER if self.other_side is None or self.other_side.is_in_ledger else Origin.STATEMENT

    @property
    def is_waiting(self) -> bool:
        """Whether it is paid, and a statement has to list it later, whatever else is open about it."""
        is_young = any(finding.code is Code.NOT_SETTLED and finding.waived for finding in self.findings)
        is_alone = self.bucket is Bucket.OPEN and not any(finding.code.is_of_status for finding in self.findings)
        return self.service_status is Status.PAID and (is_young or is_alone)

    @property
    def is_tolerated(self) -> bool:
        """Whether it matched only because the rules waive a difference."""
        findings = self.findings if self.bucket is Bucket.MATCHED else ()
        return bool(findings) and any(finding.waived and not finding.code.is_soft for finding in findings)

    @property
    def line(self) -> int:
        """Line in the ledger, or the first of several."""
        return self.entry.line

    @property
    def line_of(self) -> str:
        """The file of its line: `ledger` or `statement`, of the previous run if it was carried over."""
        file = "ledger" if self.other_side is None or self.other_side.is_in_ledger else "statement"
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
        """Whether the ledger lacks a status column, and the row is assumed to be paid."""
        return self.entry.status is ABSENT and self.ledger_status is not None

    @property
    def state(self) -> str:
        """The service's state, or its word if the meaning is unknown. Empty without one."""
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
        histories = [finding.history for finding in self.findings if finding.history is not None]
        return min(histories, key=lambda history: _NEWEST.index(history.state), default=None)

    @property
    def ledger_amount(self) -> int | None:
        """The ledger's amount. None without one."""
        amount = self.entry.amount
        return amount if isinstance(amount, int) else None

    @property
    def service_amount(self) -> int | None:
        """The service's amount. None without a transaction."""
        return None if self.transaction is None else self.transaction.amount
