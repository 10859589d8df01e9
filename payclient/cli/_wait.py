"""`payclient wait`: look transactions up again and again, until each has a status."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Annotated, Any

from attrs import define, field
from cyclopts import Parameter
from rich.cells import cell_len, set_cell_size
from rich.live import Live
from rich.text import Text

from payclient._shared.escape import escape_unprintable
from payclient._shared.options import DEADLINE
from payclient.cli._connection import ConnectionOptions
from payclient.cli._progress import live_on
from payclient.cli._streams import Exit, JsonFlag, OwnStreams, Streams, most_urgent, refuse, refuse_options, status_of
from payclient.client import INTERVAL, MAX_INTERVAL, Change, Seen
from payclient.errors import WaitDeadlineError
from payclient.protocol import Failed
from payclient.reconcile import read_duration

EXAMPLES = """
$ payclient wait T0000000033KGJ0D --until Paid --unless Canceled,Expired --deadline 15m
$ payclient wait T0000000033KGJ0D T0000000034ABCDE --until Paid --deadline 1h --json

Exit status: 0 all reached. 1 one has become impossible, or there is no such transaction. 2 usage. 3 the service
refuses the key or this computer. 75 one is not reached yet. 130 interrupted.
"""


_MAX_OPEN = 20
"""Lines of open references on a terminal."""


def _words(option: str, text: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    if not words:
        refuse(f"{option} must be statuses in the service's own words, such as Paid or Canceled,Expired")
    return words


def _seconds(option: str, text: str) -> float:
    duration = read_duration(text)
    if not duration:
        refuse(f"{option} must be like 90s, 15m or 1h 30m, got {text!r}")
    return duration.total_seconds()


@define
class _Open:
    """The references that are still open, each on a line of *live*; without that, nothing is shown."""

    _live: Live | None
    _streams: Streams
    _lines: dict[int, str] = field(init=False, factory=dict)

    def show(self, index: int, line: str) -> None:
        self._lines[index] = line
        self._draw()

    def end(self, index: int, line: str) -> None:
        """Take a reference away; *line* stands above those that are left."""
        self._lines.pop(index, None)
        if self._live is not None:
            self._live.update(Text(""), refresh=True)
        self._streams.write(line)
        self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        width = self._live.console.width - 1
        lines = [set_cell_size(line, min(cell_len(line), width)) for line in self._lines.values()]
        more = len(lines) - _MAX_OPEN
        shown = [*lines[:_MAX_OPEN], f"and {more:,} more"] if more > 0 else lines
        self._live.update(Text("\n".join(shown), no_wrap=True), refresh=True)


async def _write(
    changes: AsyncIterator[Seen], until: frozenset[str], still_open: _Open, json_to: Streams | None
) -> Exit:
    # JSON is one object per line for each change, as it comes; otherwise a reference has one line when it has ended.
    status = Exit.DONE
    async for seen in changes:
        is_end = isinstance(seen, Failed) or seen.is_last
        if is_end:
            reached = Exit.DONE if isinstance(seen, Change) and seen.transaction.status in until else Exit.DIFFERENT
            ended = status_of(seen.error) if isinstance(seen, Failed) else reached
            status = most_urgent((status, ended))
        if json_to is not None:
            json_to.write(json.dumps(_record(seen, until)))
        elif is_end:
            still_open.end(seen.index, _line(seen))
        else:
            still_open.show(seen.index, _line(seen))
    return status


def _record(seen: Seen, until: frozenset[str]) -> dict[str, Any]:
    if isinstance(seen, Change):
        is_reached = seen.is_last and seen.transaction.status in until
        more = {"previous": seen.previous, "is_last": seen.is_last, "is_reached": is_reached}
        return {**seen.transaction.as_json(), **more}
    error = seen.error
    stated = error.transaction if isinstance(error, WaitDeadlineError) else None
    return {
        "reference": seen.reference,
        "status": stated and stated.status,
        "is_last": True,
        "is_reached": False,
        "error": type(error).__name__,
        "message": str(error),
    }


def _line(seen: Seen) -> str:
    if isinstance(seen, Failed):
        return escape_unprintable(f"{seen.reference}  {seen.error}")
    transaction = seen.transaction
    came_from = f"  (was {seen.previous})" if seen.previous not in (None, transaction.status) else ""
    return escape_unprintable(f"{seen.reference}  {transaction.status}  {transaction.amount}{came_from}")


async def wait(
    *references: Annotated[str, Parameter(name="REFERENCE", allow_leading_hyphen=True)],
    until: str,
    unless: str = "",
    deadline: str,
    interval: float = INTERVAL,
    max_interval: float = MAX_INTERVAL,
    as_json: JsonFlag = False,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Look up transactions repeatedly until each has one of the given statuses.

    Args:
        references: The service's reference codes.
        until: Statuses to wait for, in the service's own words, separated by commas.
        unless: Statuses after which those are impossible, separated by commas.
        deadline: How long to wait, such as `90s`, `15m` or `1h 30m`.
        interval: Seconds between the first two lookups, at most; it grows by half from lookup to lookup.
        max_interval: Where the growth ends, in seconds.
        as_json: One JSON object per line for each change, the payment code masked.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.
    """
    refuse_options(references, "wait", allowed="")
    if not references:
        refuse("wait needs at least one reference")
    wanted, others = _words("--until", until), _words("--unless", unless) if unless else frozenset[str]()
    if both := sorted(wanted & others):
        refuse(f"--until and --unless both name {', '.join(both)}")
    live = None if as_json else live_on(streams)
    async with (
        connection.client(streams, deadline=DEADLINE) as client,
        client.watch(
            references,
            until=wanted | others,
            deadline=_seconds("--deadline", deadline),
            interval=interval,
            max_interval=max_interval,
        ) as changes,
    ):
        with live or nullcontext():
            return await _write(changes, wanted, _Open(live, streams), streams if as_json else None)
