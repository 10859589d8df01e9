"""A day of a shop and of its finance team on one client: visitors, callbacks, waits, a stream, and troubles."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count

from attrs import define, field, frozen

from payclient import AsyncClient, Found, PayClientError, RetryPolicy
from payclient.protocol import Response
from support.fakes import DOWN, answer, client, document, now, throttled
from support.goodput import Service
from support.limits import Refuse, bucket

LIMIT = 20.0
"""Requests a second that the service takes, in bursts of ten."""
_DEADLINE = 5.0
_POISONED = ("P0", "P1")


@frozen
class Trouble:
    """What the service does from one time to another, and whether visitors can be answered meanwhile."""

    name: str
    begins: float
    ends: float
    can_answer: bool


def troubles(scale: float) -> tuple[Trouble, ...]:
    """Return a minute of failures, five minutes of slowness, half a minute of refusals and ten of poison, *scale*d."""
    lengths = {"503": 60.0, "slow": 300.0, "429": 30.0, "poisoned": 600.0}
    made, at = [], 60.0
    for name, seconds in lengths.items():
        made.append(Trouble(name, at, at + seconds * scale, can_answer=name in ("slow", "poisoned")))
        at += seconds * scale + 60.0
    return tuple(made)


@define(kw_only=True)
class TroubledService(Service):
    """A service with a hidden limit that meets *troubles*."""

    refuse: Refuse = field(factory=lambda: bucket(LIMIT, 10))
    refused_in: float = 0.0
    troubles: tuple[Trouble, ...]
    began: float = field(factory=now)

    def trouble(self) -> str:
        at = now() - self.began
        return next((each.name for each in self.troubles if each.begins <= at < each.ends), "")

    async def work(self, reference: str) -> Response:
        trouble = self.trouble()
        if trouble == "503":
            await asyncio.sleep(0.02)
            return DOWN
        if trouble == "429":
            return throttled()
        await asyncio.sleep(1.2 if trouble == "slow" else self.latency())
        if reference in _POISONED and trouble == "poisoned":
            return answer(b'{"success": false, "message": "error"}', 500)
        return answer(document(reference, status="Paid" if reference[0] != "W" else "Pending"))


@define
class Day:
    """What became of visitors and callbacks by the time they came, and of waits by how long they were told nothing."""

    troubles: tuple[Trouble, ...]
    visitors: list[tuple[float, bool]] = field(factory=list)
    waits: list[float] = field(factory=list)  # seconds beyond the deadline
    found: int = 0
    requests: int = 0
    above: int = 0

    def answered(self, since: float, until: float) -> float:
        """Return the share answered of those who came between two times."""
        each = [is_answered for at, is_answered in self.visitors if since <= at < until]
        return sum(each) / len(each)

    def quiet(self) -> Iterator[tuple[float, float]]:
        """Give the times without trouble, each from ten seconds after the last one."""
        since = 10.0
        for trouble in self.troubles:
            yield since, trouble.begins
            since = trouble.ends + 10.0
        yield since, math.inf


@define
class _Shop:
    """All who use one client until the day ends."""

    pay: AsyncClient
    day: Day
    chance: random.Random
    began: float
    ends: float

    async def come(self, rate: float, call: Callable[[int], Awaitable[object]], *, is_counted: bool = True) -> None:
        async with asyncio.TaskGroup() as callers:
            for number in count():
                await asyncio.sleep(self.chance.expovariate(rate))
                if now() - self.began >= self.ends:
                    break
                callers.create_task(self.ask(partial(call, number), is_counted=is_counted))

    async def ask(self, call: Callable[[], Awaitable[object]], *, is_counted: bool) -> None:
        at, is_answered = now() - self.began, True
        try:
            await call()
        except PayClientError:
            is_answered = False
        if is_counted:
            self.day.visitors.append((at, is_answered))

    def visit(self, number: int) -> Awaitable[object]:
        return self.pay.get_transaction(f"V{number}")

    def claim(self, number: int) -> Awaitable[object]:
        return self.pay.confirm(f"C{number}", amount=15000, merchant_reff="INV-1001", status={"Paid"})

    def poison(self, number: int) -> Awaitable[object]:
        return self.pay.get_transaction(_POISONED[number % 2])

    async def waits(self) -> None:
        async with asyncio.TaskGroup() as waiters:
            for number in range(int(self.ends / 20)):
                waiters.create_task(self.wait(number))
                await asyncio.sleep(20.0)

    async def wait(self, number: int) -> None:
        at = now()
        try:
            await self.pay.wait_for(f"W{number}", until={"Paid"}, deadline=90.0)
        except PayClientError:
            self.day.waits.append(now() - at - 90.0)

    async def stream(self, rows: int) -> None:
        async with self.pay.stream_transactions(f"R{number}" for number in range(rows)) as outcomes:
            async for outcome in outcomes:
                self.day.found += isinstance(outcome, Found)


async def play(*, load: float, rows: int, scale: float, seed: int) -> Day:
    """Let visitors come at *load* times the limit, beside all else, until a minute after the last trouble."""
    chance, planned = random.Random(f"day {seed}"), troubles(scale)
    service, day = TroubledService(troubles=planned, latency=lambda: math.exp(chance.gauss(-2.3, 0.4))), Day(planned)
    random.seed(f"client {seed}")
    async with client(service, retry=RetryPolicy(), deadline=_DEADLINE) as pay, asyncio.TaskGroup() as tasks:
        shop = _Shop(pay, day, chance, now(), planned[-1].ends + 60.0)
        tasks.create_task(shop.come(load * LIMIT, shop.visit))
        tasks.create_task(shop.come(0.2, shop.claim))
        tasks.create_task(shop.come(1.0, shop.poison, is_counted=False))
        tasks.create_task(shop.waits())
        tasks.create_task(shop.stream(rows))
    day.requests, day.above = len(service.sent_at), len(service.refused_at)
    return day
