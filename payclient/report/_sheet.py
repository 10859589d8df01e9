"""Write the sheets of a workbook with XlsxWriter: text stays text, and the same rows give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from html import escape
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import xlsxwriter  # type: ignore[import-untyped]
from attrs import frozen
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from payclient._atomic import GivenFile
from payclient._escape import escape_unprintable
from payclient.report._rows_file import ROWS

MAX_ROWS = 1_048_576
"""Rows of a sheet, the header included. Source: Excel specifications and limits."""

MAX_BYTES = 2_000_000_000
"""A larger sheet needs ZIP64, about which spreadsheets complain."""

_EXACT = 10**15
"""Spreadsheets show 15 digits, and zeros for the digits after them."""

_MAX_TEXT = 10_000
"""Far below the 32,767 UTF-16 units that a cell holds, whatever the characters are."""

_PLAIN = re.compile("(?! )[ -%'-;=?-^`-~]*(?<! )")
"""Text that XML holds as it is: ASCII without markup, spaces at an end, or `_`, which may begin an escape."""

_SHARED_ESCAPE = re.compile("(?<=_x[0-9A-Fa-f]{4})_(?=x[0-9A-Fa-f]{4}_)")
"""The middle of `_x0041_x0042_`. XlsxWriter escapes only the first of two escapes that share an underscore."""

_Workbook: Any = xlsxwriter.Workbook  # its own types are partial
_CREATED = datetime(1980, 1, 1, tzinfo=UTC)

Value: TypeAlias = str | int | None


class Style(Enum):
    """The formats of cells."""

    TEXT = "@"
    MONEY = "#,##0"
    PLAIN = "0"


@frozen
class Column:
    """One column of a sheet; the width is in characters."""

    title: str
    width: int = 14
    number: Style = Style.MONEY


class SheetWriter:
    """One sheet, with a header, up to a number of rows and bytes."""

    # The last row that fits is held back until it is known whether more rows follow. If they do, a sentence that says
    # so, and names the file with the *rest*, takes its place.

    def __init__(
        self,
        sheet: Any,
        columns: Sequence[Column],
        *,
        formats: Mapping[Style, Any],
        header: Any,
        has_filter: bool = True,
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
        rest: str = ROWS,
    ) -> None:
        self._sheet = sheet
        self._text = formats[Style.TEXT]
        self._numbers = [formats[column.number] for column in columns]
        self._has_filter = has_filter
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rest = rest
        self._rows = 1
        self._bytes = 0
        self._last: Sequence[Value] | None = None
        self._more = 0
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.set_margins(left=0.5, right=0.5)
        sheet.fit_to_pages(1, 0)
        for place, column in enumerate(columns):
            sheet.set_column(place, place, max(column.width, len(column.title) + 3), self._text)  # with the arrow
            sheet.write_string(0, place, column.title, header)

    def add(self, values: Sequence[Value]) -> None:
        """Write the next row, if it fits."""
        if self._rows + 1 < self._max_rows and self._bytes < self._max_bytes:
            self._write(values)
        elif self._last is None:
            self._last = values
        else:
            self._more += 1

    def finish(self) -> None:
        """Write what was held back."""
        if self._last is not None:
            end = f"the sheet ends here: {self.left_out:,} more rows do not fit in it; {self._rest} has all of them"
            self._write([end] if self._more else self._last)
        if self._has_filter:
            self._sheet.autofilter(0, 0, self._rows - 1, len(self._numbers) - 1)

    @property
    def left_out(self) -> int:
        """The number of rows that do not fit, once all are written; the sentence takes the place of one more."""
        return self._more + 1 if self._more else 0

    def _write(self, values: Sequence[Value]) -> None:
        row = self._rows
        self._rows += 1
        self._bytes += 25
        for place, value in enumerate(values):
            if isinstance(value, int) and -_EXACT < value < _EXACT:
                self._sheet.write_number(row, place, value, self._numbers[place])
                self._bytes += 50
            elif value is not None and value != "":
                text = str(value)
                if len(text) > _MAX_TEXT or not _PLAIN.fullmatch(text):
                    text = shown(text)
                    # An upper bound: `&amp;` has five bytes, an escape `_x005F_` seven.
                    self._bytes += 30 + 4 * len(text)
                self._sheet.write_string(row, place, text, self._text)
                self._bytes += 60 + len(text)


def shown(text: str) -> str:
    """Return *text* such that XlsxWriter writes a cell that reads as it, with nothing hidden."""
    # Cut twice: first for speed, then because a character that does not print gets longer when it is shown.
    text = escape_unprintable(escape_unprintable(text, max_length=_MAX_TEXT), max_length=_MAX_TEXT)
    text = _SHARED_ESCAPE.sub("<U+005F>", text)
    if text.startswith("<r>") and text.endswith("</r>"):  # XlsxWriter takes this for markup and writes it as it is
        return f"<r><t>{escape(text, quote=False)}</t></r>"
    return text


class BookWriter:
    """The sheets of one XLSX file: `begin` them in their order, `add` rows to any, then `finish`."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._output = GivenFile(file)
        self._book: Any = _Workbook(self._output, {"constant_memory": True, "tmpdir": str(folder)})
        self._book.set_properties({"created": _CREATED})  # not now, so that the same rows give the same bytes
        self._formats = {style: self._book.add_format({"num_format": style.value}) for style in Style}
        self._header = self._book.add_format({"num_format": "@", "bold": True, "bg_color": "#E8ECF1"})
        self._sheets: list[SheetWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without `finish`, or after it failed, files are still open; on a full disk, closing them fails as well.
        self._output.file = BytesIO()
        for sheet in self._book.worksheets():
            for file in (sheet.row_data_fh, sheet.fh):
                with suppress(OSError):
                    file.close()

    def begin(self, name: str, columns: Sequence[Column], **options: Any) -> SheetWriter:
        """Add a sheet; *options* are those of `SheetWriter`."""
        sheet = self._book.add_worksheet(name)
        self._sheets.append(SheetWriter(sheet, columns, formats=self._formats, header=self._header, **options))
        return self._sheets[-1]

    def finish(self) -> None:
        """Write the file."""
        for sheet in self._sheets:
            sheet.finish()
        try:
            self._book.close()
        except FileCreateError as error:
            (cause,) = error.args
            raise cause from error
