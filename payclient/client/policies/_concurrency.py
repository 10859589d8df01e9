"""
The limit of attempts in flight: a controller that learns from the result of each, without a queue or a clock.

It adapts one number, the limit of attempts in flight. A second controller, for a rate, would work against it.

1.  Slow start: at the start, after a pause, and after several refusals in a row, the limit is low and grows by one per
    accepted attempt. During slow start a refusal halves the limit, so one probe at a time asks whether the service is
    back, and the gap between probes doubles.
2.  One cut per congestion event: only an attempt that started after the last cut may cut again. The first cut is deep,
    because the distance to the service's limit is unknown. A cut with a pause is deep too, because fewer requests in
    flight use up a fixed window just as fast. The others are shallow.
3.  Cubic growth after a cut, over the time that was not spent waiting: fast, flat near `w_max` (the limit before the
    cut), then fast again, so that a raised limit is found.
4.  Failures of the service count as refusals only if, of the last 50, requests exceed twice the accepted ones.
5.  Nothing else changes the limit: not latency, because the service has other users; not cancellation. An accepted
    attempt does not raise the limit if less than half of it was used.
6.  Workers that share a key each start with their share and grow more slowly, because each sees only its own refusals.

Sources: rule 3, CUBIC (RFC 9438); rule 4, "Site Reliability Engineering", chapter "Handling Overload".
"""

from __future__ import annotations

import math
from collections import deque

from attrs import frozen

# The factors of a cut, for the limit and for `w_max`. A shallow cut keeps a service with a concurrency limit busy;
# slow start makes a deeper one unnecessary.
_CUT = (0.9, 1.0)
_CUT_BY_PAUSE = _CUT_BY_PROBE = (0.7, 0.9)
_FIRST_CUT = 0.5

_CUBIC = 0.02  # attempts per second cubed; a doubled limit is found within 15 s at a round trip of 0.2 s
# Each of many workers grows at first by this power of their number, and later by its square. A lower exponent finds
# capacity left by others late; a higher one causes more refusals (`tests/bench/sharing.py`).
_SHARED = -0.75
_REFUSALS_IN_A_ROW = 3
_MAX_GAP = 10.0  # seconds between probes: the longest delay after the end of an outage
_MIN_ROUND_TRIP = 0.001  # seconds; an in-process service must not make gaps vanish
_SMOOTHING = 0.1  # weight of the newest round trip in their mean
_RECENT = 50
_MIN_RECENT = 10
_REQUESTS_PER_ACCEPTED = 2


@frozen
class Ticket:
    number: int
    started_at: float
    load: int  # attempts in flight, this one included
    is_probe: bool = False  # beside the limit, in an outage


class ConcurrencyController:
    """The limit of attempts in flight, learnt from their results."""

    def __init__(self, *, max_concurrency: int, initial: float, workers: int) -> None:
        self.threshold: float = float(max_concurrency)  # where slow start ends
        self._max = self.threshold
        self._slow_start = min(initial / workers, self._max)  # infinite: over
        self.limit: float = self._slow_start  # the lower of the two; below 1, one at a time with gaps
        self.whole: int = int(self.limit)
        self.round_trip: float = 0.1  # mean seconds from a grant to an accepted response
        self._w_max = 0.0  # 0: never cut
        self._cubic_since = -math.inf
        self._seconds_to_w_max = 0.0
        self._last_cut = 0  # number of the last ticket granted before it
        self._last_refused = 0  # number of the youngest ticket that was refused
        self._refusals = 0  # in a row
        self._recent: deque[bool] = deque(maxlen=_RECENT)
        self.share(workers)

    def share(self, workers: int) -> None:
        """Grow as one of *workers* from now on; keep the limit."""
        self._workers = workers
        self._growth: float = workers**_SHARED

    def start_slowly(self) -> None:
        """Begin slow start again, with one attempt at most."""
        self._set_slow_start(min(self._slow_start, 1.0))

    def accepted(self, ticket: Ticket, now: float) -> None:
        self._recent.append(True)
        mean = self.round_trip + _SMOOTHING * (now - ticket.started_at - self.round_trip)
        self.round_trip = max(_MIN_ROUND_TRIP, mean)
        if ticket.number < self._last_refused:
            return  # sent before the last refusal, so it says nothing about now
        self._refusals = 0
        if ticket.load * 2 < self.limit:
            return
        if self._slow_start < math.inf:
            self._grow_slow_start(now)
        elif self._w_max > 0:
            cubic = self._steepness() * (now - self._cubic_since - self._seconds_to_w_max) ** 3 + self._w_max
            self.threshold = min(self._max, max(self.threshold, min(cubic, self.threshold * 2)))
            self._set_limit(self.threshold)

    def throttled(self, ticket: Ticket, now: float, *, granted: int, is_paused: bool) -> None:
        self._refused(ticket, now, granted, _CUT_BY_PAUSE if is_paused else _CUT)

    def overloaded(self, ticket: Ticket, now: float, *, granted: int) -> None:
        """Record that the service, or the network, failed; *granted* as in `throttled`."""
        self._recent.append(False)
        if len(self._recent) >= max(_MIN_RECENT, _REQUESTS_PER_ACCEPTED * sum(self._recent) + 1):
            self._refused(ticket, now, granted, _CUT)

    def _set_slow_start(self, limit: float) -> None:
        self._slow_start = limit
        self._set_limit(min(limit, self.threshold))

    def _set_limit(self, limit: float) -> None:
        self.limit = limit
        self.whole = int(limit)

    def _grow_slow_start(self, now: float) -> None:
        limit = self._slow_start + self._growth if self._slow_start >= self._growth else self._growth
        if limit >= self.threshold:
            limit = math.inf
            self._start_cubic(now)
        self._set_slow_start(limit)

    def _start_cubic(self, now: float) -> None:
        self._cubic_since = now
        if self._w_max > 0:
            self._seconds_to_w_max = math.cbrt(max(0.0, self._w_max - self.threshold) / self._steepness())

    def _steepness(self) -> float:
        # Clients that share a small limit, each below 1, would otherwise overshoot it.
        return _CUBIC * self._growth**2 * min(1.0, self._w_max * self._workers)

    def _refused(self, ticket: Ticket, now: float, granted: int, cut: tuple[float, float]) -> None:
        self._refusals += 1
        self._last_refused = max(self._last_refused, ticket.number)
        if ticket.number > self._last_cut:
            self._last_cut = granted
            if self._w_max > 0 and self._slow_start < math.inf:
                self._cut_by_probe()
            else:
                self._cut(now, cut)
        if self._refusals >= _REFUSALS_IN_A_ROW:
            self.start_slowly()

    def _cut(self, now: float, cut: tuple[float, float]) -> None:
        keep, keep_w_max = cut
        if self._w_max == 0:
            keep = _FIRST_CUT
        self._w_max = max(self._lowest(), self.limit * keep_w_max)
        self.threshold = max(self._lowest(), self.limit * keep)
        self._set_slow_start(math.inf)
        self._start_cubic(now)

    def _cut_by_probe(self) -> None:
        keep, keep_w_max = _CUT_BY_PROBE
        self.threshold = max(min(1.0, self.threshold), self.threshold * keep)  # one attempt says little about many
        self._w_max = max(self._w_max * keep_w_max, self.threshold)
        self._set_slow_start(max(self._lowest(), min(1.0, self._slow_start / 2)))

    def _lowest(self) -> float:
        return self.round_trip / _MAX_GAP
