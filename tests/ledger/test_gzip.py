"""A ledger that was packed with gzip is unpacked within bounds."""

from __future__ import annotations

import gzip
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.ledger import LedgerError
from payclient.ledger._gzip import unpacked

TEXT = b"reference\n" + b"\n".join(b"T%d" % n for n in range(1000))


def in_pieces(data, size):
    return [data[place : place + size] for place in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_members(size):
    """Members that were joined, and padding after them, unpack to the whole text, wherever it is cut."""
    data = gzip.compress(TEXT) + gzip.compress(b"\nT") + bytes(100)
    assert b"".join(unpacked(in_pieces(data, size))) == TEXT + b"\nT"


@pytest.mark.parametrize("lost", [1, 8, 9, 100])
def test_cut(lost):
    """A file that was cut, even within its last eight bytes, is refused."""
    with pytest.raises(LedgerError, match="was cut"):
        list(unpacked([gzip.compress(TEXT)[:-lost]]))


@pytest.mark.parametrize("data", [gzip.compress(TEXT)[:-8] + bytes(8), gzip.compress(TEXT) + b"more"])
def test_damaged(data):
    """A wrong sum, and something that follows, are refused."""
    with pytest.raises(LedgerError, match="damaged"):
        list(unpacked([data]))


def test_bomb():
    """A file that unpacks to far more than any ledger is refused before it is unpacked, in small pieces."""
    bomb = gzip.compress(bytes(80 << 20))
    given_bytes = 0
    with pytest.raises(LedgerError, match="200 times its size"):
        for piece in unpacked(in_pieces(bomb, 1 << 16)):
            given_bytes += len(piece)
            assert len(piece) <= 1 << 18
    assert given_bytes <= 64 << 20


def test_large():
    """A large ledger that shrinks as ledgers do is no bomb."""
    block = random.Random(1).randbytes(1 << 16).hex().encode()
    assert sum(map(len, unpacked(in_pieces(gzip.compress(block * 520, 1), 1 << 16)))) == len(block) * 520


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes(data, place):
    """Any bytes unpack or are refused."""
    packed = gzip.compress(b"reference\nT1\n")
    with suppress(LedgerError):
        list(unpacked([packed[:place] + data + packed[place:]]))
