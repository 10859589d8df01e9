"""Hidden limits: how many requests the fake service takes, and what it tells of that."""

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
    Seconds between a request and its answer, whatever the answer is.

    Attributes:
        seconds: The shortest.
        jitter: Added to it, drawn evenly from 0 to this.
    """

    seconds: float = field(default=0.0, validator=validators.ge(0))
    jitter: float = field(default=0.0, validator=validators.ge(0))

    def draw(self, random: Random) -> float:
        """Return the seconds for one answer."""
        return self.seconds + self.jitter * random.random() if self.jitter else self.seconds


@frozen(kw_only=True)
class Fault:
    """
    A share of the answers that is not the normal one.

    Attributes:
        share: From 0 to 1, of the requests that are in order and within the limits.
        reply: What they get instead.
    """

    share: float = field(validator=[validators.ge(0), validators.le(1)])
    reply: Reply = field(validator=validators.instance_of(Reply))


class Faults:
    """
    The faults of one service; each request meets one of them at most.

    Raises:
        ValueError: When the shares come to more than all requests.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        total = sum(fault.share for fault in self._faults)
        if total > 1 + 1e-9:
            message = f"the shares of the faults must not exceed 1 together, got {total:g}"
            raise ValueError(message)

    def draw(self, random: Random) -> Reply | None:
        """Return the reply of the fault that one request meets, if any."""
        if not self._faults:
            return None
        point = random.random()
        for fault in self._faults:
            point -= fault.share
            if point < 0:
                return fault.reply
        return None


class RetryAfter(Enum):
    """What a refused client is told about when to come back."""

    ABSENT = "absent"
    SECONDS = "seconds"
    DATE = "date"

    def headers(self, seconds: float, now: datetime) -> dict[str, str]:
        """
        Return the headers that say *seconds*, rounded up: who keeps to them is never early.

        Args:
            seconds: Until the limit admits a request again.
            now: The wall clock, aware, in UTC; a moment is sent together with this `Date`.

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
        """Note that an admitted request has ended."""
        ...


@frozen(kw_only=True)
class TokenBucket:
    """
    A token bucket.

    Attributes:
        rate: Requests per second.
        burst: Requests that are taken at once after a rest; what comes in one second if not given.
        retry_after: What a refused client is told.
    """

    rate: float = field(validator=validators.gt(0))
    burst: float | None = field(default=None, validator=validators.optional(validators.ge(1)))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return a bucket that is full."""
        return _Bucket(self.rate, max(1.0, self.rate) if self.burst is None else self.burst)


@frozen(kw_only=True)
class FixedWindow:
    """
    A number of requests per clock window; all of them may come at its beginning.

    Attributes:
        count: Requests per window.
        seconds: Length of a window; windows begin at its multiples on the event loop's clock.
        retry_after: What a refused client is told.
    """

    count: int = field(validator=validators.ge(1))
    seconds: float = field(default=60.0, validator=validators.gt(0))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return a window in which nothing was asked yet."""
        return _Window(self.count, self.seconds)


@frozen(kw_only=True)
class ConcurrencyLimit:
    """
    A number of requests at once.

    Attributes:
        count: Requests in flight that are not refused.
        retry_after: What a refused client is told; the service cannot know, and says one second.
    """

    count: int = field(validator=validators.ge(1))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return an empty counter of requests in flight."""
        return _InFlight(self.count)


Limit: TypeAlias = TokenBucket | FixedWindow | ConcurrencyLimit


@frozen
class Refusal:
    """A limit that did not admit a request, and the seconds until it would."""

    limit: Limit
    seconds: float


class Gates:
    """All limits of one service, in their order: a request that a later one refuses has used up the earlier ones."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._gates = [(limit, limit.gate()) for limit in limits]

    @contextmanager
    def passed(self, now: float) -> Generator[Refusal | None, None, None]:
        """Hold the admission of one request while its answer is under way; yield who refused it, if anyone."""
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
        """A token that was spent stays spent."""


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
        """What was asked in a window counts until its end."""


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
