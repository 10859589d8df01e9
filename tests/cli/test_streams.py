"""What is written holds nothing that a terminal would obey, and each error has its exit status."""

import asyncio
import io
import os
import threading

import pytest

from payclient import errors
from payclient.cli._lookup import most_urgent, read_references
from payclient.cli._process import Exit, Streams, aligned, status_of
from payclient.errors import ConfigurationError
from payclient.reconcile import RulesError
from payclient.reconcile._judgement.errors import UnknownCanaryError
from payclient.reconcile.ledger import LedgerChangedError, LedgerError


def test_write():
    """Escape characters are made visible in data as in narration; ends of lines and tabs are kept."""
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=io.StringIO())
    streams.write("a\x1b[31m\u202e\n\tb\r")
    streams.tell("a\x1b[31m")
    assert streams.stdout.getvalue() == "a<U+001B>[31m<U+202E>\n\tb<U+000D>\n"
    assert streams.stderr.getvalue() == "a<U+001B>[31m\n"


def test_folder(configured, tmp_path):
    """A folder whose name holds escape characters is shown without them, whichever way it ends."""
    ledger, out = tmp_path / "ledger.csv", tmp_path / "re\x1b[31mport"
    ledger.write_text("reference\nT1\n")
    results = [configured("reconcile", str(ledger), "--out", str(out))]
    results += [configured(name, str(out)) for name in ("verify", "report")]
    results += [configured("verify", str(out / "x")), configured("explain", str(out), "T\x1b[31m")]
    told = "".join(result.out + result.err for result in results)
    assert ("\x1b" in told, told.count("re<U+001B>[31mport") > 3) == (False, True)


async def collect(content):
    return [line async for line in read_references(io.BytesIO(content))]


async def test_lines():
    """Lines come without line ends, blanks and byte order mark, and bytes that are no text stay tellable."""
    for content, expected in [
        (b"", []),
        (b"a", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\n a \t\n", ["a"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\xc3\xa9\n\xff\n", ["é", "\udcff"]),
        (b"\xc3", ["\udcc3"]),
        (b"x" * 65535 + "é".encode() + b"\nb\n", ["x" * 65535 + "é", "b"]),  # across two reads
    ]:
        assert await collect(content) == expected
    with pytest.raises(ConfigurationError, match="more than 65536 characters"):
        await collect(b"x" * 200_000)


async def test_lazy():
    """A line is there as soon as it was written, while the writer goes on."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as stream:
        lines = read_references(stream)
        os.write(writing, b"a\nb")
        first = await anext(lines)
        os.write(writing, b"c\n")
        second = await anext(lines)
        os.close(writing)
        assert (first, second, [line async for line in lines]) == ("a", "bc", [])


async def test_loop_goes_on():
    """While nothing comes the event loop works, and the wait can be cancelled."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as stream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(read_references(stream))
        os.close(writing)
        for thread in threading.enumerate():
            if thread.name == "payclient-stdin":
                thread.join()  # or it would read from what has the number of this pipe next


async def test_error():
    """An error of the system comes out of the iteration."""
    with pytest.raises(OSError, match="Is a directory"):
        await anext(read_references(_Directory()))


class _Directory(io.BytesIO):
    def read(self, size=-1):
        raise IsADirectoryError(21, "Is a directory")


def test_status():
    """Refused, unanswered, answered with no, and used wrongly are four different things."""
    for error, status in [
        (errors.ConfigurationError("x"), Exit.USAGE),
        (errors.ConfigurationError("x", option="timeout"), Exit.USAGE),
        (errors.ConfigurationError("x", option="base_url"), Exit.REFUSED),
        (LedgerError("x"), Exit.USAGE),
        (RulesError("x"), Exit.USAGE),
        (UnknownCanaryError("x"), Exit.REFUSED),
        (LedgerChangedError("x"), Exit.USAGE),
        (errors.TransactionNotFoundError("x"), Exit.DIFFERENT),
        (errors.RejectedError("x"), Exit.DIFFERENT),
        (errors.InvalidReferenceError("x"), Exit.DIFFERENT),
        (errors.AuthenticationError("x"), Exit.REFUSED),
        (errors.PermissionDeniedError("x"), Exit.REFUSED),
        (errors.TLSVerificationError("x"), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=302), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=404), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=200), Exit.AGAIN),
        (errors.ReferenceMismatchError("x", status_code=200), Exit.AGAIN),
        (errors.ServiceError("x"), Exit.AGAIN),
        (errors.RateLimitedError("x"), Exit.AGAIN),
        (errors.ConnectionFailedError("x"), Exit.AGAIN),
        (errors.AttemptTimeoutError("x"), Exit.AGAIN),
        (errors.DeadlineExceededError("x"), Exit.AGAIN),
        (errors.ClientClosedError("x"), Exit.BUG),
    ]:
        assert status_of(error) is status, repr(error)
    assert most_urgent([]) is Exit.DONE
    assert most_urgent([Exit.DONE, Exit.DIFFERENT]) is Exit.DIFFERENT
    assert most_urgent([Exit.AGAIN, Exit.REFUSED, Exit.DIFFERENT]) is Exit.REFUSED


def test_aligned():
    """Text begins at the same place, numbers end at the same place, no line ends with blanks; some letters are wide."""
    assert aligned([("a", "1", "x"), ("bcd", "200", "")], right=[1]) == ["a      1  x", "bcd  200"]
    assert aligned([("支付", "x"), ("a", "x")]) == ["支付  x", "a     x"]
