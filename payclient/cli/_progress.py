"""Progress line of a run: rewritten in place on a terminal, or a new one now and then."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from enum import StrEnum

from attrs import define, field
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from payclient import Stats
from payclient.cli._streams import Streams
from payclient.reconcile import OnProgress, Phase, Progress

_LIVE_EVERY = 0.2
_PLAIN_EVERY = 10.0
_RATE_WINDOW = 15.0
"""Seconds over which the rate is measured: long enough to be steady, short enough to show a pause."""


class ProgressMode(StrEnum):
    """
    The form of the progress report.

    Attributes:
        AUTO: Live on a terminal, plain elsewhere.
        LIVE: One line that is rewritten.
        PLAIN: A line every ten seconds.
        NONE: Not at all.
    """

    AUTO = "auto"
    LIVE = "live"
    PLAIN = "plain"
    NONE = "none"


@define
class Meter:
    _samples: deque[tuple[float, int]] = field(init=False, factory=deque)

    def begin(self, now: float, done: int = 0) -> None:
        """Start counting; rows of an earlier run do not count."""
        self._samples.clear()
        self._samples.append((now, done))

    def rate(self, done: int, now: float) -> float:
        """Return the recent rate per second; 0 until it is known."""
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _RATE_WINDOW:
            self._samples.popleft()
        since, before = self._samples[0]
        return (done - before) / (now - since) if now > since else 0.0


def progress_line(progress: Progress, stats: Stats, rate: float) -> str:
    parts = [f"{progress.phase} {progress.done:,}" + ("" if progress.total is None else f"/{progress.total:,}")]
    if progress.waiting:
        parts.append(f"waiting {progress.waiting}")
    if stats.paused_seconds:
        parts.append(f"paused {stats.paused_seconds:.0f} s by the service")
    if progress.phase in (Phase.ASKING, Phase.CONFIRMING):
        if rate:
            parts.append(f"{rate:,.0f}/s")
        if rate and progress.total is not None:
            parts.append(f"{duration((progress.total - progress.done) / rate)} left")
        if progress.differences:
            parts.append(f"{progress.differences:,} differ ({progress.differences_amount:,})")
        parts.append(f"{stats.in_flight} in flight")
    if progress.unresolved:
        parts.append(f"{progress.unresolved:,} unresolved")
    if stats.retries:
        parts.append(f"{stats.retries:,} {'retry' if stats.retries == 1 else 'retries'}")
    if stats.throttled:
        parts.append(f"{stats.throttled:,} throttled")
    return "; ".join(parts)


def fitted(line: str, width: int) -> str:
    """Return as many parts of *line* as fit in *width* cells of a terminal, and never half of one but of the first."""
    while cell_len(line) > width and "; " in line:
        line = line.rpartition("; ")[0]
    return line


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def _live_on(streams: Streams, *, is_forced: bool) -> Live | None:
    """Return lines of standard error that are rewritten in place; None if that is not a terminal which can do so."""
    console = Console(file=streams.stderr, force_terminal=is_forced or None, highlight=False, markup=False, emoji=False)
    if not is_forced and (console.is_dumb_terminal or not console.is_terminal):
        return None
    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)


@asynccontextmanager
async def shown(mode: ProgressMode, streams: Streams, stats: Callable[[], Stats]) -> AsyncGenerator[OnProgress]:
    # The line is refreshed by the clock and not by work done, so that a pause shows.
    loop, meter = asyncio.get_running_loop(), Meter()
    latest: Progress | None = None
    is_live = mode in (ProgressMode.AUTO, ProgressMode.LIVE)
    live = _live_on(streams, is_forced=mode is ProgressMode.LIVE) if is_live else None

    def update(progress: Progress) -> None:
        """Take the latest; called for each thing done, so it does next to nothing."""
        nonlocal latest
        if latest is None or latest.phase is not progress.phase:
            meter.begin(loop.time(), progress.done)
        latest = progress

    async def show() -> None:
        while True:
            await asyncio.sleep(_LIVE_EVERY if live else _PLAIN_EVERY)
            if latest is None:
                continue
            line = progress_line(latest, stats(), meter.rate(latest.done, loop.time()))
            if live is None:
                streams.tell(line)
            else:
                text = Text(fitted(line, live.console.width - 1), no_wrap=True, overflow="crop")
                live.update(text, refresh=True)

    if mode is ProgressMode.NONE:
        yield update
        return
    with live or nullcontext():
        showing = asyncio.create_task(show())
        try:
            yield update
        finally:
            showing.cancel()
            await asyncio.wait([showing])
