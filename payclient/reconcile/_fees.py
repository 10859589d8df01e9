"""What fee a payment should bear, in exact arithmetic."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor

from attrs import field, frozen

from payclient.reconcile._errors import RulesError
from payclient.reconcile._rule_values import is_percent, is_whole, is_whole_or_none, to_member, to_percent


class Rounding(StrEnum):
    """What becomes of a part of the smallest unit."""

    HALF_UP = "half_up"
    UP = "up"
    DOWN = "down"


def _to_rounding(value: Rounding | str) -> Rounding:
    return to_member(Rounding, "rounding", value)


@frozen(kw_only=True)
class FeeSchedule:
    """
    What one payment method costs.

    Attributes:
        flat: Charged on each payment, in the unit of the service.
        percent: Charged on top of it, in percent of the amount.
        minimum: The least fee.
        maximum: The highest fee; None for no such bound.
        rounding: How the percentage becomes a whole number.
    """

    flat: int = field(default=0, validator=is_whole)
    percent: Decimal = field(default=Decimal(0), converter=to_percent, validator=is_percent)
    minimum: int = field(default=0, validator=is_whole)
    maximum: int | None = field(default=None, validator=is_whole_or_none)
    rounding: Rounding = field(default=Rounding.HALF_UP, converter=_to_rounding)

    def __attrs_post_init__(self) -> None:
        if self.maximum is not None and self.maximum < self.minimum:
            message = f"maximum must be at least the minimum {self.minimum}, got {self.maximum}"
            raise RulesError(message, key=("maximum",))

    def fee_of(self, amount: int) -> int:
        """Return the fee on *amount*, in the same unit; never negative, also where the amount is."""
        fee = self.flat + _rounded(amount * Fraction(self.percent) / 100, self.rounding)
        fee = max(fee, self.minimum)
        return fee if self.maximum is None else min(fee, self.maximum)


def _rounded(value: Fraction, rounding: Rounding) -> int:
    if rounding is Rounding.HALF_UP:
        return floor(value + Fraction(1, 2))
    return ceil(value) if rounding is Rounding.UP else floor(value)
