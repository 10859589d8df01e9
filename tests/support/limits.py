"""Hidden limits and random faults of a fake service."""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import Enum
from random import Random
from typing import Any, Protocol, TypeAlias

import attrs
from attrs import field, frozen, validators

from payclient.testing import FakeService, Reply


@frozen(kw_only=True)
class Fault:
    """
    A reply for a random share of the requests.

    Attributes:
        share: Part of the valid requests within the limits, from 0 to 1.
        reply: Sent instead of the normal answer.
    """

    share: float = field(validator=[validators.ge(0), validators.le(1)])
    reply: Reply = field(validator=validators.instance_of(Reply))


class Faults:
    """The faults of one service; each request gets at most one of them."""

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
        """Return the headers for a wait of *seconds*, rounded up, from *now*. Source: RFC 9110, 10.2.3 and 6.6.1."""
        if self is RetryAfter.ABSENT:
            return {}
        if self is RetryAfter.SECONDS:
            return {"retry-after": str(math.ceil(seconds))}
        moment = now + timedelta(seconds=seconds, microseconds=999_999)
        return {"retry-after": format_datetime(moment, usegmt=True), "date": format_datetime(now, usegmt=True)}


Gate: TypeAlias = Callable[[float, int], float]
"""By the time and the number of admitted requests in flight: 0 admits one, otherwise the seconds until it would."""


@frozen(kw_only=True)
class TokenBucket:
    """
    A token bucket.

    Attributes:
        rate: Requests per second.
        burst: Size of the bucket: requests admitted at once after a pause. Default: the requests of one second.
        retry_after: The header of a throttled request.
    """

    rate: float = field(validator=validators.gt(0))
    burst: float | None = field(default=None, validator=validators.optional(validators.ge(1)))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        burst = max(1.0, self.rate) if self.burst is None else self.burst
        tokens, filled_at = burst, 0.0

        def admit(now: float, _: int) -> float:
            nonlocal tokens, filled_at
            tokens, filled_at = min(burst, tokens + (now - filled_at) * self.rate), now
            # Sums of fractions fall short of a whole token by rounding; a billionth is not a request.
            if tokens < 1 - 1e-9:
                return (1 - tokens) / self.rate
            tokens -= 1
            return 0.0

        return admit


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
        used, current = 0, -1.0

        def admit(now: float, _: int) -> float:
            nonlocal used, current
            number, elapsed = divmod(now, self.seconds)
            if number != current:
                used, current = 0, number
            if used >= self.count:
                return self.seconds - elapsed
            used += 1
            return 0.0

        return admit


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
        """Return a gate that compares the requests in flight with the maximum."""
        return lambda _, in_flight: 1.0 if in_flight >= self.count else 0.0


class Limit(Protocol):
    """A limit of requests."""

    @property
    def retry_after(self) -> RetryAfter: ...

    def gate(self) -> Gate: ...


@frozen
class Refusal:
    """The limit that did not admit a request, and the seconds until it would."""

    limit: Limit
    seconds: float


class Limiter:
    """All limits of one service, in order: a request refused by a later one still counts for the earlier ones."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = {limit.gate(): limit for limit in limits}
        self._in_flight = Counter[Gate]()

    @contextmanager
    def admit(self, now: float) -> Generator[Refusal | None, None, None]:
        """Hold the admission of one request during the block; yield the refusal, or None."""
        admitted: list[Gate] = []
        refusal: Refusal | None = None
        for gate, limit in self._limits.items():
            if seconds := gate(now, self._in_flight[gate]):
                refusal = Refusal(limit, seconds)
                break
            admitted.append(gate)
        self._in_flight.update(admitted)
        try:
            yield refusal
        finally:
            self._in_flight.subtract(admitted)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class LimitedService(FakeService):
    """
    A fake service with limits and faults.

    Args:
        limits: Limits of requests; a refused one gets `assumptions.throttled`.
        faults: Replies for a random share of the requests.
        now: The wall clock, aware, in UTC; for `Retry-After` dates only.
        options: Those of `FakeService`.
    """

    def __init__(
        self,
        *,
        limits: Iterable[Limit] = (),
        faults: Iterable[Fault] = (),
        now: Callable[[], datetime] = _utc_now,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._limiter, self._faults, self._now = Limiter(limits), Faults(faults), now

    @contextmanager
    def admit(self, started_at: float) -> Generator[Reply | None]:
        with self._limiter.admit(started_at) as refusal:
            yield None if refusal is None else self._throttled(refusal)

    def fault(self) -> Reply | None:
        return self._faults.draw(self._random)

    def _throttled(self, refusal: Refusal) -> Reply:
        reply = self.assumptions.throttled
        headers = refusal.limit.retry_after.headers(refusal.seconds, self._now())
        return attrs.evolve(reply, headers={**reply.headers, **headers})
