"""
Bounds in time, at the price of an entry in a dictionary: one timer of the event loop serves all lookups of a client.

Nearly every bound is taken back before it is due. asyncio's own `timeout_at` makes a timer for each, in a heap that is
compared in Python and keeps those that were taken back: a tenth of a lookup.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType

_REST = 0.005
"""Seconds from one look at all alarms to the next, at least, or a crowd that is late would cause one for each."""


class Clock:
    """
    The event loop's time, and the alarms that are set.

    Args:
        loop: The running one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now = loop.time  # an attribute, because it is asked ten times a lookup
        self._alarms: dict[Alarm, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    def set(self, alarm: Alarm, when: float) -> None:
        """Have *alarm* ring at *when*, or as soon as possible after; infinite: never."""
        self._alarms[alarm] = when
        if when < self._rings_at:
            self._wind_up(when)

    def take_back(self, alarm: Alarm) -> None:
        """Let *alarm* be, whether it has rung or not."""
        self._alarms.pop(alarm, None)

    def rest(self) -> None:
        """Leave nothing behind in the event loop, if no alarm is set."""
        if self._timer is not None and not self._alarms:
            self._timer.cancel()
            self._timer, self._rings_at = None, math.inf

    def _wind_up(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = when
        self._timer = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        now = max(self.now(), self._rings_at)  # the event loop may be early by the resolution of its clock
        self._timer, self._rings_at = None, math.inf
        for alarm in [alarm for alarm, when in self._alarms.items() if when <= now]:
            del self._alarms[alarm]
            alarm.ring()
        following = min(self._alarms.values(), default=math.inf)
        if following < math.inf:
            self._wind_up(max(following, now + _REST))


class Alarm:
    """
    A block that ends when the time has come, whatever its task is waiting for.

    It keeps the rules of `asyncio.timeout_at`: the task is cancelled, and a cancellation by anybody else goes before.
    But nothing is raised: what follows the block is what happens when it was ended.

    Args:
        clock: Of the event loop of the task.
        when: On that clock; infinite: never.
    """

    __slots__ = ("_cancelling", "_clock", "_has_rung", "_task", "_when")

    _task: asyncio.Task[object]
    _cancelling: int

    def __init__(self, clock: Clock, when: float) -> None:
        self._clock = clock
        self._when = when
        self._has_rung = False

    def ring(self) -> None:
        """End the block."""
        self._has_rung = True
        self._task.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task(self._clock.loop)
        if task is None:
            message = "payclient is awaited in a task of asyncio"
            raise RuntimeError(message)
        self._task = task
        self._cancelling = task.cancelling()
        self._clock.set(self, self._when)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._clock.take_back(self)
        if not self._has_rung:
            return False
        is_ours = self._task.uncancel() <= self._cancelling
        return is_ours and kind is asyncio.CancelledError
