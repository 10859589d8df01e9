"""Count rows and money by both status words and by payment method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from attrs import define, field, frozen

from payclient.ledger import Entry
from payclient.reconcile import Row, Total

OTHER = "(other)"
"""Stands for all words that came after the room was taken."""

_ROOM = 1_000
_LONGEST = 80

_Counts: TypeAlias = list[int]
_Key = TypeVar("_Key")


@frozen
class Cell:
    """
    What rows have in common. Words are as they came, cut to 80 characters: show them through `visible`.

    Attributes:
        ledger_status: The ledger's word; None where it has none.
        service_status: The service's word; None where it did not answer, or knows no such transaction.
        method: The service's short code of the payment method, or else the ledger's; None where neither says one.
    """

    ledger_status: str | None
    service_status: str | None
    method: str | None


REST = Cell(OTHER, OTHER, OTHER)
"""Where rows are counted for which there is no room."""


@define
class Matrix:
    """
    Rows and money by status and method.

    Args:
        room: Cells at most; the rows of later ones are counted under `REST`, whatever a service makes up.

    Shape:
        Memory grows with *room*. Cells are in the order in which they first occurred.
    """

    _room: int = field(default=_ROOM, alias="room")
    _counts: dict[tuple[str | None, str | None, str | None], _Counts] = field(init=False, factory=dict)
    _rest: _Counts = field(init=False, factory=lambda: [0, 0, 0])

    def add(self, row: Row) -> None:
        """Count *row*."""
        key = _key(row)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._rest
            if len(self._counts) < self._room:
                counts = self._counts[key] = [0, 0, 0]
        counts[0] += 1
        counts[1] += row.ledger_amount or 0
        counts[2] += row.service_amount or 0

    @property
    def cells(self) -> Mapping[Cell, Total]:
        """What was counted, `REST` last and only where it has rows."""
        cells = {Cell(*key): Total(*counts) for key, counts in self._counts.items()}
        if self._rest[0]:
            cells[REST] = Total(*self._rest)
        return MappingProxyType(cells)

    def by(self, key: Callable[[Cell], _Key]) -> Mapping[_Key, Total]:
        """
        Return the cells added up, those with the most rows first.

        Args:
            key: What cells must have in common to be added up, such as their method.
        """
        sums: dict[_Key, Total] = {}
        for cell, total in self.cells.items():
            sums[key(cell)] = _plus(sums.get(key(cell), Total()), total)
        return MappingProxyType(dict(sorted(sums.items(), key=lambda item: -item[1].rows)))


def _key(row: Row) -> tuple[str | None, str | None, str | None]:
    entry, theirs = row.entry, row.transaction
    ours = entry if isinstance(entry, Entry) else None
    ledger_status = _word(ours.status if ours else None)
    ledger_method = _word(ours.payment_method if ours else None)
    if theirs is None:
        return ledger_status, None, ledger_method
    return ledger_status, _word(theirs.status), _word(theirs.payment_method) or ledger_method


def _word(word: object) -> str | None:
    """Return *word* if it is one, no longer than a person reads."""
    if not isinstance(word, str):
        return None
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"


def _plus(one: Total, other: Total) -> Total:
    return Total(
        one.rows + other.rows,
        one.ledger_amount + other.ledger_amount,
        one.service_amount + other.service_amount,
    )
