"""Lay the matrix of status and method out as a table that a person can read, however many words there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import frozen

from payclient.reconcile import Rules, Total
from payclient.report._matrix import OTHER, Cell, Matrix

_MOST_LINES = 24
_MOST_METHODS = 6

_Key = TypeVar("_Key")
_States = tuple[str | None, str | None]


@frozen(kw_only=True)
class Line:
    """
    All rows with the same two status words.

    Attributes:
        ledger: The ledger's word; None where it has none.
        service: The service's; None where it said nothing.
        remark: What is the matter with the two words; empty when both mean the same, or one is not there.
        cells: By method; None where there is no row.
        total: Of the line.
    """

    ledger: str | None
    service: str | None
    remark: str
    cells: tuple[Total | None, ...]
    total: Total


@frozen(kw_only=True)
class Grid:
    """
    The table.

    Attributes:
        methods: The columns, the one with the most rows first; None where no method is stated.
        lines: The line with the most rows first; `OTHER` where words were added up to make it fit.
    """

    methods: tuple[str | None, ...]
    lines: tuple[Line, ...]


def grid(matrix: Matrix, rules: Rules) -> Grid:
    """Return what *matrix* counted, with the meanings that *rules* give to the words."""
    states = _most(matrix.by(_states), _MOST_LINES)
    methods = _most(matrix.by(_method), _MOST_METHODS)

    def place(cell: Cell) -> tuple[_States, str | None]:
        pair = _states(cell) if _states(cell) in states else (OTHER, OTHER)
        return pair, cell.method if cell.method in methods else OTHER

    cells = matrix.by(place)
    columns = tuple(dict.fromkeys([*methods, *(method for _, method in cells)]))
    totals = matrix.by(lambda cell: place(cell)[0])
    ordered = [pair for pair in totals if pair in states] + [pair for pair in totals if pair not in states]
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


def _states(cell: Cell) -> _States:
    return cell.ledger_status, cell.service_status


def _method(cell: Cell) -> str | None:
    return cell.method


def _most(keys: Iterable[_Key], most: int) -> list[_Key]:
    """Return the first *most* keys, or all if the next would be the only one that is left out."""
    found = list(keys)
    return found if len(found) <= most + 1 else found[:most]


def _remark(pair: _States, rules: Rules) -> str:
    if None in pair or OTHER in pair:
        return ""
    ours, theirs = map(rules.read_status, pair)
    if ours is None or theirs is None:
        return "unknown word"
    return "" if ours is theirs else "not the same"
