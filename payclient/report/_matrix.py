"""Count rows and money by both status words and by payment method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from attrs import define, field, frozen

from payclient.ledger import Entry
from payclient.reconcile import Row, Rules, Status, Total
from payclient.reconcile.result import OTHER

ASSUMED = "paid (assumed)"
"""Stands for the ledger's word where the ledger has no status column."""

_ROOM = 1_000
_MAX_LENGTH = 80

_Words: TypeAlias = tuple[str | None, str | None, str | None]
_Key = TypeVar("_Key")


@frozen
class Cell:
    """
    What rows have in common. Words are unchanged, but cut to 80 characters: escape them before showing.

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


@define
class Matrix:
    """
    Rows and money by status and method.

    Args:
        room: Cells at most; the rows of later ones are counted under `REST`, whatever a service makes up.

    Note:
        Memory grows with *room*. Cells are in the order in which they first occurred.
    """

    _room: int = field(default=_ROOM, alias="room")
    _totals: dict[_Words, Total] = field(init=False, factory=dict)
    _rest: Total = field(init=False, factory=Total)

    def add(self, row: Row) -> None:
        """Count *row*."""
        words, one = _words(row), Total.of(row)
        if words in self._totals or len(self._totals) < self._room:
            self._totals[words] = self._totals.get(words, Total()) + one
        else:
            self._rest += one

    @property
    def cells(self) -> Mapping[Cell, Total]:
        """The counts, `REST` last and only where it has rows."""
        cells = {Cell(*words): total for words, total in self._totals.items()}
        return MappingProxyType(cells | ({REST: self._rest} if self._rest.rows else {}))

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


def _words(row: Row) -> _Words:
    entry, theirs = row.entry, row.transaction
    ours = entry if isinstance(entry, Entry) else None
    ledger_status = ASSUMED if ours and row.is_status_assumed else _word(ours.status if ours else None)
    ledger_method = _word(ours.payment_method if ours else None)
    if theirs is None:
        return ledger_status, None, ledger_method
    return ledger_status, _word(theirs.status), _word(theirs.payment_method) or ledger_method


def status_of_word(word: str | None, rules: Rules) -> Status | None:
    """Return the meaning of a cell's word by *rules*; None if it is not known."""
    return Status.PAID if word == ASSUMED else rules.read_status(word)


def _word(word: object) -> str | None:
    """Return *word* if it is one, no longer than a person reads."""
    if not isinstance(word, str):
        return None
    return word if len(word) <= _MAX_LENGTH else f"{word[: _MAX_LENGTH - 1]}…"


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
