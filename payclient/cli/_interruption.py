"""Let a long command end in order: the first Ctrl-C finishes what is under way, the second ends at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from payclient.cli._streams import Streams

_PATIENCE = 15.0
"""Seconds that lookups under way are given: more than an attempt takes, less than a pause of the service may last."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_in_order(streams: Streams) -> Generator[asyncio.Event]:
    """
    Yield an event that the first SIGINT or SIGTERM sets, within a task of the running event loop.

    The second one does what it did before. When the block goes on for too long after the first, its task is cancelled.
    """
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    timers: list[asyncio.TimerHandle] = []

    def begin() -> None:
        if stop.is_set():
            return
        stop.set()
        streams.tell(
            f"payclient: stopping; lookups under way are finished, for {_PATIENCE:.0f} s at most (again: stop at once)"
        )
        if task is not None:
            timers.append(loop.call_later(_PATIENCE, task.cancel))

    def first(_: int, __: object) -> None:
        _restore(before)
        loop.call_soon_threadsafe(begin)

    for number in _SIGNALS:
        signal.signal(number, first)
    try:
        yield stop
    finally:
        _restore(before)
        for timer in timers:
            timer.cancel()


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
