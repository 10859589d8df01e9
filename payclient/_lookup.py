"""The state of one lookup: its deadline or budget, the time spent by phase, and its last error."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, TypeAlias

from payclient._escape import plural
from payclient._telemetry import Attempt, OnAttempt
from payclient.errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    PayClientError,
    TransactionNotFoundError,
    TransportError,
)
from payclient.policies import Clock, Timeout, names_no_reference
from payclient.protocol import is_conclusive
from payclient.transports import Way, way_of

Unbelieved: TypeAlias = tuple[PayClientError, bool]
"""An answer that could not be believed, and whether it came over a fresh connection."""
PhaseName: TypeAlias = Literal["queued", "attempts", "backoff"]


class LookupPhase(Timeout):
    """A timed block of one lookup, made by `Lookup.phase`: its duration is limited and recorded."""

    __slots__ = ("_at_most", "_began", "_lookup", "_name")

    def __init__(self, lookup: Lookup, name: PhaseName, began: float, until: float, at_most: float | None) -> None:
        super().__init__(lookup.clock, until)
        self._lookup = lookup
        self._name: PhaseName = name
        self._began = began
        self._at_most = at_most

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        is_over = super().__exit__(kind, error, traceback)
        self._lookup.end_phase(self._name, self._began, is_over=is_over, at_most=self._at_most, cut=error)
        return False


class Lookup:
    """
    The lookup of one reference, retries included.

    Args:
        reference: As it was given.
        clock: Of the event loop.
        until: When the lookup must end, on that clock; None for no limit.
        budget: Seconds of attempts and back-off, queueing excluded: the limit of a lookup in bulk,
            which may queue for long. None for no limit.
        observers: Each gets a record per attempt.
        is_poll: Whether it can wait: then its attempts queue behind all others.
    """

    __slots__ = (
        "_budget",
        "_observers",
        "_seconds",
        "_until",
        "attempts",
        "clock",
        "headers",
        "is_fresh",
        "is_poll",
        "last_error",
        "reference",
    )

    def __init__(
        self,
        reference: str,
        *,
        clock: Clock,
        until: float | None,
        budget: float | None,
        observers: tuple[OnAttempt, ...],
        is_poll: bool = False,
    ) -> None:
        self.reference = reference
        self.attempts = 0
        self.last_error: PayClientError | None = None
        self.is_fresh = False  # the connection of the last answer
        self.is_poll = is_poll
        self.headers: Mapping[str, str] | None = None  # that the trace sends on
        self._until = until
        self._budget = budget
        self._observers = observers
        self.clock = clock
        self._seconds = {"queued": 0.0, "attempts": 0.0, "backoff": 0.0}

    def phase(self, name: PhaseName, *, at_most: float | None = None) -> LookupPhase:
        """
        Return a block whose duration is recorded under *name* and limited.

        Args:
            name: What the lookup does in the block.
            at_most: Seconds that the block may take, even if the lookup has more time left.

        Raises:
            AttemptTimeoutError: From the block, after *at_most*.
            DeadlineExceededError: From the block, when the lookup's time is over, with its last error as cause.
        """
        now = self.clock.now()
        end = self._end(name, now)
        if at_most is None or end <= now + at_most:
            return LookupPhase(self, name, now, end, None)
        return LookupPhase(self, name, now, now + at_most, at_most)

    def end_phase(
        self,
        name: PhaseName,
        began: float,
        *,
        is_over: bool,
        at_most: float | None,
        cut: BaseException | None = None,
    ) -> None:
        """Record the duration of a phase, and raise if it was cut off, by *cut*."""
        self._seconds[name] += self.clock.now() - began
        if not is_over:
            return
        error = self._exceeded(way_of(cut)) if at_most is None else _too_slow(at_most, way_of(cut))
        try:
            raise error
        finally:
            # Otherwise the context is the cancelled attempt, whose frames hold the request.
            error.__context__ = None

    def fail(self, error: PayClientError) -> None:
        """Keep *error* as the last one; it also says what the attempts before it have sent."""
        before, self.last_error = self.last_error, error
        if isinstance(error, TransportError) and error.sent == "no" and before is not None:
            error.sent = before.sent if isinstance(before, TransportError) else "yes"

    def now(self) -> float:
        """Return the time on the event loop's clock, in seconds."""
        return self.clock.now()

    def remaining_time(self, max_retry_after: float) -> float:
        """Return the seconds that the lookup can still wait."""
        return max_retry_after if self._until is None else self._until - self.clock.now()

    def observe(self, observer: OnAttempt) -> None:
        """Add an observer, and send the `headers` that it has, if any."""
        self._observers = (*self._observers, observer)
        self.headers = getattr(observer, "headers", None)

    @property
    def is_observed(self) -> bool:
        """Whether there is an observer."""
        return bool(self._observers)

    def tell(self, attempt: Attempt) -> None:
        """Pass a record to the observers."""
        for observer in self._observers:
            if asyncio.iscoroutine(made := observer(attempt)):
                made.close()
                message = "on_attempt gave a coroutine, which would never be awaited; pass a plain function"
                raise TypeError(message)

    def _end(self, phase: PhaseName, now: float) -> float:
        if self._until is not None:
            return self._until
        if self._budget is None or phase == "queued":
            return math.inf
        return now + self._budget - self._seconds["attempts"] - self._seconds["backoff"]

    def _exceeded(self, way: Way) -> DeadlineExceededError:
        went = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self._seconds.items())
        message = f"no answer within the deadline after {plural(self.attempts, 'attempt')}{_through(way)} ({went})"
        if way.step:  # of the attempt that it ended
            message += f" [step {way.step}{', ' if way.address else ''}{way.address}]"
        error = DeadlineExceededError(message, attempts=self.attempts, seconds=dict(self._seconds))
        error.__cause__ = self.last_error
        return error


def _too_slow(seconds: float, way: Way) -> AttemptTimeoutError:
    message = f"no whole answer within {seconds:g} s{_through(way)}"
    return AttemptTimeoutError(message, sent=way.sent, step=way.step, address=way.address)


def _through(way: Way) -> str:
    return f" through the proxy {way.proxy}" if way.proxy else ""


def is_believed(error: PayClientError, unbelieved: Unbelieved | None, *, is_fresh: bool) -> bool:
    """
    Return whether *error* may be the last word of a lookup.

    Args:
        error: What the answer means.
        unbelieved: The answer before it, if that was not believed.
        is_fresh: Whether the answer came over a fresh connection.
    """
    if not names_no_reference(error):
        return True
    if is_conclusive(error):
        return is_fresh or unbelieved is not None
    if unbelieved is None:
        return False
    # Only the same, said twice over fresh connections; a transport that cannot tell has none.
    before, was_fresh = unbelieved
    return isinstance(before, TransactionNotFoundError) and (was_fresh or not is_fresh)
