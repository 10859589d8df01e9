"""One lookup: its deadline or budget, the time spent by phase, its last error, and who else waits for its result."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Mapping
from typing import Literal, Self, TypeAlias

from attrs import Factory, define, field

from payclient import errors
from payclient._shared.escape import plural
from payclient.client._telemetry import Attempt, OnAttempt
from payclient.client.policies import Clock, Priority, Retries, Timeout, names_no_reference
from payclient.protocol import Transaction
from payclient.transports import Progress, progress_of

Unconfirmed: TypeAlias = tuple[errors.PayClientError, bool]
"""A refusal that is not believed yet, and whether its connection was fresh."""
PhaseName: TypeAlias = Literal["queued", "attempts", "backoff"]
POLL = "poll"
"""The kind of the lookups in flight that waits share."""
NO_TIME: dict[str, float] = {"queued": 0.0, "attempts": 0.0, "backoff": 0.0}


class LookupPhase(Timeout):
    """A block of a lookup, whose duration is recorded under its name and limited."""

    __slots__ = ("_at_most", "_began", "_lookup", "name", "rejection")

    def __init__(
        self, lookup: Lookup, name: PhaseName, *, at_most: float | None = None, now: float | None = None
    ) -> None:
        began = lookup.clock.now() if now is None else now
        when = lookup.until
        if lookup.budget is not None and name != "queued":
            when = began + lookup.budget - lookup.seconds["attempts"] - lookup.seconds["backoff"]
        if at_most is not None and began + at_most < when:
            when = began + at_most
        else:
            at_most = None
        self._clock, self._when, self._has_fired, self._is_over = lookup.clock, when, False, False
        self._lookup, self.name, self._began, self._at_most = lookup, name, began, at_most
        self.rejection: errors.PayClientError | None = None
        lookup.current = self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> Literal[False]:
        is_over = super().__exit__(kind, error, None)
        lookup = self._lookup
        lookup.current, lookup.at = None, self._clock.now()
        lookup.seconds[self.name] += lookup.at - self._began
        if not is_over:
            return False
        progress, rejection = progress_of(error), self.rejection
        if isinstance(rejection, errors.OutageError) and self.name == "attempts":
            rejection.sent, rejection.step, rejection.address = progress.sent, progress.step, progress.address
        failure = rejection or lookup.exceeded(self._at_most, progress)
        try:
            raise failure
        finally:
            # Otherwise the context is the cancelled attempt, whose frames contain the request.
            failure.__context__ = None


@define(eq=False, repr=False)
class Lookup:
    """The lookup of one reference, retries included."""

    reference: str
    clock: Clock
    until: float  # time of the clock. Infinite for no limit
    budget: float | None  # seconds of attempts and back-off: a lookup in bulk may queue for long
    observers: tuple[OnAttempt, ...]
    is_rejectable: bool = False  # an outage may end it
    priority: Priority = Priority.AWAITED
    needs_fresh_connection: bool = False
    max_pause: float = math.inf  # seconds that it waits out without a deadline
    began_at: float = Factory(lambda self: self.clock.now(), takes_self=True)
    at: float = field(default=-math.inf, init=False)  # when it last looked at the clock
    current: LookupPhase | None = field(default=None, init=False)
    joined: Lookup | None = field(default=None, init=False)  # it waits for this lookup's result
    sent_at: float | None = field(default=None, init=False)  # None between two attempts
    key_version: int = field(default=0, init=False)  # the last attempt's, like `redact`
    declined: tuple[int, errors.PayClientError | None] = field(default=(0, None), init=False)  # a key, and the response
    unconfirmed: Unconfirmed | None = field(default=None, init=False)
    retries: Retries | None = field(default=None, init=False)  # most lookups need none
    redact: Callable[[str], str] = field(default=str, init=False)
    attempts: int = field(default=0, init=False)
    last_error: errors.PayClientError | None = field(default=None, init=False)
    sent: errors.Sent = field(default="no", init=False)  # true of any attempt. See `TransportError`
    is_fresh: bool = field(default=False, init=False)  # the connection of the last response
    headers: Mapping[str, str] | None = field(default=None, init=False)  # the trace's
    seconds: dict[str, float] = field(factory=NO_TIME.copy, init=False)  # keys are phases

    def rejected_at(self, allowed: float) -> float:
        """Return when an outage ends its wait, if an attempt may take *allowed* seconds."""
        if (phase := self.current) is None or phase.rejection is not None or not self.is_rejectable:
            return math.inf
        return self.began_at + allowed if phase.name == "attempts" else -math.inf

    def reject(self, error: errors.PayClientError) -> None:
        if self.current is not None:
            self.current.rejection = error
            self.current.fire()

    @property
    def is_in_flight(self) -> bool:
        """Whether it has an attempt in flight, or waits for the result of a lookup that has one."""
        made = self.joined or self
        return made.current is not None and made.current.name == "attempts"

    @property
    def is_timed(self) -> bool:
        """Whether it is awaited, and has a deadline."""
        return self.priority is Priority.AWAITED and self.until < math.inf

    def record_failure(self, error: errors.PayClientError) -> None:
        """Keep *error* as the last one. Its `sent` covers the attempts before it."""
        self.last_error = error
        if isinstance(error, errors.TransportError):
            if error.sent == "no":
                error.sent = self.sent
            self.sent = error.sent
        elif not isinstance(error, errors.KeySourceError):  # without a key, the request was not sent
            self.sent = "yes"

    def add_observer(self, observer: object) -> None:
        """Add what a tracing context has yielded, and send the `headers` that it has, if any."""
        if observer is None:
            return
        if not callable(observer):
            message = f"tracing must yield a callable that gets the attempts, or None, got {type(observer).__name__}"
            raise TypeError(message)
        self.observers = (*self.observers, observer)
        self.headers = getattr(observer, "headers", None)

    def notify(self, attempt: Attempt) -> None:
        for observer in self.observers:
            if asyncio.iscoroutine(made := observer(attempt)):
                made.close()
                raise TypeError("on_attempt gave a coroutine, which would never be awaited: pass a plain function")

    def exceeded(
        self, at_most: float | None, progress: Progress
    ) -> errors.DeadlineExceededError | errors.AttemptTimeoutError:
        """Return the error for an attempt that may take *at_most* seconds, or else for the whole lookup."""
        through = f" through the proxy {progress.proxy}" if progress.proxy else ""
        if at_most is not None:
            message = f"no whole answer within {at_most:g} s{through}"
            return progress.failure(errors.AttemptTimeoutError, message)
        went = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.seconds.items())
        message = f"no answer within the deadline after {plural(self.attempts, 'attempt')}{through} ({went})"
        if progress.step:  # it ended an attempt
            message += f" [step {progress.step}{', ' if progress.address else ''}{progress.address}]"
        if (last := self.last_error) is not None:
            message += f"; the last failure was {type(last).__name__}: {last}"
        error = errors.DeadlineExceededError(message, attempts=self.attempts, seconds=dict(self.seconds))
        error.__cause__ = last
        return error


def is_believed(error: errors.PayClientError, unconfirmed: Unconfirmed | None, *, is_fresh: bool) -> bool:
    if not names_no_reference(error):
        return True
    if not isinstance(error, errors.TransactionNotFoundError) or error.is_conclusive:
        return is_fresh or unconfirmed is not None
    if unconfirmed is None:
        return False
    # Only the same refusal, twice over fresh connections. If the transport does not know which are fresh, any two.
    before, was_fresh = unconfirmed
    return isinstance(before, errors.TransactionNotFoundError) and (was_fresh or not is_fresh)


class SingleFlight(dict[str, "dict[str, InFlight]"]):
    """The lookups in flight that others may join, by reference and kind: the last started of each."""

    # The first caller makes the lookup in its own task. Later callers wait for its result. If the first is cancelled or
    # exceeds its own deadline, the waiter with the most time makes the lookup again. So no background task is needed,
    # and the cancellation of one caller does not affect the others. A caller that needs a result newer than a moment,
    # or a fresh one, makes the lookup for itself and all later callers.

    def joinable(self, reference: str, kind: str, *, after: float, is_fresh: bool) -> InFlight | None:
        """Return the lookup of *reference*. None if it was sent at the time *after* or before, or is less fresh."""
        if (call := self.get(reference, {}).get(kind)) is None or (is_fresh and not call.is_fresh):
            return None
        return call if call.made.sent_at is None or call.made.sent_at > after else None


@define(eq=False, repr=False)
class InFlight:
    """A lookup in flight, as the block that its caller enters. `value` is the result, if any."""

    _key: str
    _others: SingleFlight
    made: Lookup
    is_fresh: bool = False  # over a new connection
    kind: str = ""
    value: Transaction | None = field(default=None, init=False)
    is_cut_short: bool = field(default=False, init=False)  # the caller gives up earlier than others would
    _waiters: dict[asyncio.Future[errors.PayClientError | None], Lookup] | None = field(default=None, init=False)

    async def join(self, lookup: Lookup) -> Transaction | None:
        """Return the result for *lookup*, or None if it ended without one."""
        ended: asyncio.Future[errors.PayClientError | None] = asyncio.get_running_loop().create_future()
        self._waiters = {} if self._waiters is None else self._waiters  # most lookups are not shared
        self._waiters[ended] = lookup
        try:
            failure = await ended
        finally:
            del self._waiters[ended]
        if failure is not None:
            # A single exception raised in several tasks would collect the tracebacks of all of them.
            raise copy.copy(failure)
        return self.value

    def __enter__(self) -> Self:
        self._others.setdefault(self._key, {})[self.kind] = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # A result returned to a caller ends each lookup that was sent before. Which of two requests left first is not
        # known: one may have waited for its connection. Polls never overlap, and a wait accepts a result as old as its
        # interval.
        is_told = error is None or isinstance(error, errors.ResponseError)
        if self._key in self._others:
            calls = self._others[self._key]
            for name, call in tuple(calls.items()):
                if call is self or (is_told and name != POLL and call.made.sent_at is not None):
                    del calls[name]
            if not calls:
                del self._others[self._key]
        if waiters := self._waiters:
            # The deadline was the caller's own, so waiters with more time try again. The first to wake asks. If it had
            # little time left, it would fail, and so would the next: such a reference would never be answered.
            is_own = isinstance(error, errors.DeadlineExceededError) or self.is_cut_short
            failure = error if isinstance(error, errors.PayClientError) and not is_own else None
            for ended in sorted(waiters, key=lambda waiter: (waiters[waiter].priority, -waiters[waiter].until)):
                if not ended.done():
                    ended.set_result(failure)
