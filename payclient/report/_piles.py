"""Keep the few rows of each kind that a page has room for, and count the others."""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import TypeAlias

from attrs import define, field

from payclient.reconcile import Bucket, Code, Row, Severity, Total

Kind: TypeAlias = tuple[Severity, Code] | Code | Bucket
"""Breaks by severity and leading finding; other rows with findings by the leading one; else the bucket."""


@define
class Pile:
    """
    Rows of one kind.

    Attributes:
        room: How many of them are kept: those with the most money at stake.
        total: Of all, kept or not.
    """

    room: int
    total: Total = field(init=False, default=Total())
    _kept: list[tuple[int, int, Row]] = field(init=False, factory=list)

    def add(self, row: Row) -> None:
        """Take one row."""
        self.total = self.total.plus(row)
        item = (stake(row), -self.total.rows, row)  # the place in the pile decides, for rows cannot be compared
        heappush(self._kept, item) if len(self._kept) < self.room else heappushpop(self._kept, item)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The kept ones, the most money at stake first and then in the order of the ledger."""
        return tuple(row for _, _, row in sorted(self._kept, key=lambda item: item[:2], reverse=True))


@define
class Piles:
    """
    All rows that a person may want to look at, by kind.

    Args:
        room: Rows kept of each kind.

    Shape:
        Memory grows with *room* and the number of kinds, not with the rows.
    """

    _room: int
    _piles: dict[Kind, Pile] = field(init=False, factory=dict)

    def add(self, row: Row) -> None:
        """Take one row; one that matched without a finding is nothing to look at."""
        bucket = row.bucket
        if not row.findings and (bucket is Bucket.MATCHED or bucket is Bucket.OPEN):
            return
        kind = kind_of(row)
        pile = self._piles.get(kind)
        if pile is None:
            pile = self._piles[kind] = Pile(self._room)
        pile.add(row)

    def breaks(self) -> list[tuple[Severity, Code, Pile]]:
        """Return the breaks, the most severe first; each row is in one pile."""
        found = [(*kind, pile) for kind, pile in self._piles.items() if isinstance(kind, tuple)]
        order = list(Code)
        return sorted(found, key=lambda each: (-each[0], order.index(each[1])))

    def remarks(self) -> list[tuple[Code, Pile]]:
        """Return the rows that are no breaks, although there is something to say about them."""
        return [(code, self._piles[code]) for code in Code if code in self._piles]

    def of(self, bucket: Bucket) -> Pile:
        """Return the rows of a bucket that has one pile."""
        return self._piles.get(bucket) or Pile(self._room)


def kind_of(row: Row) -> Kind:
    """Return the pile that *row* belongs to."""
    first = row.primary
    if first is None or row.bucket in (Bucket.UNRESOLVED, Bucket.REJECTED):
        return row.bucket
    return (first.severity, first.code) if row.bucket is Bucket.BREAK else first.code


def stake(row: Row) -> int:
    """Return how much money depends on *row*: the difference of the amounts, or else the amount."""
    ours, theirs = row.ledger_amount, row.service_amount
    if ours is None or theirs is None or ours == theirs:
        return abs(ours or theirs or 0)
    return abs(theirs - ours)
