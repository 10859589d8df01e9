"""A status that alternates with answers is about the load, and one that comes sooner than they do is a limit."""

import asyncio
import random
from collections import Counter

import pytest

from payclient import OutageError, ServiceError
from support.fakes import answer, client, now
from support.goodput import Service
from support.limits import bucket
from support.outages import crowd

pytestmark = pytest.mark.virtual_time


def limited(status, *, sooner):
    """A service with a limit of 20 a second without a burst, for all who share it: beyond it, *status* comes."""
    body = b'{"success": false, "message": "Server error"}'
    return Service(bucket(20, 1), lambda: 0.15, lambda _: answer(body, status), refused_in=0.01 if sooner else 0.2)


async def told(service, *, clients, rate, seconds=60.0):
    """Return how many visitors were told what, and what each attempt came to."""
    ends, attempts, began = Counter(), Counter(), now()

    def observe(attempt):
        attempts[attempt.error] += 1

    async def visited(number):
        await asyncio.sleep(number * 0.0137)
        async with client(service, deadline=5.0, on_attempt=observe) as pay:
            for call in await crowd(pay, rate=rate / clients * (1 + number / 100), until=began + seconds):
                ends[type(call.error)] += call.at > began + 10.0

    await asyncio.gather(*map(visited, range(clients)))
    return ends, attempts


@pytest.mark.parametrize("status", [500, 503])
async def test_limit(status):
    """Four clients before a limit without a burst, which answers as in an outage, are hardly told of an outage."""
    ends, attempts = Counter(), Counter()
    for seed in range(4):  # which visitors are told depends on chance
        random.seed(seed)
        more_ends, more_attempts = await told(limited(status, sooner=True), clients=4, rate=18)
        ends, attempts = ends + more_ends, attempts + more_attempts
    assert ends[OutageError] + ends[ServiceError] <= 0.02 * ends.total()
    assert ends[type(None)] > 0.6 * ends.total()
    assert attempts["RateLimitedError"] > 10 * attempts["ServiceError"]


async def test_overload():
    """A client asks a service less often that answers 500 for its load, beside answers."""
    service = limited(500, sooner=False)
    await told(service, clients=1, rate=63)  # not 60, of which every third would come just as it is admitted
    assert len([at for at in service.sent_at if at > 20.0]) < 3 * 40.0 * 20
