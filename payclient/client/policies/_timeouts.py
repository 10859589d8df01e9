"""
Time-outs that share one event-loop timer per client.

Most time-outs are cancelled before they are due, so each is only an entry in a dictionary. asyncio's `timeout_at`
creates a timer for each, in a heap that is compared in Python and keeps cancelled timers. That would cost a tenth of
a lookup with the transport `fast`.

A late timer decides nothing: while the event loop was blocked, or the process stopped, unread responses may have
arrived. So it gives the loop the time to read them, once.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from attrs import define, field

_MIN_INTERVAL = 0.005
"""Seconds between two scans of the time-outs. Otherwise many late time-outs would cause one scan each."""
_MAX_LATENESS = 0.1
"""A timer that is later than this many seconds means that the event loop was blocked."""


class Timed(Protocol):
    def fire(self) -> None:
        """Called once, at its time."""


class Clock:
    """The event loop's time, and the pending time-outs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now: Callable[[], float] = loop.time  # an attribute, because each lookup reads it ten times
        self._timeouts: dict[Timed, float] = {}
        self._timer: asyncio.Handle | None = None
        self._fires_at = math.inf
        self._is_stopped = False
        self._has_waited = False  # after a late timer

    def schedule(self, timeout: Timed, when: float) -> None:
        self._timeouts[timeout] = when
        if when < self._fires_at and self.now() < self._fires_at and not self._has_waited:
            self._schedule(when)

    def cancel(self, timeout: Timed) -> None:
        self._timeouts.pop(timeout, None)
        if self._is_stopped:
            self.stop()

    def stop(self) -> None:
        """Cancel the loop timer as soon as no time-out is pending."""
        self._is_stopped = True
        if self._timer is not None and not self._timeouts:
            self._timer.cancel()
            self._timer, self._fires_at = None, math.inf

    def _schedule(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_at = max(when, self.now())  # a finished one is not late
        self._timer = self.loop.call_at(when, self._fire)

    def _fire(self) -> None:
        now = max(self.now(), self._fires_at)  # the event loop may be early by the resolution of its clock
        is_late = now - self._fires_at > _MAX_LATENESS
        self._timer, self._fires_at = None, math.inf
        if is_late and not self._has_waited:
            self._has_waited = True
            self._schedule(now + _MAX_LATENESS)
            return
        self._has_waited = False
        for timeout in [timeout for timeout, when in self._timeouts.items() if when <= now]:
            if self._timeouts.pop(timeout, None) is not None:  # an earlier one may have cancelled it
                timeout.fire()
        following = min(self._timeouts.values(), default=math.inf)
        if following < math.inf:
            self._schedule(max(following, now + _MIN_INTERVAL))


@define(eq=False, repr=False)
class Timeout:
    """A block that ends when its time is over."""

    # Like `asyncio.timeout_at` it cancels the task, and a cancellation from elsewhere has priority. Unlike it, it
    # does not raise: execution continues after the block.

    _clock: Clock
    _when: float
    _has_fired: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _task: asyncio.Task[object] = field(init=False)
    _cancelling: int = field(init=False)

    def fire(self) -> None:
        # In the next turn: what the task waits for may be done, and the task not have run since.
        self._clock.loop.call_soon(self._end)

    def _end(self) -> None:
        if not (self._is_over or self._has_fired):  # it may be ended twice in one turn: by its time, and by an outage
            self._has_fired = True
            self._task.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task(self._clock.loop)
        if task is None:
            raise RuntimeError("payclient is awaited in a task of asyncio")
        self._task = task
        self._cancelling = task.cancelling()
        self._clock.schedule(self, self._when)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        self._clock.cancel(self)
        self._is_over = True
        if not self._has_fired:
            return False
        is_ours = self._task.uncancel() <= self._cancelling
        return is_ours and kind is asyncio.CancelledError
