"""Turn the bytes of a ledger into lines of text, and refuse bytes that are not UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator

from payclient.ledger._errors import LedgerError

_MAX_LINE = 1 << 20


def read_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """
    Yield the lines of a file without their line ends: LF, CR LF or CR.

    Args:
        chunks: The bytes of the file, split anywhere.

    Note:
        Lazy. All lines before an error are yielded first.

    Raises:
        LedgerError: At the first byte that is NUL or not UTF-8, with its offset and what to do; or
            when a line is longer than a million characters.
    """
    decoder = _Decoder()
    rest, count = "", 0
    for chunk in chunks:
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        yield from lines
        count += len(lines)
        if decoder.problem:
            raise LedgerError(decoder.problem.format(line=count + 1), line=count + 1, offset=decoder.offset)
        if len(rest) > _MAX_LINE:
            message = f"line {count + 1} is longer than {_MAX_LINE} characters; this is not a ledger"
            raise LedgerError(message, line=count + 1)
    *lines, rest = (rest + decoder.decode(b"", is_last=True)).split("\n")
    yield from lines
    if rest:
        yield rest
    if decoder.problem:
        line = count + len(lines) + 1
        raise LedgerError(decoder.problem.format(line=line), line=line, offset=decoder.offset)


class _Decoder:
    """Decodes UTF-8 piece by piece; what it cannot decode becomes its `problem`, at byte `offset`."""

    def __init__(self) -> None:
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)
        self._pending = b""
        self._is_first = True
        self.offset = 0
        self.problem = ""

    def decode(self, chunk: bytes, *, is_last: bool = False) -> str:
        """Return the text up to the end of *chunk*, or up to the first error in it."""
        data = self._pending + chunk
        nul = data.find(0)
        good = data if nul < 0 else data[:nul]
        try:
            text, used = codecs.utf_8_decode(good, "strict", is_last or nul >= 0)
            if nul >= 0:
                self.problem = f"NUL byte at offset {self.offset + nul} (line {{line}}): {_UTF_16}"
        except UnicodeDecodeError as error:
            used = error.start
            text = good[:used].decode()
            self.problem = self._not_utf_8(good, used)
        self._pending = data[used:]
        self.offset += used
        if self._is_first and text:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        return self._newlines.decode(text, is_last)

    def _not_utf_8(self, data: bytes, place: int) -> str:
        where = f"byte 0x{data[place]:02X} at offset {self.offset + place} (line {{line}})"
        if self.offset + place == 0 and data[0] in (0xFE, 0xFF):
            return f"{where}: {_UTF_16}"
        if place + 3 >= len(data) and codecs.utf_8_decode(data[place:], "ignore", False)[1] == 0:
            return f"{where}: the file ends in the middle of a character; it is truncated"
        return f"{where} is not UTF-8: {_CP_1252}"


_UTF_16 = "the file is UTF-16 or damaged; save it as CSV UTF-8, or convert it with iconv -f UTF-16 -t UTF-8"
_CP_1252 = "the file is probably Windows-1252; save it as CSV UTF-8, or convert it with iconv -f WINDOWS-1252 -t UTF-8"
