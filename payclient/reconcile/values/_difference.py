"""The steps of a bridge between two totals: how many rows each has, and by how much they move the total."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Self, TypeVar

from attrs import frozen


class BridgeStep(StrEnum):
    """A reason for a difference between two totals, with its meaning for reports."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        step = str.__new__(cls, name)
        step._value_, step.meaning = name, meaning
        return step

    @property
    def label(self) -> str:
        """The name in reports."""
        return self.value.replace("_", " ")


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


_Step = TypeVar("_Step", bound=BridgeStep)


@frozen(kw_only=True)
class Difference(Generic[_Step]):
    """
    One step of a bridge.

    Attributes:
        step: The reason.
        rows: Rows in it: of the ledger, or references and rejected lines of a statement.
        added: Sum over the rows that increase the total; 0 or more.
        taken_off: Sum over the rows that decrease it; 0 or less.
    """

    step: _Step
    rows: int
    added: int = 0
    taken_off: int = 0

    @property
    def amount(self) -> int:
        """The net change of the total."""
        return self.added + self.taken_off
