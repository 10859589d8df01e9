"""A loop of uvloop whose clock jumps to the next timer, for the tests of virtual time."""

from heapq import heappop, heappush
from itertools import count

import uvloop

from support.virtual_time import GRACE, is_dialing

_IDLE_ROUNDS = 3
"""Rounds in which nobody asked for another one; uvloop does not tell what it schedules for itself."""
_OF_SOCKETS = ("create_connection", "create_server", "sock_connect", "sock_recv", "sock_sendall", "start_tls")


class _Timer:
    """What can be done with the timer of any loop."""

    def __init__(self, function, arguments, context):
        self.call, self.context, self._is_cancelled = (function, *arguments), context, False

    def cancel(self):
        self.call, self._is_cancelled = None, True

    def cancelled(self):
        return self._is_cancelled


class VirtualTimeUvloop(uvloop.Loop):
    """
    An event loop of uvloop with timers of its own.

    Nothing tells whether uvloop would sleep. So a callback runs in each round, and when it has been alone for some
    rounds, and after a short sleep if there are sockets, the clock jumps.
    """

    def __init__(self):
        self._now, self._timers, self._numbers = 0.0, [], count()
        self._is_watching = self._has_sockets = self._has_slept = False
        self._idle_rounds = self.in_threads = 0
        super().__init__()

    def time(self):
        return self._now

    def advance(self, seconds):
        self._now += seconds

    def call_soon(self, callback, *arguments, context=None):
        self._begin_to_watch()
        return super().call_soon(callback, *arguments, context=context)

    def call_later(self, delay, callback, *arguments, context=None):
        return self.call_at(self._now + delay, callback, *arguments, context=context)

    def call_at(self, when, callback, *arguments, context=None):
        self._begin_to_watch()
        timer = _Timer(callback, arguments, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def pending_timers(self):
        return [timer for _, _, timer in self._timers if not timer.cancelled()]

    def run_in_executor(self, executor, function, *arguments):
        """Run *function* in a thread; the clock stands still meanwhile."""
        future = super().run_in_executor(executor, function, *arguments)
        self.in_threads += 1
        future.add_done_callback(self._back_from_thread)
        return future

    async def getaddrinfo(self, *arguments, **options):
        """Ask in a thread of uvloop's; the clock stands still meanwhile."""
        self.in_threads += 1
        try:
            return await super().getaddrinfo(*arguments, **options)
        finally:
            self._back_from_thread()

    def _back_from_thread(self, _=None):
        self.in_threads -= 1

    def _begin_to_watch(self):
        self._idle_rounds, self._has_slept = 0, False
        if not self._is_watching:
            self._is_watching = True
            super().call_soon(self._watch)

    def _watch(self):
        self._call_due()
        self._idle_rounds += 1
        if self._idle_rounds <= _IDLE_ROUNDS:
            super().call_soon(self._watch)
        elif self.in_threads or not self._timers:
            self._is_watching = False  # until something is scheduled
        elif is_dialing() or (self._has_sockets and not self._has_slept):
            self._has_slept = not is_dialing()
            super().call_later(GRACE, self._watch)
        else:
            self._now = max(self._now, self._timers[0][0])
            self._call_due()
            super().call_soon(self._watch)

    def _call_due(self):
        while self._timers and (self._timers[0][0] <= self._now or self._timers[0][2].cancelled()):
            _, _, timer = heappop(self._timers)
            if timer.call is not None:
                self.call_soon(*timer.call, context=timer.context)


def _of_sockets(name):
    def method(self, *arguments, **options):
        self._has_sockets = True
        return getattr(super(VirtualTimeUvloop, self), name)(*arguments, **options)

    return method


for _name in _OF_SOCKETS:
    setattr(VirtualTimeUvloop, _name, _of_sockets(_name))
