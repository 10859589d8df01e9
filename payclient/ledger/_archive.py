"""
The XML parts of an XLSX file, read piece by piece and within bounds.

A workbook is a zip file that may claim anything: sizes are checked before a part is unpacked, a
document type, from which entities could grow, is refused, and no damage gets out but as a `LedgerError`.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import IO, TypeAlias
from xml.parsers import expat

from payclient._visible import visible
from payclient.ledger._errors import LedgerError

Attributes: TypeAlias = dict[str, str]
StartHandler: TypeAlias = Callable[[str, Attributes], None]
EndHandler: TypeAlias = Callable[[str], None]
TextHandler: TypeAlias = Callable[[str], None]

MIB = 1 << 20
_PIECE_BYTES = 1 << 16
_MOST_SHEET_BYTES = 4096 * MIB
_FREE_BYTES = 64 * MIB
_MOST_TIMES = 200
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, expat.ExpatError, struct.error),
    *(ArithmeticError, EOFError, LookupError, NotImplementedError, OSError, RuntimeError, ValueError),
)
"""What `zipfile` and `expat` raise, and `int` or `float` of what a part holds, when a file is damaged."""


@contextmanager
def damage_refused() -> Generator[None]:
    """Turn every sign of a damaged file into a `LedgerError`; nothing else may happen inside."""
    try:
        yield
    except LedgerError:
        raise
    except _DAMAGE as error:
        message = f"the XLSX file is damaged ({visible(str(error), longest=200)}); open it and save it again"
        raise LedgerError(message) from error


class Archive:
    """
    An XLSX file, as its parts.

    Raises:
        LedgerError: When it is no zip file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        with damage_refused():
            self._zip = zipfile.ZipFile(file)

    def __contains__(self, part: str) -> bool:
        return part in self._zip.NameToInfo

    def pieces(self, part: str, *, most_bytes: int = _MOST_SHEET_BYTES) -> Iterator[bytes]:
        """
        Yield what *part* unpacks to.

        Raises:
            LedgerError: When it is not there, damaged, encrypted, or larger than *most_bytes* or
                than anything but a bomb would be.
        """
        with damage_refused():
            info = self._zip.getinfo(part)
            self._check(info, most_bytes)
            stream = self._zip.open(info)
        with stream:
            while True:
                with damage_refused():
                    piece = stream.read(_PIECE_BYTES)
                if not piece:
                    return
                yield piece

    def read(
        self, part: str, *, on_start: StartHandler, on_end: EndHandler, on_text: TextHandler, most_bytes: int
    ) -> None:
        """Parse all of *part*; raises as `pieces` and `Parser` do."""
        parser = Parser(on_start=on_start, on_end=on_end, on_text=on_text)
        for piece in self.pieces(part, most_bytes=most_bytes):
            parser.feed(piece)
        parser.feed(b"", is_last=True)

    @staticmethod
    def _check(info: zipfile.ZipInfo, most_bytes: int) -> None:
        """Refuse by what the file says of *info*: `zipfile` never unpacks more than that."""
        name = visible(info.filename, longest=80)
        if info.flag_bits & 1:
            message = f"{name} has a password; save the workbook without one"
            raise LedgerError(message)
        if info.file_size > most_bytes:
            message = f"{name} is larger than {most_bytes // MIB} MiB; this is no ledger, or one to give as CSV"
            raise LedgerError(message)
        if info.file_size > max(_FREE_BYTES, _MOST_TIMES * info.compress_size):
            message = f"{name} unpacks to more than {_MOST_TIMES} times its size; this is no ledger"
            raise LedgerError(message)


class Parser:
    """
    Calls back for each element of a document, by its name without a prefix.

    Raises:
        LedgerError: When fed with what is no XML, or has a document type.
    """

    def __init__(self, *, on_start: StartHandler, on_end: EndHandler, on_text: TextHandler) -> None:
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = lambda name, attributes: on_start(name.rpartition(":")[2], attributes)
        self._expat.EndElementHandler = lambda name: on_end(name.rpartition(":")[2])
        self._expat.CharacterDataHandler = on_text
        self._expat.StartDoctypeDeclHandler = _refuse_document_type

    def feed(self, piece: bytes, *, is_last: bool = False) -> None:
        """Parse one more *piece*."""
        with damage_refused():
            self._expat.Parse(piece, is_last)


def _refuse_document_type(*_: object) -> None:
    message = "the XLSX file has a document type inside, which no spreadsheet program writes; it is refused"
    raise LedgerError(message)
