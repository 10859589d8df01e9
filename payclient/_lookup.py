"""The state of one lookup: its deadline or budget, the time spent by phase, and its last error."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from attrs import define, field

from payclient._escape import plural
from payclient._telemetry import Attempt, OnAttempt
from payclient.errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    OutageError,
    PayClientError,
    TransactionNotFoundError,
    TransportError,
)
from payclient.policies import Clock, Outage, Timeout, names_no_reference
from payclient.transports import Progress, progress_of

Refusal: TypeAlias = tuple[PayClientError, bool]
"""A refusal that is not final yet, and whether it came over a fresh connection."""
PhaseName: TypeAlias = Literal["queued", "attempts", "backoff"]
_NO_TIME: dict[str, float] = {"queued": 0.0, "attempts": 0.0, "backoff": 0.0}


@define(eq=False, repr=False)
class LookupPhase(Timeout):
    """A timed block of one lookup, made by `Lookup.phase`: its duration is limited and recorded."""

    _lookup: Lookup
    _name: PhaseName
    _began: float
    _at_most: float | None
    _is_refused: bool = False

    def refused_at(self, allowed: float) -> float:
        """Return when an outage ends the block, for an attempt *allowed* seconds after its lookup began."""
        lookup = self._lookup
        if lookup.outage is None or lookup.is_probe:
            return math.inf
        return lookup.began_at + allowed if self._name == "attempts" else -math.inf

    def refuse(self) -> None:
        """End the block, because there is an outage."""
        self._is_refused = True
        self._clock.cancel(self)
        self.fire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> Literal[False]:
        is_over = super().__exit__(kind, error, None)
        self._lookup.seconds[self._name] += self._lookup.clock.now() - self._began
        if not is_over:
            return False
        lookup, progress = self._lookup, progress_of(error)
        failure: PayClientError
        if self._is_refused:
            failure = lookup.refused(progress if self._name == "attempts" else None)
        else:
            failure = lookup.exceeded(self._at_most, progress)
        try:
            raise failure
        finally:
            # Otherwise the context is the cancelled attempt, whose frames hold the request.
            failure.__context__ = None


@define(eq=False, repr=False)
class Lookup:
    """
    The lookup of one reference, retries included.

    Attributes:
        reference: As it was given.
        clock: Of the event loop.
        until: When the lookup must end, on that clock; None for no limit.
        budget: Seconds of attempts and back-off, queueing excluded: the limit of a lookup in bulk,
            which may queue for long. None for no limit.
        observers: Each gets a record per attempt.
        outage: May refuse the lookup; None if it waits for the end of every outage.
        began_at: Start time on the clock.
        is_poll: Whether it can wait: then its attempts queue behind all others.
        after: The request must be sent after this time; no earlier one is shared.
        needs_fresh_connection: Whether each attempt is sent over a new connection.
        sent_at: When the attempt in flight was sent; None between two attempts.
        key_version: Of the key of the last attempt.
        redact: Returns a text without that key.
        attempts: Number of attempts made.
        last_error: Of the attempts.
        is_fresh: Whether the last response came over a fresh connection.
        is_probe: Whether it asks for all others, in an outage.
        headers: Of the trace, sent with each request.
        seconds: Spent in each phase.
    """

    reference: str
    clock: Clock
    until: float | None
    budget: float | None
    observers: tuple[OnAttempt, ...]
    outage: Outage | None = None
    is_poll: bool = False
    after: float = -math.inf
    needs_fresh_connection: bool = False
    began_at: float = field(init=False)
    sent_at: float | None = field(default=None, init=False)
    key_version: int = field(default=0, init=False)
    redact: Callable[[str], str] = field(default=str, init=False)
    attempts: int = field(default=0, init=False)
    last_error: PayClientError | None = field(default=None, init=False)
    is_fresh: bool = field(default=False, init=False)
    is_probe: bool = field(default=False, init=False)
    headers: Mapping[str, str] | None = field(default=None, init=False)
    seconds: dict[str, float] = field(factory=_NO_TIME.copy, init=False)

    def __attrs_post_init__(self) -> None:
        self.began_at = self.clock.now()

    def phase(self, name: PhaseName, *, at_most: float | None = None) -> LookupPhase:
        """
        Return a block whose duration is recorded under *name* and limited.

        Args:
            name: Of the phase.
            at_most: Seconds that the block may take, even if the lookup has more time left.

        Raises:
            AttemptTimeoutError: From the block, after *at_most*.
            DeadlineExceededError: From the block, when the lookup's time is over, with its last error as cause.
        """
        now = self.clock.now()
        end = self._end(name, now)
        if at_most is None or end <= now + at_most:
            return LookupPhase(self.clock, end, self, name, now, None)
        return LookupPhase(self.clock, now + at_most, self, name, now, at_most)

    def fail(self, error: PayClientError) -> None:
        """Keep *error* as the last one; its `sent` covers the attempts before it."""
        before, self.last_error = self.last_error, error
        if isinstance(error, TransportError) and error.sent == "no" and before is not None:
            error.sent = before.sent if isinstance(before, TransportError) else "yes"

    def remaining_time(self, max_retry_after: float) -> float:
        """Return the seconds that the lookup can still wait."""
        return max_retry_after if self.until is None else self.until - self.clock.now()

    def observe(self, observer: OnAttempt) -> None:
        """Add an observer, and send the `headers` that it has, if any."""
        self.observers = (*self.observers, observer)
        self.headers = getattr(observer, "headers", None)

    def tell(self, attempt: Attempt) -> None:
        """Pass a record to the observers."""
        for observer in self.observers:
            if asyncio.iscoroutine(made := observer(attempt)):
                made.close()
                message = "on_attempt gave a coroutine, which would never be awaited; pass a plain function"
                raise TypeError(message)

    def _end(self, phase: PhaseName, now: float) -> float:
        if self.until is not None:
            return self.until
        if self.budget is None or phase == "queued":
            return math.inf
        return now + self.budget - self.seconds["attempts"] - self.seconds["backoff"]

    def refused(self, progress: Progress | None = None) -> OutageError:
        """Return the error for the lookup in an outage; *progress* is that of the attempt it ends."""
        assert self.outage is not None  # noqa: S101  by which it is refused
        error = self.outage.refuse(self.clock.now())
        if progress is not None:
            error.sent, error.step, error.address = progress.sent, progress.step, progress.address
        self.fail(error)
        return error

    def exceeded(self, at_most: float | None, progress: Progress) -> DeadlineExceededError | AttemptTimeoutError:
        """Return the error for an attempt that may take *at_most* seconds, or else for the whole lookup."""
        through = f" through the proxy {progress.proxy}" if progress.proxy else ""
        if at_most is not None:
            message = f"no whole answer within {at_most:g} s{through}"
            return AttemptTimeoutError(message, sent=progress.sent, step=progress.step, address=progress.address)
        went = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.seconds.items())
        message = f"no answer within the deadline after {plural(self.attempts, 'attempt')}{through} ({went})"
        if progress.step:  # of the attempt that it ended
            message += f" [step {progress.step}{', ' if progress.address else ''}{progress.address}]"
        error = DeadlineExceededError(message, attempts=self.attempts, seconds=dict(self.seconds))
        error.__cause__ = self.last_error
        return error


def may_end(error: PayClientError, first_refusal: Refusal | None, *, is_fresh: bool) -> bool:
    """
    Return whether *error* may end the lookup.

    Args:
        error: The meaning of the response.
        first_refusal: The one before it, if that was not final.
        is_fresh: Whether the response came over a fresh connection.
    """
    if not names_no_reference(error):
        return True
    if not isinstance(error, TransactionNotFoundError) or error.is_conclusive:
        return is_fresh or first_refusal is not None
    if first_refusal is None:
        return False
    # Only the same, said twice over fresh connections; a transport that cannot tell has none.
    before, was_fresh = first_refusal
    return isinstance(before, TransactionNotFoundError) and (was_fresh or not is_fresh)
