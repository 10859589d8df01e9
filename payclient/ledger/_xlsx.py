"""
Read a ledger from XLSX: one sheet, row by row, exactly the values that are stored.

No library is used here, because a wrong amount is worse than slow reading. Design rules:

- A formula has the result that is stored in the file; one without a result is refused, not empty.
- No row is left out: hidden and filtered rows are read, and rows out of order refuse the file.
  openpyxl drops such a row silently, and reads a formula without a result as an empty cell.
- Memory is bounded: rows are read one by one, and only the shared strings are held.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from payclient._escape import quote
from payclient.ledger._archive import Archive, Attributes, Handler
from payclient.ledger._cells import Unreadable
from payclient.ledger._columns import Finder
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._header import to_header, with_hint
from payclient.ledger._ledger import NO_COLUMNS, Table
from payclient.ledger._rows import RowReader
from payclient.ledger._scope import Scope
from payclient.ledger._workbook import Sheet, TextParts, Workbook, check_length, read_workbook, unescape

_MAX_ROWS = 1_048_576
_MAX_COLUMNS = 16_384
_MAX_WHOLE = 10**15  # a spreadsheet does not keep further digits
_BLANK = re.compile("[ \t\r\n]*")
_PLACE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_NO_RESULT = Unreadable("is a formula without a stored result; open the file in a spreadsheet program and save it")


def read_xlsx(file: IO[bytes], find: Finder, sheet: str | None, scope: Scope) -> Table:
    """
    Return the table on one sheet of an XLSX file, which must stay open; on the first visible one if none is named.

    Raises:
        LedgerError: When the file is damaged, has a password or exceeds a limit, or its header is
            unusable; for rows, when they are read.
    """
    dialect = scope.dialect
    book = read_workbook(Archive(file))
    chosen = _choose(book, sheet)
    warnings = list(_other_sheets(book, chosen))
    parser = _SheetParser(book)
    rows = _filled(parser.rows(chosen.part))
    first, cells, skipped = to_header(rows, dialect, empty=dict[int, Any]())
    header = _names(cells)
    try:
        understood = find(header) if first else NO_COLUMNS
    except LedgerError as error:
        raise with_hint(error, ((line, _names(each)) for line, each in rows), find, dialect, header=header) from None
    reader = RowReader(understood, dialect, scope)
    reader.warnings += warnings + skipped
    entries = _entries(rows, reader, parser, header_row=first)
    return Table(columns=understood, reader=reader, rows=entries if first else (), header_row=first)


FORMULA = Unreadable("is a formula")
"""What `read_cells` has for a cell with a formula, whatever its result."""


def read_cells(file: IO[bytes], sheet: str) -> Iterator[tuple[int, dict[int, Any]]]:
    """
    Yield the number of each filled row of a sheet with its filled cells, by column from 0.

    Args:
        file: Must stay open while the rows are read.
        sheet: Its name.

    Raises:
        LedgerError: When the file is damaged, or has no such sheet.
    """
    book = read_workbook(Archive(file))
    yield from _filled(_SheetParser(book, formula=FORMULA).rows(_choose(book, sheet).part))


def _choose(book: Workbook, name: str | None) -> Sheet:
    shown = [each for each in book.sheets if (not each.is_hidden if name is None else each.name == name)]
    if not shown:
        names = ", ".join(quote(each.name) for each in book.sheets) or "none"
        what = "a sheet that is not hidden" if name is None else f"a sheet called {quote(name)}"
        message = f"the workbook does not have {what}; its sheets are {names}"
        raise LedgerError(message)
    return shown[0]


def _other_sheets(book: Workbook, chosen: Sheet) -> Iterator[str]:
    """Yield a warning that names the other sheets with content."""
    others = [each for each in book.sheets if each != chosen]
    filled = [each.name for each in others if next(_filled(_SheetParser(book).rows(each.part)), None)]
    if filled:
        names = ", ".join(map(quote, filled))
        yield f"only the sheet {quote(chosen.name)} was read; there are rows in {names} too"


def _filled(rows: Iterator[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, dict[int, Any]]]:
    return ((line, cells) for line, cells in rows if cells)


def _names(cells: Mapping[int, Any]) -> tuple[str, ...]:
    values = map(cells.get, range(max(cells, default=-1) + 1))
    return tuple("" if value is None or isinstance(value, Unreadable) else str(value) for value in values)


def _entries(
    rows: Iterator[tuple[int, dict[int, Any]]], reader: RowReader, parser: _SheetParser, *, header_row: int
) -> Iterator[Entry | RejectedEntry | None]:
    width = len(reader.columns.header)
    has_told = False
    for line, cells in rows:
        if parser.hidden_row and not has_told:
            has_told = True
            reader.warnings.append(f"row {parser.hidden_row} is hidden; hidden rows are read too")
        if max(cells) < width:
            yield reader.read(line, list(map(cells.get, range(width))))
        else:
            reason = f"has a value in column {_letters(max(cells))}, to the right of the header"
            yield RejectedEntry(line=line, reason=reason)
    if merged := [each for each in parser.merged if _last_row(each) > header_row]:
        more = f" (and {len(merged) - 1:,} more)" if merged[1:] else ""
        reader.warnings.append(
            f"the cells {merged[0]} are merged{more}; only the first of them has a value, which is not repeated in "
            "the rows below; undo the merge and fill them if it is meant for all"
        )


class _SheetParser(Handler):
    """
    Parses the rows of a sheet.

    Args:
        book: The workbook.
        formula: The value of a cell with a formula; its stored result if not given.

    Attributes:
        hidden_row: The first hidden row; 0 if there was none.
        merged: The merged cells, such as `A5:A7`; they come after the rows, in the file.
    """

    def __init__(self, book: Workbook, *, formula: Unreadable | None = None) -> None:
        self.hidden_row = 0
        self.merged: list[str] = []
        self._formula = formula
        self._book = book
        self._texts = TextParts()
        self._done: list[tuple[int, dict[int, Any]]] = []
        self._row = 0
        self._cells: dict[int, Any] = {}
        self._next_place = 0
        self._kind = "n"
        self._style = "0"
        self._value: str | None = None
        self._is_in_value = False
        self._has_formula = False

    def rows(self, part: str) -> Iterator[tuple[int, dict[int, Any]]]:
        """Yield the number of each row with its filled cells, by column from 0."""
        parsed = self._book.archive.parsed(part, self)
        for _ in parsed:
            yield from self._done
            self._done = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "c":
            self._start_cell(attributes)
        elif name == "v":
            self._is_in_value = True
            self._value = ""
        elif name == "row":
            self._start_row(attributes)
        elif name == "f":
            self._has_formula = True
        elif name == "mergeCell":
            self.merged.append(attributes.get("ref", ""))
        else:
            self._texts.start(name, attributes)

    def text(self, text: str) -> None:
        if self._is_in_value:
            self._value = f"{self._value}{text}" if self._value else text
            check_length(len(self._value))
        else:
            self._texts.text(text)

    def end(self, name: str) -> None:
        if name == "v":
            self._is_in_value = False
        elif name == "c":
            value = self._cell_value()
            if value is not None and not (isinstance(value, str) and _BLANK.fullmatch(value)):
                self._cells[self._next_place - 1] = value
        elif name == "row":
            self._done.append((self._row, self._cells))
            self._cells = {}
        else:
            self._texts.end(name)

    def _start_row(self, attributes: Attributes) -> None:
        row = int(attributes.get("r", self._row + 1))
        if not self._row < row <= _MAX_ROWS:
            message = f"row {row} comes after row {self._row}, so rows may be lost; open the file and save it again"
            raise LedgerError(message, line=row)
        if not self.hidden_row and attributes.get("hidden") in ("1", "true"):
            self.hidden_row = row
        self._row = row
        self._next_place = 0

    def _start_cell(self, attributes: Attributes) -> None:
        place = self._next_place
        if "r" in attributes:
            match = _PLACE.fullmatch(attributes["r"])
            place = _place(match[1]) if match else -1
        if not self._next_place <= place < _MAX_COLUMNS:
            message = f"row {self._row}: the cells are not in order; open the file and save it again"
            raise LedgerError(message, line=self._row)
        self._next_place = place + 1
        self._kind = attributes.get("t", "n")
        self._style = attributes.get("s", "0")
        self._value = None
        self._has_formula = False
        self._texts.take()

    def _cell_value(self) -> Any:
        """Return the value of the cell that ends here; None when it is empty."""
        text = self._value
        if self._has_formula and self._formula is not None:
            return self._formula
        if self._kind == "inlineStr":
            return self._texts.take()
        if text is None or (not text and self._kind != "str"):
            return _NO_RESULT if self._has_formula else None
        if self._kind == "s":
            return self._book.text_of(text)
        if self._kind in ("str", "d"):
            return unescape(text)
        if self._kind == "e":
            return Unreadable(f"{quote(text)} is an error of the spreadsheet")
        return text == "1" if self._kind == "b" else self._number(text)

    def _number(self, text: str) -> Any:
        number, style = float(text), int(self._style)
        is_day = style in self._book.day_styles
        if not is_day and style not in self._book.time_styles:
            return int(number) if number.is_integer() and abs(number) < _MAX_WHOLE else number
        try:
            time = self._book.time_of(number)
        except (OverflowError, ValueError):
            return Unreadable(f"{quote(text)} is not the number of a day")
        return time.date() if is_day and number.is_integer() else time


def _last_row(area: str) -> int:
    match = _PLACE.fullmatch(area.rpartition(":")[2])
    return int(match[2]) if match else 0


def _place(letters: str) -> int:
    place = 0
    for letter in letters:
        place = place * 26 + ord(letter) - 64
    return place - 1


def _letters(place: int) -> str:
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(65 + letter) + letters
    return letters
