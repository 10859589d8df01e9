"""
Read the XML parts of an XLSX file, in pieces and with limits.

A workbook is an untrusted zip file: sizes are checked before a part is decompressed, a document type,
whose entities could expand, is refused, and any damage becomes a `LedgerError`.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, TypeAlias
from xml.parsers import expat

from payclient._escape import escape_unprintable
from payclient.ledger._cells import LedgerError

Attributes: TypeAlias = dict[str, str]
Element: TypeAlias = tuple[str, Attributes | None, str | None]
"""
The name of an element without a prefix, its attributes where it starts, and its text where it ends.

An element without others in it is there once; any other twice, at its start without a text, and at its end without
attributes.
"""

MIB = 1 << 20
_MAX_CHARACTERS = MIB
_PIECE_BYTES = 1 << 12  # small, so that the elements of a piece stay in the processor's cache
_MAX_SHEET_BYTES = 4096 * MIB
_FREE_BYTES = 8 * MIB
_MAX_RATIO = 200
_MAX_DEPTH = 64
_FREE_ELEMENTS = 200_000
_MAX_ELEMENTS_PER_BYTE = 5
_MAX_SILENT_BYTES = MIB
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError, struct.error),
    *(ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""
Exceptions of `zipfile`, `expat`, `int` and `float` for a damaged file.

`zipfile` raises `NotImplementedError` for an unknown compression, and `RuntimeError` for an encrypted part.
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
            message = f"{name} is larger than {max_bytes // MIB} MiB; this is not a ledger, or one to give as CSV"
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
