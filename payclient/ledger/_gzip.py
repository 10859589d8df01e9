"""Unpack a ledger that was packed with gzip, piece by piece and within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from payclient.ledger._errors import LedgerError

GZIP = b"\x1f\x8b"

_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 1 << 18
_FREE_BYTES = 1 << 26
_MOST_TIMES = 200
"""Ledgers shrink ten to thirty times; gzip can reach a thousand with nothing but repetition."""


def unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """
    Yield what *chunks* unpack to, in pieces of at most 256 KiB.

    Raises:
        LedgerError: When the data is damaged, cut, followed by something else, or unpacks to more
            than 64 MiB and 200 times its size.
    """
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
            if given > max(_FREE_BYTES, _MOST_TIMES * packed):
                message = f"the gzip data unpacks to more than {_MOST_TIMES} times its size; this is no ledger"
                raise LedgerError(message)
            if piece:  # the header alone gives nothing, which elsewhere means the end
                yield piece
    if not member.eof:
        message = "the gzip data ends too early; the file was cut"
        raise LedgerError(message)
