"""What a whole reconciliation comes to: a verdict, counts, money and an exit status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from attrs import define, field, frozen

from payclient.reconcile._errors import TieOutError
from payclient.reconcile._finding import Code, Severity
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._tie_out import Bridge, TieOut

COMPLETENESS = (
    "The ledger was asked about, and nothing else: payments nobody listed in it cannot appear in this report."
)
"""Said in every report, because no absence of findings says otherwise."""


class Verdict(StrEnum):
    """
    The one word on top of a report.

    Attributes:
        EMPTY: Nothing was read, so nothing was compared.
        CLEAN: Every row matched, or is open.
        BREAKS: Something differs, or a row was rejected.
        INCOMPLETE: Some rows have no trustworthy answer yet, whatever the others say.
    """

    EMPTY = "empty"
    CLEAN = "clean"
    BREAKS = "breaks"
    INCOMPLETE = "incomplete"


@frozen
class Total:
    """
    Rows and their money.

    Attributes:
        rows: How many.
        ledger_amount: Sum of what the ledger states for them.
        service_amount: Sum of what the service states for them, row by row, so a transaction that is
            on two rows counts twice; the tie-out counts it once.
    """

    rows: int = 0
    ledger_amount: int = 0
    service_amount: int = 0

    def plus(self, row: Row) -> Total:
        """Return the total with *row* in it."""
        ours, theirs = row.ledger_amount or 0, row.service_amount or 0
        return Total(self.rows + 1, self.ledger_amount + ours, self.service_amount + theirs)


@frozen(kw_only=True)
class Summary:
    """
    The result of a reconciliation.

    Attributes:
        rows: Ledger rows; the sum of all buckets.
        buckets: Every bucket, also those with nothing in them.
        codes: Rows and money by finding, for findings that occur; a row counts under each of its own.
        breaks: Rows in the bucket `break`, by the severity of their primary finding.
        changed_during_run: Rows whose second answer was not the first.
        first_observed_at: When the first answer came.
        last_observed_at: When the last one came, confirmations included.
        tie_out: The bridge from the ledger's total to the service's.
    """

    rows: int
    buckets: Mapping[Bucket, Total]
    codes: Mapping[Code, Total]
    breaks: Mapping[Severity, int]
    changed_during_run: int
    first_observed_at: datetime | None
    last_observed_at: datetime | None
    tie_out: TieOut

    @property
    def verdict(self) -> Verdict:
        """The one word for it."""
        if not self.rows:
            return Verdict.EMPTY
        if self.buckets[Bucket.UNRESOLVED].rows:
            return Verdict.INCOMPLETE
        is_clean = not (self.buckets[Bucket.BREAK].rows or self.buckets[Bucket.REJECTED].rows)
        return Verdict.CLEAN if is_clean else Verdict.BREAKS

    @property
    def sentence(self) -> str:
        """The verdict for people, in one sentence."""
        if not self.rows:
            return "Nothing was read, so nothing was compared."
        counts = ", ".join(_counted(bucket, total.rows) for bucket, total in self.buckets.items() if total.rows)
        return f"{_plural(self.rows, 'ledger row')}: {counts}."

    def exit_status(self, fail_on: Severity | str = Severity.MEDIUM) -> int:
        """
        Return what a command should exit with.

        Args:
            fail_on: The least severe break that matters; a severity or its word.

        Returns:
            75 when rows are unresolved, because the other figures may change when the run is complete; otherwise
            1 for breaks that matter and for rejected rows; otherwise 0.
        """
        least = Severity[fail_on.upper()] if isinstance(fail_on, str) else fail_on
        if self.buckets[Bucket.UNRESOLVED].rows:
            return 75
        is_failed = any(count for severity, count in self.breaks.items() if severity >= least)
        return 1 if is_failed or self.buckets[Bucket.REJECTED].rows else 0


def _counted(bucket: Bucket, rows: int) -> str:
    return _plural(rows, "break") if bucket is Bucket.BREAK else f"{rows:,} {bucket}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@define
class Tally:
    """Adds rows up, one by one, in any order."""

    _rows: int = field(init=False, default=0)
    _buckets: dict[Bucket, Total] = field(init=False, factory=lambda: dict.fromkeys(Bucket, Total()))
    _codes: dict[Code, Total] = field(init=False, factory=lambda: dict.fromkeys(Code, Total()))
    _breaks: dict[Severity, int] = field(init=False, factory=lambda: dict.fromkeys(reversed(Severity), 0))
    _changed: int = field(init=False, default=0)
    _first: datetime | None = field(init=False, default=None)
    _last: datetime | None = field(init=False, default=None)
    _bridge: Bridge = field(init=False, factory=Bridge)

    def add(self, row: Row) -> None:
        """Count *row*."""
        self._rows += 1
        self._buckets[row.bucket] = self._buckets[row.bucket].plus(row)
        for code in {finding.code for finding in row.findings}:
            self._codes[code] = self._codes[code].plus(row)
        if row.bucket is Bucket.BREAK:
            self._breaks[row.severity] += 1
        self._changed += row.is_changed_during_run
        self._note_times(row)
        self._bridge.add(row)

    def _note_times(self, row: Row) -> None:
        if row.observed_at is None:
            return
        last = row.confirmed_at or row.observed_at
        self._first = row.observed_at if self._first is None else min(self._first, row.observed_at)
        self._last = last if self._last is None else max(self._last, last)

    def summary(self) -> Summary:
        """
        Return the result.

        Raises:
            TieOutError: When the counts or the money do not tie, which is a bug of ours.
        """
        counted = sum(total.rows for total in self._buckets.values())
        if counted != self._rows:
            message = f"{self._rows} rows were counted, and {counted} are in the buckets"
            raise TieOutError(message)
        return Summary(
            rows=self._rows,
            buckets=MappingProxyType(dict(self._buckets)),
            codes=MappingProxyType({code: total for code, total in self._codes.items() if total.rows}),
            breaks=MappingProxyType(dict(self._breaks)),
            changed_during_run=self._changed,
            first_observed_at=self._first,
            last_observed_at=self._last,
            tie_out=self._bridge.tie_out(),
        )
