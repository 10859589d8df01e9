"""Eight threads, each with an event loop and a client of its own: nothing that they share may belong to one of them."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from payclient import AsyncClient, Found
from payclient.testing import FakeService, serve
from support.fakes import KEY
from support.in_thread import serving

THREADS = 8
LOOKUPS = 40


@pytest.mark.parametrize("transport", ["httpx", "fast"])
def test_eight_threads(transport):
    """Each thread gets the answers to its own lookups and streams, and leaves nothing in flight."""
    service, urls = FakeService(api_key=KEY), []
    rows = [service.add(amount=1000 + number) for number in range(THREADS * LOOKUPS)]
    expected = {row["reference"]: row["amount"] for row in rows}
    start = threading.Barrier(THREADS)

    @asynccontextmanager
    async def served():
        async with serve(service) as url:
            urls.append(url)
            yield

    async def looked_up(references):
        start.wait(60)
        async with asyncio.timeout(60), AsyncClient(api_key=KEY, base_url=urls[0], transport=transport) as client:
            found = await asyncio.gather(*map(client.get_transaction, references))
            async with client.stream_transactions(references) as outcomes:
                streamed = [outcome.transaction async for outcome in outcomes if isinstance(outcome, Found)]
            return [*found, *streamed], client.stats.in_flight

    references = list(expected)
    parts = [references[number::THREADS] for number in range(THREADS)]
    with serving(served()), ThreadPoolExecutor(THREADS) as threads:
        results = list(threads.map(lambda part: asyncio.run(looked_up(part)), parts))
    for part, (transactions, in_flight) in zip(parts, results, strict=True):
        assert {each.reference: each.amount for each in transactions} == {each: expected[each] for each in part}
        assert (len(transactions), in_flight) == (2 * LOOKUPS, 0)
