"""Real event loops, without virtual time: gaps shorter than the milliseconds in which uvloop counts, over sockets."""

import asyncio
import random

import pytest

from payclient import AsyncClient, Found, Transaction
from payclient.testing import serve
from support.fakes import KEY
from support.limits import LimitedService, TokenBucket

pytestmark = pytest.mark.every_loop


async def asked(lookups, *, limits=(), max_rate=None, is_streamed=False):
    """Return how many lookups were answered, and what is in flight at the end."""
    service = LimitedService(api_key=KEY, limits=limits)
    references = [service.add()["reference"] for _ in range(lookups)]
    async with serve(service) as url, AsyncClient(api_key=KEY, base_url=url, max_rate=max_rate, deadline=120) as pay:
        async with asyncio.timeout(120):
            if is_streamed:
                async with pay.stream_transactions(references) as outcomes:
                    answered = [isinstance(outcome, Found) async for outcome in outcomes]
            else:
                found = await asyncio.gather(*map(pay.get_transaction, references), return_exceptions=True)
                answered = [not isinstance(each, BaseException) for each in found]
        return answered.count(True), pay.stats.in_flight


async def test_short_gaps():
    """With a gap of half a millisecond between attempts, every lookup is answered."""
    assert await asked(20, max_rate=2000) == (20, 0)


async def test_stream():
    """A stream of 500 at that rate has an outcome for each."""
    assert await asked(500, max_rate=2000, is_streamed=True) == (500, 0)


@pytest.mark.slow
async def test_hidden_limit():
    """Against a service that refuses what is above 200 a second, every lookup of a burst is answered."""
    assert await asked(3_000, limits=[TokenBucket(rate=200)]) == (3_000, 0)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_visitors(transport):
    """Of visitors who come at random, at 90 % of a limit that the service does not tell, nearly all are answered."""
    chance, loop, tasks, at = random.Random(1), asyncio.get_running_loop(), [], 0.0
    service = LimitedService(api_key=KEY, limits=[TokenBucket(rate=20, burst=5)])
    references = [service.add()["reference"] for _ in range(180)]
    async with serve(service) as url, AsyncClient(api_key=KEY, base_url=url, deadline=5.0, transport=transport) as pay:
        for reference in references:
            at += chance.expovariate(18)
            loop.call_later(at, lambda ref=reference: tasks.append(loop.create_task(pay.get_transaction(ref))))
        all_came = loop.create_future()
        loop.call_later(at + 0.1, all_came.set_result, None)
        await all_came
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        throttled = pay.stats.throttled
    assert sum(isinstance(answer, Transaction) for answer in answers) >= 0.92 * len(references)
    assert 0 < throttled <= 0.05 * len(references)
