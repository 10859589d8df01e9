"""The account of one lookup: its time budget, what it spent where, and its last error."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Literal, TypeAlias, TypeVar

from payclient._alarm import Alarm, Clock
from payclient._telemetry import Attempt, OnAttempt
from payclient.errors import AttemptTimeoutError, DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")
Phase: TypeAlias = Literal["queued", "attempts", "backoff"]


class Lookup:
    """
    One reference being asked for, retries included.

    Args:
        reference: What is asked for.
        clock: The event loop's.
        until: When the lookup must have ended, on that clock; None for no such moment.
        budget: Seconds of attempts and back-off, queueing excluded: the bound of a lookup in bulk,
            whose turn comes when it comes. None for no such bound.
        observers: Each gets a record per attempt.
    """

    __slots__ = ("_budget", "_clock", "_observers", "_seconds", "_until", "attempts", "last_error", "reference")

    def __init__(
        self,
        reference: str,
        *,
        clock: Clock,
        until: float | None,
        budget: float | None,
        observers: tuple[OnAttempt, ...],
    ) -> None:
        self.reference = reference
        self.attempts = 0
        self.last_error: PayClientError | None = None
        self._until = until
        self._budget = budget
        self._observers = observers
        self._clock = clock
        self._seconds = {"queued": 0.0, "attempts": 0.0, "backoff": 0.0}

    async def spend(self, phase: Phase, work: Awaitable[_Value], *, at_most: float | None = None) -> _Value:
        """
        Return what *work* returns, if that comes in time; the time goes to the account of *phase*.

        Args:
            phase: What the lookup is doing.
            work: Awaited here.
            at_most: Seconds that this piece of work may take, however many the lookup has left.

        Raises:
            AttemptTimeoutError: After *at_most*.
            DeadlineExceededError: When the lookup's own time is over, with its last error as the cause.
        """
        now = self._clock.now
        began = now()
        end = self._end(phase, began)
        latest = end if at_most is None else min(end, began + at_most)
        try:
            with Alarm(self._clock, latest):
                return await work
        finally:
            self._seconds[phase] += now() - began
        if at_most is None or latest == end:
            raise self._exceeded() from self.last_error
        message = f"no whole answer within {at_most:g} s"
        raise AttemptTimeoutError(message)

    def now(self) -> float:
        """Return the seconds on the event loop's clock."""
        return self._clock.now()

    def patience(self, longest_pause: float) -> float:
        """Return for how many seconds the lookup can wait before it must give up anyway."""
        return longest_pause if self._until is None else self._until - self._clock.now()

    def observe(self, observer: OnAttempt) -> None:
        """Have the records given to one more."""
        self._observers = (*self._observers, observer)

    @property
    def is_observed(self) -> bool:
        """Whether anybody wants the records."""
        return bool(self._observers)

    def tell(self, attempt: Attempt) -> None:
        """Pass a record on to whoever observes this lookup."""
        for observer in self._observers:
            observer(attempt)

    def _end(self, phase: Phase, now: float) -> float:
        if self._until is not None:
            return self._until
        if self._budget is None or phase == "queued":
            return math.inf
        return now + self._budget - self._seconds["attempts"] - self._seconds["backoff"]

    def _exceeded(self) -> DeadlineExceededError:
        went = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self._seconds.items())
        message = f"no answer within the deadline after {self.attempts} attempts ({went})"
        return DeadlineExceededError(message, attempts=self.attempts, seconds=dict(self._seconds))
