"""Text in columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """
    Return one line per row, with the cells of each column below each other.

    Args:
        rows: All of the same length, free of control characters.
        right: Positions of the columns that end at the same place, as numbers should.
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def cell(place: int, text: str) -> str:
        blanks = " " * (widths[place] - cell_len(text))
        return blanks + text if place in right else text + blanks

    return ["  ".join(cell(place, text) for place, text in enumerate(row)).rstrip() for row in rows]
