"""
Who works at the moment with one key: a roll that workers sign again and again, and are struck off when they do not.

It knows no engine. One that has actors keeps it in one of them, and each worker shares the key's rate by what it hears.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SIGNS_EVERY = 2.0
"""Seconds between two signatures of a worker."""

_STRUCK_AFTER = 3 * SIGNS_EVERY


class Roll:
    """
    The workers that have signed lately.

    Args:
        clock: Tells seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at = clock()
        self._signed_at: dict[str, float] = {}

    def sign(self, worker: str, expected: int) -> int:
        """
        Note that *worker* lives, and return how many do.

        Args:
            worker: A name of its own.
            expected: How many there ought to be. Believed while the roll is new, when not all have signed yet: whoever
                came first would take the whole rate.
        """
        now = self._clock()
        self._signed_at[worker] = now
        self._signed_at = {name: at for name, at in self._signed_at.items() if now - at < _STRUCK_AFTER}
        living = len(self._signed_at)
        return max(living, expected) if now - self._began_at < _STRUCK_AFTER else living
