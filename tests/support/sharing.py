"""Many workers with one key and one hidden limit, on the event loop's clock and with the chance of a seed."""

import asyncio
import math
import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from payclient.client.policies._limiter import Limiter, Priority, Ticket
from payclient.errors import Signal
from support.fakes import now
from support.limits import Refuse, bucket, window


@define
class Service:
    """A service some way off, which takes a while for what it does not refuse."""

    refuse: Refuse
    way: tuple[float, float]  # at least and at most, in seconds
    work: tuple[float, float]
    chance: random.Random
    _busy: int = 0

    async def __call__(self) -> bool:
        await asyncio.sleep(self.chance.uniform(*self.way))
        is_accepted = self.refuse(now(), self._busy) is None
        self._busy += is_accepted
        await asyncio.sleep(self.chance.uniform(*self.work if is_accepted else self.way))
        self._busy -= is_accepted
        return is_accepted


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
                attempts.create_task(self._attempt(await self.limiter.acquire(Priority.BULK)))

    async def _attempt(self, ticket: Ticket) -> None:
        is_accepted = await self.service()
        (self.accepted_at if is_accepted else self.refused_at).append(now())
        self.limiter.release(ticket, Signal.ACCEPTED if is_accepted else Signal.THROTTLED)


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
    """Return services 50 to 150 ms away and back; each allows *rate* requests per second in its own way."""
    chance, way = random.Random(f"service {seed}"), (0.025, 0.075)
    limits = {"token bucket": bucket(rate, rate / 10), "fixed window": window(rate, 1.0)}
    return {name: Service(refuse, way, way, chance) for name, refuse in limits.items()}
