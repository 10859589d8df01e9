"""The parts of an XLSX file that its rows refer to: sheets, shared strings, and date formats."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from attrs import frozen

from payclient._escape import quote
from payclient.ledger._archive import MIB, Archive, Attributes, Handler
from payclient.ledger._errors import LedgerError

_MAX_TEXT_BYTES = 256 * MIB
_MAX_OTHER_BYTES = 16 * MIB
_MAX_CHARACTERS = MIB

_TIME_FORMATS = frozenset({*range(18, 23), *range(32, 36), *range(45, 48), *range(55, 57)})
_DAY_FORMATS = frozenset({*range(14, 18), *range(27, 37), *range(50, 59)}) - _TIME_FORMATS
"""The built-in formats of spreadsheet programs: with a time of day, and with a date only."""
_NO_DATE_LETTERS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]', re.DOTALL)
_MAX_FORMAT = 1000  # a spreadsheet program takes 255 characters
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")


@frozen(kw_only=True)
class Sheet:
    """One sheet of a workbook."""

    name: str
    part: str
    is_hidden: bool


@frozen(kw_only=True)
class Workbook:
    """
    A workbook without its rows.

    Attributes:
        archive: The archive that has the rows.
        sheets: In their order.
        texts: The shared strings, by number.
        time_styles: Numbers of the styles that show a time of day, with or without a date.
        day_styles: Numbers of the styles that show a date only.
        epoch: Day 0 of the dates in this workbook.
    """

    archive: Archive
    sheets: tuple[Sheet, ...]
    texts: tuple[str, ...]
    time_styles: frozenset[int]
    day_styles: frozenset[int]
    epoch: datetime

    def text_of(self, number: str) -> str:
        """
        Return a shared string.

        Raises:
            ValueError: When there is none of that number.
        """
        if not number.isdecimal() or int(number) >= len(self.texts):
            message = f"there is no text {number}"
            raise ValueError(message)
        return self.texts[int(number)]

    def time_of(self, serial: float) -> datetime:
        """
        Return the time for a date number, to the millisecond, which is its precision.

        Raises:
            OverflowError: When there is no such day.
        """
        return self.epoch + timedelta(milliseconds=round(serial * 86_400_000))


def read_workbook(archive: Archive) -> Workbook:
    """
    Read everything of a workbook except its rows.

    Note:
        All shared strings are held in memory, because a cell may refer to any of them.

    Raises:
        LedgerError: When this is not a workbook, or a damaged one.
    """
    root = "xl/workbook.xml"
    if root not in archive:
        starts = [target for kind, target in _relations(archive, "").values() if kind == "officeDocument"]
        root = starts[0] if starts else root
    if root not in archive:
        message = "there is no workbook in this zip file; save the ledger as .xlsx, or unpack what is inside"
        raise LedgerError(message)
    relations = _relations(archive, root)
    book = _Book(relations)
    archive.read(root, book, max_bytes=_MAX_OTHER_BYTES)
    parts = {kind: target for kind, target in relations.values() if target in archive}
    styles = _Styles()
    if "styles" in parts:
        archive.read(parts["styles"], styles, max_bytes=_MAX_OTHER_BYTES)
    texts = _Texts()
    if "sharedStrings" in parts:
        archive.read(parts["sharedStrings"], texts, max_bytes=_MAX_TEXT_BYTES)
    return Workbook(
        archive=archive,
        sheets=tuple(book.sheets),
        texts=tuple(texts.found),
        time_styles=frozenset(styles.time_styles),
        day_styles=frozenset(styles.day_styles),
        epoch=datetime(1904, 1, 1) if book.is_1904 else datetime(1899, 12, 30),  # noqa: DTZ001  cells have no zone
    )


def unescape(text: str) -> str:
    """Return *text* with `_x000D_`, by which XLSX writes what XML cannot hold, as the character."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def check_length(characters: int) -> None:
    """
    Check the length of a cell.

    Raises:
        LedgerError: When there are too many *characters*.
    """
    if characters > _MAX_CHARACTERS:
        message = f"a cell holds more than {_MAX_CHARACTERS} characters; this is not a ledger"
        raise LedgerError(message)


class TextParts(Handler):
    """The text of a cell, without its pronunciation guide."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._is_open = False
        self._is_pronunciation = False

    def start(self, name: str, attributes: Attributes) -> None:  # noqa: ARG002
        """Handle the start of an element."""
        if name == "rPh":
            self._is_pronunciation = True
        elif name == "t":
            self._is_open = not self._is_pronunciation

    def end(self, name: str) -> None:
        """Handle the end of an element."""
        if name == "rPh":
            self._is_pronunciation = False
        elif name == "t":
            self._is_open = False

    def text(self, text: str) -> None:
        """
        Handle text.

        Raises:
            LedgerError: When it is too long for a cell.
        """
        if self._is_open:
            self._parts.append(text)
            self._length += len(text)
            check_length(self._length)

    def take(self) -> str:
        """Return the text, and start the next one."""
        text = "".join(self._parts)
        self._parts.clear()
        self._length = 0
        return unescape(text)


class _Relations(Handler):
    def __init__(self, folder: str) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._folder = folder

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", self._folder, attributes["Target"])).lstrip("/")
            self.found[attributes["Id"]] = attributes["Type"].rpartition("/")[2], target


class _Book(Handler):
    def __init__(self, relations: Mapping[str, tuple[str, str]]) -> None:
        self.sheets: list[Sheet] = []
        self.is_1904 = False
        self._relations = relations

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "sheet":
            relation = next((value for key, value in attributes.items() if key.endswith(":id")), "")
            kind, part = self._relations.get(relation, ("", ""))
            if not kind:
                message = f"the sheet {quote(attributes['name'])} is not in the XLSX file; open it and save it again"
                raise LedgerError(message)
            if kind == "worksheet":  # a chart sheet has no rows
                is_hidden = attributes.get("state", "visible") != "visible"
                self.sheets.append(Sheet(name=attributes["name"], part=part, is_hidden=is_hidden))
        elif name == "workbookPr":
            self.is_1904 = attributes.get("date1904") in ("1", "true", "on")


class _Styles(Handler):
    def __init__(self) -> None:
        self.time_styles: set[int] = set()
        self.day_styles: set[int] = set()
        self._shown = dict.fromkeys(_TIME_FORMATS, self.time_styles) | dict.fromkeys(_DAY_FORMATS, self.day_styles)
        self._is_in_cells = False
        self._count = 0

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "numFmt" and "numFmtId" in attributes:
            letters = set(
                _NO_DATE_LETTERS.sub("", attributes["formatCode"][:_MAX_FORMAT]).casefold().replace("general", ""),
            )
            is_time, is_day = bool(letters & set("hs")), bool(letters & set("ymd"))
            styles = self.time_styles if is_time else self.day_styles if is_day else set[int]()
            self._shown[int(attributes["numFmtId"])] = styles
        elif name == "xf" and self._is_in_cells:
            self._shown.get(int(attributes.get("numFmtId", "0")), set[int]()).add(self._count)
            self._count += 1
        elif name in ("cellXfs", "cellStyles"):
            self._is_in_cells = name == "cellXfs"


class _Texts(TextParts):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def end(self, name: str) -> None:
        super().end(name)
        if name == "si":
            self.found.append(self.take())


def _relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return kind and path of the parts that *part* refers to, by relationship id."""
    folder, name = posixpath.split(part)
    place = posixpath.join(folder, "_rels", f"{name}.rels")
    relations = _Relations(folder)
    if place in archive:
        archive.read(place, relations, max_bytes=_MAX_OTHER_BYTES)
    return relations.found
