"""Latency, faults and rate limits of the fake service."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.utils import format_datetime
from enum import Enum
from random import Random
from typing import Protocol, TypeAlias

from attrs import define, field, frozen, validators

from payclient.testing._reply import Reply


@frozen(kw_only=True)
class Latency:
    """
    The time between a request and its answer.

    Attributes:
        seconds: The minimum, in seconds.
        jitter: Upper bound of a random addition, drawn evenly from 0, in seconds.
    """

    seconds: float = field(default=0.0, validator=validators.ge(0))
    jitter: float = field(default=0.0, validator=validators.ge(0))

    def draw(self, random: Random) -> float:
        """Return the seconds for one answer."""
        return self.seconds + self.jitter * random.random() if self.jitter else self.seconds


@frozen(kw_only=True)
class Fault:
    """
    A reply for a random share of the requests.

    Attributes:
        share: From 0 to 1, of the valid requests within the limits.
        reply: Sent instead of the normal answer.
    """

    share: float = field(validator=[validators.ge(0), validators.le(1)])
    reply: Reply = field(validator=validators.instance_of(Reply))


class Faults:
    """
    The faults of one service; each request gets at most one of them.

    Raises:
        ValueError: When the sum of the shares is above 1.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        total = sum(fault.share for fault in self._faults)
        if total > 1 + 1e-9:
            message = f"the shares of the faults must not exceed 1 together, got {total:g}"
            raise ValueError(message)

    def draw(self, random: Random) -> Reply | None:
        """Return the reply of a fault, or None for a normal answer."""
        if not self._faults:
            return None
        point = random.random()
        for fault in self._faults:
            point -= fault.share
            if point < 0:
                return fault.reply
        return None


class RetryAfter(Enum):
    """The form of the `Retry-After` header of a throttled request."""

    ABSENT = "absent"
    SECONDS = "seconds"
    DATE = "date"

    def headers(self, seconds: float, now: datetime) -> dict[str, str]:
        """
        Return the headers for a wait of *seconds*, rounded up.

        Args:
            seconds: Until the limit admits a request again.
            now: The wall clock, aware, in UTC; sent as `Date` together with a `Retry-After` date.

        Source:
            RFC 9110, 10.2.3 and 6.6.1.
        """
        if self is RetryAfter.ABSENT:
            return {}
        if self is RetryAfter.SECONDS:
            return {"retry-after": str(math.ceil(seconds))}
        moment = now + timedelta(seconds=seconds, microseconds=999_999)
        return {"retry-after": format_datetime(moment, usegmt=True), "date": format_datetime(now, usegmt=True)}


class Gate(Protocol):
    """The state of one limit."""

    def enter(self, now: float) -> float:
        """Admit a request and return 0, or return the seconds until one would be admitted."""
        ...

    def leave(self) -> None:
        """Record that an admitted request has ended."""
        ...


@frozen(kw_only=True)
class TokenBucket:
    """
    A token bucket.

    Attributes:
        rate: Requests per second.
        burst: Size of the bucket: requests admitted at once after a pause; those of one second if not given.
        retry_after: The header of a throttled request.
    """

    rate: float = field(validator=validators.gt(0))
    burst: float | None = field(default=None, validator=validators.optional(validators.ge(1)))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return a full bucket."""
        return _Bucket(self.rate, max(1.0, self.rate) if self.burst is None else self.burst)


@frozen(kw_only=True)
class FixedWindow:
    """
    A number of requests per fixed window; all of them may come at its start.

    Attributes:
        count: Requests per window.
        seconds: Length of a window; windows start at its multiples on the event loop's clock.
        retry_after: The header of a throttled request.
    """

    count: int = field(validator=validators.ge(1))
    seconds: float = field(default=60.0, validator=validators.gt(0))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return a window without requests."""
        return _Window(self.count, self.seconds)


@frozen(kw_only=True)
class ConcurrencyLimit:
    """
    A maximum of requests in flight.

    Attributes:
        count: Maximum of requests in flight.
        retry_after: The header of a throttled request; it says one second, because the real time is unknown.
    """

    count: int = field(validator=validators.ge(1))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return an empty counter of requests in flight."""
        return _InFlight(self.count)


Limit: TypeAlias = TokenBucket | FixedWindow | ConcurrencyLimit


@frozen
class Refusal:
    """The limit that did not admit a request, and the seconds until it would."""

    limit: Limit
    seconds: float


class Gates:
    """All limits of one service, in order: a request refused by a later one still counts for the earlier ones."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._gates = [(limit, limit.gate()) for limit in limits]

    @contextmanager
    def passed(self, now: float) -> Generator[Refusal | None, None, None]:
        """Hold the admission of one request during the block; yield the refusal, or None."""
        entered: list[Gate] = []
        try:
            yield self._enter(now, entered)
        finally:
            for gate in entered:
                gate.leave()

    def _enter(self, now: float, entered: list[Gate]) -> Refusal | None:
        for limit, gate in self._gates:
            if seconds := gate.enter(now):
                return Refusal(limit, seconds)
            entered.append(gate)
        return None


@define
class _Bucket:
    rate: float
    burst: float
    tokens: float = field(init=False)
    filled_at: float = field(init=False, default=0.0)

    def __attrs_post_init__(self) -> None:
        self.tokens = self.burst

    def enter(self, now: float) -> float:
        self.tokens = min(self.burst, self.tokens + (now - self.filled_at) * self.rate)
        self.filled_at = now
        # Sums of fractions fall short of a whole token by rounding; a billionth is not a request.
        if self.tokens < 1 - 1e-9:
            return (1 - self.tokens) / self.rate
        self.tokens -= 1
        return 0.0

    def leave(self) -> None:
        """Do nothing: a spent token stays spent."""


@define
class _Window:
    count: int
    seconds: float
    number: float = -1.0
    used: int = 0

    def enter(self, now: float) -> float:
        number, elapsed = divmod(now, self.seconds)
        if number != self.number:
            self.number, self.used = number, 0
        if self.used >= self.count:
            return self.seconds - elapsed
        self.used += 1
        return 0.0

    def leave(self) -> None:
        """Do nothing: a request counts until the end of its window."""


@define
class _InFlight:
    count: int
    busy: int = 0

    def enter(self, now: float) -> float:  # noqa: ARG002  a cap on concurrency has no clock
        if self.busy >= self.count:
            return 1.0
        self.busy += 1
        return 0.0

    def leave(self) -> None:
        self.busy -= 1
