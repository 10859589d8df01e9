"""The counters of a client, and a record of each attempt."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from attrs import frozen

from payclient.protocol import Returnable


@frozen(kw_only=True)
class Attempt:
    """
    One HTTP exchange, for logs, metrics and traces. It contains neither key nor payload.

    Attributes:
        reference: The requested reference.
        number: 1 for the first attempt of its lookup.
        status: The HTTP status. None without a response.
        seconds: From the start of the request to the end of the body.
        error: Name of the error class, `cancelled`, or None when the attempt gave a transaction. Also the name
            of a deadline or an outage that ended the lookup and the attempt.
        url: Where it was sent.
        request_id: The service's identifier of the request, if it sent one.
        deviations: The fields that were not as documented. `other` for anything outside of them.
        is_throttled: Whether the service throttled it, as `Stats.throttled` counts.
    """

    reference: str
    number: int
    status: int | None
    seconds: float
    error: str | None
    url: str = ""
    request_id: str | None = None
    deviations: tuple[str, ...] = ()
    is_throttled: bool = False


@frozen(kw_only=True)
class Stats(Returnable):
    """
    A snapshot of the counters of a client, for all its views together.

    Attributes:
        lookups: Lookups started. Simultaneous ones of one reference count once.
        attempts: HTTP exchanges started.
        retries: Attempts after the first of their lookup.
        throttled: Attempts that the service throttled (usually 429).
        in_flight: Attempts in flight now.
        limit: Attempts that the limiter allows in flight now.
        paused_seconds: Seconds left of the pause that the service asked for. 0 without one.
        refused: Lookups that were refused in an outage.
        outage_seconds: For how long the outage was observed. 0 without one, or if the last evidence of it is too old.
        last_failure: Class and text of the last failed attempt since the last response. "" without one.
        waiting: Lookups that wait for their turn now.
        is_overloaded: Whether there are more lookups than can be answered: some have waited for seconds without a
            break.
        asked_ago: Seconds since the last attempt was sent. None without one.
        answered_ago: Seconds since the service answered last, with any answer. None if it never did.
    """

    _computed = ("is_ready",)

    lookups: int
    attempts: int
    retries: int
    throttled: int
    in_flight: int
    limit: float
    paused_seconds: float
    refused: int = 0
    outage_seconds: float = 0.0
    last_failure: str = ""
    waiting: int = 0
    is_overloaded: bool = False
    asked_ago: float | None = None
    answered_ago: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a lookup may be sent now: neither an outage nor a pause is on."""
        return not (self.outage_seconds or self.paused_seconds)


OnAttempt: TypeAlias = Callable[[Attempt], object]
"""Gets one record per attempt, on the event loop, so it must not block."""

Tracing: TypeAlias = Callable[[], AbstractContextManager[OnAttempt | None]]
"""Entered around each lookup. Yields a function that gets the records of its attempts, and whose `headers` are sent."""
