"""A ledger that changes under the run is noticed."""

import hashlib
import io
import os

import pytest

from payclient.reconcile.ledger import LedgerChangedError, LedgerError
from payclient.reconcile.ledger._open import Source

CONTENT = b"reference\nT1\nT2\n"


WHEN = (10**18, 10**18)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_bytes(CONTENT)
    os.utime(path, ns=WHEN)
    return path


def edited_in_secret(path):
    path.write_bytes(CONTENT.replace(b"T2", b"T9"))
    os.utime(path, ns=WHEN)


CHANGES = {
    "grown": lambda path: path.write_bytes(CONTENT + b"T3\n"),
    "cut": lambda path: path.write_bytes(CONTENT[:-3]),
    "edited in secret": edited_in_secret,
    "removed": lambda path: path.unlink(),
}


def test_changed(path, subtests):
    """A file that is not what was read has changed; a plain one has not."""
    for name, change in CHANGES.items():
        with subtests.test(name):
            path.write_bytes(CONTENT)
            os.utime(path, ns=WHEN)
            source = Source(path)
            assert b"".join(source.chunks()) == CONTENT
            source.check_unchanged()
            change(path)
            with pytest.raises(LedgerChangedError, match=r"cannot be read again|changed while it was reconciled"):
                source.check_unchanged()
            source.close()


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
        found = source.fingerprint
        assert (file.read(), found.size_bytes, found.sha256) == (
            CONTENT,
            len(CONTENT),
            hashlib.sha256(CONTENT).hexdigest(),
        )
        source.close()
        assert file.closed
