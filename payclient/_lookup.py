"""The account of one lookup: its time budget, what it spent where, and its last error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from payclient._telemetry import Attempt, OnAttempt
from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")
Phase: TypeAlias = Literal["queued", "attempts", "backoff"]


class Lookup:
    """
    One reference being asked for, retries included.

    Args:
        reference: What is asked for.
        until: When the lookup must have ended, on the event loop's clock; None for no such moment.
        budget: Seconds of attempts and back-off, queueing excluded: the bound of a lookup in bulk,
            whose turn comes when it comes. None for no such bound.
        observers: Each gets a record per attempt.
    """

    __slots__ = (
        "_budget",
        "_loop",
        "_observers",
        "_phase",
        "_scope",
        "_seconds",
        "_since",
        "_until",
        "attempts",
        "last_error",
        "reference",
    )

    def __init__(
        self, reference: str, *, until: float | None, budget: float | None, observers: tuple[OnAttempt, ...]
    ) -> None:
        self.reference = reference
        self.attempts = 0
        self.last_error: PayClientError | None = None
        self._until = until
        self._budget = budget
        self._observers = observers
        self._loop = asyncio.get_running_loop()
        self._scope = asyncio.timeout_at(until)
        self._phase: Phase = "queued"
        self._since = self._loop.time()
        self._seconds: dict[str, float] = {"queued": 0.0, "attempts": 0.0, "backoff": 0.0}

    async def within_budget(self, work: Callable[[], Awaitable[_Value]]) -> _Value:
        """
        Return what *work* returns, if that comes in time.

        Raises:
            DeadlineExceededError: With the last failed attempt as its cause.
        """
        try:
            async with self._scope:
                return await work()
        except PayClientError:
            raise
        except TimeoutError:
            if not self._scope.expired():
                raise
        raise self._exceeded() from self.last_error

    def enter(self, phase: Phase) -> float:
        """Begin *phase* and return the seconds of the one that ends with it."""
        now = self._loop.time()
        spent = now - self._since
        self._seconds[self._phase] += spent
        if self._budget is not None and (phase == "queued") != (self._phase == "queued"):
            left = self._budget - self._seconds["attempts"] - self._seconds["backoff"]
            self._scope.reschedule(None if phase == "queued" else now + left)
        self._phase, self._since = phase, now
        return spent

    def patience(self, longest_pause: float) -> float:
        """Return for how many seconds the lookup can wait before it must give up anyway."""
        return longest_pause if self._until is None else self._until - self._loop.time()

    def tell(self, attempt: Attempt) -> None:
        """Pass a record on to whoever observes this lookup."""
        for observer in self._observers:
            observer(attempt)

    def _exceeded(self) -> DeadlineExceededError:
        self.enter(self._phase)
        went = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self._seconds.items())
        message = f"no answer within the deadline after {self.attempts} attempts ({went})"
        return DeadlineExceededError(message, attempts=self.attempts, seconds=dict(self._seconds))
