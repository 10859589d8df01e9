"""Both event loops over sockets, and in real time gaps shorter than the milliseconds in which uvloop counts."""

import asyncio
import random

import pytest

from payclient import AsyncClient, Found, Transaction
from payclient.testing import FakeService, serve
from support.fakes import KEY
from support.limits import LimitedService, bucket


@pytest.mark.every_loop
async def test_short_gaps():
    """With a gap of half a millisecond between attempts, every lookup is answered, and every row of a stream."""
    service = FakeService(api_key=KEY)
    references = [service.add()["reference"] for _ in range(500)]
    async with serve(service) as url, AsyncClient(api_key=KEY, base_url=url, max_rate=2000, deadline=120) as pay:
        async with asyncio.timeout(120):
            found = await asyncio.gather(*map(pay.get_transaction, references[:20]))
            async with pay.stream_transactions(references) as outcomes:
                streamed = [isinstance(outcome, Found) async for outcome in outcomes]
        assert (len(found), streamed.count(True), pay.stats.in_flight) == (20, 500, 0)


@pytest.mark.every_loop
@pytest.mark.virtual_time
@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_visitors(transport):
    """Of visitors who come at random, at 90 % of a limit that the service does not tell, nearly all are answered."""
    chance, loop, tasks, at = random.Random(1), asyncio.get_running_loop(), [], 0.0
    service = LimitedService(api_key=KEY, refuse=bucket(20, 5))
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
