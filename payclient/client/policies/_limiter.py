"""
The queue of attempts: their order and their times. `Capacity` learns the number in flight and the rate.

1.  Awaited lookups go before the rows of streams, and rows before polls, but after eight grants to others, the next
    grant goes to one behind. Rows and polls are first in, first out, and awaited lookups are too, until their queue has
    stood for fifteen seconds: then the newest is first, because there are more than can be answered. A shorter queue
    loses none.
2.  A caller with too little time left for an answer gets no slot while others wait.
3.  A caller who cannot be answered in time is refused at once: by the place in the queue, a pause, and the rate.
4.  A pause that the service asks for stops all attempts, is never shortened, and is bounded: then one attempt asks.
5.  `max_rate` is kept by a gap between grants, shortened only to compensate for a late timer. Workers start at random
    offsets.
6.  A probe of an outage does not queue, and takes no slot of the limit, so it changes nothing for the queue. It keeps
    to `max_concurrency`, `max_rate` and pauses. Its failure does not count against the limit.
"""

import asyncio
import math
import random
from bisect import bisect_left, insort
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from payclient._shared.escape import plural
from payclient.client.policies._capacity import Capacity, Ticket
from payclient.client.policies._retry import MAX_OWN_WAIT
from payclient.errors import OverloadedError, Signal

_MAX_PASSED = 8
"""Grants to those with priority while others wait. The next grant is theirs."""
_ROUND_TRIPS = 1.2
"""Mean round trips that a caller has to have left for a slot."""
_STANDING = 15.0
"""A queue that has stood for this many seconds serves the newest first."""
_MAX_LATENESS = 0.01  # seconds. Up to this, a late timer is compensated for

_Answer: TypeAlias = Ticket | Exception
"""A slot, or a refusal: a result too, because a future takes no `StopIteration` as its exception."""


class Priority(IntEnum):
    """Who goes first."""

    AWAITED = 0
    BULK = 1
    POLL = 2


class _Turn(NamedTuple):
    """A place in a queue. The lowest is first."""

    began_at: float
    number: int
    priority: Priority
    until: float  # when an answer is of no use any more
    future: asyncio.Future[_Answer]


class Limiter:
    """A queue for attempts, with a learnt capacity and one pause for the whole client."""

    # May be created outside of an event loop, and is bound to the first loop that acquires from it.

    def __init__(
        self,
        *,
        max_concurrency: int,
        initial: float = 4.0,
        max_rate: float | None = None,
        workers: int = 1,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.capacity: Capacity = Capacity(max_concurrency=max_concurrency, initial=initial, workers=workers)
        self._max = max_concurrency
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now: Callable[[], float] = self._bind  # an attribute, because each attempt reads it
        self._closed: Callable[[], Exception] | None = None

        self._queues: tuple[list[_Turn], ...] = ([], [], [])  # the index is the priority
        self._passed = [0, 0, 0]  # grants to those before, while these waited
        self._numbers = 0  # turns and tickets until now
        self._queued_since = -math.inf  # callers have waited without a break
        self._timer: asyncio.Handle | None = None  # uvloop makes no `TimerHandle` of a timer that is due at once
        self._fires_at = math.inf
        self._timer_was_due = -math.inf  # when the timer that runs now was due
        self._in_flight = 0
        self._probing = 0  # probes, not counted in `_in_flight`
        self._gap = 0.0  # seconds between two grants; 0: none
        self._due_at = -math.inf  # when the last gap ends
        self.paused_until: float = -math.inf  # when the last pause ends
        self._workers = workers
        self.share(max_rate, workers)

    @property
    def limit(self) -> float:
        return self.capacity.limit(0.0 if self._loop is None else self._loop.time())

    @property
    def in_flight(self) -> int:
        return self._in_flight + self._probing

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues))

    @property
    def is_overloaded(self) -> bool:
        """Whether the queue of awaited lookups has been non-empty long enough to serve the newest first."""
        return bool(self._queues[Priority.AWAITED]) and self._now() > self._queued_since + _STANDING

    def bound(self) -> str:
        """Return in words the bound that keeps the next attempt waiting, when the service asked for no pause."""
        rate = self.capacity.rate(self._now())
        if self._in_flight >= self.limit or (rate == math.inf and not self._gap):
            return f"the limit of attempts in flight is {self.limit:.2g}"
        if rate * self._gap < 1:
            return f"the service takes {rate:.2g}/s of this client"
        share = f", its share among {self._workers} workers" if self._workers > 1 else ""
        return f"max_rate allows this client {1 / self._gap:.3g}/s{share}"

    def paused_seconds(self) -> float:
        """Return the seconds left of the pause that the service asked for. 0.0 without one."""
        return 0.0 if self._loop is None else max(0.0, self.paused_until - self._loop.time())

    def earliest_answer(self, place: int = 0) -> float:
        """Return when a caller with *place* others before it can have an answer, as far as is known."""
        now = self._now()
        needed = max(self.capacity.needed(now, place), place * self._gap + self.capacity.needed(now))
        return max(now, self.paused_until, self._due_at) + needed

    def acquire_now(self, priority: Priority = Priority.AWAITED) -> Ticket | None:
        """Return a ticket if the next attempt may start at once, or None."""
        now = self._now()
        if any(self._queues[: priority + 1]) or self._opens_at(now) > now:
            return None
        return self._grant(now, priority)

    def probe(self) -> Ticket | None:
        """Return a ticket above the limit, or None if no probe is due. Raises as `acquire_now`."""
        if self._closed is not None:
            raise self._closed()
        now = self._now()
        if self.in_flight >= self._max or max(self.paused_until, self._due_at) > now:
            return None
        if self._gap:
            self._pace(now)
        self._probing += 1
        self._numbers += 1
        return Ticket(self._numbers, now, 1, is_probe=True)

    async def acquire(
        self,
        priority: Priority = Priority.AWAITED,
        *,
        began_at: float = 0.0,
        until: float = math.inf,
        is_again: bool = False,
    ) -> Ticket:
        """Return a ticket when the next attempt may start, whose answer is of use *until* a time."""
        self._numbers += 1
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        turn = _Turn(began_at if priority is Priority.AWAITED else 0.0, self._numbers, priority, until, future)
        queue = self._queues[priority]
        if priority is Priority.AWAITED and not queue:
            self._queued_since = self._now()
        insort(queue, turn)
        answer: _Answer | None = None
        try:
            self._grant_due()
            if not is_again:  # a repeated attempt is counted already
                self._tell_the_last()
            answer = await future
            if isinstance(answer, Ticket):
                return answer
            raise answer
        finally:
            if answer is None:  # cancelled, or closed as the garbage collector closes a coroutine
                self._remove(turn)
                if future.done() and not future.cancelled() and isinstance(future.result(), Ticket):
                    self._in_flight -= 1  # granted and cancelled in the same tick
                self._grant_due()

    def release(
        self,
        ticket: Ticket,
        signal: Signal,
        *,
        pause: float = 0.0,
        now: float | None = None,
        is_late: bool = False,
        is_found: bool = True,
    ) -> None:
        """Learn from the result of an attempt, and free its slot if it is not *late*: freed when its caller left."""
        if not is_late:
            self._probing -= ticket.is_probe
            self._in_flight -= not ticket.is_probe
        try:
            now = self._now() if now is None else now
            if signal is Signal.ACCEPTED:
                self.capacity.accepted(ticket, now, is_late=is_late, is_found=is_found)
            elif signal is Signal.THROTTLED:
                self.capacity.throttled(ticket, now)
            elif signal is Signal.OVERLOADED and not ticket.is_probe:
                self.capacity.overloaded(ticket, now)
            if pause > MAX_OWN_WAIT:
                self.pause(pause)
        finally:
            if any(self._queues):
                self._grant_due()

    def pause(self, seconds: float) -> None:
        """Grant nothing for *seconds*, or until an earlier pause ends, if that is later."""
        self.paused_until = max(self.paused_until, self._now() + seconds)
        self.capacity.pause(self._now(), self.paused_until)

    def share(self, max_rate: float | None, workers: int | None) -> None:
        """Change the rate, and the number of workers if given. The learnt limit stays."""
        self._workers = workers or self._workers
        self.capacity.share(self._workers)
        was, self._gap = self._gap, 0.0 if max_rate is None else self._workers / max_rate
        self._due_at += self._gap - was
        if self._loop is not None:
            self._spread(self._loop.time())
            self._grant_due()

    def close(self, error: Callable[[], Exception]) -> None:
        self._closed = error
        self._grant_due()
        if self._timer is not None:
            self._timer.cancel()

    def _bind(self) -> float:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._spread(self._now())
        return self._now()

    def _opens_at(self, now: float) -> float:
        """Return the time of the next grant if no slot is released before. `inf` if only a release allows one."""
        if self._closed is not None:
            raise self._closed()
        paced_at = self.capacity.opens_at(now)  # after an idle time this lowers the limit
        if self._probing and self.in_flight >= self._max:
            return math.inf
        if self._in_flight >= self.capacity.limit(now):
            paced_at = max(paced_at, self.capacity.grows_at(now, self._in_flight))
        return max(self.paused_until, self._due_at, paced_at)

    def _grant(self, now: float, priority: Priority) -> Ticket:
        if self._gap:
            self._pace(now)
        self._in_flight += 1
        self.capacity.take(now, self._in_flight)
        self._numbers += 1
        return Ticket(self._numbers, now, self._in_flight, is_awaited=priority is Priority.AWAITED)

    def _spread(self, now: float) -> None:
        # Workers that start together, or get a shorter gap together, would stay synchronised.
        if self._gap and self._workers > 1 and self._due_at < now:
            self._due_at = now + self._gap * self._random()

    def _pace(self, now: float) -> None:
        # Make up for a late timer, or each gap would grow by its lateness.
        is_late_timer = self._timer_was_due == self._due_at and now - self._due_at <= min(self._gap, _MAX_LATENESS)
        self._due_at = (self._due_at if is_late_timer else now) + self._gap

    def _tell_the_last(self) -> None:
        """Reject the last one in the queue if it cannot be answered in time."""
        # Only one for each new caller: the rate may be low just for a moment, and the others still in time.
        if queue := self._queues[Priority.AWAITED]:
            turn = queue[0 if self.is_overloaded else -1]
            if (earliest := self.earliest_answer(len(queue) - 1)) > turn.until:
                self._remove(turn)
                if not turn.future.done():
                    turn.future.set_result(self.overloaded(earliest))

    def _remove(self, turn: _Turn) -> None:
        queue = self._queues[turn.priority]
        place = bisect_left(queue, turn)
        if queue[place : place + 1] == [turn]:
            del queue[place]

    def overloaded(self, earliest: float) -> OverloadedError:
        """Return the error for a caller who cannot have an answer before *earliest*."""
        behind = f" with {plural(self.waiting, 'lookup')} waiting" if self.waiting else ""
        return OverloadedError(
            f"no answer is possible in time{behind}",
            sent="no",
            retry_after=earliest - self._now(),
            waiting=self.waiting,
        )

    def _grant_due(self) -> None:
        """Grant the tickets that are due, and set a timer for the next. A failure goes to the next waiter."""
        while (turn := self._next()) is not None:
            if not turn.future.done():  # a done one was cancelled, and its task has not run yet
                answer: _Answer | None
                try:
                    answer = self._judge(turn)
                except Exception as error:  # noqa: BLE001  raised by the waiter, so that the others are not left behind
                    answer = error
                if answer is None:
                    return
                turn.future.set_result(answer)
            self._remove(turn)
            self._passed[turn.priority] = 0
            for behind in range(turn.priority + 1, len(self._queues)):
                self._passed[behind] += bool(self._queues[behind])

    def _next(self) -> _Turn | None:
        waiting = [priority for priority in Priority if self._queues[priority]]
        priority = next((each for each in waiting if self._passed[each] >= _MAX_PASSED), min(waiting, default=None))
        if priority is None:
            return None
        return self._queues[priority][-1 if priority is Priority.AWAITED and self.is_overloaded else 0]

    def _judge(self, turn: _Turn) -> _Answer | None:
        """Grant a slot, refuse it, or set a timer for the time of the next."""
        now = self._now()
        if (opens_at := self._opens_at(now)) > now:
            self._set_timer(opens_at)
            return None
        # The last one is sent, or the client would never find out that answers have become faster. But if he waited for
        # a low rate, the next would wait as long for nothing: the slot is kept for a lookup that has just arrived.
        needed = _ROUND_TRIPS * self.capacity.needed(now)
        could_wait = turn.until - turn.began_at - needed
        is_kept = 0 < could_wait < 1 / self.capacity.rate(now)
        if turn.until < now + needed and (is_kept or self.waiting > 1):
            return self.overloaded(self.earliest_answer(0))
        return self._grant(now, turn.priority)

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
