"""
Read a ledger from XLSX: one sheet, row by row, exactly the values that are stored.

No library is used here, because a wrong amount is worse than slow reading. Design rules:

- A formula has the result that is stored in the file; one without a result is refused, not empty.
- No row is left out: hidden and filtered rows are read, and rows out of order refuse the file.
  openpyxl drops such a row silently, and reads a formula without a result as an empty cell.
- Memory is bounded: rows are read one by one, and only the shared strings are held.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import IO, Any

from attrs import frozen

from payclient._escape import quote
from payclient.ledger._archive import MIB, Archive, Attributes, check_length, damage_refused
from payclient.ledger._cells import LedgerError, Unreadable
from payclient.ledger._columns import Finder
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._rows import NO_COLUMNS, RowReader, Table, to_header, with_hint
from payclient.ledger._scope import Scope

_MAX_TEXT_BYTES = 256 * MIB
_MAX_OTHER_BYTES = 16 * MIB
_MAX_ROWS = 1_048_576
_MAX_COLUMNS = 16_384
_MAX_WHOLE = 10**15  # a spreadsheet does not keep further digits
_BLANK = re.compile("[ \t\r\n]*")
_PLACE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_NO_RESULT = Unreadable("is a formula without a stored result; open the file in a spreadsheet program and save it")

_TIME_FORMATS = frozenset({*range(18, 23), *range(32, 36), *range(45, 48), *range(55, 57)})
_DAY_FORMATS = frozenset({*range(14, 18), *range(27, 37), *range(50, 59)}) - _TIME_FORMATS
"""The built-in formats of spreadsheet programs: with a time of day, and with a date only."""
_NO_DATE_LETTERS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]', re.DOTALL)
_MAX_FORMAT = 1000  # a spreadsheet program takes 255 characters
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")


@frozen(kw_only=True)
class Sheet:
    name: str
    part: str
    is_hidden: bool


@frozen(kw_only=True)
class Workbook:
    """A workbook without its rows; `texts` are its shared strings, and `epoch` is day 0 of its dates."""

    archive: Archive
    sheets: tuple[Sheet, ...]
    texts: tuple[str, ...]
    time_styles: frozenset[int]
    day_styles: frozenset[int]
    epoch: datetime

    def text_of(self, number: str) -> str:
        if not number.isdecimal() or int(number) >= len(self.texts):
            message = f"there is no text {number}"
            raise ValueError(message)
        return self.texts[int(number)]

    def time_of(self, serial: float) -> datetime:
        """Return the time for a date number, to the millisecond, which is its precision."""
        return self.epoch + timedelta(milliseconds=round(serial * 86_400_000))


def read_xlsx(file: IO[bytes], find: Finder, sheet: str | None, scope: Scope) -> Table:
    """Return the table on one sheet of an XLSX file, which must stay open; the first visible one if none is named."""
    dialect = scope.dialect
    book = read_workbook(Archive(file))
    chosen = _choose(book, sheet)
    warnings = list(_other_sheets(book, chosen))
    parser = _SheetReader(book)
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
"""Value of a cell with a formula in `read_cells`, whatever its result."""


def read_cells(file: IO[bytes], sheet: str) -> Iterator[tuple[int, dict[int, Any]]]:
    """Yield the number of each filled row of a sheet with its filled cells, by column from 0; *file* must stay open."""
    book = read_workbook(Archive(file))
    yield from _filled(_SheetReader(book, formula=FORMULA).rows(_choose(book, sheet).part))


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
    filled = [each.name for each in others if next(_filled(_SheetReader(book).rows(each.part)), None)]
    if filled:
        names = ", ".join(map(quote, filled))
        yield f"only the sheet {quote(chosen.name)} was read; there are rows in {names} too"


def _filled(rows: Iterator[tuple[int, dict[int, Any]]]) -> Iterator[tuple[int, dict[int, Any]]]:
    return ((line, cells) for line, cells in rows if cells)


def _names(cells: Mapping[int, Any]) -> tuple[str, ...]:
    values = map(cells.get, range(max(cells, default=-1) + 1))
    return tuple("" if value is None or isinstance(value, Unreadable) else str(value) for value in values)


def _entries(
    rows: Iterator[tuple[int, dict[int, Any]]], reader: RowReader, parser: _SheetReader, *, header_row: int
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


class _SheetReader:
    """Reads the rows of a sheet."""

    # A cell with a formula is *formula*, or else its stored result. `merged`, such as `A5:A7`, come after the rows.

    def __init__(self, book: Workbook, *, formula: Unreadable | None = None) -> None:
        self.hidden_row = 0
        self.merged: list[str] = []
        self._formula = formula
        self._book = book
        self._runs = _Runs()
        self._row = 0
        self._cells: dict[int, Any] = {}
        self._next_place = 0
        self._attributes: Attributes = {}
        self._value: str | None = None
        self._has_formula = False

    def rows(self, part: str) -> Iterator[tuple[int, dict[int, Any]]]:
        with damage_refused():
            for name, attributes, text in self._book.archive.elements(part):
                if name == "v":
                    self._value = text
                elif name == "c":
                    self._add_cell(attributes, text)
                elif name == "row":
                    if attributes is not None:
                        self._start_row(attributes)
                    if text is not None:
                        cells, self._cells = self._cells, {}
                        yield self._row, cells
                else:
                    self._add(name, attributes, text)

    def _add(self, name: str, attributes: Attributes | None, text: str | None) -> None:
        if name == "f":
            self._has_formula = True
        elif name == "mergeCell" and attributes is not None:
            self.merged.append(attributes.get("ref", ""))
        else:
            self._runs.add(name, attributes, text)

    def _start_row(self, attributes: Attributes) -> None:
        row = int(attributes.get("r", self._row + 1))
        if not self._row < row <= _MAX_ROWS:
            message = f"row {row} comes after row {self._row}, so rows may be lost; open the file and save it again"
            raise LedgerError(message, line=row)
        if not self.hidden_row and attributes.get("hidden") in ("1", "true"):
            self.hidden_row = row
        self._row = row
        self._next_place = 0

    def _add_cell(self, attributes: Attributes | None, text: str | None) -> None:
        if attributes is not None:
            self._start_cell(attributes)
        if text is not None:
            value = self._cell_value(self._attributes.get("t", "n"))
            if value is not None and not (isinstance(value, str) and _BLANK.fullmatch(value)):
                self._cells[self._next_place - 1] = value

    def _start_cell(self, attributes: Attributes) -> None:
        place = self._next_place
        if "r" in attributes:
            match = _PLACE.fullmatch(attributes["r"])
            place = _place(match[1]) if match else -1
        if not self._next_place <= place < _MAX_COLUMNS:
            message = f"row {self._row}: the cells are not in order; open the file and save it again"
            raise LedgerError(message, line=self._row)
        self._next_place = place + 1
        self._attributes = attributes
        self._value = None
        self._has_formula = False
        self._runs.clear()

    def _cell_value(self, kind: str) -> Any:
        """Return the value of the cell that ends here; None when it is empty."""
        text = self._value
        if self._has_formula and self._formula is not None:
            return self._formula
        if kind == "inlineStr":
            return self._runs.take()
        if text is None or (not text and kind != "str"):
            return _NO_RESULT if self._has_formula else None
        if kind == "s":
            return self._book.text_of(text)
        if kind in ("str", "d"):
            return unescape(text)
        if kind == "e":
            return Unreadable(f"{quote(text)} is an error of the spreadsheet")
        return text == "1" if kind == "b" else self._number(text)

    def _number(self, text: str) -> Any:
        number, style = float(text), int(self._attributes.get("s", "0"))
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


def read_workbook(archive: Archive) -> Workbook:
    """Read everything of a workbook except its rows."""
    # All shared strings are held in memory, because a cell may refer to any of them.
    root = "xl/workbook.xml"
    with damage_refused():
        if root not in archive:
            starts = [target for kind, target in _relations(archive, "").values() if kind == "officeDocument"]
            root = starts[0] if starts else root
        if root not in archive:
            message = "there is no workbook in this zip file; save the ledger as .xlsx, or unpack what is inside"
            raise LedgerError(message)
        relations = _relations(archive, root)
        parts = {kind: target for kind, target in relations.values() if target in archive}
        sheets, is_1904 = _sheets(archive, root, relations)
        time_styles, day_styles = _styles(archive, parts.get("styles"))
        return Workbook(
            archive=archive,
            sheets=sheets,
            texts=tuple(_texts(archive, parts.get("sharedStrings"))),
            time_styles=time_styles,
            day_styles=day_styles,
            epoch=datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30),  # noqa: DTZ001  cells have no zone
        )


def _starts(archive: Archive, part: str) -> Iterator[tuple[str, Attributes]]:
    for name, attributes, _ in archive.elements(part, max_bytes=_MAX_OTHER_BYTES):
        if attributes is not None:
            yield name, attributes


def _relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return kind and path of the parts that *part* refers to, by relationship id."""
    folder, name = posixpath.split(part)
    place = posixpath.join(folder, "_rels", f"{name}.rels")
    found: dict[str, tuple[str, str]] = {}
    for element, attributes in _starts(archive, place) if place in archive else ():
        if element == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes["Target"])).lstrip("/")
            found[attributes["Id"]] = attributes["Type"].rpartition("/")[2], target
    return found


def _sheets(archive: Archive, root: str, relations: Mapping[str, tuple[str, str]]) -> tuple[tuple[Sheet, ...], bool]:
    """Return the sheets in their order, and whether days count from 1904."""
    sheets: list[Sheet] = []
    is_1904 = False
    for name, attributes in _starts(archive, root):
        if name == "sheet":
            relation = next((value for key, value in attributes.items() if key.endswith(":id")), "")
            kind, part = relations.get(relation, ("", ""))
            if not kind:
                message = f"the sheet {quote(attributes['name'])} is not in the XLSX file; open it and save it again"
                raise LedgerError(message)
            if kind == "worksheet":  # a chart sheet has no rows
                is_hidden = attributes.get("state", "visible") != "visible"
                sheets.append(Sheet(name=attributes["name"], part=part, is_hidden=is_hidden))
        elif name == "workbookPr":
            is_1904 = attributes.get("date1904") in ("1", "true", "on")
    return tuple(sheets), is_1904


def _styles(archive: Archive, part: str | None) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of the styles with a time of day, and of those with a date only."""
    times, days, others = set[int](), set[int](), set[int]()
    shown = dict.fromkeys(_TIME_FORMATS, times) | dict.fromkeys(_DAY_FORMATS, days)
    is_in_cells, count = False, 0
    for name, attributes in _starts(archive, part) if part else ():
        if name == "numFmt" and "numFmtId" in attributes:
            plain = _NO_DATE_LETTERS.sub("", attributes["formatCode"][:_MAX_FORMAT])
            letters = set(plain.casefold().replace("general", ""))
            found = times if letters & set("hs") else days if letters & set("ymd") else others
            shown[int(attributes["numFmtId"])] = found
        elif name == "xf" and is_in_cells:
            shown.get(int(attributes.get("numFmtId", "0")), others).add(count)
            count += 1
        elif name in ("cellXfs", "cellStyles"):
            is_in_cells = name == "cellXfs"
    return frozenset(times), frozenset(days)


def _texts(archive: Archive, part: str | None) -> Iterator[str]:
    runs = _Runs()
    for name, attributes, text in archive.elements(part, max_bytes=_MAX_TEXT_BYTES) if part else ():
        if name != "si":
            runs.add(name, attributes, text)
        elif text is not None:
            yield runs.take()


class _Runs:
    """The text of a cell, in its parts, without the pronunciation guide."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._before_guide = 0

    def add(self, name: str, attributes: Attributes | None, text: str | None) -> None:
        if name == "t" and text is not None:
            self._texts.append(text)
        elif name == "rPh":
            if attributes is not None:
                self._before_guide = len(self._texts)
            if text is not None:
                del self._texts[self._before_guide :]

    def take(self) -> str:
        text = "".join(self._texts)
        check_length(len(text))
        self.clear()
        return unescape(text)

    def clear(self) -> None:
        if self._texts:
            self._texts = []


def unescape(text: str) -> str:
    """Return *text* with `_x000D_`, by which XLSX writes what XML cannot hold, as the character."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text
