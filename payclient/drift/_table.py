"""A table of counts that can be merged in any order, and stays small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2s
from typing import Any, TypeAlias

from attrs import field, frozen

Key: TypeAlias = tuple[str, ...]
"""The kind of a cell, and what it counts."""

Cell: TypeAlias = tuple[int, int]
"""How often, and first when, in minutes since 1970."""

MAX_BYTES = 60_000
"""Of the cells as JSON; what else a run keeps has the rest of 64 KiB."""

KINDS = (
    *("answers", "envelope", "header", "state", "word", "transition", "took", "relation", "field", "share", "latency"),
    *("deviation", "failure", "name", "text"),
)
"""The last ones are the first to be left out: an object keyed by reference has a name for each payment."""

_ORDER = {kind: f"{index:x}" for index, kind in enumerate(KINDS)}
_NO_CUT = "~"
_OVERHEAD = 28  # brackets, commas and both numbers


@frozen
class Table:
    """
    Counts by cell.

    Attributes:
        cells: By kind and parts.
        cut: The rank from which cells are left out; those before it have exact counts.
    """

    cells: Mapping[Key, Cell] = field(factory=dict[Key, Cell])
    cut: str = _NO_CUT

    def __add__(self, other: Table) -> Table:
        cells = dict(self.cells)
        for key, (count, first) in other.cells.items():
            if (mine := cells.get(key)) is not None:
                count, first = count + mine[0], min(first, mine[1])  # noqa: PLW2901  the sum of both
            cells[key] = count, first
        return bounded(cells, min(self.cut, other.cut))

    def of(self, kind: str) -> Iterator[tuple[Key, int, int]]:
        """Yield parts, count and first time of each cell of *kind*."""
        return ((key[1:], *cell) for key, cell in self.cells.items() if key[0] == kind)

    @property
    def is_cut(self) -> bool:
        """Whether cells are left out."""
        return self.cut != _NO_CUT

    @property
    def answers(self) -> int:
        """Responses and failures that it counts."""
        return self.cells.get(("answers",), (0, 0))[0]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"cells": [[*key, *cell] for key, cell in sorted(self.cells.items())], "cut": self.cut}


def bounded(cells: Mapping[Key, Cell], cut: str = _NO_CUT) -> Table:
    """
    Return a table of the first *cells* by rank, as many as fit.

    The rank depends on the key alone, and where the cut is, is kept. So whatever is merged first, the same cells stay.
    """
    size = sum(map(_size, cells))
    if size <= MAX_BYTES and cut == _NO_CUT:
        return Table(cells)
    left: dict[Key, Cell] = {}
    size = 0
    for rank, key in sorted((_rank(key), key) for key in cells):
        size += _size(key)
        if size > MAX_BYTES or rank >= cut:
            cut = min(cut, rank)
            break
        left[key] = cells[key]
    return Table(left, cut)


def table_from_json(value: Any) -> Table:
    return bounded({tuple(map(str, row[:-2])): (int(row[-2]), int(row[-1])) for row in value["cells"]}, value["cut"])


def _size(key: Key) -> int:
    return sum(map(len, key)) + 3 * len(key) + _OVERHEAD


def _rank(key: Key) -> str:
    return _ORDER.get(key[0], "f") + blake2s("\n".join(key).encode(), digest_size=8).hexdigest()
