"""Run a coroutine one await at a time, and cancel it at a chosen one, or at a turn of the event loop."""

import asyncio
from collections.abc import Coroutine
from enum import Enum


async def cancelled_at_turn(work, number):
    """Cancel *work* at the *number*-th turn of the event loop; return whether it ended before, and its outcome."""
    task = asyncio.ensure_future(work)
    for _ in range(number):
        await asyncio.sleep(0)
    is_done = task.done()
    task.cancel()
    return is_done, (await asyncio.gather(task, return_exceptions=True))[0]


class Moment(Enum):
    """When, at one await, the cancellation strikes."""

    WAITING = "while it waits"
    GRANTED = "in the same tick as what it waits for is granted"


class Stepper(Coroutine):
    """
    A coroutine around another, which counts the awaits and cancels its task at one of them.

    Args:
        work: The other coroutine.
        cancel_at: The number of the await, from 1; 0 for none.
        moment: When to strike there.
    """

    def __init__(self, work, *, cancel_at=0, moment=Moment.WAITING):
        self._work = work
        self._cancel_at = cancel_at
        self._moment = moment
        self.awaits = 0

    @property
    def is_struck(self):
        """Whether the coroutine came as far as the await at which it was to be cancelled."""
        return 0 < self._cancel_at <= self.awaits

    def send(self, value):
        return self._wait_for(self._work.send(value))

    def throw(self, *error):
        return self._wait_for(self._work.throw(*error))

    def close(self):
        self._work.close()

    def __await__(self):
        return self._work.__await__()

    def _wait_for(self, waited_for):
        self.awaits += 1
        if self.awaits == self._cancel_at:
            task = asyncio.current_task()
            if self._moment is Moment.WAITING or waited_for is None:
                task.cancel()
            else:
                # Before the callback by which the task wakes up, so that it has been granted, and is cancelled.
                waited_for.add_done_callback(lambda _: task.cancel())
        return waited_for
