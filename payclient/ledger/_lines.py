"""Turn the bytes of a ledger into lines of text, and refuse bytes that are not UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from itertools import chain

from payclient.ledger._dialect import UTF_8
from payclient.ledger._errors import LedgerError

_MAX_LINE = 1 << 20


def with_start(chunks: Iterable[bytes], size_bytes: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first chunks, of *size_bytes* or more together, and an iterator over all chunks, these included."""
    rest = iter(chunks)
    first: list[bytes] = []
    while sum(map(len, first)) < size_bytes and (chunk := next(rest, b"")):
        first.append(chunk)
    return b"".join(first), chain(first, rest)


def read_lines(chunks: Iterable[bytes], encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a file without their line ends: LF, CR LF or CR; all before an error first."""
    # A byte order mark of UTF-8 has priority over *encoding*.
    start, chunks = with_start(chunks, len(codecs.BOM_UTF8))
    is_utf_8 = encoding == UTF_8 or start.startswith(codecs.BOM_UTF8)
    decoder = _Decoder(UTF_8 if is_utf_8 else encoding, start)
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
    """Decodes piece by piece; what it cannot decode becomes its `problem`, at byte `offset`."""

    def __init__(self, encoding: str, start: bytes) -> None:
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._is_first = True
        self.offset = 0
        self.problem = ""
        if encoding == "utf-16" and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            self.problem = (
                "the ledger has no byte order mark of UTF-16 at its start; "
                "declare --encoding utf-16-le or utf-16-be, or another encoding"
            )

    def decode(self, chunk: bytes, *, is_last: bool = False) -> str:
        """Return the text up to the end of *chunk*, or up to the first error in it."""
        if self.problem:
            return ""
        nul = chunk.find(0) if self._encoding == UTF_8 else -1
        if nul >= 0:
            chunk = chunk[:nul]
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(chunk, is_last or nul >= 0)
            used = len(chunk)
            if nul >= 0:
                self.problem = f"NUL byte at offset {self.offset + nul} (line {{line}}): {_UTF_16}"
        except UnicodeDecodeError as error:
            used = error.start - len(state[0])  # negative when it began in the chunk before
            self._decoder.setstate(state)
            text = self._decoder.decode(chunk[: max(used, 0)])
            self.problem = self._undecodable(error, self.offset + used, is_last=is_last)
        if "\0" in text:
            text = text.partition("\0")[0]
            self.problem = f"NUL character (line {{line}}): it is not {self._encoding}; {_ANOTHER}"
        self.offset += used
        if self._is_first and text:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        return self._newlines.decode(text, is_last)

    def _undecodable(self, error: UnicodeDecodeError, offset: int, *, is_last: bool) -> str:
        data = error.object[error.start :]
        where = f"byte 0x{data[0]:02X} at offset {offset} (line {{line}})"
        if self._encoding != UTF_8:
            return f"{where} is not {self._encoding}: {'the file is truncated' if is_last else _ANOTHER}"
        if offset == 0 and data[0] in (0xFE, 0xFF):
            return f"{where}: {_UTF_16}"
        if len(data) <= 3 and codecs.utf_8_decode(data, "ignore", False)[1] == 0:
            return f"{where}: the file ends in the middle of a character; it is truncated"
        return f"{where} is not UTF-8: {_CP_1252}"


_ANOTHER = "declare another --encoding"
_UTF_16 = "the file is UTF-16 or damaged; if it is UTF-16, --encoding utf-16 reads it"
_CP_1252 = (
    "the file is in an older encoding, which cannot be recognised; say which one it is, as with --encoding cp1252 for "
    "Excel's CSV in Western Europe and America, or save it as CSV UTF-8"
)
