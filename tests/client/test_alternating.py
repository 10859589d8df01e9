"""A status that alternates with answers is about the load, and one that comes sooner than they do is a limit."""

import asyncio
import random
from collections import Counter
from functools import partial

import pytest

from payclient import OutageError, ServiceError
from support.fakes import ScriptedTransport, answer, client, document, now
from support.outages import crowd

pytestmark = pytest.mark.virtual_time


class Bucket:
    """A limit of a rate without a burst, for all who share it: beyond it, *status* comes after so many seconds."""

    def __init__(self, rate, status, *, sooner):
        self.gap, self.status, self.seconds = 1 / rate, status, 0.01 if sooner else 0.2
        self.opens_at, self.sent, self.answered = 0.0, [], 0

    def transport(self):
        return ScriptedTransport(default=lambda reference: partial(self._answer, reference))

    async def _answer(self, reference):
        self.sent.append(now())
        if now() < self.opens_at:
            await asyncio.sleep(self.seconds)
            return answer(b'{"success": false, "message": "Server error"}', self.status)
        self.opens_at = now() + self.gap
        await asyncio.sleep(0.15)
        self.answered += 1
        return answer(document(reference))


async def told(bucket, *, clients, rate, seconds=60.0):
    """Return how many visitors were told what, and what each attempt came to."""
    ends, attempts = Counter(), Counter()

    def observe(attempt):
        attempts[attempt.error] += 1

    async def visited(number):
        await asyncio.sleep(number * 0.0137)
        async with client(bucket.transport(), deadline=5.0, on_attempt=observe) as pay:
            for call in await crowd(pay, rate=rate / clients * (1 + number / 100), until=seconds):
                ends[type(call.error)] += call.at > 10.0

    await asyncio.gather(*map(visited, range(clients)))
    return ends, attempts


@pytest.mark.parametrize("status", [500, 503])
async def test_limit(status):
    """Four clients before a limit without a burst, which answers as in an outage, are hardly told of an outage."""
    ends, attempts = Counter(), Counter()
    for seed in range(4):  # which visitors are told depends on chance
        random.seed(seed)
        more_ends, more_attempts = await told(Bucket(20, status, sooner=True), clients=4, rate=18)
        ends, attempts = ends + more_ends, attempts + more_attempts
    assert ends[OutageError] + ends[ServiceError] <= 0.02 * ends.total()
    assert ends[type(None)] > 0.6 * ends.total()
    assert attempts["RateLimitedError"] > 10 * attempts["ServiceError"]


async def test_overload():
    """A client asks a service less often that answers 500 for its load, beside answers."""
    bucket = Bucket(20, 500, sooner=False)
    await told(bucket, clients=1, rate=60)
    assert len([at for at in bucket.sent if at > 20.0]) < 3 * 40.0 * 20
