"""
The bridge from the ledger's paid total to the service's paid total, without a residual.

The ledger's total is the sum of all rows that say *paid*, or are assumed to; it can be checked with the ledger alone.
The service's total is the sum that the service has as paid for the references in the ledger, each reference once; it
can be tied to a statement. The difference that a row makes belongs to exactly one step. Money in other states is not
part of the bridge; it is summed by state on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import define, field, frozen

from payclient.ledger import ABSENT
from payclient.reconcile.values import BridgeStep, Bucket, Code, Difference, Differences, Row, Status, TieOutError


class Step(BridgeStep):
    """The reasons for a difference between the totals, in the order of the bridge."""

    MATCHED = "matched", "the same on both sides"
    TOLERATED = "tolerated", "within tolerance, or accepted"
    MISSING = "missing", "the service knows no such transaction"
    DUPLICATES = "duplicates", "the reference is counted on a row before"
    UNDERPAID = "underpaid", "paid on both sides, and less at the service"
    OVERPAID = "overpaid", "paid on both sides, and more at the service"
    RECORDED_NOT_PAID = "recorded_not_paid", "paid in the ledger alone"
    REFUND_NOT_RECORDED = "refund_not_recorded", "refunded at the service alone"
    REFUND_NOT_MADE = "refund_not_made", "refunded in the ledger alone"
    PAID_NOT_RECORDED = "paid_not_recorded", "paid at the service alone"
    LATE_PAYMENT = "late_payment", "paid at the service, and closed in the ledger"
    UNKNOWN_STATUS = "unknown_status", "one side uses a word that is not known"
    OTHER_BREAKS = "other_breaks", "other differences, which move no paid money"
    AMOUNT_NOT_STATED = "amount_not_stated", "the ledger states no amount"
    STATUS_NOT_COMPARED = "status_not_compared", "the ledger states no status, and none was assumed"
    NOT_IN_LEDGER = "not_in_ledger", "paid at the service, and listed by the statement alone"
    OPEN = "open", "pending, or within the grace period"
    CARRIED = "carried", "rows of the previous run that the ledger does not list any more"
    UNUSABLE = "unusable", "neither answer of the service can be used"
    UNRESOLVED = "unresolved", "not known at the service yet"
    REJECTED = "rejected", "the ledger row cannot be used"


_STEPS: Mapping[Code, Step | None] = {
    Code.RECORDED_NOT_PAID: Step.RECORDED_NOT_PAID,
    Code.PAID_NOT_RECORDED: Step.PAID_NOT_RECORDED,
    Code.LATE_PAYMENT: Step.LATE_PAYMENT,
    Code.REFUND_NOT_RECORDED: Step.REFUND_NOT_RECORDED,
    Code.REFUND_NOT_MADE: Step.REFUND_NOT_MADE,
    Code.UNKNOWN_STATUS: Step.UNKNOWN_STATUS,
    # These say nothing about paid money, or nothing that the other findings and the amounts do not say.
    **dict.fromkeys((Code.STALE_PENDING, Code.PENDING_ON_ONE_SIDE, Code.CLOSED_DIFFERENTLY), None),
    **dict.fromkeys((Code.UNDERPAID, Code.OVERPAID, Code.NET_DIFFERS, Code.SHORT_RECEIVED), None),
    **dict.fromkeys((Code.FEE_DIFFERS, Code.FEE_OFF_SCHEDULE, Code.METHOD_DIFFERS, Code.PAYMENT_CODE_DIFFERS), None),
    **dict.fromkeys((Code.MERCHANT_REFF_DIFFERS, Code.EXPIRY_DIFFERS, Code.PAID_TWICE, Code.REVERSED), None),
    **dict.fromkeys((Code.NOT_IN_LEDGER, Code.SETTLED_NOT_PAID, Code.SETTLED_DIFFERENTLY, Code.NOT_SETTLED), None),
    **dict.fromkeys((Code.SERVICE_ARITHMETIC, Code.NOT_COMPARED, Code.TOLERATED_DEVIATION), None),
    # Rows with these have a step before their findings are looked at.
    **dict.fromkeys((Code.MISSING_AT_SERVICE, Code.UNUSABLE_ANSWER, Code.DUPLICATE_REFERENCE), None),
}
_STEP_OF = {code: _STEPS[code] for code in Code}  # a code without an entry fails here, by name


@frozen
class StateTotal:
    """
    Rows and money in one state, on both sides.

    Attributes:
        ledger_rows: Ledger rows that are in it.
        ledger_amount: Sum of what the ledger states for them.
        service_rows: References that are in it at the service.
        service_amount: Sum of what the service states for them, each reference once.
    """

    ledger_rows: int = 0
    ledger_amount: int = 0
    service_rows: int = 0
    service_amount: int = 0


@frozen(kw_only=True)
class TieOut:
    """
    The whole bridge.

    Attributes:
        ledger_paid_total: Sum of what the ledger states as paid.
        steps: Every step, empty ones included.
        service_paid_total: Sum of what the service has as paid, each reference once.
        rows_without_amount: Ledger rows that state no amount.
        states: Rows and money by state, paid or not; None stands for no status, or an unknown word.
    """

    ledger_paid_total: int
    steps: tuple[Difference[Step], ...]
    service_paid_total: int
    rows_without_amount: int
    states: Mapping[Status | None, StateTotal]

    @property
    def residual(self) -> int:
        """The part of the difference that the steps do not explain."""
        return self.ledger_paid_total + sum(step.amount for step in self.steps) - self.service_paid_total


@define
class Bridge:
    """Builds the bridge row by row."""

    _without_amount: int = field(init=False, default=0)
    _differences: Differences[Step] = field(init=False, factory=lambda: Differences(Step))
    _states: dict[Status | None, list[int]] = field(
        init=False,
        factory=lambda: {state: [0, 0, 0, 0] for state in (*Status, None)},
    )

    def add(self, row: Row) -> None:
        """Count *row*."""
        if row.is_listed:
            amount = row.ledger_amount
            self._without_amount += amount is None
            ours = self._states[row.ledger_status]
            ours[0] += 1
            ours[1] += amount or 0
        if _is_counted(row):
            theirs = self._states[row.service_status]
            theirs[2] += 1
            theirs[3] += row.service_amount or 0
        self._differences.add(step_of(row), moved_by(row))

    def tie_out(self) -> TieOut:
        """Return the bridge; a rest is a bug of payclient, and raises `TieOutError`."""
        paid = StateTotal(*self._states[Status.PAID])
        bridge = TieOut(
            ledger_paid_total=paid.ledger_amount,
            steps=self._differences.steps(),
            service_paid_total=paid.service_amount,
            rows_without_amount=self._without_amount,
            states=MappingProxyType({state: StateTotal(*counts) for state, counts in self._states.items()}),
        )
        if bridge.residual:
            message = f"the report does not tie: {bridge.residual} of {bridge.ledger_paid_total} is not explained"
            raise TieOutError(message)
        if any(step.added or step.taken_off for step in bridge.steps if step.step is Step.MATCHED):
            message = "the report does not tie: rows that matched have other amounts at the service"
            raise TieOutError(message)
        return bridge


def paid_by(row: Row) -> tuple[int, int]:
    """Return the part of *row* in the paid totals of the bridge: the ledger's, and the service's."""
    is_listed = row.ledger_status is Status.PAID and not row.carried_from
    ours = row.ledger_amount if is_listed else 0
    theirs = row.service_amount if row.service_status is Status.PAID and _is_counted(row) else 0
    return ours or 0, theirs or 0


def moved_by(row: Row) -> int:
    """Return the paid amount of *row* at the service, less that in the ledger."""
    ours, theirs = paid_by(row)
    return theirs - ours


def step_of(row: Row) -> Step:
    """Return the step of *row*; for a break, waived findings count too."""
    if row.bucket is Bucket.UNRESOLVED:
        return Step.UNRESOLVED
    if row.carried_from:
        return Step.CARRIED
    if row.is_of_statement:
        return Step.NOT_IN_LEDGER
    if row.bucket in (Bucket.OPEN, Bucket.REJECTED):
        return Step.OPEN if row.bucket is Bucket.OPEN else Step.REJECTED
    if row.transaction is not None and not row.is_repeat:
        if row.entry.status is ABSENT and row.ledger_status is None:
            return Step.STATUS_NOT_COMPARED
        if row.ledger_amount is None and row.bucket is Bucket.MATCHED:
            return Step.AMOUNT_NOT_STATED
    if row.bucket is Bucket.BREAK:
        return _step_of_break(row)
    return Step.TOLERATED if row.is_tolerated else Step.MATCHED


def _step_of_break(row: Row) -> Step:
    codes = [finding.code for finding in row.findings]
    if Code.MISSING_AT_SERVICE in codes:
        return Step.MISSING
    if row.transaction is None:
        return Step.UNUSABLE
    if row.is_repeat:
        return Step.DUPLICATES
    if step := next(filter(None, (_STEP_OF[code] for code in codes)), None):
        return step
    moved = moved_by(row)
    if not moved:
        return Step.OTHER_BREAKS
    if row.ledger_amount is None:
        return Step.AMOUNT_NOT_STATED
    return Step.UNDERPAID if moved < 0 else Step.OVERPAID


def _is_counted(row: Row) -> bool:
    """Return whether the service's amount counts on this row: it is known, and no earlier row has it."""
    if row.matched is not None and row.other_side is None:
        return False  # it was in the totals of the run that it matched in
    return row.transaction is not None and not row.is_repeat and row.bucket is not Bucket.UNRESOLVED
