"""`payclient sandbox`: the fake service on a port, for applications in any language."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from attrs import field, frozen
from cyclopts import Parameter, validators

from payclient._escape import escape_unprintable
from payclient._until_done import until_done
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.protocol import is_object
from payclient.testing import MALFORMED, FakeService, Fault, FixedWindow, Latency, Reply, RetryAfter, TokenBucket

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
    await until_done([asyncio.ensure_future(_reap(process))])


async def _reap(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


EXAMPLES = """
```console
$ payclient sandbox --port 8080
$ payclient sandbox --transactions transactions.jsonl --rate-limit 50/s --fault-share 0.02 --latency 0.1
```

The first line on standard output is ready to be pasted into another shell; scripts may wait for it:

```console
export PAYCLIENT_BASE_URL=http://127.0.0.1:8080 PAYCLIENT_API_KEY=fake-api-key PAYCLIENT_ENVIRONMENT=sandbox
```
"""

_READY_MADE: tuple[dict[str, Any], ...] = (
    {"reference": "T0000000001DEMO", "status": "Paid", "amount": 150000},
    {"reference": "T0000000002DEMO", "status": "Pending", "amount": 75000},
    {"reference": "T0000000003DEMO", "status": "Canceled", "amount": 20000},
    {"reference": "T0000000020DEMO", "status": "Pending", "amount": 45000, "becomes": [(20, "Paid")]},
    {"reference": "T0000000021DEMO", "status": "Pending", "amount": 60000, "becomes": [(20, "Expired")]},
)
_RATE = re.compile(r"(\d+)/(s|min)", re.ASCII)

# The kinds of faults, and how much of the whole share each has. The cut connection announces more
# bytes than it sends.
_FAULTS = (
    (0.5, Reply(status=500)),
    (0.2, MALFORMED["html_page"]),
    (0.2, MALFORMED["cut_json"]),
    (0.1, Reply(headers={"content-length": "100000"})),
)


def limit_of(rate: str) -> TokenBucket | FixedWindow:
    """
    Return the limit that a text such as `50/s` or `600/min` names.

    A limit per minute tells a refused client when to come back, one per second does not.

    Raises:
        ConfigurationError: When it names none.
    """
    match = _RATE.fullmatch(rate)
    if match is None or not int(match[1]):
        message = f"--rate-limit must be like 50/s or 600/min, got {rate!r}"
        raise ConfigurationError(message)
    count = int(match[1])
    if match[2] == "s":
        return TokenBucket(rate=count)
    return FixedWindow(count=count, retry_after=RetryAfter.SECONDS)


def faults_of(share: float) -> list[Fault]:
    """Return the faults that *share* of the answers meet: half of them 500, the others odder."""
    return [Fault(share=share * part, reply=reply) for part, reply in _FAULTS] if share else []


def load(service: FakeService, path: Path) -> None:
    """
    Put the transactions of a JSON Lines file into *service*.

    Raises:
        ConfigurationError: When a line is not an object with fields of a transaction; names it.
    """
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            try:
                fields: Any = json.loads(line.rstrip("\r\n"))
                problem = "" if is_object(fields) else f"is a JSON {type(fields).__name__}, not an object"
                given: dict[str, Any] = fields if is_object(fields) else {}
                service.add(**given)
            except TypeError as error:
                problem = str(error)
            except ValueError as error:
                problem = f"is not JSON ({error})"
            if problem:
                message = f"{escape_unprintable(str(path))}, line {number}: {problem}"
                raise ConfigurationError(message)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell what the server complains about from the connections that are cut on purpose."""
    return not (record.exc_info and "Content-Length" in str(record.exc_info[1]))


async def sandbox(
    *,
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))] = 8080,
    host: str = "127.0.0.1",
    transactions: Path | None = None,
    rate_limit: str | None = None,
    fault_share: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 0.0,
    latency: Annotated[float, Parameter(validator=validators.Number(gte=0))] = 0.0,
    seed: int = 0,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Serve a payment service that is made up, until it is stopped with Ctrl-C.

    It answers as documented, on the live and on the sandbox path; failures look as its author imagined them.

    Args:
        port: To listen on; 0 for any that is free.
        host: Address to listen on.
        transactions: JSON Lines file, one object per line with any of the ten fields; a few ready-made ones if not
            given.
        rate_limit: Requests that are taken, such as `50/s` or `600/min`; the others get status 429.
        fault_share: Share of answers that go wrong, from 0 to 1.
        latency: Seconds until an answer.
        seed: Of what is left to chance.
        streams: Of the process.

    Returns:
        The exit status.
    """
    service = FakeService(
        latency=Latency(seconds=latency),
        limits=[limit_of(rate_limit)] if rate_limit else [],
        faults=faults_of(fault_share),
        seed=seed,
    )
    if transactions is None:
        service.load(_READY_MADE)
    else:
        load(service, transactions)
    await _serve(service, host, port, streams, shown=_READY_MADE if transactions is None else ())
    return Exit.DONE


def _described(fields: dict[str, Any]) -> str:
    words = [str(value) for name, value in fields.items() if name != "becomes"]
    words += [f"{status} {seconds} s after the first lookup" for seconds, status in fields.get("becomes", ())]
    return "  ".join(words)


async def _serve(
    service: FakeService,
    host: str,
    port: int,
    streams: Streams,
    *,
    shown: Sequence[dict[str, Any]],
) -> None:
    from payclient.testing import serve  # noqa: PLC0415  it needs another extra, and says so

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(service, host=host, port=port))
        except OSError as error:
            message = f"cannot listen on {host} port {port}: {error.strerror or error}"
            raise ConfigurationError(message) from error
        streams.write(
            f"export PAYCLIENT_BASE_URL={url} PAYCLIENT_API_KEY={service.api_key} PAYCLIENT_ENVIRONMENT=sandbox",
        )
        for fields in shown:
            streams.tell(_described(fields))
        streams.tell("serving; Ctrl-C stops")
        with suppress(asyncio.CancelledError):  # to be stopped is how it ends well
            await asyncio.Event().wait()
