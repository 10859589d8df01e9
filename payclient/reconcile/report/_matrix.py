"""Count rows and money by both status words and by payment method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from attrs import frozen

from payclient.reconcile import Rules, Status, Tally, Total
from payclient.reconcile.result import ASSUMED, OTHER

_Key = TypeVar("_Key")


@frozen
class Cell:
    """
    The shared attributes of rows. Words are unchanged, but cut to 80 characters: escape them before showing.

    Attributes:
        ledger_status: The ledger's word; None where it has none.
        service_status: The service's word; None where it did not answer, or knows no such transaction.
        method: The service's short code of the payment method, or else the ledger's; None where neither says one.
    """

    ledger_status: str | None
    service_status: str | None
    method: str | None

    @property
    def words(self) -> tuple[str | None, str | None]:
        """Both status words, the ledger's first."""
        return self.ledger_status, self.service_status


REST = Cell(OTHER, OTHER, OTHER)
"""Counts the rows for which there is no room."""


@frozen
class Matrix:
    """
    Rows and money by status and method.

    Attributes:
        cells: In the order in which they first occurred; `REST` last, and only where it has rows.
    """

    cells: Mapping[Cell, Total]

    @classmethod
    def of(cls, tally: Tally, *, room: int = 1_000) -> Matrix:
        """Return the matrix of a tally's rows; cells after the first *room* are counted under `REST`."""
        cells: dict[Cell, Total] = {}
        for place, (words, total) in enumerate(tally.words()):
            cell = Cell(*words) if place < room else REST
            cells[cell] = cells.get(cell, Total()) + total
        return cls(MappingProxyType(cells))

    def by(self, key: Callable[[Cell], _Key]) -> Mapping[_Key, Total]:
        """
        Return the cells added up, those with the most rows first.

        Args:
            key: What cells must have in common to be added up, such as their method.
        """
        sums: dict[_Key, Total] = {}
        for cell, total in self.cells.items():
            sums[key(cell)] = sums.get(key(cell), Total()) + total
        return MappingProxyType(dict(sorted(sums.items(), key=lambda item: -item[1].rows)))


def status_of_word(word: str | None, rules: Rules) -> Status | None:
    """Return the meaning of a cell's word by *rules*; None if it is not known."""
    return Status.PAID if word == ASSUMED else rules.read_status(word)


_MAX_LINES = 24
_MAX_METHODS = 6

_Pair: TypeAlias = tuple[str | None, str | None]


@frozen(kw_only=True)
class Line:
    """All rows with the same two status words, by method; None where there is no row."""

    ledger: str | None
    service: str | None
    remark: str
    cells: tuple[Total | None, ...]
    total: Total


@frozen(kw_only=True)
class Grid:
    """The table: lines and columns with the most rows first, `OTHER` where words were added up to make it fit."""

    methods: tuple[str | None, ...]
    lines: tuple[Line, ...]


def grid(matrix: Matrix, rules: Rules) -> Grid:
    """Return the table of *matrix*, with the meanings that *rules* give to the words."""
    shown = _most(matrix.by(lambda cell: cell.words), _MAX_LINES)
    methods = _most(matrix.by(lambda cell: cell.method), _MAX_METHODS)

    def place(cell: Cell) -> tuple[_Pair, str | None]:
        pair = cell.words if cell.words in shown else (OTHER, OTHER)
        return pair, cell.method if cell.method in methods else OTHER

    cells = matrix.by(place)
    columns = tuple(dict.fromkeys([*methods, *(method for _, method in cells)]))
    totals = matrix.by(lambda cell: place(cell)[0])
    ordered = sorted(totals, key=lambda pair: pair not in shown)
    lines = (
        Line(
            ledger=pair[0],
            service=pair[1],
            remark=_remark(pair, rules),
            cells=tuple(cells.get((pair, method)) for method in columns),
            total=totals[pair],
        )
        for pair in ordered
    )
    return Grid(methods=columns, lines=tuple(lines))


def _most(keys: Iterable[_Key], most: int) -> list[_Key]:
    """Return the first *most* keys, or all if the next would be the only one that is left out."""
    found = list(keys)
    return found if len(found) <= most + 1 else found[:most]


def _remark(pair: _Pair, rules: Rules) -> str:
    if None in pair or OTHER in pair:
        return ""
    ours, theirs = (status_of_word(word, rules) for word in pair)
    if ours is None or theirs is None:
        return "unknown word"
    return "" if ours is theirs else "not the same"
