"""The bytes of a ledger, with a fingerprint to detect later changes."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TypeAlias, cast

from payclient._atomic import Fingerprint
from payclient.ledger._cells import LedgerChangedError, LedgerError

GZIP = b"\x1f\x8b"

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 1 << 18
_FREE_BYTES = 1 << 23
_MAX_RATIO = 200
"""Ledgers compress ten to thirty times; gzip reaches a thousand with pure repetition."""


def unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the decompressed *chunks*, in pieces of at most 256 KiB."""
    # Refused is what expands to more than 8 MiB and 200 times its size.
    packed = given = 0
    member = zlib.decompressobj(wbits=_GZIP_FORMAT)
    for chunk in chunks:
        packed += len(chunk)
        rest = chunk
        while rest:
            if member.eof:
                rest = rest.lstrip(b"\0")  # padding up to the end of a block
                member = zlib.decompressobj(wbits=_GZIP_FORMAT) if rest else member
                continue
            try:
                piece = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                message = f"the gzip data is damaged ({error})"
                raise LedgerError(message) from error
            rest = member.unconsumed_tail or member.unused_data
            given += len(piece)
            if given > max(_FREE_BYTES, _MAX_RATIO * packed):
                message = f"the gzip data unpacks to more than {_MAX_RATIO} times its size; this is not a ledger"
                raise LedgerError(message)
            if piece:  # empty after the header alone, and an empty piece would mean the end
                yield piece
    if not member.eof:
        message = "the gzip data ends too early; the file is truncated"
        raise LedgerError(message)


LedgerFile: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str]
"""A path, or a stream that is open for reading; a stream is never closed by payclient."""

_CHUNK_BYTES = 1 << 18


class Source:
    """The bytes of one ledger, read once from start to end."""

    def __init__(self, ledger: LedgerFile) -> None:
        self._path: Path | None = None
        self._stream: IO[bytes] | IO[str]
        if isinstance(ledger, str | os.PathLike):
            self._path = Path(ledger)
            self._stream = _open(self._path)
            self._identity = _identity(os.fstat(self._stream.fileno()))
        else:
            self._stream = ledger
        self._copy: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        self._size = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, and add them to the fingerprint."""
        while chunk := self._read():
            self._digest.update(chunk)
            self._size += len(chunk)
            yield chunk

    def whole(self, chunks: Iterable[bytes]) -> IO[bytes]:
        """Return all bytes as one seekable file; `close` closes it."""
        if self._path is not None:
            deque(chunks, maxlen=0)  # for the fingerprint
            file = cast(IO[bytes], self._stream)
        else:
            file = self._copy = _copied(chunks)
        file.seek(0)
        return file

    def _read(self) -> bytes:
        try:
            chunk = self._stream.read(_CHUNK_BYTES)
            return chunk.encode() if isinstance(chunk, str) else chunk
        except UnicodeError as error:
            message = f"the text stream cannot be read as UTF-8 ({error}); open it in binary mode"
            raise LedgerError(message) from error
        except OSError as error:
            message = f"the ledger cannot be read: {error.strerror or error}"
            raise LedgerError(message) from error

    @property
    def name(self) -> str:
        """The file name, without its folder; empty for a stream."""
        return self._path.name if self._path else ""

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(name=self.name, size_bytes=self._size, sha256=self._digest.hexdigest())

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was read; a stream cannot be checked."""
        if self._path is None:
            return
        try:
            identity = _identity(self._path.stat())
            with self._path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            message = f"{self._path.name} cannot be read again: {error.strerror}; no report is written"
            raise LedgerChangedError(message) from error
        if (identity, sha256) != (self._identity, self._digest.hexdigest()):
            message = f"{self._path.name} changed while it was reconciled; no report is written, run it again"
            raise LedgerChangedError(message)

    def close(self) -> None:
        if self._path is not None:
            self._stream.close()
        if self._copy is not None:
            self._copy.close()


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        message = f"{path} cannot be opened: {error.strerror}"
        raise LedgerError(message) from error


def _copied(chunks: Iterable[bytes]) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115  closed with the source
    try:
        copy.writelines(chunks)
    except LedgerError:
        copy.close()
        raise
    except OSError as error:
        copy.close()
        message = f"the stream cannot be copied to a temporary file: {error.strerror}; give the file by its path"
        raise LedgerError(message) from error
    return copy


def _identity(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
