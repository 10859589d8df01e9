"""What reconciliation can say about a row, and how serious it is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import TypeAlias

from attrs import Factory, field, frozen


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
    """The stable name of a finding. Of findings that are equally severe, the one named first here leads."""

    PAID_TWICE = "paid_twice"
    RECORDED_NOT_PAID = "recorded_not_paid"
    PAID_NOT_RECORDED = "paid_not_recorded"
    LATE_PAYMENT = "late_payment"
    MERCHANT_REFF_DIFFERS = "merchant_reff_differs"
    MISSING_AT_SERVICE = "missing_at_service"
    DUPLICATE_REFERENCE = "duplicate_reference"
    UNDERPAID = "underpaid"
    OVERPAID = "overpaid"
    NET_DIFFERS = "net_differs"
    FEE_DIFFERS = "fee_differs"
    UNKNOWN_STATUS = "unknown_status"
    STALE_PENDING = "stale_pending"
    METHOD_DIFFERS = "method_differs"
    PAYMENT_CODE_DIFFERS = "payment_code_differs"
    CLOSED_DIFFERENTLY = "closed_differently"
    EXPIRY_DIFFERS = "expiry_differs"
    SERVICE_ARITHMETIC = "service_arithmetic"
    TOLERATED_DEVIATION = "tolerated_deviation"


SEVERITIES: Mapping[Code, Severity] = {
    Code.PAID_TWICE: Severity.CRITICAL,
    Code.RECORDED_NOT_PAID: Severity.CRITICAL,
    Code.PAID_NOT_RECORDED: Severity.CRITICAL,
    Code.LATE_PAYMENT: Severity.CRITICAL,
    Code.MERCHANT_REFF_DIFFERS: Severity.CRITICAL,
    Code.MISSING_AT_SERVICE: Severity.HIGH,
    Code.DUPLICATE_REFERENCE: Severity.HIGH,
    Code.UNDERPAID: Severity.HIGH,
    Code.OVERPAID: Severity.HIGH,
    Code.NET_DIFFERS: Severity.HIGH,
    Code.FEE_DIFFERS: Severity.MEDIUM,
    Code.UNKNOWN_STATUS: Severity.MEDIUM,
    Code.STALE_PENDING: Severity.MEDIUM,
    Code.METHOD_DIFFERS: Severity.MEDIUM,
    Code.PAYMENT_CODE_DIFFERS: Severity.MEDIUM,
    Code.CLOSED_DIFFERENTLY: Severity.LOW,
    Code.EXPIRY_DIFFERS: Severity.LOW,
    Code.SERVICE_ARITHMETIC: Severity.LOW,
    Code.TOLERATED_DEVIATION: Severity.INFO,
}
"""How severe a finding of each code is, unless it says otherwise itself."""

STATUS_CODES = frozenset(
    {
        Code.RECORDED_NOT_PAID,
        Code.PAID_NOT_RECORDED,
        Code.LATE_PAYMENT,
        Code.CLOSED_DIFFERENTLY,
        Code.STALE_PENDING,
        Code.UNKNOWN_STATUS,
    }
)

_SOFT = frozenset({Code.SERVICE_ARITHMETIC, Code.TOLERATED_DEVIATION})
_ORDER = {code: place for place, code in enumerate(Code)}

Side: TypeAlias = str | int | None
"""What one side says, as it said it."""


def _of_its_code(finding: Finding) -> Severity:
    return SEVERITIES[finding.code]


@frozen
class Finding:
    """
    One thing to say about one row.

    Attributes:
        code: Which kind.
        sentence: For people, with both sides in it; safe to print.
        ledger: What the ledger says.
        service: What the service says.
        severity: How much it matters.
        waived: Why it does not make the row a break, such as `within the tolerance of 500 below`; safe to print,
            and empty if it does.
    """

    code: Code
    sentence: str
    ledger: Side = field(default=None, kw_only=True)
    service: Side = field(default=None, kw_only=True)
    severity: Severity = field(default=Factory(_of_its_code, takes_self=True), kw_only=True)
    waived: str = field(default="", kw_only=True)

    @property
    def is_decisive(self) -> bool:
        """Whether it makes its row a break: it is a difference, and nobody waived it."""
        return not self.waived and self.code not in _SOFT

    @property
    def is_soft(self) -> bool:
        """Whether it is worth knowing, but no difference between the two sides."""
        return self.code in _SOFT


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return *findings* with the most severe first, and what was waived behind all others."""
    return tuple(sorted(findings, key=lambda each: (bool(each.waived), -each.severity, _ORDER[each.code])))
