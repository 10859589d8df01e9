"""The sandbox in a process of its own, for as long as a block runs."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from attrs import field, frozen

from payclient.errors import ConfigurationError

_GRACE = 5.0
"""Seconds that it has to end in order."""


@frozen
class Address:
    """Where a sandbox is, and what it lets in."""

    base_url: str
    api_key: str = field(repr=False)


@asynccontextmanager
async def sandbox_process(*options: str, log: Path) -> AsyncGenerator[Address]:
    """
    Start `payclient sandbox` on a free port, and end it with the block, whatever ends that.

    Args:
        options: Besides the port.
        log: Where its standard error goes.

    Raises:
        ConfigurationError: When it does not start; with its own words.
    """
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "payclient", "sandbox", "--port", "0", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        yield _address(await process.stdout.readline(), log)
    finally:
        await _end(process)


def _address(line: bytes, log: Path) -> Address:
    words = dict(word.split("=", 1) for word in shlex.split(line.decode()) if "=" in word)
    if "PAYCLIENT_BASE_URL" not in words:
        message = f"the sandbox did not start: {log.read_text(encoding='utf-8', errors='replace').strip()}"
        raise ConfigurationError(message)
    return Address(words["PAYCLIENT_BASE_URL"], words["PAYCLIENT_API_KEY"])


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has ended already, perhaps by the same Ctrl-C
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
