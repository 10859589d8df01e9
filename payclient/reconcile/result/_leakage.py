"""Money lost to short payouts and wrong fees, by payment method."""

from __future__ import annotations

from attrs import frozen

from payclient._escape import escape_unprintable, plural

OTHER = "(other)"
"""Stands for all methods or words that came after the first thousand."""


@frozen(kw_only=True)
class Leakage:
    """
    The leakage of one payment method.

    Attributes:
        method: The service's short code; empty where it states none.
        rows: Rows with such a finding that is not waived.
        short_received: Money of paid transactions that did not arrive.
        fee_off_schedule: Fees above their schedule; negative where below.
        possible: Money of paid transactions that may not have arrived: it is less than the amount, and no fee is known.
    """

    method: str
    rows: int = 0
    short_received: int = 0
    fee_off_schedule: int = 0
    possible: int = 0

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        return (
            f"{escape_unprintable(self.method) or 'no method'}: {plural(self.rows, 'row')}, "
            f"{self.short_received:,} not received, fees {self.fee_off_schedule:+,} against the schedule"
        ) + (f", up to {self.possible:,} more where no fee is known" if self.possible else "")
