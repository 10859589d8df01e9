"""The whole client against limits that nobody documented, on virtual time."""

import asyncio
import json
import random

import pytest

from payclient import Found
from payclient.testing import ConcurrencyLimit, FixedWindow, RetryAfter, TokenBucket
from payclient.testing._limits import Limiter
from support.fakes import answer, client, document

LOOKUPS = 5_000


class LimitedTransport:
    """A service of 50 to 150 ms that refuses what is beyond its limit."""

    def __init__(self, limit, seed):
        self.limiter = Limiter([limit])
        self.random = random.Random(seed)
        self.requests = 0

    async def send(self, request):
        self.requests += 1
        with self.limiter.admit(asyncio.get_running_loop().time()) as refusal:
            await asyncio.sleep(0.05 + 0.1 * self.random.random())
            if refusal is None:
                return answer(document(json.loads(request.body)["reference"]))
            headers = refusal.limit.retry_after.headers(refusal.seconds, None)
            return answer(b"slow down", 429, **{"retry_after": headers["retry-after"]} if headers else {})

    async def aclose(self):
        pass


# The ideal time is that of a client which knows the limit and uses every request it is allowed.
@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.parametrize(
    ("limit", "ideal"),
    [
        pytest.param(TokenBucket(rate=50), LOOKUPS / 50, id="50-a-second"),
        pytest.param(
            TokenBucket(rate=50, retry_after=RetryAfter.SECONDS),
            LOOKUPS / 50,
            id="50-a-second-told",
            marks=pytest.mark.slow,
        ),
        pytest.param(FixedWindow(count=600), LOOKUPS // 600 * 60, id="600-a-minute"),
        pytest.param(
            FixedWindow(count=600, retry_after=RetryAfter.SECONDS),
            LOOKUPS // 600 * 60,
            id="600-a-minute-told",
            marks=pytest.mark.slow,
        ),
        pytest.param(ConcurrencyLimit(count=10), LOOKUPS / 10 * 0.1, id="10-at-once"),
    ],
)
async def test_hidden_limit(limit, ideal, seed):
    """All lookups are answered, with at most 1.05 requests per answer, in at most 1.10 times the ideal time."""
    loop, transport = asyncio.get_running_loop(), LimitedTransport(limit, seed)
    random.seed(seed)
    async with client(transport) as pay:
        async with pay.stream_transactions(f"T{n}" for n in range(LOOKUPS)) as outcomes:
            found = [outcome async for outcome in outcomes if isinstance(outcome, Found)]
    figures = f"seed {seed}: {transport.requests / LOOKUPS:.3f} requests per answer, {loop.time():.1f} s of {ideal:.1f}"
    print(figures)
    assert len(found) == LOOKUPS, figures
    assert transport.requests <= 1.05 * LOOKUPS, figures
    assert loop.time() <= 1.10 * ideal, figures
