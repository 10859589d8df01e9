"""Content codings, undone within a bound."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from contextlib import suppress

import pytest

from payclient._inflate import InflateError, inflate

LIMIT = 64 * 1024
PLAIN = b'{"success": true}'


def layered(body, *, layers):
    for _ in range(layers):
        body = gzip.compress(body, 9)
    return body


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        pytest.param(PLAIN, "", id="none"),
        pytest.param(PLAIN, "identity", id="identity"),
        pytest.param(gzip.compress(PLAIN), "gzip", id="gzip"),
        pytest.param(gzip.compress(PLAIN), " GZip ", id="case-and-space"),
        pytest.param(gzip.compress(PLAIN), "x-gzip", id="x-gzip"),
        pytest.param(gzip.compress(PLAIN), "identity, gzip", id="identity-and-gzip"),
        pytest.param(zlib.compress(PLAIN), "deflate", id="deflate"),
        pytest.param(layered(PLAIN, layers=2), "gzip, gzip", id="gzip-twice"),
        pytest.param(gzip.compress(zlib.compress(PLAIN)), "deflate, gzip", id="last-coding-first"),
    ],
)
def test_undone(body, coding):
    """A coding that we know is undone, the last one first."""
    assert inflate(body, coding, limit=LIMIT) == PLAIN


@pytest.mark.parametrize(
    ("body", "coding", "problem"),
    [
        pytest.param(PLAIN, "br", "unknown content coding 'br'", id="unknown"),
        pytest.param(PLAIN, "x" * 90, f"unknown content coding '{'x' * 40}'", id="unknown-and-long"),
        pytest.param(PLAIN, "gzip", "damaged gzip data", id="not-gzip"),
        pytest.param(gzip.compress(PLAIN)[:-9], "gzip", "gzip data that ends too early", id="cut"),
        pytest.param(b"", "gzip", "gzip data that ends too early", id="empty"),
        pytest.param(gzip.compress(PLAIN) + b"more", "gzip", "bytes after the end of the gzip data", id="extra"),
        pytest.param(gzip.compress(PLAIN)[:-8] + b"\0" * 8, "gzip", "damaged gzip data", id="checksum"),
        pytest.param(layered(PLAIN, layers=3), "gzip, gzip, gzip", "3 content codings", id="stacked"),
    ],
)
def test_refused(body, coding, problem):
    """What cannot be undone is refused with the reason."""
    with pytest.raises(InflateError, match=f"^{problem}"):
        inflate(body, coding, limit=LIMIT)


def test_limit_is_inclusive():
    """A body of exactly the limit is whole, and one byte more is too much."""
    assert len(inflate(gzip.compress(b"a" * LIMIT), "gzip", limit=LIMIT)) == LIMIT
    with pytest.raises(InflateError, match=f"grows beyond {LIMIT} bytes"):
        inflate(gzip.compress(b"a" * (LIMIT + 1)), "gzip", limit=LIMIT)


@pytest.mark.parametrize("layers", [1, 2, 10])
@pytest.mark.parametrize("named", [1, 2, 10])
def test_bomb(layers, named):
    """A bomb costs less than 1 MiB, however often it was packed and however often it says so."""
    bomb = layered(bytes(32 * 1024 * 1024), layers=layers)
    tracemalloc.start()
    try:
        with suppress(InflateError):
            inflate(bomb, ", ".join(["gzip"] * named), limit=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024
