"""The tables of rows on the page: how rows are grouped, their headings, and which file has the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from heapq import heappush, heappushpop
from typing import TypeAlias

from attrs import define, field, frozen

from payclient.reconcile import Bucket, Code, Row, Severity, Total, amount_at_stake, reff_key
from payclient.report._rows_file import GZIP_ROWS, ROWS
from payclient.report._wording import CASE_ONLY, CODES

Kind: TypeAlias = tuple[Severity, Code] | Code | Bucket
"""Breaks by severity and leading finding; other rows with findings by the leading one; else the bucket."""


@define
class TopRows:
    """
    The rows that rank highest, out of any number.

    Args:
        room: Rows kept.
        rank: What a row is ranked by; the highest come first, and equal ones in the order in which they came.

    Attributes:
        total: Of all rows, kept or not.
    """

    _room: int
    _rank: Callable[[Row], int]
    total: Total = field(init=False, default=Total())
    _kept: list[tuple[int, int, Row]] = field(init=False, factory=list)

    def add(self, row: Row) -> None:
        """Count *row*, and keep it if it ranks high enough."""
        self.total = self.total.plus(row)
        item = (self._rank(row), -self.total.rows, row)  # the second number is unique: rows cannot be compared
        heappush(self._kept, item) if len(self._kept) < self._room else heappushpop(self._kept, item)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows kept, the highest first."""
        return tuple(row for _, _, row in sorted(self._kept, key=lambda item: item[:2], reverse=True))


@define
class RowGroups:
    """
    The rows that a person may want to look at, by kind.

    Note:
        Memory grows with *room* and the number of kinds, not with the rows.
    """

    _room: int
    _groups: dict[Kind, TopRows] = field(init=False, factory=dict)

    def add(self, row: Row) -> None:
        """Add *row*, unless it matched or is open without a finding."""
        bucket = row.bucket
        if not row.findings and (bucket is Bucket.MATCHED or bucket is Bucket.OPEN):
            return
        kind = kind_of(row)
        top = self._groups.get(kind)
        if top is None:
            top = self._groups[kind] = TopRows(self._room, amount_at_stake)
        top.add(row)

    def breaks(self) -> list[tuple[Severity, Code, TopRows]]:
        """Return the breaks, the most severe first; each row is in one group."""
        found = [(*kind, top) for kind, top in self._groups.items() if isinstance(kind, tuple)]
        order = list(Code)
        return sorted(found, key=lambda each: (-each[0], order.index(each[1])))

    def remarks(self) -> list[tuple[Code, TopRows]]:
        """Return the rows that are no breaks, although there is something to say about them."""
        return [(code, self._groups[code]) for code in Code if code in self._groups]

    def of(self, bucket: Bucket) -> TopRows:
        """Return the rows of a bucket that is one group."""
        return self._groups.get(bucket) or TopRows(self._room, amount_at_stake)


def kind_of(row: Row) -> Kind:
    """Return the kind of *row*."""
    first = row.primary
    if first is None or row.bucket in (Bucket.UNRESOLVED, Bucket.REJECTED):
        return row.bucket
    return (first.severity, first.code) if row.bucket is Bucket.BREAK else first.code


_SOFT = frozenset({Code.SERVICE_ARITHMETIC, Code.TOLERATED_DEVIATION})
_HAS_BREAKS = ("breaks.csv", ROWS, GZIP_ROWS, "report.xlsx")
_HAS_BUCKET = (ROWS, GZIP_ROWS, "report.xlsx")
_HAS_ALL = (ROWS, GZIP_ROWS)

UNRESOLVED = "Nothing is known about these yet, not even that they are missing. The next run asks again."
REJECTED = "These lines of the ledger cannot be used. Correct them in the ledger, and run again."
ALLOWED = "A rule allows the difference, or it may still be in time; each row says why."


@frozen(kw_only=True)
class Group:
    """
    One table of rows.

    Attributes:
        anchor: By which the page links to it.
        title: What its rows have in common.
        advice: What that means, and what to do.
        code: Of the finding that they have in common; empty when there is none.
        severity: Of that finding, in a word; empty when it does not matter.
        total: Of all such rows.
        rows: Those that are shown.
        rest: The file that has all of them; empty when none was written.
    """

    anchor: str
    title: str
    advice: str
    code: str = ""
    severity: str = ""
    total: Total
    rows: tuple[Row, ...]
    rest: str


def breaks(groups: RowGroups, files: Collection[str]) -> Iterator[Group]:
    """Yield the breaks, the most severe first; each row is in one group."""
    for severity, code, top in groups.breaks():
        yield _of_code(code, top, _first(_HAS_BREAKS, files), severity)


def remarks(groups: RowGroups, files: Collection[str]) -> Iterator[Group]:
    """Yield the rows that are no breaks, although there is something to say about them."""
    for code, top in groups.remarks():
        yield _of_code(code, top, _first(_HAS_ALL, files))


def of_bucket(bucket: Bucket, groups: RowGroups, files: Collection[str]) -> Group:
    """Return the unresolved or the rejected rows."""
    top = groups.of(bucket)
    return Group(
        anchor=bucket.value,
        title=bucket.capitalize(),
        advice=UNRESOLVED if bucket is Bucket.UNRESOLVED else REJECTED,
        total=top.total,
        rows=top.rows,
        rest=_first(_HAS_BUCKET, files),
    )


def _of_code(code: Code, top: TopRows, rest: str, severity: Severity | None = None) -> Group:
    is_case_only = code is Code.MERCHANT_REFF_DIFFERS and severity is Severity.MEDIUM
    wording = CASE_ONLY if is_case_only else CODES[code]
    is_allowed = severity is None and code not in _SOFT
    return Group(
        anchor=f"{code}-{severity.word}" if severity is not None else f"{code}-remark",
        title=wording.title,
        advice=ALLOWED if is_allowed else wording.advice,
        code=code.value,
        severity="" if severity is None else severity.word,
        total=top.total,
        rows=_together(top.rows) if code is Code.PAID_TWICE else top.rows,
        rest=rest,
    )


def _together(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return *rows* with those of one invoice side by side, the invoices in the order of their first row."""
    keys = [reff_key(row.transaction.merchant_reff) if row.transaction else None for row in rows]
    return tuple(row for _, row in sorted(zip(map(keys.index, keys), rows, strict=True), key=lambda each: each[0]))


def _first(wanted: tuple[str, ...], files: Collection[str]) -> str:
    return next((name for name in wanted if name in files), "")
