"""
Worker registry: workers that share a key send heartbeats, and expire when they stop.

It is independent of any engine. Ray keeps it in an actor; each worker takes its share of the rate from the count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

HEARTBEAT_SECONDS = 2.0
"""Seconds between two heartbeats of a worker."""

_EXPIRES_AFTER = 3 * HEARTBEAT_SECONDS


class WorkerRegistry:
    """
    The workers with a recent heartbeat.

    Args:
        clock: Monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at = clock()
        self._seen_at: dict[str, float] = {}

    def heartbeat(self, worker: str, expected: int) -> int:
        """
        Record that *worker* is alive, and return the number of live workers.

        Args:
            worker: A unique name.
            expected: How many workers there should be. The least that is returned while the registry is new: not all
                have sent a heartbeat yet, and the first would otherwise take the whole rate.
        """
        now = self._clock()
        self._seen_at[worker] = now
        self._seen_at = {name: at for name, at in self._seen_at.items() if now - at < _EXPIRES_AFTER}
        living = len(self._seen_at)
        return max(living, expected) if now - self._started_at < _EXPIRES_AFTER else living
