"""The tables of rows on the page: how rows are grouped, their headings, and which file has the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from heapq import heappush, heappushpop
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

UNRESOLVED = "Nothing is known about these yet, not even that they are missing. The next run asks again."
REJECTED = "These lines of the ledger cannot be used. Correct them in the ledger, and run again."
ALLOWED = "A rule allows the difference, or it may still be in time; each row says why."

_Item = TypeVar("_Item")


@define
class Top(Generic[_Item]):
    """The items that rank highest out of any number; equal ones in the order in which they came."""

    _room: int
    _rank: Callable[[_Item], int]
    count: int = field(init=False, default=0)
    _kept: list[tuple[int, int, _Item]] = field(init=False, factory=list)

    def add(self, item: _Item) -> None:
        """Count *item*, and keep it if it ranks high enough."""
        self.count += 1
        ranked = (self._rank(item), -self.count, item)  # the second number is unique: items cannot be compared
        heappush(self._kept, ranked) if len(self._kept) < self._room else heappushpop(self._kept, ranked)

    @property
    def kept(self) -> tuple[_Item, ...]:
        """The items kept, the highest first."""
        return tuple(item for _, _, item in sorted(self._kept, key=lambda each: each[:2], reverse=True))


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
        first, bucket = row.primary, row.bucket
        if first is None and (bucket is Bucket.MATCHED or bucket is Bucket.OPEN):
            return
        kind: Kind = bucket
        if first is not None and bucket not in (Bucket.UNRESOLVED, Bucket.REJECTED):
            kind = (first.severity, first.code) if bucket is Bucket.BREAK else first.code
        self._tops[kind].add(row)
        self._totals[kind] += Total.of(row)

    def breaks(self, files: Collection[str]) -> list[Group]:
        """Return the breaks, the most severe first; each row is in one group."""
        order = list(Code)
        kinds = [kind for kind in self._tops if isinstance(kind, tuple)]
        kinds.sort(key=lambda kind: (-kind[0], order.index(kind[1])))
        return [self._of_code(code, _first(_HAS_BREAKS, files), severity) for severity, code in kinds]

    def remarks(self, files: Collection[str]) -> list[Group]:
        """Return the rows that are no breaks, although there is something to say about them."""
        return [self._of_code(code, _first(_HAS_ALL, files)) for code in Code if code in self._tops]

    def of(self, bucket: Bucket, files: Collection[str]) -> Group:
        """Return the unresolved or the rejected rows."""
        return Group(
            anchor=bucket.value,
            title=bucket.capitalize(),
            advice=UNRESOLVED if bucket is Bucket.UNRESOLVED else REJECTED,
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
