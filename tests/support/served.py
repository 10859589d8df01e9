"""Clients of one key before a hidden limit, with the real limiter on a loop of its own: who is served, at what cost."""

import asyncio
import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

from attrs import define, field, frozen

from payclient.client.policies import Limiter, Priority, Retries, RetryPolicy, Signal, classify
from payclient.errors import OverloadedError, RateLimitedError, ServiceError
from support.limits import Refuse, at_once, bucket, nothing, window

EARLY = 20.0
"""Seconds that are counted apart."""
_REFUSED_IN = 0.02
_TIMEOUT = 3.0  # seconds of an attempt
_BY_HAND = 10  # workers of a stream that people write
_ROWS = 64  # of a stream at once

Make = Callable[[Callable[[], float]], Limiter]
Latency = Callable[[random.Random], float]


class ModelLoop(asyncio.AbstractEventLoop):
    """Timers and tasks on virtual time, and nothing else: several times as fast as a loop with a selector."""

    def __init__(self) -> None:
        self._now, self._ready, self._timers, self._numbers = 0.0, deque(), [], itertools.count()

    def time(self):
        return self._now

    def get_debug(self):
        return False

    def is_running(self):
        return True

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, coroutine, **_):
        return asyncio.Task(coroutine, loop=self)

    def call_soon(self, callback, *arguments, context=None):
        handle = asyncio.Handle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when, callback, *arguments, context=None):
        handle = asyncio.Handle(callback, arguments, self, context)
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(self, delay, callback, *arguments, context=None):
        return self.call_at(self._now + delay, callback, *arguments, context=context)

    def call_exception_handler(self, context):
        if "exception" in context:  # else a task has been left under way
            raise context["exception"]

    def run_for(self, seconds):
        """Run until so many seconds have passed on its clock, and leave what is under way."""
        ready, timers = self._ready, self._timers
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while True:
                while ready:
                    handle = ready.popleft()
                    if not handle.cancelled():
                        handle._run()
                if not timers or timers[0][0] > seconds:
                    return
                self._now, _, handle = heappop(timers)
                ready.append(handle)
        finally:
            asyncio._set_running_loop(before)


def lognormal(median: float) -> Latency:
    return lambda chance: median * math.exp(chance.gauss(0, 0.4))


@frozen
class Limit:
    """
    A hidden limit.

    Attributes:
        capacity: Answers a second that it allows; where it limits nothing, what visitors are counted by.
        make: Makes it, from a source of chance.
        of_flight: The share answered, where a stream is bounded by its number in flight only; 0 for a limit.
        failing: From and until when nothing is answered, and whether that is silence.
    """

    capacity: float
    make: Callable[[random.Random], Refuse]
    latency: Latency = lambda chance: 0.15 * math.exp(chance.gauss(0, 0.4))
    status: int = 429
    of_flight: float = 0.0
    failing: tuple[float, float, bool] | None = None


def share(part: float, chance: random.Random, also: Refuse = nothing) -> Refuse:
    return lambda at, flying: 0.0 if chance.random() < part else also(at, flying)


def counting(count: int, seconds: float) -> Refuse:
    """Refuse while more than *count* requests have come in the last *seconds*, those refused included."""
    came: deque[float] = deque()

    def refuse(at: float, _: int) -> float | None:
        came.append(at)
        while came[0] <= at - seconds:
            came.popleft()
        return 0.0 if len(came) > count else None

    return refuse


def stepping(rates: dict[float, float]) -> Refuse:
    """A bucket of burst 10, with another rate from each time on."""
    made = [(since, bucket(rate, 10)) for since, rate in rates.items()]
    return lambda at, flying: next(refuse for since, refuse in reversed(made) if at >= since)(at, flying)


LIMITS = {
    "20 a second, told": Limit(20, lambda _: window(20, 1, is_told=True)),
    "20 a second": Limit(20, lambda _: window(20, 1, is_told=False)),
    "100 in 5 s": Limit(20, lambda _: window(100, 5, is_told=False)),
    "600 a minute, told": Limit(10, lambda _: window(600, 60, is_told=True)),
    "600 a minute": Limit(10, lambda _: window(600, 60, is_told=False)),
    "bucket 20/s": Limit(20, lambda _: bucket(20, 10)),
    "bucket 20/s, slow": Limit(20, lambda _: bucket(20, 10), lognormal(1.2)),
    "bucket 4/s, burst 2": Limit(4, lambda _: bucket(4, 2)),
    "bucket 200/s": Limit(200, lambda _: bucket(200, 50), lognormal(0.03)),
    "no burst 20/s": Limit(20, lambda _: bucket(20, 1)),
    "no burst 20/s, 503": Limit(20, lambda _: bucket(20, 1), status=503),
    "no burst 100/s": Limit(100, lambda _: bucket(100, 1), lognormal(0.03)),
    "counting 20/s": Limit(20, lambda _: counting(20, 1.0)),
    "8 at once": Limit(32, lambda _: at_once(8), lambda _: 0.25, 503),
    "16 at once, slow": Limit(13.3, lambda _: at_once(16), lambda chance: 1.2 * chance.uniform(0.5, 1.5), 503),
    "1 % refused": Limit(40, partial(share, 0.01), of_flight=0.99),
    "5 % refused": Limit(40, partial(share, 0.05), of_flight=0.95),
    "20 % refused": Limit(40, partial(share, 0.2), of_flight=0.8),
    "10 % of bucket 20/s": Limit(20, lambda chance: share(0.1, chance, bucket(20, 10))),
    "limit 20, 8, 30": Limit(20, lambda _: stepping({0: 20, 40: 8, 60: 30})),
    "storm of 429": Limit(20, lambda _: bucket(20, 10), failing=(30, 40, False)),
    "storm of 503": Limit(40, lambda _: nothing, status=503, of_flight=1.0, failing=(30, 40, False)),
    "silence": Limit(40, lambda _: nothing, status=503, of_flight=1.0, failing=(30, 40, True)),
    "none": Limit(40, lambda _: nothing, of_flight=1.0),
}
ASIDE = {
    "50 in 2 s, told": Limit(25, lambda _: window(50, 2, is_told=True)),
    "120 a minute": Limit(2, lambda _: window(120, 60, is_told=False)),
    "bucket 60/s, burst 5": Limit(60, lambda _: bucket(60, 5), lognormal(0.4)),
    "no burst 40/s, 503": Limit(40, lambda _: bucket(40, 1), lognormal(0.1), 503),
    "counting 50/s": Limit(50, lambda _: counting(50, 1.0)),
    "12 at once": Limit(30, lambda _: at_once(12), lambda chance: 0.4 * chance.uniform(0.5, 1.5)),
    "3 % refused": Limit(40, partial(share, 0.03), of_flight=0.97),
    "12 % refused": Limit(40, partial(share, 0.12), of_flight=0.88),
    "limit 30, 60, 15": Limit(30, lambda _: stepping({0: 30, 35: 60, 55: 15})),
}
"""Limits that nothing was tuned on."""


@frozen
class Situation:
    """
    Who comes, before which limit.

    Attributes:
        load: Visitors, in multiples of the limit.
        streams: `each`: every client has one beside its visitors; `apart`: one more client has one; or `none`.
        idle: Seconds of silence between 10 s of visitors and a burst of them, and again; 0: they come all the time.
    """

    limit: str
    clients: int
    load: float
    deadline: float
    streams: str = "none"
    idle: float = 0.0

    def __str__(self) -> str:
        who = f"{self.load:.0%} in {self.deadline:g} s" if self.load else ""
        also = {"none": "", "each": " + streams", "apart": " + a stream apart"}[self.streams]
        idle = f", idle {self.idle:g} s" if self.idle else ""
        return f"{self.limit} · {self.clients} × {who}{also}{idle}"  # noqa: RUF001  a number of clients


@define(slots=False)
class Play:
    """One situation, played: *make* makes the limiter of each client; without, people write it by hand."""

    situation: Situation
    seconds: float
    seed: int
    make: Make | None = None
    loop: ModelLoop = field(factory=ModelLoop)
    count: Counter[str] = field(factory=Counter)
    flying: int = 0
    attempts_after: list[float] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.limit = (LIMITS | ASIDE)[self.situation.limit]
        self.came, self.service, self.own = (random.Random(f"{who} {self.seed}") for who in ("came", "service", "own"))
        self.refuse = self.limit.make(self.service)
        count = self.situation.clients + (self.situation.streams == "apart")
        self.limiters = [self.make(self.own.random) for _ in range(count)] if self.make else [None] * count
        self.rows, self.answers = [0] * count, [0] * count

    def run(self) -> "Play":
        situation, loop = self.situation, self.loop
        if situation.load and situation.idle:
            loop.call_soon(loop.create_task, self._bursts())
        elif situation.load:
            loop.call_soon(self._arrive)
        streaming = {"none": (), "each": range(situation.clients), "apart": (situation.clients,)}[situation.streams]
        for client, _ in itertools.product(streaming, range(_ROWS if self.make else _BY_HAND)):
            loop.call_soon(loop.create_task, self._row(client))
        loop.run_for(self.seconds)
        return self

    def _arrive(self) -> None:
        self._come()
        self.loop.call_later(self.came.expovariate(self.situation.load * self.limit.capacity), self._arrive)

    def _come(self) -> None:
        began, until = self.loop.time(), self.loop.time() + self.situation.deadline
        visitor = self.loop.create_task(self._visit(self.came.randrange(self.situation.clients), began, until))
        self.loop.call_at(until, visitor.cancel)

    async def _bursts(self) -> None:
        """Let a burst come that can be answered within half of the deadline; and again, after idle times."""
        situation = self.situation
        while True:
            for _ in range(int(situation.load * self.limit.capacity * situation.deadline)):
                self._come()
            await self._sleep(2 * situation.deadline)
            for _ in range(20):
                self._come()
                await self._sleep(0.5)
            await self._sleep(situation.idle)

    def _sleep(self, seconds: float) -> asyncio.Future[None]:
        future = self.loop.create_future()
        self.loop.call_later(seconds, lambda: future.done() or future.set_result(None))
        return future

    def _is_early(self, at: float) -> str:
        return "early " if at < EARLY and not self.situation.idle else ""

    async def _ask(self) -> tuple[bool, float | None]:
        """Send one request; return whether it is answered, and the seconds of a Retry-After."""
        at, failing, why = self.loop.time(), self.limit.failing, None
        early = self._is_early(at)
        self.flying += 1
        self.count[f"{early}sent"] += 1
        if failing and at >= failing[1]:
            self.attempts_after = self.attempts_after or [at - failing[1]]
        try:
            is_failing = failing is not None and failing[0] <= at < failing[1]
            why = 0.0 if is_failing else self.refuse(at, self.flying - 1)
            if why is not None:
                self.count[f"{early}refused"] += 1
            wait = _REFUSED_IN if why is not None else self.limit.latency(self.service)
            await self._sleep(_TIMEOUT if failing and is_failing and failing[2] else wait)
        finally:
            self.flying -= 1
        self.count[f"{early}good"] += why is None
        return why is None, why or None

    async def _visit(self, client: int, began: float, until: float) -> None:
        is_counted, early = until <= self.seconds, self._is_early(began)
        self.count[f"{early}came"] += is_counted
        if await self._look_up(client, Priority.AWAITED, until) and is_counted:
            self.count[f"{early}answered"] += 1
            self.answers[client] += 1

    async def _row(self, client: int) -> None:
        while True:
            if await self._look_up(client, Priority.BULK, math.inf):
                self.count[f"{self._is_early(self.loop.time())}rows"] += 1
                self.rows[client] += self.loop.time() >= EARLY
            else:
                await self._sleep(5.0 * self.own.uniform(0.5, 1.5))

    async def _look_up(self, client: int, priority: Priority, until: float) -> bool:
        limiter = self.limiters[client]
        if limiter is None:
            return await self._by_hand()
        try:
            return await self._by_client(limiter, priority, until)
        except OverloadedError:
            self.count["told"] += 1
            return False

    async def _by_hand(self) -> bool:
        backoff = 0.5
        while True:
            is_answered, told = await self._ask()
            if is_answered:
                return True
            await self._sleep(told * self.own.uniform(1, 1.5) if told else backoff * self.own.uniform(0.5, 1.5))
            backoff = min(8.0, 2 * backoff)

    async def _by_client(self, limiter: Limiter, priority: Priority, until: float) -> bool:
        """Look up as the client does, with its limiter and its retries."""
        loop, retries, began = self.loop, Retries(RetryPolicy(), self.own.random), self.loop.time()
        for number in itertools.count():
            if (pause := limiter.paused_seconds()) and pause > until - loop.time():
                return False
            ticket = limiter.acquire_now(priority)
            if ticket is None:
                ticket = await limiter.acquire(priority, began_at=began, until=until, is_again=number > 0)
            signal, told = Signal.SILENT, None
            try:
                is_answered, told = await self._ask()
                kind = RateLimitedError if self.limit.status == 429 else ServiceError
                error = kind("refused", status_code=self.limit.status, asked_pause=told)
                signal = Signal.ACCEPTED if is_answered else classify(error).signal
            finally:
                limiter.release(ticket, signal, pause=told or 0.0, now=loop.time())
            if is_answered:
                return True
            if (delay := retries.delay(classify(error))) is None:
                return False
            if wait := max(delay, retries.own_wait(error)):
                await self._sleep(wait)
        raise AssertionError("an endless loop has ended")


def limiter(chance: Callable[[], float]) -> Limiter:
    return Limiter(max_concurrency=_ROWS, random=chance)
