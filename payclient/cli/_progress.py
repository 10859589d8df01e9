"""Progress line of a run: rewritten in place on a terminal, or a new one now and then."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta

from rich.console import Console
from rich.live import Live
from rich.text import Text

from payclient import Stats
from payclient.cli._streams import Streams
from payclient.reconcile import OnProgress, Phase, Progress

_LIVE_EVERY, _PLAIN_EVERY = 0.2, 10.0
_RATE_WINDOW = 15.0
"""Seconds over which the rate is measured: long enough to be steady, short enough to show a pause."""


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
            parts.append(f"{timedelta(seconds=round((progress.total - progress.done) / rate))} left")
        if progress.differences:
            parts.append(f"{progress.differences:,} differ ({progress.differences_amount:,})")
        parts.append(f"{stats.in_flight} in flight")
    if progress.unresolved:
        parts.append(f"{progress.unresolved:,} unresolved")
    if stats.retries:
        parts.append(f"retries {stats.retries:,}")
    if stats.throttled:
        parts.append(f"{stats.throttled:,} throttled")
    return "; ".join(parts)


@asynccontextmanager
async def shown(streams: Streams, stats: Callable[[], Stats]) -> AsyncGenerator[OnProgress]:
    # The line is refreshed by the clock and not by work done, so that a pause shows.
    loop, console = asyncio.get_running_loop(), Console(file=streams.stderr, highlight=False, markup=False, emoji=False)
    is_live = console.is_terminal and not console.is_dumb_terminal
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    every = _LIVE_EVERY if is_live else _PLAIN_EVERY
    latest: Progress | None = None
    samples = deque[tuple[float, int]](maxlen=1 + max(1, round(_RATE_WINDOW / every)))

    def update(progress: Progress) -> None:
        """Take the latest. Called for each thing done, so it does next to nothing."""
        nonlocal latest
        if latest is None or latest.phase is not progress.phase:  # rows of an earlier run do not count
            samples.clear()
            samples.append((loop.time(), progress.done))
        latest = progress

    async def show() -> None:
        while True:
            await asyncio.sleep(every)
            if latest is None:
                continue
            samples.append((loop.time(), latest.done))
            (since, before), (now, done) = samples[0], samples[-1]
            line = progress_line(latest, stats(), (done - before) / (now - since) if now > since else 0.0)
            if is_live:
                live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
            else:
                streams.tell(line)

    with live if is_live else nullcontext():
        showing = asyncio.create_task(show())
        try:
            yield update
        finally:
            showing.cancel()
            await asyncio.wait([showing])
