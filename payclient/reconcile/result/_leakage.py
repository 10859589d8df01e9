"""Money lost to short payouts and wrong fees, by payment method."""

from __future__ import annotations

from attrs import define, evolve, field, frozen

from payclient._escape import escape_unprintable, plural
from payclient.reconcile.values import Code, Row

_MAX_METHODS = 1_000
_MAX_LENGTH = 80
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


@define
class Leakages:
    """Sums leakage by payment method, each reference once."""

    _by_method: dict[str, Leakage] = field(init=False, factory=dict)

    def add(self, row: Row) -> None:
        """Take one row."""
        leaks = [each for each in row.findings if each.leakage and not each.waived]
        if not leaks or row.is_repeat or row.transaction is None:
            return
        method = (row.transaction.payment_method or "")[:_MAX_LENGTH]
        if method not in self._by_method and len(self._by_method) >= _MAX_METHODS:
            method = OTHER
        before = self._by_method.get(method, Leakage(method=method))
        by_code = {code: sum(each.leakage for each in leaks if each.code is code) for code in Code}
        self._by_method[method] = evolve(
            before,
            rows=before.rows + 1,
            short_received=before.short_received + by_code[Code.SHORT_RECEIVED],
            fee_off_schedule=before.fee_off_schedule + by_code[Code.FEE_OFF_SCHEDULE],
            possible=before.possible + by_code[Code.SERVICE_ARITHMETIC],
        )

    def totals(self) -> tuple[Leakage, ...]:
        """Return the totals in the order of the methods."""
        return tuple(self._by_method[method] for method in sorted(self._by_method))
