"""Standard input is read line by line, lazily, and never in the way of the event loop."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from payclient.cli._lines import read_lines
from payclient.errors import ConfigurationError


async def collect(content):
    return [line async for line in read_lines(io.BytesIO(content))]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\n a \t\n", ["a"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\xc3\xa9\n\xff\n", ["é", "\udcff"]),
        (b"\xc3", ["\udcc3"]),
    ],
)
async def test_lines(content, expected):
    """Lines come without line ends, blanks and byte order mark, and bytes that are no text stay tellable."""
    assert await collect(content) == expected


async def test_across_chunks():
    """A line, and a character, that lies across two reads is whole."""
    content = b"x" * 65535 + "é".encode() + b"\nb\n"
    assert [len(line) for line in await collect(content)] == [65536, 1]


async def test_no_end():
    """Input without line ends is refused instead of being gathered in memory."""
    with pytest.raises(ConfigurationError, match="more than 65536 characters"):
        await collect(b"x" * 200_000)


async def test_lazy():
    """A line is there as soon as it was written, while the writer goes on."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as stream:
        lines = read_lines(stream)
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
                await anext(read_lines(stream))
        os.close(writing)


async def test_error():
    """An error of the system comes out of the iteration."""
    with pytest.raises(OSError, match="Is a directory"):
        await anext(read_lines(_Directory()))


class _Directory(io.BytesIO):
    def read(self, size=-1):
        raise IsADirectoryError(21, "Is a directory")
