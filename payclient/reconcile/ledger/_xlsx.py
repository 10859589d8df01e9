"""
Read a ledger from XLSX: one sheet, row by row, exactly the values that are stored.

No library is used here, because a wrong amount is worse than slow reading. Design rules:

- A workbook is an untrusted zip file: sizes are checked before and while a part is decompressed, a document type,
  whose entities could expand, is refused, and any damage becomes a `LedgerError`.
- A formula has the result that is stored in the file. One without a result is refused, not empty.
- What a cell shows is what is read: a number format that shows another sign, word or number refuses the cell. A format
  is rendered, not looked up: its part for the number is chosen, and the signs, words and digits that it puts around the
  number are judged as a reader would. Colours are ignored.
- No row is left out: hidden and filtered rows are read and counted, and rows out of order refuse the file.
  openpyxl drops such a row silently, and reads a formula without a result as an empty cell.
- Memory is bounded: rows are read one by one, and only the shared strings stay in memory.
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, islice
from typing import IO, Any
from unicodedata import category
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from attrs import define, field

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient._shared.remedy import Remedy, Way
from payclient.protocol import EMPTY
from payclient.reconcile._fields import KINDS
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import CellProblem, Columns, Finder, LedgerError
from payclient.reconcile.ledger._left_out import HAS_DIGIT, UnreadSheet
from payclient.reconcile.ledger._rows import PARTLY, Line, Table, read_header

_MAX_FORMAT = 1000  # a spreadsheet program takes 255 characters
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|\[(?P<relation>[<>=]+)\s*(?P<limit>-?[0-9.]+)\]|_.|\*.|\[[^\]]*\]|(?P<end>;)"
    r"|(?P<digit>general|e[+-]|[0#?.,%/@])|(?P<other>.)",
    re.DOTALL | re.IGNORECASE,
)
_WHOLE = re.compile(r"(?:general|[0#?,]*)(?:(?:\|[0#?]{2,3})*\|[0#?]{3})?(?:\.[0#?]*)?(?:e[+-][0#?]+)?", re.IGNORECASE)
"""The places of a number without a scale. A mark between thousands, or lakhs, may be written as text."""
_SCALED = re.compile(r",(?=\.|\Z)|%")
_NO_FRACTION = re.compile(r"\A[.,](?:0+|\s?[-\u2013\u2014]{1,2})\s*\Z")
"""Text behind a number that marks it as whole, as in 15.000,-."""
_WORD = re.compile(r"[^\W\d_]+[$\u00a3\u00a5\u20a0-\u20bf]?|[$\u00a3\u00a5\u20a0-\u20bf]")
_MINUS = "\u2212\u25b2\u25b3\u25bc\u25bd"
"""Signs for less than zero besides dashes. Japan uses the triangles."""


@define
class _Part:
    """A part of a format: text before and behind the places of its digits, `|` in them for a mark between groups."""

    before: str = ""
    behind: str = ""
    digits: str = ""
    relation: str = ""
    limit: float = 0

    def add(self, token: re.Match[str]) -> None:
        if token["relation"]:
            self.relation, self.limit = token["relation"], float(token["limit"])
        elif token["digit"]:
            # Text between digits that is not a mark between groups makes another number.
            is_mark = self.behind.strip() in ("", ".", ",", "'", "\u2019")
            self.digits += ("|" if is_mark else "!") * bool(self.behind) + token["digit"]
            self.behind = ""
        else:
            text = token["quoted"] or token["escaped"] or token["currency"] or token["other"] or ""
            self.before, self.behind = self.before + text * (not self.digits), self.behind + text * bool(self.digits)

    def is_for(self, number: float) -> bool:
        return "<=>"[(number > self.limit) - (number < self.limit) + 1] in self.relation

    @property
    def is_whole(self) -> bool:
        return "/" in self.digits or (_WHOLE.fullmatch(self.digits) is not None and not _SCALED.search(self.digits))


class NumberFormat:
    """A number format, such as `#,##0;(#,##0)`."""

    def __init__(self, code: str) -> None:
        self._code = code[:_MAX_FORMAT]
        parts = [_Part()]
        for token in _TOKEN.finditer(self._code):
            if token["end"]:
                parts.append(_Part())
            parts[-1].add(token)
        texts = [part for number, part in enumerate(parts) if "@" in part.digits or number > 2]
        self._of_text = texts[0] if texts else None
        of_numbers = [part for part in parts if part is not self._of_text and parts != [_Part()]]  # only a colour
        self._parts = of_numbers or [_Part(digits="general")]
        self._has_conditions = any(part.relation for part in parts)
        self._known: dict[int, str] = {}
        """The currency next to each number of a sign, or nothing, if the format shows no more than that."""

    def of_text(self, text: str) -> str | CellProblem:
        """Return *text* if the format shows it as it is."""
        part = self._of_text
        if part is None or (part.digits == "@" and not f"{part.before}{part.behind}".strip()):
            return text
        return self._other(quote(text), f"{part.before}{text * ('@' in part.digits)}{part.behind}")

    def of_number(self, number: float) -> tuple[float | str | CellProblem, str]:
        """Return *number*, or a text if the format shows credit or debit, and the currency next to it."""
        sign = (number > 0) - (number < 0)
        if (currency := self._known.get(sign)) is not None:
            return number, currency
        part, has_minus = self._part_for(number)
        before, behind = part.before, "" if _NO_FRACTION.match(part.behind) else part.behind
        words, minus = _WORD.findall(f"{before} {behind}"), "-" * has_minus
        label = " ".join(words)
        if label and part.digits and _columns.sign_of(label) is not None:
            return f"{minus}{abs(number)} {label}", ""
        has_sign = any(category(character) == "Pd" or character in _MINUS for character in before + behind)
        signs = has_minus + (has_sign or ("(" in before and ")" in behind))
        if not all(map(_columns.is_currency, words)) or (number and (signs != (number < 0) or not part.digits)):
            shown = f"{minus}{before}{abs(number):,}{behind}" if part.digits else f"{before}{behind}".strip("-")
            return self._other(f"{number:,}", shown), ""
        if number and (not part.is_whole or any(map(str.isdigit, before + behind))):
            return self._other(f"{number:,}", None), ""
        if not self._has_conditions:
            self._known[sign] = label
        return number, label

    def _part_for(self, number: float) -> tuple[_Part, bool]:
        """Return the part for *number*, and whether a minus is written before it."""
        parts = self._parts
        if self._has_conditions:
            fitting = next((part for part in parts if part.is_for(number)), None)
            return fitting or parts[-1], fitting is None and number < 0
        if number < 0:
            return (parts[1], False) if parts[1:] else (parts[0], True)
        return parts[2] if not number and parts[2:] else parts[0], False

    def _other(self, held: str, shown: str | None) -> CellProblem:
        what = "another number" if shown is None else quote(shown.strip()) if shown.strip() else "nothing"
        how = "give the column the format General, and write in the cell what it shows"
        message = f"the cell contains {{}} and shows {{}}, by its number format {{}}; {how}"
        return CellProblem(message, held, what, quote(self._code))


_MIB = 1 << 20
_MAX_TEXT_BYTES = 256 * _MIB
_MAX_OTHER_BYTES = 16 * _MIB
_MAX_ROWS = 1_048_576
_MAX_COLUMNS = 16_384
_MAX_WHOLE = 10**15  # a spreadsheet does not keep further digits
_NO_RESULT = CellProblem("is a formula without a stored result: open the file in a spreadsheet program and save it")

_TIME_FORMATS = frozenset({*range(18, 23), *range(32, 36), *range(45, 48), *range(55, 57)})
_DAY_FORMATS = frozenset({*range(14, 18), *range(27, 37), *range(50, 59)}) - _TIME_FORMATS
"""The built-in formats of spreadsheet programs: with a time of day, and with only a date."""
_NO_DATE_LETTERS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]', re.DOTALL)
_FORMATS = {
    **dict.fromkeys(_TIME_FORMATS, "time"),
    **dict.fromkeys(_DAY_FORMATS, "day"),
    9: NumberFormat("0%"),
    10: NumberFormat("0.00%"),
}
_STRUCK = "struck through"
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_MAX_CHARACTERS = _MIB
_PIECE_BYTES = 1 << 13  # small, so that the elements of a piece stay in the processor's cache
_MAX_SHEET_BYTES = 4096 * _MIB
_TRUE = ("1", "true", "on")
_FREE_BYTES = 8 * _MIB
_MAX_RATIO = 200
_MAX_HELD_TAGS = 400_000  # one row may have them. An element has two
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError, struct.error),
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, ValueError),
)
"""Exceptions of `zipfile`, `expat`, `int` and `float` for a damaged file, or one with a password."""


@contextmanager
def _damage_refused() -> Generator[None]:
    try:
        yield
    except LedgerError:
        raise
    except _DAMAGE as error:
        detail = escape_unprintable(str(error), max_length=200)
        raise LedgerError(f"the XLSX file is damaged ({detail}): open it and save it again") from error


def _refuse_document_type(*_: object) -> None:
    raise LedgerError("the XLSX file has a document type inside, which no spreadsheet program writes: it is refused")


def _take_ended(top: Element, wanted: Sequence[str]) -> list[Element]:
    """Remove the elements that have ended, but nothing of a wanted one, and return them."""
    ended: list[Element] = []
    node = top
    while len(node) and node.tag not in wanted:  # only the last element at each depth may still go on
        ended += node[:-1]
        del node[:-1]
        node = node[-1]
    return ended


def _text(element: Element) -> str:
    """Return the text of an element that contains no others."""
    if len(element):
        raise ValueError("elements where only text may be")
    return element.text or ""


def _beside(element: Element, name: str) -> str:
    """Return *name* in the namespace of *element*, in the form of `ElementTree`."""
    space, brace, _ = element.tag.rpartition("}")
    return f"{space}{brace}{name}"


class _Workbook:
    """A workbook without its rows."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sheets: dict[str, str] = {}
        """The part of each sheet with rows, by name, in their order."""
        self.hidden = set[str]()
        self.epoch = datetime(1899, 12, 30)  # noqa: DTZ001  cells have no zone
        self.styles: dict[int, str | NumberFormat] = {}
        """The styles that show more than the digits of a number: a time, a day, or a format."""
        self.struck = set[int]()
        self.is_stale = False
        """Whether formulas are calculated when it is opened, so that a program may have stored 0 for each."""
        with _damage_refused():
            self._zip = zipfile.ZipFile(file)
            # For all parts together, because a workbook may refer to one part as each of a thousand sheets.
            self._bytes = 4 * _FREE_BYTES + _MAX_RATIO * file.seek(0, os.SEEK_END)
            starts = (target for kind, target in self._relations("").values() if kind == "officeDocument")
            root = next(starts, "xl/workbook.xml")
            if root not in self._zip.NameToInfo:
                raise LedgerError("this zip file is not a workbook: save the ledger as .xlsx, or unpack what is inside")
            relations = self._relations(root)
            parts = {kind: target for kind, target in relations.values() if target in self._zip.NameToInfo}
            self._read_sheets(root, relations)
            # All shared strings stay in memory, because a cell may refer to any of them.
            part = parts.get("sharedStrings")
            texts = self.elements(part, "si", max_bytes=_MAX_TEXT_BYTES) if part else ()
            self.texts: tuple[str, ...] = tuple(map(_text_of, texts))
            if part := parts.get("styles"):
                self._read_styles(part)

    def _pieces(self, part: str, max_bytes: int) -> Iterator[bytes]:
        """Yield the decompressed bytes, and an empty piece at the end. `zipfile` stops at the size it lists."""
        info = self._zip.getinfo(part)
        if info.file_size > max_bytes:
            name = escape_unprintable(info.filename, max_length=80)
            message = f"{name} is larger than {max_bytes // _MIB} MiB, so this is not a ledger, or one to give as CSV"
            raise LedgerError(message)
        with self._zip.open(info) as stream:
            while piece := stream.read(_PIECE_BYTES):
                self._bytes -= len(piece)
                if self._bytes < 0:
                    message = f"the XLSX file unpacks to more than {_MAX_RATIO} times its size, so this is not a ledger"
                    raise LedgerError(message)
                yield piece
        yield b""

    def elements(self, part: str, *names: str, max_bytes: int = _MAX_OTHER_BYTES) -> Iterator[Element]:
        """Yield each element with one of these *names*, in the namespace of the first."""
        builder, parser = TreeBuilder(), expat.ParserCreate(namespace_separator="}")
        top = builder.start("", {})
        parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.data, _refuse_document_type
        wanted: list[str] = []
        held = 0
        for piece in self._pieces(part, max_bytes):
            parser.Parse(piece, not piece)
            wanted = wanted or [_beside(top[0], name) for name in names if len(top)]
            ended = _take_ended(top, wanted) if piece else list(top)
            held = 0 if ended else held + piece.count(b"<")
            if held > _MAX_HELD_TAGS:
                raise LedgerError("the XLSX file has more elements in a row than any ledger, so this is not a ledger")
            for element in ended:
                for name in wanted:
                    yield from element.iter(name)

    def _relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return kind and path of the parts that *part* refers to, by relationship id."""
        folder, name = posixpath.split(part)
        path = posixpath.join(folder, "_rels", f"{name}.rels")
        relations: dict[str, tuple[str, str]] = {}
        for element in self.elements(path, "Relationship") if path in self._zip.NameToInfo else ():
            if element.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, element.attrib["Target"])).lstrip("/")
                relations[element.attrib["Id"]] = element.attrib["Type"].rpartition("/")[2], target
        return relations

    def commented(self, part: str) -> set[int]:
        """Return the numbers of the rows of a sheet that have a comment."""
        parts = (target for kind, target in self._relations(part).values() if kind == "comments")
        there = filter(self._zip.NameToInfo.__contains__, parts)
        comments = chain.from_iterable(self.elements(target, "comment", max_bytes=_MAX_TEXT_BYTES) for target in there)
        return {int(row[0]) for comment in comments if (row := re.search("[0-9]+", comment.get("ref", "")))}

    def _read_sheets(self, root: str, relations: Mapping[str, tuple[str, str]]) -> None:
        for element in self.elements(root, "sheet", "workbookPr", "calcPr"):
            if element.get("date1904") in _TRUE:
                self.epoch = datetime(1904, 1, 1)  # noqa: DTZ001  as above
            self.is_stale = self.is_stale or element.get("fullCalcOnLoad") in _TRUE
            if not element.tag.endswith("sheet"):
                continue
            name, ids = element.attrib["name"], (value for key, value in element.items() if key.endswith("}id"))
            kind, part = relations.get(next(ids, ""), ("", ""))
            if not kind:
                raise LedgerError(f"the sheet {quote(name)} is not in the XLSX file: open it and save it again")
            if kind == "worksheet":  # chart sheets lack rows
                self.sheets[name] = part
                if element.get("state", "visible") != "visible":
                    self.hidden.add(name)

    def _read_styles(self, part: str) -> None:
        shown: dict[int, str | NumberFormat] = dict(_FORMATS)
        struck = set[int]()
        for element in self.elements(part, "numFmt", "fonts", "cellXfs"):
            if element.tag.endswith("numFmt"):
                code = element.attrib["formatCode"]
                letters = set(_NO_DATE_LETTERS.sub("", code[:_MAX_FORMAT]).casefold().replace("general", ""))
                kind = "time" if letters & set("hs") else "day" if letters & set("ymd") else NumberFormat(code)
                shown[int(element.get("numFmtId", "-1"))] = kind
            elif element.tag.endswith("fonts"):
                for number, font in enumerate(element.iter(_beside(element, "font"))):
                    if any(strike.get("val") not in ("0", "false") for strike in font.iter(_beside(element, "strike"))):
                        struck.add(number)
            else:
                for number, style in enumerate(element.iter(_beside(element, "xf"))):
                    if (form := shown.get(int(style.get("numFmtId", "0")))) is not None:
                        self.styles[number] = form
                    if int(style.get("fontId", "0")) in struck:
                        self.struck.add(number)


def read_xlsx(file: IO[bytes], find: Finder, sheet: str | None, header_row: int | None) -> Table:
    """Return the table of one sheet of an XLSX file, which must stay open. The first visible one if none is named."""
    book = _Workbook(file)
    chosen = _choose(book, sheet)
    counted = (UnreadSheet(name, _count_rows(book, part)) for name, part in book.sheets.items() if name != chosen)
    others = tuple(other for other in counted if other.rows)
    parser = _SheetReader(book)
    rows = parser.rows(book.sheets[chosen])
    table = read_header(((row, _names(cells)) for row, cells in rows), find, header_row)
    if others:
        names = ", ".join(f"{quote(other.name)} ({plural(other.rows, 'row')})" for other in others)
        remark = f"only the sheet {quote(chosen)} was read: there are rows in {names} too"
        table.remarks = {"sheet": remark, **table.remarks}
    table.unread_sheets = others if sheet is None else ()
    table.rows = _lines(rows, table.columns, table.remarks, parser)
    return table


def _count_rows(book: _Workbook, part: str) -> int:
    """Return the number of filled rows, without a header, that is, a first row without digits."""
    rows = _SheetReader(book).rows(part)
    header = any(HAS_DIGIT(name) for _, cells in islice(rows, 1) for name in _names(cells))
    return header + sum(1 for _ in rows)


FORMULA = CellProblem("is a formula")
"""Value of a cell with a formula in `read_cells`, regardless of its result."""


def read_cells(file: IO[bytes], sheet: str) -> Iterator[tuple[int, dict[int, Any]]]:
    """Yield the number of each filled row of a sheet with its filled cells, by column from 0. *file* must stay open."""
    book = _Workbook(file)
    yield from _SheetReader(book, FORMULA).rows(book.sheets[_choose(book, sheet)])


def _choose(book: _Workbook, name: str | None) -> str:
    shown = [sheet for sheet in book.sheets if (sheet not in book.hidden if name is None else sheet == name)]
    if not shown:
        names = ", ".join(map(quote, book.sheets)) or "none"
        what = "a sheet that is not hidden" if name is None else f"a sheet called {quote(name)}"
        sheets = () if name is None else [*book.sheets][:3]
        ways = [Remedy((Way("sheet", sheet),), "reads it") for sheet in sheets]
        refused = None if name is None else Way("sheet", name)
        raise LedgerError(f"the workbook does not have {what}: its sheets are {names}", remedies=ways, refused=refused)
    return shown[0]


def _names(cells: Mapping[int, Any]) -> tuple[str, ...]:
    values = map(cells.get, range(max(cells, default=-1) + 1))
    return tuple("" if value is None or isinstance(value, CellProblem) else str(value) for value in values)


def _lines(
    rows: Iterator[tuple[int, dict[int, Any]]], columns: Columns, remarks: dict[str, str], parser: _SheetReader
) -> Iterator[Line]:
    width, marked = len(columns.header), dict[str, list[int]]()
    for line, cells in rows:
        last = max(cells)
        problem = None if last < width else CellProblem("has a value to the right of the header")
        for mark in parser.marks:
            marked.setdefault(mark, [line, 0])[1] += 1
        yield line, list(map(cells.get, range(max(width, last + 1)))), problem, EMPTY
    for mark, (line, count) in marked.items():
        verb, which = ("is", "row") if count == 1 else ("are", "the first is row")
        remarks[mark] = f"{plural(count, 'row')} that {verb} {mark}, but read: {which} {line}"
    for name, position in columns.places.items():
        column, shown = quote(columns.used[name]), parser.currencies.get(position, {})
        symbols = [label for label in shown.values() if label]
        if KINDS.get(name) == "money" and len(symbols) > 1:
            message = f"the formats of the column {column} show {' and '.join(map(quote, symbols))}"
            raise LedgerError(f"{message}, which cannot be added: put the currency in a column by itself")
        if symbols and "" in shown:
            remarks[f"currency of {name}"] = PARTLY.format(column)
        if position in parser.hidden:
            remarks[f"hidden {name}"] = f"the column {column} is hidden, but read"


@define
class _SheetReader:
    """Reads the rows of a sheet. A cell with a formula is *formula*, or else its stored result."""

    _book: _Workbook
    _formula: CellProblem | None = None
    currencies: dict[int, dict[str, str]] = field(factory=dict)
    """The currencies that formats show in each column, with their first spelling."""
    marks: list[str] = field(factory=list)
    """Marks of the last row that a reader of the sheet sees, although its cells do not show them."""
    hidden: set[int] = field(factory=set)
    """Its hidden columns."""

    def rows(self, part: str) -> Iterator[tuple[int, dict[int, Any]]]:
        """Yield the number and the filled cells, by column from 0, of each row that has any."""
        last = 0
        with _damage_refused():
            commented = self._book.commented(part)
            for element in self._book.elements(part, "row", "col", max_bytes=_MAX_SHEET_BYTES):
                is_hidden = element.get("hidden") in _TRUE or element.get("ht") == "0"
                if element.tag.endswith("col"):
                    columns = range(int(element.get("min", "1")) - 1, min(int(element.get("max", "0")), _MAX_COLUMNS))
                    self.hidden.update(columns if is_hidden else ())
                    continue
                row = int(element.get("r", last + 1))
                if not last < row <= _MAX_ROWS:
                    message = f"row {row} follows row {last}, so rows may be lost: open the file and save it again"
                    raise LedgerError(message, line=row)
                last = row
                self.marks = ["hidden or filtered out"] * is_hidden + ["commented on"] * (row in commented)
                if cells := self._cells(element, row):
                    yield row, cells

    def _cells(self, element: Element, row: int) -> dict[int, Any]:
        cells: dict[int, Any] = {}
        position = -1
        cell_name, *names = [element.tag.removesuffix("row") + tag for tag in ("c", "v", "f", "is")]
        for cell in element.iter(cell_name):
            name = cell.get("r")
            before, position = position, position + 1 if name is None else _column(name.rstrip("0123456789"))
            if not before < position < _MAX_COLUMNS:
                raise LedgerError(f"row {row}: the cells are not in order: open the file and save it again", line=row)
            value = self._value(cell, position, *names)
            if value is not None and not (isinstance(value, str) and not value.strip(_columns.BLANK)):
                cells[position] = value
                if self._book.struck and int(cell.get("s", "0")) in self._book.struck and _STRUCK not in self.marks:
                    self.marks.append(_STRUCK)
        return cells

    def _value(self, cell: Element, position: int, value: str, formula: str, inline: str) -> Any:
        """Return the value of a cell, from the parts with these names. None when it is empty."""
        parts = {part.tag: part for part in cell}
        if len(parts) < len(cell):
            raise ValueError("a cell has a part twice")
        kind = cell.get("t", "n")
        has_formula = formula in parts
        if has_formula and self._formula is not None:
            return self._formula
        style = self._book.styles.get(int(cell.get("s", "0")))
        text = _text(parts[value]) if value in parts else None
        if kind == "inlineStr":
            text = _text_of(parts[inline]) if inline in parts else ""
        elif text is None or (not text and kind != "str") or (text == "0" and has_formula and self._book.is_stale):
            return _NO_RESULT if has_formula else None
        elif kind == "s":
            texts = self._book.texts
            text = texts[int(text) if text.isdecimal() else len(texts)]  # or the file is damaged
        elif kind in ("str", "d"):
            text = _unescape(text)
        elif kind == "e":
            return CellProblem("{} is an error of the spreadsheet", quote(text))
        else:
            return text == "1" if kind == "b" else self._number(text, style, position)
        return style.of_text(text) if text and isinstance(style, NumberFormat) else text

    def _number(self, text: str, style: str | NumberFormat | None, position: int) -> Any:
        number = float(text)
        if isinstance(style, str):
            try:
                # To the millisecond, the precision of such a number.
                time = self._book.epoch + timedelta(milliseconds=round(number * 86_400_000))
            except (OverflowError, ValueError):
                return CellProblem("{} is not the number of a day", quote(text))
            return time.date() if style == "day" and number.is_integer() else time
        value: Any = int(number) if number.is_integer() and abs(number) < _MAX_WHOLE else number
        label = ""
        if style is not None:
            value, label = style.of_number(value)
        if number:
            self.currencies.setdefault(position, {})[label.casefold()] = label
        return value


@cache
def _column(letters: str) -> int:
    """Return the number of a column from 0; -1 without such letters."""
    number = 0
    for letter in letters if re.fullmatch("[A-Z]{1,3}", letters) else "":
        number = number * 26 + ord(letter) - 64
    return number - 1


def _text_of(element: Element) -> str:
    """Return the text of a cell, in its parts, without the pronunciation guide."""
    for guide in element.iter(_beside(element, "rPh")) if len(element) > 1 else ():
        guide.clear()
    text = "".join(map(_text, element.iter(_beside(element, "t"))))
    if len(text) > _MAX_CHARACTERS:
        raise LedgerError(f"a cell contains more than {_MAX_CHARACTERS} characters, so this is not a ledger")
    return _unescape(text)


def _unescape(text: str) -> str:
    """Return *text* with escapes such as `_x000D_` as the character. XML cannot contain it."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text
