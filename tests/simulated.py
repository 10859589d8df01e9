"""Services that hide their limits, and clients that run into them, on the event loop's clock.

Nothing here knows the time or chance of its own: run it on a loop whose clock jumps, with a seed.
"""

from __future__ import annotations

import asyncio
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable

from attrs import define, field, frozen

from payclient._limiter import Limiter
from payclient._signal import Signal


@frozen
class Answer:
    """What one request got: its meaning for the limiter, and the seconds of `Retry-After`, if any."""

    signal: Signal
    retry_after: float | None = None


Service = Callable[[], Awaitable[Answer]]

ACCEPTED = Answer(Signal.ACCEPTED)
THROTTLED = Answer(Signal.THROTTLED)
OVERLOADED = Answer(Signal.OVERLOADED)


def now() -> float:
    return asyncio.get_running_loop().time()


@define
class Latency:
    """Seconds between a request and its answer, evenly spread over a range."""

    lowest: float
    highest: float
    chance: random.Random

    async def pass_by(self) -> None:
        await asyncio.sleep(self.chance.uniform(self.lowest, self.highest))


@define
class TokenBucket:
    """Accepts `rate` requests per second, and `burst` at once after a rest."""

    latency: Latency
    rate: float
    burst: float
    _tokens: float = field(init=False, default=0.0)
    _filled_at: float = field(init=False, default=0.0)

    async def __call__(self) -> Answer:
        self._tokens = min(self.burst, self._tokens + (now() - self._filled_at) * self.rate)
        self._filled_at = now()
        is_accepted = self._tokens >= 1
        self._tokens -= is_accepted
        await self.latency.pass_by()
        return ACCEPTED if is_accepted else THROTTLED


@define
class FixedWindow:
    """Accepts `count` requests per window of `seconds` on the clock; may tell when the next one opens."""

    latency: Latency
    count: int
    seconds: float
    tells: bool = False
    _window: float = field(init=False, default=-1.0)
    _used: int = field(init=False, default=0)

    async def __call__(self) -> Answer:
        window, elapsed = divmod(now(), self.seconds)
        if window != self._window:
            self._window, self._used = window, 0
        is_accepted = self._used < self.count
        self._used += is_accepted
        await self.latency.pass_by()
        if is_accepted:
            return ACCEPTED
        return Answer(Signal.THROTTLED, retry_after=self.seconds - elapsed) if self.tells else THROTTLED


@define
class SlidingWindow:
    """Accepts `count` requests in any `seconds`."""

    latency: Latency
    count: int
    seconds: float
    _accepted_at: deque[float] = field(init=False, factory=deque)

    async def __call__(self) -> Answer:
        while self._accepted_at and self._accepted_at[0] <= now() - self.seconds:
            self._accepted_at.popleft()
        is_accepted = len(self._accepted_at) < self.count
        if is_accepted:
            self._accepted_at.append(now())
        await self.latency.pass_by()
        return ACCEPTED if is_accepted else THROTTLED


@define
class ConcurrencyCap:
    """Works on `cap` requests at once and refuses more after `refusal` seconds."""

    latency: Latency
    cap: int
    refusal: float = 0.01
    _busy: int = field(init=False, default=0)

    async def __call__(self) -> Answer:
        if self._busy >= self.cap:
            await asyncio.sleep(self.refusal)
            return THROTTLED
        self._busy += 1
        try:
            await self.latency.pass_by()
        finally:
            self._busy -= 1
        return ACCEPTED


@define
class Outage:
    """Answers 500 to everything for a while, and stands before a service that works."""

    service: Service
    latency: Latency
    begins: float
    ends: float

    async def __call__(self) -> Answer:
        if self.begins <= now() < self.ends:
            await self.latency.pass_by()
            return OVERLOADED
        return await self.service()


@frozen
class Run:
    """What a client did: when its lookups were answered, and how many requests that took."""

    answered_at: list[float] = field(factory=list)
    requested_at: list[float] = field(factory=list)

    @property
    def seconds(self) -> float:
        return self.answered_at[-1]

    @property
    def requests_per_success(self) -> float:
        return len(self.requested_at) / len(self.answered_at)

    def rate(self, begins: float, ends: float) -> float:
        """Answers per second between two times."""
        return (bisect_right(self.answered_at, ends) - bisect_right(self.answered_at, begins)) / (ends - begins)


@define
class Client:
    """
    Many workers behind one limiter, doing what a stream does with its references.

    A throttled lookup asks again and loses no attempt; a failed one backs off; one that has used up
    its attempts is deferred to the end.

    Attributes:
        lookups: Left to do; endless with infinity.
        until: No lookup begins after this time.
    """

    limiter: Limiter
    service: Service
    chance: random.Random
    lookups: float = math.inf
    until: float = math.inf
    attempts: int = 4
    run: Run = field(init=False, factory=Run)

    async def look_up_all(self, *, workers: int = 64) -> Run:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work())
        return self.run

    async def _work(self) -> None:
        while self.lookups > 0 and now() < self.until:
            self.lookups -= 1
            if await self._look_up():
                self.run.answered_at.append(now())
            else:
                self.lookups += 1

    async def _look_up(self) -> bool:
        failed = 0
        while failed < self.attempts:
            signal = await self._attempt()
            if signal is Signal.ACCEPTED:
                return True
            if signal is Signal.OVERLOADED:
                failed += 1
                await asyncio.sleep(self.chance.uniform(0, min(30.0, 0.5 * 2**failed)))
        return False

    async def _attempt(self) -> Signal:
        ticket = await self.limiter.acquire()
        self.run.requested_at.append(now())
        answer = await self.service()
        self.limiter.release(ticket, answer.signal, retry_after=answer.retry_after)
        return answer.signal


def make_client(service: Service, *, seed: object, lookups: float = math.inf, until: float = math.inf) -> Client:
    """Make a client whose chance comes from *seed* alone."""
    chance = random.Random(f"client {seed}")
    limiter = Limiter(max_concurrency=64, random=chance.random)
    return Client(limiter, service, chance, lookups=lookups, until=until)
