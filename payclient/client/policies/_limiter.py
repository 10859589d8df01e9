"""
The queue of attempts: their order and their times. The controller sets the number in flight.

1.  Slots are granted first in, first out. Polls have a separate queue behind all others, but after eight others one
    poll is granted, so that neither queue starves.
2.  `int(limit)` attempts may be in flight, and one more for the fractional part of the time. Below 1, attempts run one
    at a time with a gap after each, so any low rate is possible.
3.  A pause that the service asks for stops all attempts and is never shortened.
4.  `max_rate` is kept by a gap between grants, shortened only to compensate for a late timer. Workers start at random
    offsets.
5.  A probe of an outage does not queue, and takes no slot of the limit, so it changes nothing for those that queue.
    It keeps to `max_concurrency`, `max_rate` and pauses. That it fails is not held against the limit.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from payclient.client.policies._concurrency import ConcurrencyController, Ticket
from payclient.client.policies._retry import Signal

_MAX_BEFORE_POLL = 8
"""Grants to others while a poll waits; the next grant is the poll's."""
_MAX_LATENESS = 0.01  # seconds; up to this, a late timer is compensated for

_Turn: TypeAlias = asyncio.Future[Ticket | Exception]
"""A place in a queue. A failure is its result, because a future takes no `StopIteration` as its exception."""


def _is_wait(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


class Limiter:
    """A queue for attempts, with an adaptive limit in flight and one pause for the whole client."""

    # May be created outside of an event loop; is bound to the first one that acquires from it.

    def __init__(
        self,
        *,
        max_concurrency: int,
        initial: float = 4.0,
        max_rate: float | None = None,
        workers: int = 1,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.controller: ConcurrencyController = ConcurrencyController(
            max_concurrency=max_concurrency, initial=initial, workers=workers
        )
        self._max = max_concurrency
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: Callable[[], Exception] | None = None

        self._queue: OrderedDict[_Turn, None] = OrderedDict()
        self._polls: OrderedDict[_Turn, None] = OrderedDict()
        self._before_poll = 0  # grants to others since a poll was granted
        self._timer: asyncio.Handle | None = None  # uvloop makes no `TimerHandle` of a timer that is due at once
        self._fires_at = math.inf
        self._timer_was_due = -math.inf  # when the timer that runs now was due
        self._in_flight = 0
        self._probing = 0  # beside those in flight
        self._granted = 0
        self._gap = 0.0  # seconds between two grants; 0: none
        self._due_at = self._paused_until = -math.inf  # when the last gap, and the last pause, ends
        self._closed_until = -math.inf  # the later of the two
        self._fraction_used_at = -math.inf
        self._jitter = 1.0
        self._workers = workers
        self.share(max_rate, workers)

    @property
    def limit(self) -> float:
        """Attempts allowed in flight; below 1, one at a time with gaps."""
        return self.controller.limit

    @property
    def in_flight(self) -> int:
        return self._in_flight + self._probing

    @property
    def waiting(self) -> int:
        return len(self._queue) + len(self._polls)

    def bound(self) -> str:
        """Return in words the bound that keeps the next attempt waiting, when the service asked for no pause."""
        if self._gap and self._in_flight < self.controller.whole:
            share = f", its share among {self._workers} workers" if self._workers > 1 else ""
            return f"max_rate allows this client {1 / self._gap:.3g}/s{share}"
        return f"the limit of attempts in flight is {self.limit:.2g}"

    def paused_seconds(self) -> float:
        """Return the seconds left of the pause that the service asked for; 0.0 if there is none."""
        return 0.0 if self._loop is None else max(0.0, self._paused_until - self._loop.time())

    def acquire_now(self, is_poll: bool = False) -> Ticket | None:
        """Return a ticket if the next attempt may start at once, or None."""
        if self._closed is not None:
            raise self._closed()
        now = self._now()
        if self._queue or (is_poll and self._polls) or self._opens_at() > now:
            return None
        return self._grant(now)

    def probe(self) -> Ticket | None:
        """Return a ticket beside the limit, or None if that must not be now; error as in `acquire_now`."""
        if self._closed is not None:
            raise self._closed()
        now = self._now()
        if self.in_flight >= self._max or self._closed_until > now:
            return None
        if self._gap:
            self._pace(now)
        self._probing += 1
        self._granted += 1
        return Ticket(self._granted, now, 1, is_probe=True)

    async def acquire(self, is_poll: bool = False) -> Ticket:
        """Return a ticket when the next attempt may start; argument and error as in `acquire_now`."""
        return self.acquire_now(is_poll) or await self._wait_for_turn(self._polls if is_poll else self._queue)

    def release(self, ticket: Ticket, signal: Signal, *, retry_after: float | None = None) -> None:
        if ticket.is_probe:
            self._probing -= 1
        else:
            self._in_flight -= 1
        try:
            if signal is Signal.ACCEPTED:
                self.controller.accepted(ticket, self._now())
            elif signal is Signal.THROTTLED:
                is_paused = retry_after is not None and _is_wait(retry_after)
                self.controller.throttled(ticket, self._now(), granted=self._granted, is_paused=is_paused)
            elif signal is Signal.OVERLOADED and not ticket.is_probe:
                self.controller.overloaded(ticket, self._now(), granted=self._granted)
            if retry_after is not None:
                self.pause(retry_after)
        finally:
            if self._queue or self._polls:
                self._grant_due()

    def pause(self, seconds: float) -> None:
        """Grant nothing for *seconds*, or until an earlier pause ends, if that is later."""
        if _is_wait(seconds):
            self._paused_until = max(self._paused_until, self._now() + seconds)
            self._closed_until = max(self._closed_until, self._paused_until)
            self.controller.start_slowly()

    def share(self, max_rate: float | None, workers: int | None) -> None:
        """Change the rate, and the number of workers if given; the learnt limit stays."""
        self._workers = workers or self._workers
        self.controller.share(self._workers)
        was, self._gap = self._gap, 0.0 if max_rate is None else self._workers / max_rate
        self._due_at += self._gap - was
        if self._loop is not None:
            self._spread(self._loop.time())
            self._closed_until = max(self._paused_until, self._due_at)
            self._grant_due()

    def close(self, error: Callable[[], Exception]) -> None:
        self._closed = error
        self._grant_due()
        if self._timer is not None:
            self._timer.cancel()

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._spread(self._loop.time())
            self._closed_until = self._due_at
        return self._loop.time()

    def _opens_at(self) -> float:
        """Return when the next ticket may be granted if none is released before; infinite: then only."""
        whole = self.controller.whole
        if self._probing and self.in_flight >= self._max:
            return math.inf
        if self._in_flight < whole:
            return self._closed_until
        if self._in_flight > whole or self.controller.limit == whole:
            return math.inf
        return max(self._closed_until, self._fraction_used_at + self._fraction_gap())

    def _fraction_gap(self) -> float:
        """Return the seconds between two uses of the slot beyond the whole ones."""
        controller, whole = self.controller, self.controller.whole
        # With that slot taken there is a release every round_trip / (whole + 1), and the first one ends its use.
        return self._jitter * controller.round_trip / (whole + 1) / (controller.limit - whole)

    def _grant(self, now: float) -> Ticket:
        if self._in_flight >= self.controller.whole:
            # A use that could not happen when due is made up for once; otherwise the fraction is never reached.
            gap, self._jitter = self._fraction_gap(), 0.9 + 0.2 * self._random()
            self._fraction_used_at = max(self._fraction_used_at + gap, now - gap)
        if self._gap:
            self._pace(now)
        self._in_flight += 1
        self._granted += 1
        return Ticket(self._granted, now, self._in_flight)

    def _spread(self, now: float) -> None:
        # Workers that start together, or get a shorter gap together, would stay synchronised.
        if self._gap and self._workers > 1 and self._due_at < now:
            self._due_at = now + self._gap * self._random()

    def _pace(self, now: float) -> None:
        # Make up for a late timer, or each gap would grow by its lateness.
        is_late_timer = self._timer_was_due == self._due_at and now - self._due_at <= min(self._gap, _MAX_LATENESS)
        self._closed_until = self._due_at = (self._due_at if is_late_timer else now) + self._gap

    async def _wait_for_turn(self, queue: OrderedDict[_Turn, None]) -> Ticket:
        turn: _Turn = asyncio.get_running_loop().create_future()
        queue[turn] = None
        is_answered = False
        try:
            self._grant_due()
            granted = await turn
            is_answered = True
        finally:
            if not is_answered:  # cancelled, or closed as the garbage collector closes a coroutine
                queue.pop(turn, None)
                if turn.done() and not turn.cancelled() and isinstance(turn.result(), Ticket):
                    self._in_flight -= 1  # granted and cancelled in the same tick
                self._grant_due()
        if isinstance(granted, Ticket):
            return granted
        raise granted

    def _grant_due(self) -> None:
        """Grant the tickets that are due, and set a timer for the next; a failure is that of the next waiter."""
        while self._queue or self._polls:
            is_poll = bool(self._polls) and (not self._queue or self._before_poll >= _MAX_BEFORE_POLL)
            queue = self._polls if is_poll else self._queue
            turn = next(iter(queue))
            if not turn.done():  # else cancelled, and its task has not run yet
                granted: Ticket | Exception | None
                try:
                    granted = self._grant_or_set_timer()
                except Exception as error:  # noqa: BLE001  raised by the waiter, so that the others are not left behind
                    granted = error
                if granted is None:
                    return
                turn.set_result(granted)
            del queue[turn]
            self._before_poll = 0 if is_poll else self._before_poll + 1

    def _grant_or_set_timer(self) -> Ticket | None:
        if self._closed is not None:
            raise self._closed()
        now, opens_at = self._now(), self._opens_at()
        if opens_at <= now:
            return self._grant(now)
        self._set_timer(opens_at)
        return None

    def _set_timer(self, when: float) -> None:
        if self._fires_at <= when or self._loop is None:
            return  # too early is harmless, and spares a timer per release
        timer = self._loop.call_at(when, self._on_timer, when)
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = timer, when

    def _on_timer(self, when: float) -> None:
        self._timer, self._fires_at, self._timer_was_due = None, math.inf, when
        self._grant_due()
        self._timer_was_due = -math.inf  # later grants are not late by this timer
