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
from typing import Any

from attrs import define, field, frozen

from payclient.policies._limiter import Limiter, Ticket
from payclient.policies._retry import Signal


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


@define
class Distant:
    """A service that a request reaches after a while only, so that requests arrive less evenly than they were sent."""

    service: Service
    way: Latency

    async def __call__(self) -> Answer:
        await self.way.pass_by()
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


# Many workers with one key.


@define
class Worker:
    """A client with endless work, which asks as soon as its limiter lets it, until it leaves."""

    limiter: Limiter
    service: Service
    has_left: bool = False
    accepted_at: list[float] = field(factory=list)
    refused_at: list[float] = field(factory=list)

    async def work(self, until: float) -> None:
        async with asyncio.TaskGroup() as attempts:
            while not self.has_left and now() < until:
                attempts.create_task(self._attempt(await self.limiter.acquire()))

    async def _attempt(self, ticket: Ticket) -> None:
        answer = await self.service()
        (self.accepted_at if answer.signal is Signal.ACCEPTED else self.refused_at).append(now())
        self.limiter.release(ticket, answer.signal, retry_after=answer.retry_after)


@frozen
class Sharing:
    """
    What many workers made of one limit.

    Attributes:
        rate: Requests per second that the limit allows.
    """

    workers: list[Worker]
    rate: float

    def used(self, begins: float, ends: float) -> float:
        """Return the share of what the limit allows that was accepted between two times."""
        return sum(self._accepted(begins, ends)) / (ends - begins) / self.rate

    def refused(self, begins: float, ends: float) -> float:
        """Return the share of the answers between two times that were refusals."""
        refused = sum(_count(worker.refused_at, begins, ends) for worker in self.workers)
        return refused / (refused + sum(self._accepted(begins, ends)))

    def fairness(self, begins: float, ends: float) -> float:
        """Return Jain's index of what the workers got: 1 for equal shares, 1/n where one of n has all."""
        shares = self._accepted(begins, ends)
        return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))

    def seconds_until_used(self, since: float, until: float, *, share: float = 0.9) -> float:
        """Return how long after *since* five seconds begin in which so much is used; infinity if none do."""
        for second in range(int(until - since) - 4):
            if self.used(since + second, since + second + 5) >= share:
                return second
        return math.inf

    def _accepted(self, begins: float, ends: float) -> list[int]:
        return [_count(worker.accepted_at, begins, ends) for worker in self.workers]


def _count(times: list[float], begins: float, ends: float) -> int:
    return bisect_right(times, ends) - bisect_right(times, begins)


async def share_key(
    service: Service,
    rate: float,
    *,
    count: int,
    seed: object,
    until: float,
    half_leaves_at: float = math.inf,
    rest_is_told_at: float = math.inf,
    **options: Any,
) -> Sharing:
    """Let *count* workers, whose limiters have *options*, ask one service; half may leave, and the rest be told so."""
    chances = [random.Random(f"worker {seed} {number}").random for number in range(count)]
    crowd = [Worker(Limiter(max_concurrency=256, random=chance, **options), service) for chance in chances]
    loop, half = asyncio.get_running_loop(), count // 2
    for worker in crowd[:half]:
        _at(loop, half_leaves_at, setattr, worker, "has_left", True)
    for worker in crowd[half:]:
        _at(loop, rest_is_told_at, worker.limiter.share, options.get("max_rate"), count - half)
    await asyncio.gather(*(worker.work(until) for worker in crowd))
    return Sharing(crowd, rate)


def _at(loop: asyncio.AbstractEventLoop, when: float, function: Callable[..., object], *arguments: object) -> None:
    if when < math.inf:
        loop.call_at(when, function, *arguments)


def limits_of(rate: int, seed: object) -> dict[str, Service]:
    """Return four services 50 to 150 ms away and back; each allows *rate* requests per second in its own way."""
    way = Latency(0.025, 0.075, random.Random(f"way {seed}"))
    work = Latency(0.05, 0.15, random.Random(f"work {seed}"))
    near = Latency(0.0, 0.001, random.Random(f"near {seed}"))
    return {
        "token bucket": Distant(TokenBucket(way, rate=rate, burst=rate / 10), way),
        "fixed window": Distant(FixedWindow(way, count=rate, seconds=1.0), way),
        "sliding window": Distant(SlidingWindow(way, count=rate, seconds=1.0), way),
        "cap on concurrency": Distant(ConcurrencyCap(work, cap=rate // 10), near),
    }
