"""The period that a ledger covers: the first and the last creation of its rows."""

from __future__ import annotations

from datetime import datetime

from attrs import define, field, frozen

from payclient._escape import plural
from payclient.ledger import Entry
from payclient.reconcile.rules import STRICT, Rules, in_zone
from payclient.reconcile.values import Row


@frozen(kw_only=True)
class Period:
    """The first and the last creation in a ledger, as it has them, and the number of its rows with and without one."""

    first: datetime | None = None
    last: datetime | None = None
    lines: int = 0
    without: int = 0

    @property
    def sentence(self) -> str:
        """For people."""
        if self.first is None or self.last is None:
            return "not stated: no row of the ledger has a time of creation"
        without = f"; {plural(self.without, 'row')} without a time" if self.without else ""
        first, last = (at.isoformat(" ", "seconds") for at in (self.first, self.last))
        return f"{first} to {last}, by the creation of {plural(self.lines, 'row')}{without}"


@define
class PeriodTally:
    """Finds the first and the last creation; a time without a zone is one of the rules' zone."""

    _rules: Rules = STRICT
    _lines: int = field(init=False, default=0)
    _without: int = field(init=False, default=0)
    _first: datetime | None = field(init=False, default=None)
    _last: datetime | None = field(init=False, default=None)

    def add(self, row: Row) -> None:
        """Count the ledger rows of *row*."""
        for entry in row.parts or (row.entry,):
            at = entry.created_at if isinstance(entry, Entry) else None
            if not isinstance(at, datetime):
                self._without += 1
                continue
            self._lines += 1
            if self._first is None or self._instant(at) < self._instant(self._first):
                self._first = at
            if self._last is None or self._instant(at) > self._instant(self._last):
                self._last = at

    def _instant(self, at: datetime) -> datetime:
        return in_zone(at, self._rules.time_zone)

    def period(self) -> Period:
        """Return the period of the rows so far."""
        return Period(first=self._first, last=self._last, lines=self._lines, without=self._without)
