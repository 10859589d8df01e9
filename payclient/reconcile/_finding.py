"""The findings about a ledger row, their severity, and the row with its bucket."""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Self, TypeAlias

from attrs import Factory, field, frozen

from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile._break_state import BreakState, History
from payclient.reconcile._settled import OtherSide
from payclient.reconcile._status import Status


class Severity(IntEnum):
    """How much a finding matters; they can be compared."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def word(self) -> str:
        """The name as reports write it."""
        return self.name.lower()


class Code(StrEnum):
    """
    The stable name of a finding. Of findings that are equally severe, the one named first here leads.

    Attributes:
        severity: How severe such a finding is, unless it says otherwise itself.
    """

    severity: Severity

    def __new__(cls, name: str, severity: Severity) -> Self:
        code = str.__new__(cls, name)
        code._value_, code.severity = name, severity
        return code

    NOT_IN_LEDGER = "not_in_ledger", Severity.CRITICAL
    SETTLED_NOT_PAID = "settled_not_paid", Severity.CRITICAL
    PAID_TWICE = "paid_twice", Severity.CRITICAL
    REVERSED = "reversed", Severity.CRITICAL
    RECORDED_NOT_PAID = "recorded_not_paid", Severity.CRITICAL
    PAID_NOT_RECORDED = "paid_not_recorded", Severity.CRITICAL
    LATE_PAYMENT = "late_payment", Severity.CRITICAL
    REFUND_NOT_RECORDED = "refund_not_recorded", Severity.CRITICAL
    REFUND_NOT_MADE = "refund_not_made", Severity.CRITICAL
    MERCHANT_REFF_DIFFERS = "merchant_reff_differs", Severity.CRITICAL
    MISSING_AT_SERVICE = "missing_at_service", Severity.HIGH
    UNUSABLE_ANSWER = "unusable_answer", Severity.HIGH
    DUPLICATE_REFERENCE = "duplicate_reference", Severity.HIGH
    SETTLED_DIFFERENTLY = "settled_differently", Severity.HIGH
    NOT_SETTLED = "not_settled", Severity.HIGH
    UNDERPAID = "underpaid", Severity.HIGH
    OVERPAID = "overpaid", Severity.HIGH
    NET_DIFFERS = "net_differs", Severity.HIGH
    SHORT_RECEIVED = "short_received", Severity.HIGH
    FEE_DIFFERS = "fee_differs", Severity.MEDIUM
    FEE_OFF_SCHEDULE = "fee_off_schedule", Severity.MEDIUM
    UNKNOWN_STATUS = "unknown_status", Severity.MEDIUM
    STALE_PENDING = "stale_pending", Severity.MEDIUM
    PENDING_ON_ONE_SIDE = "pending_on_one_side", Severity.MEDIUM
    METHOD_DIFFERS = "method_differs", Severity.MEDIUM
    PAYMENT_CODE_DIFFERS = "payment_code_differs", Severity.MEDIUM
    CLOSED_DIFFERENTLY = "closed_differently", Severity.LOW
    EXPIRY_DIFFERS = "expiry_differs", Severity.LOW
    SERVICE_ARITHMETIC = "service_arithmetic", Severity.LOW
    NOT_COMPARED = "not_compared", Severity.INFO
    TOLERATED_DEVIATION = "tolerated_deviation", Severity.INFO


STATUS_CODES = frozenset(
    {
        Code.RECORDED_NOT_PAID,
        Code.PAID_NOT_RECORDED,
        Code.LATE_PAYMENT,
        Code.REFUND_NOT_RECORDED,
        Code.REFUND_NOT_MADE,
        Code.CLOSED_DIFFERENTLY,
        Code.STALE_PENDING,
        Code.PENDING_ON_ONE_SIDE,
        Code.UNKNOWN_STATUS,
    },
)

_SOFT = frozenset({Code.SERVICE_ARITHMETIC, Code.NOT_COMPARED, Code.TOLERATED_DEVIATION})
_ORDER = {code: place for place, code in enumerate(Code)}

Side: TypeAlias = str | int | None
"""What one side says, as it said it."""


@frozen
class Finding:
    """
    One difference or remark about a row.

    Attributes:
        code: The kind of finding.
        sentence: A description with the values of both sides; safe to print.
        ledger: The ledger's value.
        service: The service's value.
        severity: How much it matters; that of its code if not given.
        waived: Why it does not count, such as `within the tolerance of 500 below`; safe to print, empty if it counts.
        history: Its age, in a run that has a previous one; None for what is no break.
        leakage: Money lost, for `short_received` and `fee_off_schedule`; negative for a fee below its schedule.
    """

    code: Code
    sentence: str
    ledger: Side = field(default=None, kw_only=True)
    service: Side = field(default=None, kw_only=True)
    severity: Severity = field(default=Factory(lambda self: self.code.severity, takes_self=True), kw_only=True)
    waived: str = field(default="", kw_only=True)
    leakage: int = field(default=0, kw_only=True)
    history: History | None = field(default=None, kw_only=True)

    @property
    def is_decisive(self) -> bool:
        """Whether it makes its row a break: it is a difference, and it is not waived."""
        return not self.waived and not self.is_soft

    @property
    def is_soft(self) -> bool:
        """Whether it is a remark, and no difference between the two sides."""
        return self.code in _SOFT


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return *findings*, the most severe first and waived ones last."""
    return tuple(sorted(findings, key=lambda each: (bool(each.waived), -each.severity, _ORDER[each.code])))


_NEWEST = (BreakState.NEW, BreakState.REOPENED, BreakState.CHANGED, BreakState.STILL_OPEN, BreakState.NOT_KNOWN)


class Bucket(StrEnum):
    """
    The result of a row; each row has exactly one.

    Attributes:
        MATCHED: Every compared field agrees, or the rules waive the difference.
        OPEN: Both sides are pending, and the expiry has not passed; or the row is within the grace.
        BREAK: A confirmed difference.
        UNRESOLVED: The service gave no answer that can be trusted, so the result is unknown.
        REJECTED: The ledger row itself cannot be used.
    """

    MATCHED = "matched"
    OPEN = "open"
    BREAK = "break"
    UNRESOLVED = "unresolved"
    REJECTED = "rejected"


@frozen(kw_only=True)
class Row:
    """
    One ledger row, reconciled; or one payment, where the rules put the rows of a reference together.

    Attributes:
        entry: The ledger's side; of a payment of several lines their sum, with the line of the first.
        bucket: The result.
        findings: The most severe first, waived ones last.
        transaction: The service's last answer, if it has one.
        reason: Why the row is unresolved or rejected; empty otherwise.
        error: Class name of the error of a failed lookup; None otherwise.
        observed_at: Time of the first answer, in UTC.
        confirmed_at: Time of the second answer, in UTC; None without a second lookup.
        is_changed_during_run: The two answers differ; the second one counts.
        is_repeat: An earlier row has the same reference.
        ledger_status: Meaning of the ledger's status word, or the assumed one; None if unknown.
        service_status: Meaning of the service's status word; None if unknown, or without an answer.
        lacks_probe: Unresolved because no other reference was found in the run, so the answer is not trusted.
        parts: The ledger lines that were put together, in order; empty where each row is for itself.
        carried_from: Name of the previous run, for one of its rows that is not in the ledger any more and was asked
            about again; empty for a row of the ledger.
        earlier_bucket: The result by the rules of the previous run; None where it is the same.
        other_side: What the statement lists for the reference; None without a statement.
        reused_from: Name of the earlier run that the answer is from; empty where this run looked the reference up.
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
    earlier_bucket: Bucket | None = None
    other_side: OtherSide | None = None
    reused_from: str = ""

    @property
    def is_of_statement(self) -> bool:
        """Whether the statement of this run alone has it."""
        return not self.carried_from and self.other_side is not None and not self.other_side.is_in_ledger

    @property
    def is_listed(self) -> bool:
        """Whether the ledger has it: it was not carried over, and is not of the statement alone."""
        return not self.carried_from and not self.is_of_statement

    @property
    def line(self) -> int:
        """Line in the ledger; of several the first."""
        return self.entry.line

    @property
    def place(self) -> str:
        """Where it is listed, for people: `line 3`, of the statement or of the previous run's ledger if it is there."""
        before = f" of {self.carried_from}" if self.carried_from else ""
        is_in_ledger = self.other_side is None or self.other_side.is_in_ledger
        return f"line {self.line}{before}" if is_in_ledger else f"statement{before}, line {self.line}"

    @property
    def lines(self) -> tuple[int, ...]:
        """All its lines in the ledger, in order; usually one."""
        return tuple(part.line for part in self.parts) or (self.entry.line,)

    @property
    def reference(self) -> str | None:
        """The reference that was looked up; None if the ledger row has none."""
        return self.entry.reference

    @property
    def is_status_assumed(self) -> bool:
        """Whether the ledger has no status column, and the row is assumed to be paid."""
        return self.entry.status is ABSENT and self.ledger_status is not None

    @property
    def primary(self) -> Finding | None:
        """The most important finding; None without findings."""
        return self.findings[0] if self.findings else None

    @property
    def severity(self) -> Severity:
        """Of the primary finding."""
        return self.findings[0].severity if self.findings else Severity.INFO

    @property
    def history(self) -> History | None:
        """Of its newest finding: new before reopened, changed and still open; None without a previous run."""
        known = [finding.history for finding in self.findings if finding.history is not None]
        return min(known, key=lambda each: _NEWEST.index(each.state), default=None)

    @property
    def ledger_amount(self) -> int | None:
        """The ledger's amount; None if it states none."""
        amount = self.entry.amount
        return amount if isinstance(amount, int) else None

    @property
    def service_amount(self) -> int | None:
        """The service's amount; None without a transaction."""
        return None if self.transaction is None else self.transaction.amount
