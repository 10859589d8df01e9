"""Undo a body's `Content-Encoding` without letting it grow past a bound."""

from __future__ import annotations

import zlib

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_MOST_LAYERS = 2


class InflateError(ValueError):
    """The body cannot be decoded; the text says why."""


def inflate(body: bytes, content_encoding: str, *, limit: int) -> bytes:
    """
    Return *body* decoded, at most *limit* bytes of it.

    We ask for `identity`, so an encoding is already an oddity; one that a proxy adds is undone.

    Raises:
        InflateError: When the coding is unknown, stacked too high, cut or larger than *limit*:
            1,830 bytes of gzip in gzip can stand for a gibibyte.
    """
    codings = [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(codings) > _MOST_LAYERS:
        message = f"{len(codings)} content codings on top of each other"
        raise InflateError(message)
    for coding in reversed(codings):
        body = _undo(body, coding, limit)
    return body


def _undo(body: bytes, coding: str, limit: int) -> bytes:
    if coding not in _WINDOW_BITS:
        message = f"unknown content coding {coding[:40]!r}"
        raise InflateError(message)
    decoder = zlib.decompressobj(_WINDOW_BITS[coding])
    try:
        plain = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        message = f"damaged {coding} data: {error}"
        raise InflateError(message) from None
    if len(plain) > limit:
        message = f"{coding} data that grows beyond {limit} bytes"
        raise InflateError(message)
    if not decoder.eof:
        message = f"{coding} data that ends too early"
        raise InflateError(message)
    if decoder.unused_data:
        message = f"bytes after the end of the {coding} data"
        raise InflateError(message)
    return plain
