"""The tables of rows on the page: how rows are grouped, their headings, and which file has the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from heapq import nlargest
from typing import Generic, TypeAlias, TypeVar

from attrs import define, field, frozen

from payclient.reconcile import Bucket, Code, Row, Severity, Total
from payclient.reconcile.judge import reff_key
from payclient.report._rows_file import GZIP_ROWS, ROWS
from payclient.report._wording import CASE_ONLY, Wording

Kind: TypeAlias = tuple[Severity, Code] | Code | Bucket
"""Breaks by severity and leading finding; other rows with findings by the leading one; else the bucket."""

_HAS_BREAKS = ("breaks.csv", ROWS, GZIP_ROWS, "report.xlsx")
_HAS_BUCKET = (ROWS, GZIP_ROWS, "report.xlsx")
_HAS_ALL = (ROWS, GZIP_ROWS)

ADVICE = {
    Bucket.UNRESOLVED: "Nothing is known about these yet, not even that they are missing. The next run asks again.",
    Bucket.REJECTED: "These lines of the ledger cannot be used. Correct them in the ledger, and run again.",
}
ALLOWED = "A rule allows the difference, or it may still be in time; each row says why."

_Item = TypeVar("_Item")


@define
class Top(Generic[_Item]):
    """The items that rank highest out of any number; equal ones in the order in which they came."""

    _room: int
    _rank: Callable[[_Item], int]
    count: int = field(init=False, default=0)
    _items: list[_Item] = field(init=False, factory=list)

    def add(self, item: _Item) -> None:
        self.count += 1
        self._items.append(item)
        if len(self._items) > 2 * self._room:
            self._items = list(self.kept)

    @property
    def kept(self) -> tuple[_Item, ...]:
        return tuple(nlargest(self._room, self._items, key=self._rank))


@frozen(kw_only=True)
class Group:
    """One table of rows, and the file that has those that are not shown."""

    anchor: str
    title: str
    advice: str
    code: str = ""
    severity: str = ""
    total: Total
    rows: tuple[Row, ...]
    rest: str


@define
class RowGroups:
    """The rows that need a person's attention, by kind; memory grows with *room*, not with the rows."""

    _room: int
    _tops: defaultdict[Kind, Top[Row]] = field(init=False)
    _totals: defaultdict[Kind, Total] = field(init=False, factory=lambda: defaultdict(Total))

    def __attrs_post_init__(self) -> None:
        self._tops = defaultdict(lambda: Top(self._room, lambda row: row.at_stake))

    def add(self, row: Row) -> None:
        """Add *row*, unless it matched or is open without a finding."""
        kind: Kind = row.bucket
        if row.primary is not None and row.bucket not in ADVICE:
            kind = (row.severity, row.primary.code) if row.bucket is Bucket.BREAK else row.primary.code
        if kind not in (Bucket.MATCHED, Bucket.OPEN):
            self._tops[kind].add(row)
            self._totals[kind] += Total.of(row)

    def breaks(self, files: Collection[str]) -> list[Group]:
        """Return the breaks, the most severe first; each row is in one group."""
        kinds = ((severity, code) for severity in reversed(Severity) for code in Code)
        rest = _first(_HAS_BREAKS, files)
        return [self._of_code(code, rest, severity) for severity, code in kinds if (severity, code) in self._tops]

    def remarks(self, files: Collection[str]) -> list[Group]:
        """Return the rows that are no breaks, although there is something to say about them."""
        return [self._of_code(code, _first(_HAS_ALL, files)) for code in Code if code in self._tops]

    def of(self, bucket: Bucket, files: Collection[str]) -> Group:
        """Return the unresolved or the rejected rows."""
        return Group(
            anchor=bucket.value,
            title=bucket.capitalize(),
            advice=ADVICE[bucket],
            total=self._totals[bucket],
            rows=self._tops[bucket].kept,
            rest=_first(_HAS_BUCKET, files),
        )

    def _of_code(self, code: Code, rest: str, severity: Severity | None = None) -> Group:
        kind = code if severity is None else (severity, code)
        rows = self._tops[kind].kept
        is_case_only = code is Code.MERCHANT_REFF_DIFFERS and severity is Severity.MEDIUM
        wording = CASE_ONLY if is_case_only else Wording(code.label, code.advice)
        is_allowed = severity is None and not code.is_soft
        return Group(
            anchor=f"{code}-{severity.word}" if severity is not None else f"{code}-remark",
            title=wording.title,
            advice=ALLOWED if is_allowed else wording.advice,
            code=code.value,
            severity="" if severity is None else severity.word,
            total=self._totals[kind],
            rows=_together(rows) if code is Code.PAID_TWICE else rows,
            rest=rest,
        )


def _together(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return *rows* with those of one invoice side by side, the invoices in the order of their first row."""
    keys = [reff_key(row.transaction.merchant_reff) if row.transaction else None for row in rows]
    return tuple(row for _, row in sorted(zip(map(keys.index, keys), rows, strict=True), key=lambda each: each[0]))


def _first(wanted: tuple[str, ...], files: Collection[str]) -> str:
    return next((name for name in wanted if name in files), "")
