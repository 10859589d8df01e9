"""Standard input line by line, without stopping the event loop while nothing comes."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import AsyncIterator
from concurrent.futures import Future
from threading import Thread
from typing import BinaryIO

from payclient.errors import ConfigurationError

_CHUNK_BYTES = 64 * 1024
_LONGEST = 64 * 1024


async def read_lines(stream: BinaryIO) -> AsyncIterator[str]:
    """
    Yield the lines that are not blank, without the white space around them.

    Bytes that are not UTF-8 become characters that no reference may have, so they cost their own
    line and no other.

    Shape:
        Lazy: the stream is read on when the lines so far have been taken.

    Raises:
        ConfigurationError: When a line has no end: this is no list of references.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    rest = ""
    while chunk := await _read(stream):
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        if len(rest) > _LONGEST:
            message = f"standard input has a line of more than {_LONGEST} characters; give one reference per line"
            raise ConfigurationError(message)
        for line in lines:
            if line.strip():
                yield line.strip()
    if rest := (rest + decoder.decode(b"", final=True)).strip():
        yield rest


async def _read(stream: BinaryIO) -> bytes:
    """
    Return what comes next; nothing at the end.

    A thread waits for it, one that nobody waits for in turn: a terminal can keep it for ever. It
    reads from the system, because a lock of Python's own that a thread still holds at the end of
    the interpreter is fatal.
    """
    arrival: Future[bytes] = Future()
    arrival.set_running_or_notify_cancel()  # who is cancelled stops waiting; the thread cannot stop

    def read() -> None:
        try:
            arrival.set_result(_next_chunk(stream))
        except (OSError, ValueError) as error:
            arrival.set_exception(error)

    Thread(target=read, daemon=True, name="payclient-stdin").start()
    return await asyncio.wrap_future(arrival)


def _next_chunk(stream: BinaryIO) -> bytes:
    try:
        number = stream.fileno()
    except OSError:  # a stream in memory
        return stream.read(_CHUNK_BYTES)
    return os.read(number, _CHUNK_BYTES)
