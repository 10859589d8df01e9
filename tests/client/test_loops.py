"""Real event loops, without virtual time: gaps shorter than the milliseconds in which uvloop counts, over sockets."""

import asyncio

import pytest

from payclient import AsyncClient, Found
from payclient.testing import FakeService, serve
from support.fakes import KEY


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
