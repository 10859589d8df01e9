"""
The bridge from the ledger's total to the service's, step by step, with nothing left over.

The ledger's total is the sum of every amount that the ledger states, whatever became of the row; anyone can
check it with the ledger alone. The service's total is the sum of what the service states for the rows that it
confirms: found, in the state that the ledger says, and each reference once. Every row that is in one and not in
the other, or is in both with different amounts, belongs to exactly one step.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import define, field, frozen

from payclient.reconcile._errors import TieOutError
from payclient.reconcile._finding import STATUS_CODES, Code
from payclient.reconcile._row import Bucket, Row


class Step(StrEnum):
    """
    Why the service's total is not the ledger's, in the order of the bridge.

    Attributes:
        TOLERATED: Matched rows whose amounts differ within tolerance, or whose difference is accepted.
        MISSING: The service has no such transaction, so its amount is taken off.
        DUPLICATES: The reference is on a row before it, where it is counted; taken off.
        UNDER_OR_OVERPAID: The service's amount takes the place of the ledger's.
        STATUS_BREAKS: The two sides disagree about the state; taken off.
        OPEN: Not paid yet; taken off.
        UNRESOLVED: Not known; taken off.
        REJECTED: Not usable, although the amount could be read; taken off.
    """

    TOLERATED = "tolerated"
    MISSING = "missing"
    DUPLICATES = "duplicates"
    UNDER_OR_OVERPAID = "under_or_overpaid"
    STATUS_BREAKS = "status_breaks"
    OPEN = "open"
    UNRESOLVED = "unresolved"
    REJECTED = "rejected"


@frozen(kw_only=True)
class Difference:
    """
    One step of the bridge.

    Attributes:
        step: Which.
        rows: Ledger rows in it that state an amount.
        amount: What it adds to the ledger's total on the way to the service's; mostly negative.
    """

    step: Step
    rows: int
    amount: int


@frozen(kw_only=True)
class TieOut:
    """
    The whole bridge.

    Attributes:
        ledger_total: Sum of what the ledger states.
        steps: Every step, also those of nothing.
        service_total: Sum of what the service confirms.
        rows_without_amount: Ledger rows that state no amount and take no part.
    """

    ledger_total: int
    steps: tuple[Difference, ...]
    service_total: int
    rows_without_amount: int

    @property
    def residual(self) -> int:
        """What the steps leave unexplained."""
        return self.ledger_total + sum(step.amount for step in self.steps) - self.service_total


@define
class Bridge:
    """Adds rows up, one by one."""

    _ledger_total: int = field(init=False, default=0)
    _service_total: int = field(init=False, default=0)
    _without_amount: int = field(init=False, default=0)
    _rows: dict[Step, int] = field(init=False, factory=lambda: dict.fromkeys(Step, 0))
    _amounts: dict[Step, int] = field(init=False, factory=lambda: dict.fromkeys(Step, 0))

    def add(self, row: Row) -> None:
        """Count *row*."""
        amount = row.ledger_amount
        if amount is None:
            self._without_amount += 1
            return
        self._ledger_total += amount
        self._service_total += _confirmed(row)
        step = step_of(row)
        self._rows[step] += 1
        self._amounts[step] += _carried(row, step) - amount

    def tie_out(self) -> TieOut:
        """
        Return the bridge.

        Raises:
            TieOutError: When something is left over, which is a bug of ours.
        """
        bridge = TieOut(
            ledger_total=self._ledger_total,
            steps=tuple(Difference(step=step, rows=self._rows[step], amount=self._amounts[step]) for step in Step),
            service_total=self._service_total,
            rows_without_amount=self._without_amount,
        )
        if bridge.residual:
            message = f"the report does not tie: {bridge.residual} of {bridge.ledger_total} is not explained"
            raise TieOutError(message)
        return bridge


def step_of(row: Row) -> Step:
    """Return the step that *row* belongs to; of a break, also what was waived says where its money is."""
    if row.bucket is Bucket.MATCHED:
        return Step.TOLERATED
    if row.bucket is not Bucket.BREAK:
        return Step(row.bucket.value)
    codes = {finding.code for finding in row.findings}
    if Code.MISSING_AT_SERVICE in codes:
        return Step.MISSING
    if row.is_repeat:
        return Step.DUPLICATES
    return Step.STATUS_BREAKS if codes & STATUS_CODES else Step.UNDER_OR_OVERPAID


def _carried(row: Row, step: Step) -> int:
    """Return what of *row* a step leaves for the service's total."""
    is_carried = step is Step.UNDER_OR_OVERPAID
    if step is Step.TOLERATED:
        # An accepted difference is still one: the service does not confirm what it does not know, or knows otherwise.
        is_carried = not row.is_repeat and not {finding.code for finding in row.findings} & STATUS_CODES
    return (row.service_amount or 0) if is_carried else 0


def _confirmed(row: Row) -> int:
    """Return what the service confirms of *row*; said a second time on purpose, to check the steps."""
    if row.transaction is None or row.is_repeat or row.bucket not in (Bucket.MATCHED, Bucket.BREAK):
        return 0
    is_disputed = any(finding.code in STATUS_CODES for finding in row.findings)
    return 0 if is_disputed else row.transaction.amount
