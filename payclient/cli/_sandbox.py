"""`payclient sandbox`: the fake service on a port, for applications in any language."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, validators

from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.testing import ODDITIES, FakeService, Fault, Latency, PerSecond, PerWindow, Reply, RetryAfter

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
)
_RATE = re.compile(r"(\d+)/(s|min)", re.ASCII)

# The kinds of faults, and how much of the whole share each has. The cut connection announces more
# bytes than it sends.
_FAULTS = (
    (0.5, Reply(status=500)),
    (0.2, ODDITIES["html_page"]),
    (0.2, ODDITIES["cut_json"]),
    (0.1, Reply(headers={"content-length": "100000"})),
)


def limit_of(rate: str) -> PerSecond | PerWindow:
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
        return PerSecond(rate=count)
    return PerWindow(count=count, retry_after=RetryAfter.SECONDS)


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
                service.add(**json.loads(line))
            except (ValueError, TypeError) as error:
                message = f"{path}, line {number}: {error}"
                raise ConfigurationError(message) from error


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


async def _serve(
    service: FakeService, host: str, port: int, streams: Streams, *, shown: Sequence[dict[str, Any]]
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
            f"export PAYCLIENT_BASE_URL={url} PAYCLIENT_API_KEY={service.api_key} PAYCLIENT_ENVIRONMENT=sandbox"
        )
        for fields in shown:
            streams.tell("  ".join(str(value) for value in fields.values()))
        streams.tell("serving; Ctrl-C stops")
        with suppress(asyncio.CancelledError):  # to be stopped is how it ends well
            await asyncio.Event().wait()
