"""
What is known of each reference: whether it always fails, and whether a limit refuses it now and then.

1.  A reference that has failed counts again, here and for the limiter, once it has been answered.
2.  A status alternates with answers if three times in thirty seconds a reference that failed with it is answered, each
    of which began to fail after the one before was answered. References that the service cannot answer never do.
3.  Then a failure with this status that comes sooner than any recent answer is the refusal of a limit, until seven
    times as many failures come in a row as usual. One that comes later is about the load.
"""

import math
from collections import deque

_MAX_FAILING = 1000  # references
_SWITCHES, _ALTERNATING = 3, 30.0  # from failures to answers, and seconds
_LONG_ROW = 7.0  # times the usual one; by chance, one in a thousand is so long
_SOONER = 0.9  # share of the fastest recent answer
_FORGETTING = 0.1  # weight of a new value; a faster, or a slower, answer counts at once
_MIN_ROUND_TRIP = 1e-6  # seconds; in a test a response may take no time


class References:
    """The references that have failed since they were answered, and how failures and answers alternate."""

    def __init__(self) -> None:
        # When each first failed, infinite if it was only rejected, and the status of the last failure.
        self.failing: dict[str, tuple[float, int]] = {}
        self._switches: dict[int, deque[float]] = {}  # keys are statuses: when references that failed so were answered
        self._fastest = math.inf  # the fastest recent answer
        self.slowest = 0.0  # the slowest recent answer; 0 before the first
        self._in_a_row, self._usual_row = 0, 0.5  # failures between two answers

    def answered(self, reference: str, now: float, took: float) -> None:
        """Record an answer that took as long as answers take."""
        if took < self._fastest:
            self._fastest = took
        else:
            self._fastest += _FORGETTING * (took - self._fastest)
        self.slowest += (1.0 if took > self.slowest else _FORGETTING) * (took - self.slowest)
        self.slowest = self.slowest or _MIN_ROUND_TRIP
        self._usual_row += _FORGETTING * (self._in_a_row - self._usual_row)
        self._in_a_row = 0
        if reference in self.failing:
            first_at, status = self.failing.pop(reference)
            switches = self._switches.setdefault(status, deque((-math.inf,), _SWITCHES))
            if switches[-1] < first_at < math.inf:
                switches.append(now)

    def failed(self, reference: str, now: float, status: int) -> float:
        """Return when *reference* first failed since it was answered."""
        self._in_a_row += 1
        first_at = min(now, self.first_failed(reference))
        self.failing[reference] = first_at, status
        while len(self.failing) > _MAX_FAILING:
            del self.failing[next(iter(self.failing))]
        return first_at

    def rejected(self, reference: str) -> None:
        """Record that *reference* was rejected: if it is repeated, others go first."""
        self.failing.setdefault(reference, (math.inf, 0))

    def first_failed(self, reference: str) -> float:
        return self.failing.get(reference, (math.inf, 0))[0]

    def alternates(self, status: int, now: float) -> bool:
        switches = self._switches.get(status)
        return switches is not None and len(switches) == _SWITCHES and switches[0] > now - _ALTERNATING

    def is_limit(self, status: int, took: float, now: float) -> bool:
        """Return whether a failure with *status*, after *took* seconds, is the refusal of a limit."""
        is_usual = self._in_a_row < _LONG_ROW * (self._usual_row + 0.5)
        return is_usual and took < _SOONER * self._fastest and self.alternates(status, now)
