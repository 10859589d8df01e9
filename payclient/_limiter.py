"""How many attempts may be under way at once, learnt from what the service answers.

The service shows no limits (specification, part 8), so the limiter finds them. Its rules:

1.  Slots are granted in the order they were asked for; nobody overtakes.
2.  At most `max(1, int(limit))` attempts are in flight. Below 1, one at a time with a gap after each.
3.  A pause that the service asked for stops everybody, is never cut short, and what queued up
    behind it is let go one by one over a round trip, not at once.
4.  The limit grows by one per accepted attempt until the first cut; after a cut it climbs back
    along a cubic of the time that was not spent in a pause: fast, flat near the height of the cut,
    fast again.
5.  A cut is made once per congestion: only an attempt that started after the last cut may cut again.
6.  Failures of the service cut only when requests exceed twice the accepted ones of the last 50.
7.  Nothing else moves the limit: not latency, not cancellation, and no growth that nobody used.

Sources: CUBIC, RFC 9438 (rule 4); client-side throttling, "Site Reliability Engineering",
chapter "Handling Overload" (rule 6).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from attrs import frozen

from payclient._signal import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

_CUT = 0.7
_CUBIC = 0.05
_LOWEST_LIMIT = 0.02
_WINDOW = 50
_OVERLOAD_RATIO = 2.0
_OVERLOAD_SAMPLES = 10


@frozen
class Ticket:
    """
    The right to one attempt, to be given back with `Limiter.release`.

    Attributes:
        started_at: When it was granted, on the event loop's clock.
        load: Attempts in flight at that moment, this one included.
    """

    started_at: float
    load: int


class Limiter:
    """
    An adaptive bound on the attempts in flight, with a pause for the whole client.

    Args:
        max_concurrency: What the limit never exceeds; at least 1, checked by the caller.
        initial: The limit before anything is known.
        random: Gives numbers in [0, 1) for jitter.

    Shape:
        Belongs to the first event loop that acquires from it; may be made outside of any loop.
    """

    def __init__(
        self, *, max_concurrency: int, initial: float = 4.0, random: Callable[[], float] = random.random
    ) -> None:
        self._max = float(max_concurrency)
        self._limit = min(initial, self._max)
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in_flight = 0
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._closed: Callable[[], BaseException] | None = None
        self._paused_until = -math.inf
        self._not_before = -math.inf  # the earliest next grant by pacing
        self._paced = 0  # grants still to be paced
        self._round_trip = 0.1
        self._cut_at = -math.inf
        self._cut_from = math.inf  # the limit before the last cut; infinite: never cut
        self._recent: deque[bool] = deque(maxlen=_WINDOW)

    @property
    def limit(self) -> float:
        """Attempts allowed in flight; below 1, one at a time with gaps."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """Tickets granted and not yet released."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """Acquires that are queued."""
        return len(self._queue)

    def paused_seconds(self) -> float:
        """Return the seconds until the pause asked by the service ends; 0.0 when there is none."""
        return 0.0 if self._loop is None else max(0.0, self._paused_until - self._loop.time())

    async def acquire(self) -> Ticket:
        """
        Wait for the turn of one attempt.

        Raises:
            BaseException: What was given to `close`.
        """
        if self._closed is not None:
            raise self._closed()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        if self._queue or not self._is_open(now):
            await self._wait_in_line(self._loop)
            return Ticket(self._loop.time(), self._in_flight)
        self._grant(now)
        return Ticket(now, self._in_flight)

    def release(self, ticket: Ticket, signal: Signal, *, retry_after: float | None = None) -> None:
        """
        Give a ticket back and say what its attempt showed.

        Args:
            ticket: From `acquire`; released once.
            signal: What the attempt said about the service.
            retry_after: Seconds that the service asked everybody to wait, if it did.
        """
        now = self._now()
        self._in_flight -= 1
        if retry_after is not None:
            self.pause(retry_after)
        if signal is Signal.ACCEPTED:
            self._accepted(ticket, now)
        elif signal is Signal.THROTTLED:
            self._cut(ticket, now)
        elif signal is Signal.OVERLOADED:
            self._overloaded(ticket, now)
        if self._limit < 1:
            gap = self._round_trip * (1 / self._limit - 1) * (0.9 + 0.2 * self._random())
            self._not_before = max(self._not_before, now + gap)
        self._let_in()

    def pause(self, seconds: float) -> None:
        """
        Grant nothing for a while; a pause that is already longer stays.

        Args:
            seconds: As the service asked. What is no positive, finite number is ignored.
        """
        if not math.isfinite(seconds) or seconds <= 0:
            return
        until = self._now() + seconds
        if until > self._paused_until:
            self._paused_until = until
            self._paced = max(1, int(self._limit))

    def close(self, error: Callable[[], BaseException]) -> None:
        """
        Turn everybody away who waits now or asks later; tickets in flight stay good.

        Args:
            error: Called once for each of them, because a traceback belongs to one exception.
        """
        self._closed = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            turn, _ = self._queue.popitem(last=False)
            if not turn.done():
                turn.set_exception(error())

    # -- admission --

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _is_open(self, now: float) -> bool:
        return self._in_flight < max(1, int(self._limit)) and now >= self._paused_until and now >= self._not_before

    def _grant(self, now: float) -> None:
        self._in_flight += 1
        if self._paced > 0:
            self._paced -= 1
            self._not_before = max(self._not_before, now + self._round_trip / max(1, int(self._limit)))

    async def _wait_in_line(self, loop: asyncio.AbstractEventLoop) -> None:
        turn = loop.create_future()
        self._queue[turn] = None
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if (
                turn.done() and not turn.cancelled() and turn.exception() is None
            ):  # granted and cancelled in the same tick: the slot goes to the next
                self._in_flight -= 1
            self._let_in()
            raise

    def _let_in(self) -> None:
        """Grant to the head of the queue what may be granted now, and set the timer for what may be later."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._now()
        while self._queue:
            turn = next(iter(self._queue))
            if turn.done():  # cancelled, and its task has not run yet
                del self._queue[turn]
            elif self._is_open(now):
                del self._queue[turn]
                self._grant(now)
                turn.set_result(None)
            else:
                break
        if self._queue and self._in_flight < max(1, int(self._limit)):
            opens_at = max(self._paused_until, self._not_before)
            self._timer = self._loop.call_at(opens_at, self._let_in)  # type: ignore[union-attr]

    # -- the limit --

    def _accepted(self, ticket: Ticket, now: float) -> None:
        self._recent.append(True)
        self._round_trip += 0.1 * (now - ticket.started_at - self._round_trip)
        if ticket.load * 2 < self._limit:
            return
        if self._cut_from == math.inf:
            grown = self._limit + 1
        else:
            flat_at = math.cbrt(self._cut_from * (1 - _CUT) / _CUBIC)
            grown = _CUBIC * (now - self._cut_at - flat_at) ** 3 + self._cut_from
        self._limit = min(self._max, max(self._limit, min(grown, 2 * self._limit + 1)))

    def _overloaded(self, ticket: Ticket, now: float) -> None:
        self._recent.append(False)
        requests = len(self._recent)
        if requests >= _OVERLOAD_SAMPLES and requests > _OVERLOAD_RATIO * sum(self._recent):
            self._cut(ticket, now)

    def _cut(self, ticket: Ticket, now: float) -> None:
        if ticket.started_at <= self._cut_at:
            return
        self._cut_from = self._limit
        self._cut_at = now
        self._limit = max(_LOWEST_LIMIT, self._limit * _CUT)
