"""A ledger that changes under the run is noticed."""

from __future__ import annotations

import hashlib
import io
import os

import pytest

from payclient.ledger import LedgerChangedError, LedgerError
from payclient.ledger._source import Source

CONTENT = b"reference\nT1\nT2\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_bytes(CONTENT)
    os.utime(path, ns=(10**18, 10**18))
    return path


@pytest.fixture
def source(path):
    source = Source(path)
    assert b"".join(source.chunks()) == CONTENT
    yield source
    source.close()


def test_fingerprint(source):
    """The fingerprint is of what was read: its length and its SHA-256, under the file's name without folder."""
    fingerprint = source.fingerprint
    assert (fingerprint.name, fingerprint.size_bytes) == ("ledger.csv", len(CONTENT))
    assert fingerprint.sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_unchanged(source):
    """A file that nobody touched passes."""
    source.check_unchanged()


def test_replaced(source, path):
    """A file of the same content in its place is another file."""
    other = path.with_name("other")
    other.write_bytes(CONTENT)
    os.utime(other, ns=(10**18, 10**18))
    other.replace(path)
    with pytest.raises(LedgerChangedError, match="changed while it was reconciled"):
        source.check_unchanged()


@pytest.mark.parametrize("content", [CONTENT + b"T3\n", CONTENT[:-3]])
def test_grown_or_cut(source, path, content):
    """A file that was appended to, or cut, has changed."""
    path.write_bytes(content)
    with pytest.raises(LedgerChangedError):
        source.check_unchanged()


def test_edited_in_secret(source, path):
    """An edit that keeps length and time is found by the content."""
    path.write_bytes(CONTENT.replace(b"T2", b"T9"))
    os.utime(path, ns=(10**18, 10**18))
    with pytest.raises(LedgerChangedError):
        source.check_unchanged()


def test_touched(source, path):
    """A file that was written again has changed, although its content is the same."""
    path.write_bytes(CONTENT)
    with pytest.raises(LedgerChangedError):
        source.check_unchanged()


def test_removed(source, path):
    """A file that is gone has changed."""
    path.unlink()
    with pytest.raises(LedgerChangedError, match="cannot be read again"):
        source.check_unchanged()


@pytest.mark.parametrize("stream", [io.BytesIO("é\n".encode()), io.StringIO("é\n")])
def test_streams(stream):
    """Open streams of bytes and of text are read the same, cannot be checked, and are not closed."""
    source = Source(stream)
    assert b"".join(source.chunks()) == "é\n".encode()
    source.check_unchanged()
    source.close()
    assert not stream.closed


def test_text_stream_of_another_encoding():
    """A text stream that cannot decode its bytes is refused as a ledger, not as a bug."""
    with pytest.raises(LedgerError, match="open it in binary mode"):
        list(Source(io.TextIOWrapper(io.BytesIO(b"\xe9t\xe9"), encoding="utf-8")).chunks())


def test_no_such_file(tmp_path):
    """A file that is not there is named."""
    with pytest.raises(LedgerError, match=r"ledger.csv cannot be opened: No such file"):
        Source(tmp_path / "ledger.csv")


def test_whole(path):
    """All bytes can be had as one file, from its beginning, of a path as of a stream, and closing ends it."""
    for ledger in (path, io.BytesIO(CONTENT), io.StringIO(CONTENT.decode())):
        source = Source(ledger)
        file = source.whole(source.chunks())
        assert (file.read(), source.fingerprint.size_bytes) == (CONTENT, len(CONTENT))
        source.close()
        assert file.closed
