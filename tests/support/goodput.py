"""Visitors with little time before a service with a hidden limit, on virtual time: how many are answered."""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from typing import Any

from attrs import define, field, frozen

from payclient import PayClientError, RetryPolicy
from payclient.protocol import Request, Response
from support.fakes import answer, client, document, now, throttled
from support.limits import Refuse, at_once, bucket, nothing, window
from support.virtual_time import VirtualTimeLoop

DEADLINE = 5.0
_BUSY = answer(b'{"success": false, "message": "too many at once"}', 503)


@define
class Service:
    """A transport to a service that refuses at once, and answers after a while; it counts both."""

    refuse: Refuse
    latency: Callable[[], float]
    refusal: Callable[[float | None], Any] = throttled
    refused_in: float = 0.02  # seconds
    in_flight: int = 0
    sent_at: list[float] = field(factory=list)
    refused_at: list[float] = field(factory=list)

    async def send(self, request: Request) -> Response:
        return await self.ask(request.body.decode().split('"')[3])

    async def ask(self, reference: str) -> Response:
        self.in_flight += 1
        self.sent_at.append(now())
        try:
            seconds = self.refuse(now(), self.in_flight - 1)
            if seconds is None:
                return await self.work(reference)
            self.refused_at.append(now())
            await asyncio.sleep(self.refused_in)
            return self.refusal(seconds or None)
        finally:
            self.in_flight -= 1

    async def work(self, reference: str) -> Response:
        """Answer a request that the limit admits."""
        await asyncio.sleep(self.latency())
        return answer(document(reference))

    async def aclose(self) -> None:
        """Nothing is open."""


@frozen(kw_only=True)
class Situation:
    """A hidden limit, or none, and what it allows per second."""

    name: str
    capacity: float
    refuse: Callable[[], Refuse] = lambda: nothing
    latency: Callable[[random.Random], Callable[[], float]] = lambda chance: lambda: math.exp(chance.gauss(-1.9, 0.4))
    refusal: Callable[[float | None], Any] = throttled


SITUATIONS = (
    Situation(name="20 in each second, Retry-After: 1", capacity=20, refuse=lambda: window(20, 1.0, is_told=True)),
    Situation(name="20 in each second, no header", capacity=20, refuse=lambda: window(20, 1.0, is_told=False)),
    Situation(name="a bucket of 20 a second, burst 10", capacity=20, refuse=lambda: bucket(20, 10)),
    Situation(
        name="600 in each minute, Retry-After to its end", capacity=10, refuse=lambda: window(600, 60, is_told=True)
    ),
    Situation(name="600 in each minute, no header", capacity=10, refuse=lambda: window(600, 60, is_told=False)),
    Situation(
        name="8 at once of 0.25 s, 503 above",
        capacity=32,
        refuse=lambda: at_once(8),
        latency=lambda _: lambda: 0.25,
        refusal=lambda _: _BUSY,
    ),
)


@define
class Played:
    """What became of the visitors that were counted, and of all requests."""

    came_at: list[float] = field(factory=list)
    answered_in: list[float | None] = field(factory=list)
    ended_in: list[float] = field(factory=list)
    errors: Counter[str] = field(factory=Counter)
    requests: int = 0
    refused: int = 0

    def answered(self, since: float, until: float = math.inf) -> float:
        """Return the share of the visitors answered that came between two times."""
        each = [
            took is not None for at, took in zip(self.came_at, self.answered_in, strict=True) if since <= at < until
        ]
        return sum(each) / len(each)

    @property
    def refused_share(self) -> float:
        return self.refused / max(1, self.requests)


async def by_hand(service: Service, reference: str, chance: random.Random) -> None:
    """Ask as people write it: wait as told, or 0.5 s, 1 s … with jitter, until the time is over."""
    backoff = 0.5
    while True:
        response = await service.ask(reference)
        if response.status_code == 200:
            return
        told = response.headers.get("retry-after")
        await asyncio.sleep(float(told) if told else backoff * chance.uniform(0.5, 1.5))
        backoff *= 2


async def visit(
    service: Service,
    load: float,
    *,
    seconds: float,
    seed: object,
    clients: int = 1,
    is_by_hand: bool = False,
    deadline: float = DEADLINE,
    is_even: bool = False,
    **options: Any,
) -> Played:
    """Let *load* visitors a second come for *seconds*, to one of *clients* by chance, or each by hand."""
    chance, played = random.Random(f"visitors {seed}"), Played()
    began = now()

    async def come(number: int, pay: Any) -> None:
        at = now()
        took = None
        try:
            async with asyncio.timeout(deadline):
                await (by_hand(service, f"T{number}", chance) if is_by_hand else pay.get_transaction(f"T{number}"))
            took = now() - at
        except (PayClientError, TimeoutError) as error:
            played.errors[type(error).__name__] += 1
        played.came_at.append(at - began)
        played.answered_in.append(took)
        played.ended_in.append(now() - at)

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        random.seed(f"client {seed}")
        pays = [
            await stack.enter_async_context(client(service, retry=RetryPolicy(), deadline=deadline, **options))
            for _ in range(clients)
        ]
        number = 0
        while now() - began < seconds:
            await asyncio.sleep(1 / load if is_even else chance.expovariate(load))
            number += 1
            tasks.create_task(come(number, chance.choice(pays)))
    played.requests, played.refused = len(service.sent_at), len(service.refused_at)
    return played


async def play(
    situation: Situation, load: float, *, seconds: float, seed: object, clients: int = 1, is_by_hand: bool = False
) -> Played:
    """Let visitors come at *load* times what the limit of *situation* allows."""
    service = Service(
        situation.refuse(), situation.latency(random.Random(f"service {seed}")), refusal=situation.refusal
    )
    rate = load * situation.capacity
    return await visit(service, rate, seconds=seconds, seed=seed, clients=clients, is_by_hand=is_by_hand)


def run(make: Callable[[], Any]) -> Any:
    with closing(VirtualTimeLoop()) as loop:
        return loop.run_until_complete(make())
