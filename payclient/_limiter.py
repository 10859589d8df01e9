"""
How many attempts may be under way at once, learnt from what the service answers.

The service shows no limits (specification, part 8), so the limiter finds them. Its rules:

1.  Slots are granted in the order in which they were asked for; nobody overtakes.
2.  `int(limit)` attempts may be in flight, and one more for the fraction's share of the time. Below 1
    that is one at a time with a gap after each, so there is no smallest rate it cannot keep.
3.  A pause that the service asked for stops everybody and is never cut short.
4.  At the start, after a pause and when several answers in a row were refusals, a gate starts low and
    opens by one per accepted attempt, so nothing is let go at once. Behind a closed gate one probe at
    a time asks whether the service is back, each after twice the gap of the one before.
5.  A congestion is one cut: only an attempt that started after the last cut may cut again. The first
    cut is deep, because nobody knows how far above the service's limit it comes. So is one that brings
    a pause: a service that counts in windows is as quickly used up by fewer. The others are shallow.
6.  After a cut the limit climbs along a cubic of the time that was not spent waiting: fast, flat near
    the height of the cut, then fast again, so that a limit which was raised is found.
7.  Failures of the service are refusals only when requests exceed twice the accepted ones of the last 50.
8.  Nothing else moves the limit: not latency, for the service is shared with strangers; not
    cancellation; and an accepted attempt does not raise a limit of which less than half was used.
9.  A rate that is known is kept by a gap between grants. Nothing is saved up in a rest; workers are out of step.
10. Of workers that share a key each begins with its share and grows more slowly, for it alone sees its refusals.

There is one number to adapt, attempts in flight, and no rate beside it: two controllers fight.

Sources: rule 6, CUBIC (RFC 9438); rule 7, "Site Reliability Engineering", chapter "Handling Overload".
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

# What a cut leaves of the limit, and of the height at which the climb after it is flat. A shallow cut keeps a
# service with a cap on concurrency busy; the gate does what a deeper one would otherwise be needed for.
_CUT = (0.9, 1.0)
_CUT_BY_PAUSE = _CUT_BY_PROBE = (0.7, 0.9)
_FIRST_CUT = 0.5

_CUBIC = 0.02  # attempts per second cubed; a doubled limit is found within 15 s at a round trip of 0.2 s
# Of many workers each grows at first by this power of their number, and climbs by its square: with a lower one, what
# others leave is found late; with a higher one, more is refused (`tests/bench/sharing.py`).
_SHARED = -0.75
_REFUSALS_IN_A_ROW = 3
_LONGEST_GAP = 10.0  # seconds between probes: what an outage costs at most after its end
_LONGEST_LATENESS = 0.01  # seconds; a timer so late is the event loop's doing, and no rest
_SHORTEST_ROUND_TRIP = 0.001  # seconds; an in-process service must not make gaps vanish
_SMOOTHING = 0.1  # weight of the newest round trip in their mean
_RECENT = 50
_FEWEST_RECENT = 10
_REQUESTS_PER_ACCEPTED = 2


@frozen
class Ticket:
    """
    The right to one attempt, given back with `Limiter.release`.

    Attributes:
        number: Counts the grants of its limiter.
        started_at: When it was granted, on the event loop's clock.
        load: Attempts in flight at that moment, this one included.
    """

    number: int
    started_at: float
    load: int


def _is_wait(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0


class Limiter:
    """
    An adaptive bound on the attempts in flight, with a pause for the whole client.

    Args:
        max_concurrency: What the limit never exceeds; at least 1, checked by the caller.
        initial: The limit of all workers together before anything is known.
        max_rate: Grants per second of all workers together, at most; None for no such bound.
        workers: How many limiters, this one included, speak to the same service with the same key.
        random: Gives numbers in [0, 1), for gaps that do not beat in time with other clients'.

    Shape:
        May be made outside of an event loop; belongs to the first one that acquires from it.
    """

    def __init__(
        self,
        *,
        max_concurrency: int,
        initial: float = 4.0,
        max_rate: float | None = None,
        workers: int = 1,
        random: Callable[[], float] = random.random,
    ) -> None:
        # No more than 29 attributes: beyond, CPython 3.11 makes access to all of them slower by a tenth.
        self._max = float(max_concurrency)
        self._random = random
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed: Callable[[], BaseException] | None = None

        self._queue: OrderedDict[asyncio.Future[Ticket], None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._rang_for = -math.inf  # when the last timer was due
        self._in_flight = 0
        self._granted = 0
        self._gap = 0.0  # seconds between two grants; 0: none
        self._due_at = self._paused_until = -math.inf  # when the last gap, and the last pause, ends
        self._closed_until = -math.inf  # the later of the two
        self._fraction_used_at = -math.inf
        self._jitter = 1.0

        self._learnt = self._max
        self._gate = min(initial / workers, self._max)  # infinite: open
        self._limit = self._gate  # the lower of the two
        self._whole = int(self._limit)
        self._height = 0.0  # where the climb is flat; 0: never cut
        self._climbs_since = -math.inf
        self._flat_after = 0.0
        self._last_cut = 0  # number of the last ticket granted before it
        self._last_refused = 0  # number of the youngest ticket that was refused
        self._refusals = 0  # in a row
        self._round_trip = 0.1
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self.share(max_rate, workers)

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

    def acquire_now(self) -> Ticket | None:
        """
        Return a ticket if the next attempt may start at once.

        Raises:
            BaseException: What was given to `close`.
        """
        if self._closed is not None:
            raise self._closed()
        now = self._now()
        return None if self._queue or self._opens_at() > now else self._grant(now)

    async def acquire(self) -> Ticket:
        """
        Wait for the turn of one attempt.

        Shape:
            Does not suspend when a slot is free.

        Raises:
            BaseException: What was given to `close`.
        """
        return self.acquire_now() or await self._wait_in_line()

    def release(self, ticket: Ticket, signal: Signal, *, retry_after: float | None = None) -> None:
        """
        Give a ticket back and say what its attempt showed.

        Args:
            ticket: From `acquire`; released once.
            signal: What the attempt said about the service.
            retry_after: Seconds that the service asked everybody to wait, if it did.
        """
        self._in_flight -= 1
        is_wait = retry_after is not None and _is_wait(retry_after)
        if signal is Signal.ACCEPTED:
            self._recent.append(True)
            self._accepted(ticket)
        elif signal is Signal.THROTTLED:
            self._refused(ticket, _CUT_BY_PAUSE if is_wait else _CUT)
        elif signal is Signal.OVERLOADED:
            self._recent.append(False)
            if len(self._recent) >= max(_FEWEST_RECENT, _REQUESTS_PER_ACCEPTED * sum(self._recent) + 1):
                self._refused(ticket, _CUT)
        if retry_after is not None:
            self.pause(retry_after)
        if self._queue:
            self._let_in()

    def pause(self, seconds: float) -> None:
        """
        Grant nothing for a while; a pause that ends later stays as it is.

        Args:
            seconds: As the service asked. What is no positive, finite number is ignored.
        """
        if _is_wait(seconds):
            self._paused_until = max(self._paused_until, self._now() + seconds)
            self._closed_until = max(self._closed_until, self._paused_until)
            self._set_gate(min(self._gate, 1.0))

    def share(self, max_rate: float | None, workers: int) -> None:
        """Divide what the service allows anew, as at construction; what was learnt stays."""
        self._workers = workers
        self._growth: float = workers**_SHARED
        was, self._gap = self._gap, 0.0 if max_rate is None else workers / max_rate
        self._due_at += self._gap - was
        if self._loop is not None:
            self._spread(self._loop.time())
            self._closed_until = max(self._paused_until, self._due_at)
            self._let_in()

    def close(self, error: Callable[[], BaseException]) -> None:
        """
        Turn everybody away who waits now or asks later; tickets in flight stay good.

        Args:
            error: Called for each of them, because a traceback belongs to one exception.
        """
        self._closed = error
        if self._timer is not None:
            self._timer.cancel()
        while self._queue:
            turn, _ = self._queue.popitem(last=False)
            if not turn.done():
                turn.set_exception(error())

    # Admission: rules 1 to 3, and 9.

    def _now(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._spread(self._loop.time())
            self._closed_until = self._due_at
        return self._loop.time()

    def _opens_at(self) -> float:
        """Return when the next ticket may be granted if none is released before; infinite: then only."""
        whole = self._whole
        if self._in_flight < whole:
            return self._closed_until
        if self._in_flight > whole or self._limit == whole:
            return math.inf
        return max(self._closed_until, self._fraction_used_at + self._fraction_gap())

    def _fraction_gap(self) -> float:
        """Return the seconds between two uses of the slot beyond the whole ones."""
        whole = self._whole
        # With that slot taken there is a release every round_trip / (whole + 1), and the first one ends its use.
        return self._jitter * self._round_trip / (whole + 1) / (self._limit - whole)

    def _grant(self, now: float) -> Ticket:
        if self._in_flight >= self._whole:
            # What was due and could not be used is made good once, or the fraction would never be reached.
            gap = self._fraction_gap()
            self._fraction_used_at = max(self._fraction_used_at + gap, now - gap)
            self._jitter = 0.9 + 0.2 * self._random()
        if self._gap:
            self._pace(now)
        self._in_flight += 1
        self._granted += 1
        return Ticket(self._granted, now, self._in_flight)

    def _spread(self, now: float) -> None:
        # Workers that are started, or given a shorter gap, together would ask together ever after.
        if self._gap and self._workers > 1 and self._due_at < now:
            self._due_at = now + self._gap * self._random()

    def _pace(self, now: float) -> None:
        # A late timer is made good, or each gap would grow by its lateness; nothing else is.
        is_late_timer = self._rang_for == self._due_at and now - self._due_at <= min(self._gap, _LONGEST_LATENESS)
        self._closed_until = self._due_at = (self._due_at if is_late_timer else now) + self._gap

    async def _wait_in_line(self) -> Ticket:
        turn: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        self._let_in()
        try:
            return await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._in_flight -= 1  # granted and cancelled in the same tick
            self._let_in()
            raise

    def _let_in(self) -> None:
        """Grant what may be granted now, and come back when the next ticket is due."""
        now = self._now()
        while self._queue:
            opens_at = self._opens_at()
            if opens_at > now:
                self._come_back(opens_at)
                return
            turn, _ = self._queue.popitem(last=False)
            if not turn.done():  # cancelled, and its task has not run yet
                turn.set_result(self._grant(now))

    def _come_back(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return  # too early is harmless, and spares a timer per release
            self._timer.cancel()
            self._timer = None
        if self._loop is not None and when < math.inf:
            self._timer = self._loop.call_at(when, self._on_timer, when)

    def _on_timer(self, when: float) -> None:
        self._timer, self._rang_for = None, when
        self._let_in()

    # The limit: rules 4 to 8, and 10.

    def _set_gate(self, gate: float) -> None:
        self._gate = gate
        self._set_limit(min(gate, self._learnt))

    def _set_limit(self, limit: float) -> None:
        self._limit = limit
        self._whole = int(limit)

    def _accepted(self, ticket: Ticket) -> None:
        now = self._now() if self._loop is None else self._loop.time()
        mean = self._round_trip + _SMOOTHING * (now - ticket.started_at - self._round_trip)
        self._round_trip = max(_SHORTEST_ROUND_TRIP, mean)
        if ticket.number < self._last_refused:
            return  # says how the service was before it refused
        self._refusals = 0
        if ticket.load * 2 < self._limit:
            return
        if self._gate < math.inf:
            self._open_gate(now)
        elif self._height > 0:
            climbed = self._steepness() * (now - self._climbs_since - self._flat_after) ** 3 + self._height
            self._learnt = min(self._max, max(self._learnt, min(climbed, self._learnt * 2)))
            self._set_limit(self._learnt)

    def _open_gate(self, now: float) -> None:
        gate = self._gate + self._growth if self._gate >= self._growth else self._growth
        if gate >= self._learnt:
            gate = math.inf
            self._start_climb(now)
        self._set_gate(gate)

    def _start_climb(self, now: float) -> None:
        self._climbs_since = now
        if self._height > 0:
            self._flat_after = math.cbrt(max(0.0, self._height - self._learnt) / self._steepness())

    def _steepness(self) -> float:
        # Clients that share a small limit would otherwise leap over it, for theirs are all below 1.
        return _CUBIC * self._growth**2 * min(1.0, self._height * self._workers)

    def _refused(self, ticket: Ticket, cut: tuple[float, float]) -> None:
        self._refusals += 1
        self._last_refused = max(self._last_refused, ticket.number)
        if ticket.number > self._last_cut:
            self._last_cut = self._granted
            if self._height > 0 and self._gate < math.inf:
                self._cut_by_probe()
            else:
                self._cut(cut)
        if self._refusals >= _REFUSALS_IN_A_ROW:
            self._set_gate(min(self._gate, 1.0))

    def _cut(self, cut: tuple[float, float]) -> None:
        keep, keep_height = cut
        if self._height == 0:
            keep = _FIRST_CUT
        self._height = max(self._lowest(), self._limit * keep_height)
        self._learnt = max(self._lowest(), self._limit * keep)
        self._set_gate(math.inf)
        self._start_climb(self._now())

    def _cut_by_probe(self) -> None:
        keep, keep_height = _CUT_BY_PROBE
        self._learnt = max(min(1.0, self._learnt), self._learnt * keep)  # one attempt says little about many
        self._height = max(self._height * keep_height, self._learnt)
        self._set_gate(max(self._lowest(), min(1.0, self._gate / 2)))

    def _lowest(self) -> float:
        return self._round_trip / _LONGEST_GAP
