"""How far the service's money may be from the ledger's before it counts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from attrs import field, frozen

from payclient.reconcile._rule_values import is_percent_or_none, is_whole_or_none, percent_text, to_percent


@frozen(kw_only=True)
class Tolerance:
    """
    How far a number of the service may be above or below the ledger's.

    Attributes:
        above: How much more the service may state, in the unit of the service.
        below: How much less it may state.
        above_percent: How much more, in percent of the ledger's number.
        below_percent: How much less, in percent of it.

    A bound that is not given does not bound, and where both of one side are given, both have to hold. A side
    without any bound allows no difference.
    """

    above: int | None = field(default=None, validator=is_whole_or_none)
    below: int | None = field(default=None, validator=is_whole_or_none)
    above_percent: Decimal | None = field(default=None, converter=to_percent, validator=is_percent_or_none)
    below_percent: Decimal | None = field(default=None, converter=to_percent, validator=is_percent_or_none)

    def waiver(self, ours: int, theirs: int) -> str:
        """Say why the difference between two numbers does not count; empty if it does."""
        if theirs > ours:
            side, most, percent = "above", self.above, self.above_percent
        else:
            side, most, percent = "below", self.below, self.below_percent
        bounds = [] if most is None else [(Fraction(most), str(most))]
        if percent is not None:
            bounds.append((abs(ours) * Fraction(percent) / 100, f"{percent_text(percent)} %"))
        if not bounds or any(abs(theirs - ours) > bound for bound, _ in bounds):
            return ""
        return f"within the tolerance of {' and '.join(text for _, text in bounds)} {side}"
