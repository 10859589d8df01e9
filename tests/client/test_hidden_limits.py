"""The whole client against limits that nobody documented, on virtual time."""

import asyncio
import itertools
import random

import pytest

from payclient import Found
from support.fakes import ScriptedTransport, client, now
from support.limits import at_once, bucket, window

pytestmark = pytest.mark.virtual_time

LOOKUPS = 5_000


def service(refuse, seed):
    """Return a transport to a service of 50 to 150 ms that refuses what is beyond its limit."""
    chance = random.Random(seed)
    return ScriptedTransport(latency=lambda: chance.uniform(0.05, 0.15), refuse=refuse)


def rate_of(answered_at, begins, ends):
    return sum(begins < at <= ends for at in answered_at) / (ends - begins)


async def answers(pay, until):
    """Return when each lookup of an endless stream is answered."""
    answered_at = []
    async with pay.stream_transactions(f"T{n}" for n in itertools.count()) as outcomes:
        async for _ in outcomes:
            answered_at.append(now())
            if now() > until:
                break
    return answered_at


# The ideal time is that of a client which knows the limit and uses every request it is allowed.
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.parametrize(
    ("make", "ideal"),
    [
        pytest.param(lambda: bucket(50), LOOKUPS / 50, id="50-a-second"),
        pytest.param(lambda: bucket(50, is_told=True), LOOKUPS / 50, id="50-a-second-told", marks=pytest.mark.slow),
        pytest.param(lambda: window(600), LOOKUPS // 600 * 60, id="600-a-minute"),
        pytest.param(
            lambda: window(600, is_told=True), LOOKUPS // 600 * 60, id="600-a-minute-told", marks=pytest.mark.slow
        ),
        pytest.param(lambda: at_once(10), LOOKUPS / 10 * 0.1, id="10-at-once"),
        # It takes a fifth longer, because at first it looks like a limit of one at once.
        pytest.param(lambda: bucket(50, 1), 1.2 * LOOKUPS / 50, id="50-a-second-without-burst"),
    ],
)
async def test_hidden_limit(make, ideal, seed):
    """All lookups are answered, with at most 1.08 requests per answer, in at most 1.10 times the ideal time."""
    loop, transport = asyncio.get_running_loop(), service(make(), seed)
    random.seed(seed)
    async with client(transport) as pay:
        async with pay.stream_transactions(f"T{n}" for n in range(LOOKUPS)) as outcomes:
            found = [outcome async for outcome in outcomes if isinstance(outcome, Found)]
    requests = len(transport.sent) / LOOKUPS
    figures = f"seed {seed}: {requests:.3f} requests per answer, {loop.time():.1f} s of {ideal:.1f}"
    assert len(found) == LOOKUPS, figures
    assert requests <= 1.08, figures
    assert 0.8 * ideal <= loop.time() <= 1.10 * ideal, figures


async def test_doubled_limit_is_found():
    """When the service doubles its limit, 90 % of the new limit are used within 30 seconds."""
    random.seed(1)
    transport = service(bucket(50, 10), 1)
    asyncio.get_running_loop().call_at(30.0, setattr, transport, "refuse", bucket(100, 10))
    async with client(transport) as pay:
        answered_at = await answers(pay, 80.0)
    assert rate_of(answered_at, 20.0, 30.0) < 55
    assert rate_of(answered_at, 60.0, 80.0) > 90


async def test_clients_share_fairly():
    """Ten clients that share a limit get similar shares, and waste less than 10 % of it; six times, on average."""
    found = []
    for seed in range(1, 7):
        random.seed(seed)
        transport, ends_at = service(bucket(50, 10), seed), now() + 90.0
        each = await asyncio.gather(*(answers(client(transport), ends_at) for _ in range(10)))
        shares = [len(answered) for answered in each]
        found.append(sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares)))  # Jain's index
        assert len(transport.sent) / sum(shares) < 1.1, f"seed {seed}"
    assert sum(found) / len(found) >= 0.9, found
