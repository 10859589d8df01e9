"""
Read a ledger from XLSX: one sheet, row by row, exactly the values that are stored.

No library is used here, because a wrong amount is worse than slow reading. Design rules:

- A workbook is an untrusted zip file: sizes are checked before a part is decompressed, a document type, whose entities
  could expand, is refused, and any damage becomes a `LedgerError`.
- A formula has the result that is stored in the file; one without a result is refused, not empty.
- No row is left out: hidden and filtered rows are read, and rows out of order refuse the file.
  openpyxl drops such a row silently, and reads a formula without a result as an empty cell.
- Memory is bounded: rows are read one by one, and only the shared strings are held.
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import chain
from typing import IO, Any, TypeAlias
from xml.parsers import expat

from attrs import frozen

from payclient._escape import escape_unprintable, quote
from payclient.ledger._cells import LedgerError, Unreadable
from payclient.ledger._columns import Finder
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._rows import NO_COLUMNS, RowReader, Table, to_header, with_hint
from payclient.ledger._scope import Scope

_MIB = 1 << 20
_MAX_TEXT_BYTES = 256 * _MIB
_MAX_OTHER_BYTES = 16 * _MIB
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
_MAX_CHARACTERS = _MIB
_PIECE_BYTES = 1 << 12  # small, so that the elements of a piece stay in the processor's cache
_MAX_SHEET_BYTES = 4096 * _MIB
_FREE_BYTES = 8 * _MIB
_MAX_RATIO = 200
_MAX_DEPTH = 64
_FREE_ELEMENTS = 200_000
_MAX_ELEMENTS_PER_BYTE = 5
_MAX_SILENT_BYTES = _MIB
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError, struct.error),
    *(ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""
Exceptions of `zipfile`, `expat`, `int` and `float` for a damaged file.

`zipfile` raises `NotImplementedError` for an unknown compression, and `RuntimeError` for an encrypted part.
"""

Attributes: TypeAlias = dict[str, str]
Element: TypeAlias = tuple[str, Attributes | None, str | None]
"""
The name of an element without a prefix, its attributes where it starts, and its text where it ends.

An element without others in it is there once; any other twice, at its start without a text, and at its end without
attributes.
"""


@contextmanager
def damage_refused() -> Generator[None]:
    """Turn every sign of a damaged file into a `LedgerError`; nothing else may happen inside."""
    try:
        yield
    except LedgerError:
        raise
    except _DAMAGE as error:
        message = (
            f"the XLSX file is damaged ({escape_unprintable(str(error), max_length=200)}); open it and save it again"
        )
        raise LedgerError(message) from error


class Archive:
    def __init__(self, file: IO[bytes]) -> None:
        with damage_refused():
            self._zip = zipfile.ZipFile(file)
            size = file.seek(0, os.SEEK_END)
        # For all parts together, because a workbook may refer to one part as each of a thousand sheets.
        self._bytes = 4 * _FREE_BYTES + _MAX_RATIO * size
        self._elements = _FREE_ELEMENTS + _MAX_ELEMENTS_PER_BYTE * size

    def __contains__(self, part: str) -> bool:
        return part in self._zip.NameToInfo

    def pieces(self, part: str, *, max_bytes: int = _MAX_SHEET_BYTES) -> Iterator[bytes]:
        """Yield the decompressed bytes of *part*; refuse more than *max_bytes*, and zip bombs."""
        with damage_refused():
            info = self._zip.getinfo(part)
            self._check(info, max_bytes)
            stream = self._zip.open(info)
        with stream:
            while True:
                with damage_refused():
                    piece = stream.read(_PIECE_BYTES)
                if not piece:
                    return
                self._bytes -= len(piece)
                if self._bytes < 0:
                    message = f"the XLSX file unpacks to more than {_MAX_RATIO} times its size; this is not a ledger"
                    raise LedgerError(message)
                yield piece

    def elements(self, part: str, *, max_bytes: int = _MAX_SHEET_BYTES) -> Iterator[Element]:
        return chain.from_iterable(self._batches(part, max_bytes))

    def _batches(self, part: str, max_bytes: int) -> Iterator[list[Element]]:
        parser = _Parser()
        for piece in chain(self.pieces(part, max_bytes=max_bytes), (b"",)):
            elements = parser.feed(piece, is_last=not piece)
            self._elements -= len(elements)
            if self._elements < 0:
                message = "the XLSX file has more elements than any ledger of its size; this is not a ledger"
                raise LedgerError(message)
            yield elements

    @staticmethod
    def _check(info: zipfile.ZipInfo, max_bytes: int) -> None:
        """Check the sizes that the file states; `zipfile` never decompresses more than that."""
        name = escape_unprintable(info.filename, max_length=80)
        if info.flag_bits & 1:
            message = f"{name} has a password; save the workbook without one"
            raise LedgerError(message)
        if info.file_size > max_bytes:
            message = f"{name} is larger than {max_bytes // _MIB} MiB; this is not a ledger, or one to give as CSV"
            raise LedgerError(message)
        if info.file_size > max(_FREE_BYTES, _MAX_RATIO * info.compress_size):
            message = f"{name} unpacks to more than {_MAX_RATIO} times its size; this is not a ledger"
            raise LedgerError(message)


class _Parser:
    """Turns a document into elements."""

    def __init__(self) -> None:
        self._elements: list[Element] = []
        self._name = ""
        self._attributes: Attributes | None = None
        """Of an element that has started, and has no other in it so far."""
        self._depth = self._silent_bytes = 0
        self._text = ""
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._add_text
        self._expat.StartDoctypeDeclHandler = _refuse_document_type

    def feed(self, piece: bytes, *, is_last: bool = False) -> list[Element]:
        # With each piece, expat may scan an unfinished name, attribute or comment again.
        self._silent_bytes += len(piece)
        if self._silent_bytes > _MAX_SILENT_BYTES:
            message = "the XLSX file has a megabyte between two elements; this is not a ledger"
            raise LedgerError(message)
        with damage_refused():
            self._expat.Parse(piece, is_last)
        elements, self._elements = self._elements, []
        if elements:
            self._silent_bytes = 0
        return elements

    def _start(self, name: str, attributes: Attributes) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            message = f"the XLSX file has elements nested {_MAX_DEPTH} deep; this is not a ledger"
            raise LedgerError(message)
        if self._text:
            self._drop_blank_text()
        if self._attributes is not None:
            self._elements.append((self._name, self._attributes, None))
        self._name = name.rpartition(":")[2] if ":" in name else name
        self._attributes = attributes

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._attributes is not None:
            self._elements.append((self._name, self._attributes, self._text))
            self._attributes = None
            self._text = ""
            return
        if self._text:
            self._drop_blank_text()
        self._elements.append((name.rpartition(":")[2] if ":" in name else name, None, ""))

    def _add_text(self, text: str) -> None:
        self._silent_bytes = 0
        self._text = f"{self._text}{text}" if self._text else text
        check_length(len(self._text))

    def _drop_blank_text(self) -> None:
        """Drop what indents an element; other text there would be lost, and is refused."""
        if self._text.strip():
            message = "the XLSX file is damaged (text beside elements); open it and save it again"
            raise LedgerError(message)
        self._text = ""


def check_length(characters: int) -> None:
    if characters > _MAX_CHARACTERS:
        message = f"a cell holds more than {_MAX_CHARACTERS} characters; this is not a ledger"
        raise LedgerError(message)


def _refuse_document_type(*_: object) -> None:
    message = "the XLSX file has a document type inside, which no spreadsheet program writes; it is refused"
    raise LedgerError(message)


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
