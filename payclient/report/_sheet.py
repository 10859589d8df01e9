"""
Write one sheet of a workbook, row by row and with nothing kept.

A library for this was measured at 86 µs for a row of 20 cells, which is ten times what this takes and most of what all
reports together may take; it also writes a text that looks like its own markup without escaping it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import count, product
from string import ascii_uppercase
from typing import TypeAlias

from attrs import frozen

from payclient._visible import visible

MOST_ROWS = 1_048_576
"""Where every sheet ends, the header included. Source: Excel specifications and limits."""

MOST_BYTES = 2_000_000_000
"""A larger one needs an extension of ZIP about which spreadsheets complain."""

_EXACT = 10**15
"""Spreadsheets show 15 digits, and zeros behind them."""

_LONGEST = 10_000
"""Far below the 32,767 UTF-16 units that a cell holds, whatever they are."""

_SPECIAL = re.compile(r"[^ -%'-;=?-^`-~]|^ | $")
"""What cannot stand in a cell as it is: no plain ASCII, XML, what may be an escape, spaces at an end."""

_ESCAPE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
"""In a cell, `_x202E_` would be read as that character. Source: ECMA-376, ST_Xstring."""

Value: TypeAlias = str | int | None


class Style(IntEnum):
    """The formats of cells, in the order in which the workbook lists them."""

    GENERAL = 0
    TEXT = 1
    MONEY = 2
    PLAIN = 3
    HEADER = 4


@frozen
class Column:
    """
    One column.

    Attributes:
        title: In the header.
        width: In characters.
        number: How numbers are shown: with or without separators of thousands.
    """

    title: str
    width: int = 14
    number: Style = Style.MONEY


def column_letters() -> Iterator[str]:
    """Yield A, B, … Z, AA, AB, … for ever."""
    for length in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=length))


class Sheet:
    """
    The rows of one sheet, as XML.

    Args:
        columns: The header is their titles.
        has_filter: Whether the header has filters.
        most_rows: Rows that fit, the header included.
        most_bytes: After so many no row fits any more.
        rest: The file that has the rows that do not fit.

    Shape:
        Write what `start` returns, what `add` returns for each row, and what `end` returns. The last row that fits is
        held back until it is known whether more come: then a sentence takes its place, which says so.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        has_filter: bool = True,
        most_rows: int = MOST_ROWS,
        most_bytes: int = MOST_BYTES,
        rest: str = "rows.jsonl",
    ) -> None:
        self._columns = columns
        self._cells = [(letter, int(each.number)) for letter, each in zip(column_letters(), columns, strict=False)]
        self._has_filter = has_filter
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._rest = rest
        self._rows = 1
        self._bytes = 0
        self._last: Sequence[Value] | None = None
        self._more = 0

    def start(self) -> bytes:
        """Return the beginning, with the header."""
        widths = "".join(
            f'<col min="{place}" max="{place}" width="{column.width}" style="{Style.TEXT:d}" customWidth="1"/>'
            for place, column in enumerate(self._columns, 1)
        )
        header = "".join(
            f'<c r="{letter}1" s="{Style.HEADER:d}" t="inlineStr"><is><t>{_escaped(column.title)}</t></is></c>'
            for (letter, _), column in zip(self._cells, self._columns, strict=True)
        )
        return f'{_HEAD}<cols>{widths}</cols><sheetData><row r="1">{header}</row>'.encode()

    def add(self, values: Sequence[Value]) -> bytes:
        """Return the next row, or nothing while it is held back or where it does not fit."""
        if self._rows + 1 < self._most_rows and self._bytes < self._most_bytes:
            return self._row(values)
        if self._last is None:
            self._last = values
        else:
            self._more += 1
        return b""

    def end(self) -> bytes:
        """Return what was held back, and the end."""
        last = b""
        if self._last is not None:
            last = self._row([self._sentence()] if self._more else self._last)
        area = f'<autoFilter ref="{self.area.replace("$", "")}"/>' if self.area else ""
        return last + f"</sheetData>{area}{_TAIL}".encode()

    @property
    def left_out(self) -> int:
        """How many of the rows so far are not in the sheet; the sentence takes the place of one more."""
        return self._more + 1 if self._more else 0

    @property
    def area(self) -> str:
        """What the filters are about, as a workbook names it; empty without filters."""
        return f"$A$1:${self._cells[-1][0]}${self._rows}" if self._has_filter else ""

    def _sentence(self) -> str:
        return f"the sheet ends here: {self.left_out:,} more rows do not fit in it; {self._rest} has all of them"

    def _row(self, values: Iterable[Value]) -> bytes:
        self._rows = number = self._rows + 1
        cells: list[str] = []
        for (letter, style), value in zip(self._cells, values, strict=False):
            if isinstance(value, int) and -_EXACT < value < _EXACT:
                cells.append(f'<c r="{letter}{number}" s="{style}"><v>{value:d}</v></c>')
            elif value is not None and value != "":
                text = str(value)
                is_plain = len(text) < _LONGEST and not _SPECIAL.search(text)
                shown = f">{text}" if is_plain else f' xml:space="preserve">{_escaped(text)}'
                cells.append(f'<c r="{letter}{number}" s="1" t="inlineStr"><is><t{shown}</t></is></c>')
        row = f'<row r="{number}">{"".join(cells)}</row>'.encode()
        self._bytes += len(row)
        return row


def _escaped(text: str) -> str:
    """Return *text* as XML that reads as itself, with nothing that cannot be seen."""
    # Cut twice: the first time for speed, the second time because what cannot be seen takes more room once it can.
    text = visible(visible(text, longest=_LONGEST), longest=_LONGEST)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ESCAPE.sub("_x005F_", text)


_HEAD = (
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    '<sheetPr><pageSetUpPr fitToPage="1"/></sheetPr>'
    '<sheetViews><sheetView workbookViewId="0">'
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/><selection pane="bottomLeft"/>'
    "</sheetView></sheetViews>"
    '<sheetFormatPr defaultRowHeight="15"/>'
)
_TAIL = (
    '<pageMargins left="0.5" right="0.5" top="0.75" bottom="0.75" header="0.3" footer="0.3"/>'
    '<pageSetup paperSize="9" orientation="landscape" fitToHeight="0"/></worksheet>'
)
