"""Hidden limits of a service: how each refuses, whoever plays the service."""

import math
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs

from payclient.testing import FakeService, Reply

Refuse: TypeAlias = Callable[[float, int], float | None]
"""By the time and the other requests in flight: None for an answer, or the seconds of Retry-After, 0 without one."""


def nothing(_at: float, _others: int) -> None:
    """Refuse no request."""


def bucket(rate: float, burst: float | None = None, *, is_told: bool = False) -> Refuse:
    """Admit *rate* requests a second, and after a pause as many at once as *burst*; by default those of one second."""
    most = max(1.0, rate) if burst is None else burst
    level, filled_at = most, 0.0

    def refuse(at: float, _: int) -> float | None:
        nonlocal level, filled_at
        level, filled_at = min(most, level + (at - filled_at) * rate), at
        # Sums of fractions fall short of a whole request by rounding; a billionth is not a request.
        if level < 1 - 1e-9:
            return math.ceil((1 - level) / rate) if is_told else 0.0
        level -= 1
        return None

    return refuse


def window(count: int, seconds: float = 60.0, *, is_told: bool = False) -> Refuse:
    """Admit *count* requests in each window by the clock; the header names its end, in whole seconds."""
    asked = Counter[int]()

    def refuse(at: float, _: int) -> float | None:
        asked[int(at // seconds)] += 1
        if asked[int(at // seconds)] <= count:
            return None
        return math.ceil(seconds - at % seconds) if is_told else 0.0

    return refuse


def at_once(count: int) -> Refuse:
    """Admit *count* requests in flight."""
    return lambda _, others: 0.0 if others >= count else None


class LimitedService(FakeService):
    """A fake service with a limit, counted in flight; a refused request gets `assumptions.throttled`."""

    def __init__(self, *, refuse: Refuse = nothing, **options: Any) -> None:
        super().__init__(**options)
        self._refuse, self._admitted, self.in_flight = refuse, 0, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.in_flight += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.in_flight -= 1

    @contextmanager
    def admit(self, started_at: float) -> Generator[Reply | None]:
        told = self._refuse(started_at, self._admitted)
        if told is not None:
            reply = self.assumptions.throttled
            yield attrs.evolve(reply, headers={**reply.headers, "retry-after": str(told)} if told else reply.headers)
            return
        self._admitted += 1
        try:
            yield None
        finally:
            self._admitted -= 1
