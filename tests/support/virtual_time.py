"""An event loop whose clock jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading

GRACE = 0.005
"""Seconds in which a busy kernel has delivered what was sent over loopback, which it mostly does at once."""
_resolve = socket.getaddrinfo


def is_dialing():
    """Return whether a thread of payclient's own resolves a name, or reads certificates, unless a test has it wait."""
    is_real = socket.getaddrinfo is _resolve
    return is_real and any(thread.name == "payclient-dial" for thread in threading.enumerate())


class JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: tells the loop how long it would have slept."""

    loop: VirtualTimeLoop

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.loop.in_threads:  # only a thread or a socket can go on
            return super().select(None)
        while is_dialing():  # on a busy machine longer than the grace, in which the time-out of an attempt would pass
            if ready := super().select(GRACE):
                return ready
        has_sockets = len(self.get_map()) > 1  # one is the loop's own, by which threads wake it
        if has_sockets and (ready := super().select(GRACE)):
            return ready
        self.loop.advance(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer, so an hour of back-off takes a millisecond."""

    def __init__(self, selector=None):
        selector = selector or JumpingSelector()
        selector.loop = self
        self._now = 0.0
        self.in_threads = 0
        super().__init__(selector)
        self._clock_resolution = 1e-6
        self._unhandled = []
        self.set_exception_handler(lambda _, context: self._unhandled.append(context.get("exception", context)))

    def close(self):
        """End the test with an error if a callback has failed, or nobody has asked for the exception of a task."""
        super().close()
        # A server of a test may find its socket closed.
        assert all(isinstance(each, OSError) for each in self._unhandled), self._unhandled

    def time(self):
        return self._now

    def advance(self, seconds):
        self._now += seconds

    def pending_timers(self):
        return [timer for timer in self._scheduled if not timer.cancelled()]

    def run_in_executor(self, executor, function, *arguments):
        """Run *function* in a thread; the clock stands still meanwhile."""
        future = super().run_in_executor(executor, function, *arguments)
        self.in_threads += 1
        future.add_done_callback(self._back_from_thread)
        return future

    async def shutdown_default_executor(self, _=None):
        """Wait for the threads without the time-out of newer versions of Python, which would pass at once."""
        await super().shutdown_default_executor()

    def _back_from_thread(self, _):
        self.in_threads -= 1
