"""Hidden limits of a fake service."""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import attrs
from attrs import frozen

from payclient.testing import FakeService, Reply

Gate: TypeAlias = Callable[[float, int], float]
"""By the time and the number of admitted requests in flight: 0 admits one, otherwise the seconds until it would."""


@frozen(kw_only=True)
class TokenBucket:
    """
    A token bucket.

    Attributes:
        rate: Requests per second.
        burst: Size of the bucket: requests admitted at once after a pause. Default: the requests of one second.
        tells: Whether a throttled request has `Retry-After`.
    """

    rate: float
    burst: float | None = None
    tells: bool = False

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
        tells: Whether a throttled request has `Retry-After`.
    """

    count: int
    seconds: float = 60.0
    tells: bool = False

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
    """A maximum of requests in flight; it tells nothing."""

    count: int
    tells: bool = False

    def gate(self) -> Gate:
        return lambda _, in_flight: 1.0 if in_flight >= self.count else 0.0


class Limit(Protocol):
    """A limit of requests."""

    @property
    def tells(self) -> bool: ...

    def gate(self) -> Gate: ...


class Limiter:
    """All limits of one service, in order: a request refused by a later one still counts for the earlier ones."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = {limit.gate(): limit for limit in limits}
        self._in_flight = Counter[Gate]()

    @contextmanager
    def admit(self, now: float) -> Generator[dict[str, str] | None]:
        """Hold the admission of one request during the block; yield the headers of a refusal, or None."""
        admitted: list[Gate] = []
        refusal: dict[str, str] | None = None
        for gate, limit in self._limits.items():
            if seconds := gate(now, self._in_flight[gate]):
                refusal = {"retry-after": str(math.ceil(seconds))} if limit.tells else {}
                break
            admitted.append(gate)
        self._in_flight.update(admitted)
        try:
            yield refusal
        finally:
            self._in_flight.subtract(admitted)


class LimitedService(FakeService):
    """A fake service with *limits* of requests, counted in flight; a refused one gets `assumptions.throttled`."""

    def __init__(self, *, limits: Iterable[Limit] = (), **options: Any) -> None:
        super().__init__(**options)
        self._limiter, self.in_flight = Limiter(limits), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.in_flight += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.in_flight -= 1

    @contextmanager
    def admit(self, started_at: float) -> Generator[Reply | None]:
        reply = self.assumptions.throttled
        with self._limiter.admit(started_at) as refusal:
            yield None if refusal is None else attrs.evolve(reply, headers={**reply.headers, **refusal})
