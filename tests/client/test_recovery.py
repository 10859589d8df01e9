"""After trouble the client asks again at once, however much it has asked before."""

import asyncio
import itertools
from contextlib import suppress

import pytest

from payclient import RetryPolicy
from payclient.errors import ConnectionFailedError, PayClientError
from support.fakes import DOWN, ScriptedTransport, answer, client, document, now

pytestmark = pytest.mark.virtual_time
STORMS = ((20.0, 25.0), (60.0, 65.0), (100.0, 105.0))
ENDS_AT = 135.0


def service(step):
    """Return a transport to a service in which every request fails with *step* during each storm."""

    def default(reference):
        return step if any(begin <= now() < end for begin, end in STORMS) else answer(document(reference))

    return ScriptedTransport(latency=0.1, default=default)


async def stream(pay):
    async with pay.stream_transactions(f"T{n}" for n in itertools.count()) as outcomes:
        async for _ in outcomes:
            if now() > ENDS_AT:
                return


async def crowd(pay):
    """Look up for twenty callers a second, each of whom waits during an outage."""

    async def ask(number):
        with suppress(PayClientError):
            await pay.get_transaction(f"V{number}")

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(ENDS_AT * 20)):
            tasks.create_task(ask(number))
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("work", [stream, crowd], ids=["stream", "crowd"])
@pytest.mark.parametrize("step", [DOWN, ConnectionFailedError("refused")], ids=["503", "refused"])
async def test_next_attempt(work, step):
    """After each storm the next attempt is sent within two seconds, and the pace of before is back within thirty."""
    transport = service(step)
    async with asyncio.timeout(2 * ENDS_AT), client(transport, max_concurrency=16, on_outage="wait") as pay:
        await work(pay)
    sent = transport.times()
    before = sum(10 <= at < 20 for at in sent)
    for _, end in STORMS:
        assert min((at for at in sent if at >= end), default=None) == pytest.approx(end + 1.0, abs=1.0)
        assert sum(end + 20 <= at < end + 30 for at in sent) >= 0.9 * before


async def test_refused_for_now():
    """A lookup that gets 503 beside answers is asked again until its deadline, however often that is."""
    transport = ScriptedTransport(latency=0.05, T=[DOWN] * 60)
    retry = RetryPolicy(max_backoff=0.3)
    async with client(transport, deadline=30.0, retry=retry) as pay, asyncio.TaskGroup() as tasks:
        awaited = tasks.create_task(pay.get_transaction("T"))
        for number in range(300):
            tasks.create_task(pay.get_transaction(f"V{number}"))
            await asyncio.sleep(0.1)
    assert awaited.result().reference == "T"
    assert len(transport.times("T")) == 61
