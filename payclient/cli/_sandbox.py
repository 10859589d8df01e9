"""`payclient sandbox`: the fake service on a port, for applications in any language."""

import asyncio
import json
import logging
import math
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter, validators

from payclient._shared.escape import escape_unprintable
from payclient._shared.remedy import Shell, Way, shell_here
from payclient.cli._process import Exit, OwnStreams, Seconds, refuse
from payclient.testing import FakeService, Latency, Reply

_READY_MADE: tuple[dict[str, Any], ...] = (
    {"reference": "T0000000001DEMO", "status": "Paid", "amount": 150000},
    {"reference": "T0000000002DEMO", "status": "Pending", "amount": 75000},
    {"reference": "T0000000003DEMO", "status": "Canceled", "amount": 20000},
    {"reference": "T0000000020DEMO", "status": "Pending", "amount": 45000, "becomes": [(20, "Paid")]},
    {"reference": "T0000000021DEMO", "status": "Pending", "amount": 60000, "becomes": [(20, "Expired")]},
)
_RATE = re.compile(r"(\d{1,9})/(s|min)", re.ASCII)

# Each kind of fault, and its part of the fault share. The last one cuts the connection: it announces
# more bytes than it sends.
_FAULTS = (
    (0.5, Reply(status=500)),
    (0.2, Reply(headers={"content-type": "text/html; charset=utf-8"}, body="<!DOCTYPE html>Maintenance\n")),
    (0.2, Reply(body='{"success":true,"data":{"reference":')),
    (0.1, Reply(headers={"content-length": "100000"})),
)


class SandboxService(FakeService):
    """The fake service with a limit of requests, which is a token bucket, and with faults."""

    def __init__(self, *, rate_limit: str | None = None, fault_share: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self._limit = None if rate_limit is None else limit_of(rate_limit)
        self._tokens, self._filled_at = math.inf, 0.0
        self._weights = (*(fault_share * part for part, _ in _FAULTS), 1 - fault_share)

    def admit(self, started_at: float) -> AbstractContextManager[Reply | None]:
        if self._limit is None:
            return nullcontext()
        count, seconds = self._limit
        rate, passed = count / seconds, started_at - self._filled_at
        self._tokens, self._filled_at = min(count, self._tokens + passed * rate), started_at
        if self._tokens >= 1:
            self._tokens -= 1
            return nullcontext()
        headers = {"retry-after": str(math.ceil((1 - self._tokens) / rate))} if seconds > 1 else {}
        return nullcontext(attrs.evolve(self.assumptions.throttled, headers=headers))

    def fault(self) -> Reply | None:
        return self._random.choices((*(reply for _, reply in _FAULTS), None), self._weights)[0]


def limit_of(rate: str) -> tuple[int, int]:
    """Return a number of requests, and the seconds for them. Only a limit per minute sends `Retry-After`."""
    if (match := _RATE.fullmatch(rate)) is None or not int(match[1]):
        refuse(f"--rate-limit must be like 50/s or 600/min, got {rate!r}")
    return int(match[1]), 1 if match[2] == "s" else 60


def load(service: FakeService, path: Path) -> None:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            try:
                service.add(**json.loads(line))
            except (TypeError, ValueError) as error:
                refuse(f"{escape_unprintable(str(path))}, line {number} is not a transaction in JSON: {error}")


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log record of the server is about anything but a connection that was cut on purpose."""
    return not (record.exc_info and "Content-Length" in str(record.exc_info[1]))


async def sandbox(
    *,
    port: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535), metavar="NUMBER")] = 8080,
    host: Annotated[str, Parameter(metavar="ADDRESS")] = "127.0.0.1",
    transactions: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    rate_limit: Annotated[str | None, Parameter(metavar="RATE")] = None,
    fault_share: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1), metavar="NUMBER")] = 0.0,
    latency: Annotated[Seconds, Parameter(validator=validators.Number(gte=0))] = 0.0,
    seed: Annotated[int, Parameter(metavar="NUMBER")] = 0,
    streams: OwnStreams,
) -> int:
    """
    Run a fake payment service until Ctrl-C.

    It answers as documented, on the live and on the sandbox path. The specification shows no failures, so those are
    assumptions.

    Args:
        port: Port to listen on. 0 for any free port.
        host: Address to listen on.
        transactions: JSON Lines file, one object per line with any of the ten fields, and `becomes`: pairs of seconds
            and a status. Default: five examples.
        rate_limit: Requests admitted, such as `50/s` or `600/min`. The others get status 429.
        fault_share: Share of answers that fail, from 0 to 1.
        latency: Time until an answer.
        seed: Seed of the faults.
        streams: Streams of the process.

    Examples:
        $ payclient sandbox --port 8080
        $ payclient sandbox --transactions transactions.jsonl --rate-limit 50/s --fault-share 0.02 --latency 0.1

        The first line on standard output can be pasted into another shell, and scripts can wait for it:

        ```console
        export PAYCLIENT_BASE_URL=http://127.0.0.1:8080 PAYCLIENT_API_KEY=fake-api-key PAYCLIENT_ENVIRONMENT=sandbox
        ```
    """
    service = SandboxService(
        rate_limit=rate_limit, fault_share=fault_share, latency=Latency(seconds=latency), seed=seed
    )
    if transactions is None:
        service.load(_READY_MADE)
    else:
        load(service, transactions)
    async with serving(service, host, port) as url:
        streams.write(_variables(shell_here(), BASE_URL=url, API_KEY=service.api_key, ENVIRONMENT="sandbox"))
        for fields in _READY_MADE if transactions is None else ():
            words = [f"{value}" for name, value in fields.items() if name != "becomes"]
            words += [f"{status} {after} s after the first lookup" for after, status in fields.get("becomes", ())]
            streams.tell("  ".join(words))
        streams.tell("serving until Ctrl-C")
        with suppress(asyncio.CancelledError):  # the normal end
            await asyncio.Event().wait()
    return Exit.DONE


def _variables(shell: Shell, **values: str) -> str:
    """Return the line that sets the environment variables in *shell*. None of the values needs quotes."""
    begin, form, between = {
        Shell.POSIX: ("export ", "PAYCLIENT_{}={}", " "),
        Shell.POWERSHELL: ("", "$env:PAYCLIENT_{} = '{}'", "; "),
        Shell.CMD: ("", 'set "PAYCLIENT_{}={}"', " & "),
    }[shell]
    return begin + between.join(form.format(name, value) for name, value in values.items())


@asynccontextmanager
async def serving(service: FakeService, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
    from payclient.testing import serve  # noqa: PLC0415  it needs another extra, and says so

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(service, host=host, port=port))
        except OSError as error:
            why = str(error.strerror or error).partition(" (while")[0]  # asyncio adds the address again
            refuse(f"cannot listen on {host} port {port}: {why}, but --port 0 takes any free one", Way("port", 0))
        yield url
