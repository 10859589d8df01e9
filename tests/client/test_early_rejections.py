"""No lookup is rejected as too late that would have been answered: what is unknown, or old, rejects nobody."""

import asyncio
import json

import pytest

from payclient import OverloadedError, PayClientError
from support.fakes import ScriptedTransport, answer, client, document, now
from support.outages import crowd

pytestmark = pytest.mark.virtual_time
HOUR = 3600.0


class Changing(ScriptedTransport):
    """A service whose latency and status may be changed."""

    status = 200

    def __init__(self, latency):
        super().__init__(latency=lambda: self.seconds, default=self._answer)
        self.seconds = latency

    def _answer(self, reference):
        return answer(document(reference)) if self.status == 200 else answer(b"{}", self.status)


class Queueing(ScriptedTransport):
    """A service that answers one after the other, and goes on with requests whose callers have left."""

    free_at = 0.0

    async def send(self, request):
        self.free_at = due = max(self.free_at, now()) + self.latency
        response = answer(document(json.loads(request.body)["reference"]))
        try:
            await asyncio.sleep(due - now())
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_at(due, request.on_late, response)
            raise
        return response


async def ask(pay, count, first=0, **options):
    """Let that many ask at once; return how many are answered, and how many are rejected as too late."""
    calls = (pay.get_transaction(f"T{first + number}", **options) for number in range(count))
    results = await asyncio.gather(*calls, return_exceptions=True)
    rejected = sum(isinstance(result, OverloadedError) for result in results)
    return count - sum(isinstance(result, Exception) for result in results), rejected


@pytest.mark.parametrize(
    ("count", "deadline"), [(1000, 1.0), (500, 0.5), (2000, 2.0), pytest.param(40_000, 30.0, marks=pytest.mark.slow)]
)
async def test_cold_burst(count, deadline):
    """All who come at once to a client that has sent nothing yet are answered, as there is time for all."""
    async with client(Changing(0.02), deadline=deadline) as pay:
        answered, rejected = await ask(pay, count)
    assert rejected <= count / 100
    assert answered >= 0.99 * count


@pytest.mark.parametrize(("count", "latency", "workers"), [(8, 2.5, 1), (20, 2.5, 1), (8, 2.5, 4), (20, 1.0, 4)])
async def test_slow_service(count, latency, workers):
    """A few who come at once to a slow service are answered, because each need not wait for those before."""
    async with client(Changing(latency), deadline=5.0, workers=workers) as pay:
        assert await ask(pay, count) == (count, 0)
        await asyncio.sleep(HOUR)
        assert await ask(pay, count, first=count) == (count, 0)


@pytest.mark.parametrize(("seconds", "rate"), [(2.5, 20), (3.0, 20), (4.0, 10), (3.0, 5)])
async def test_service_becomes_slow(seconds, rate):
    """At first its answers are too late, as in an outage. After the first one, whoever comes is answered."""
    service = Changing(0.05)
    async with client(service, deadline=5.0, workers=4) as pay:
        await crowd(pay, rate=rate, until=10.0)
        service.seconds = seconds
        calls = await crowd(pay, rate=rate, until=25.0)
    refused = [call.at for call in calls if call.error is not None]
    assert max(refused) < 10.0 + 1.5 + 2 * seconds
    assert not [call for call in calls if isinstance(call.error, OverloadedError)]


@pytest.mark.parametrize(("seconds", "rate"), [(0.1, 20), (0.08, 20), (0.2, 6), (0.07, 20)])
async def test_service_queues(seconds, rate):
    """If more are asked for than it can answer in time, those who have a chance are answered, and not nobody."""
    async with client(Queueing(latency=seconds), deadline=5.0) as pay:
        await crowd(pay, rate=rate, until=30.0)
        calls = await crowd(pay, rate=rate, until=90.0, prefix="W")
    answered = sum(call.error is None for call in calls)
    assert answered > 0.7 * 60 / seconds


async def test_late_answers_beside_bad_references():
    """Answers that are late for callers in a hurry show no queue, although bad references are declined at once."""

    class Declining(Queueing):
        async def send(self, request):
            if b"B" in request.body:
                return answer(b'{"success": false, "message": "bad reference"}', 400)
            self.free_at = 0.0  # each is answered by itself
            return await super().send(request)

    async with client(Declining(latency=3.0), deadline=5.0) as pay:
        calls = asyncio.gather(crowd(pay, rate=10, until=60.0), crowd(pay, rate=0.3, until=60.0, prefix="B"))
        for number in range(60):
            await asyncio.sleep(1.0)
            for each in range(10):  # in a hurry
                task = asyncio.create_task(pay.get_transaction(f"H{number}-{each}", deadline=2.0))
                task.add_done_callback(asyncio.Task.exception)
        patient, _ = await calls
    refused = [call.at for call in patient if isinstance(call.error, OverloadedError)]
    assert [at for at in refused if at > 15.0] == []  # it began cold


@pytest.mark.parametrize(("seconds", "count"), [(2.0, 300), (4.2, 100)])
async def test_slow_an_hour_ago(seconds, count):
    """A round trip of an hour ago says nothing about now."""
    service = Changing(seconds)
    async with client(service, deadline=5.0) as pay:
        await ask(pay, 20)
        await asyncio.sleep(HOUR)
        service.seconds = 0.02
        assert await ask(pay, count, first=100) == (count, 0)


@pytest.mark.parametrize("workers", [1, 4, 8])
@pytest.mark.parametrize(("first", "last"), [(1, 4), (2, 7)])
async def test_refused_at_the_start(workers, first, last):
    """Refusals among the first attempts say little, whatever the number of workers: everybody is answered."""
    transport = ScriptedTransport(latency=0.1, refuse=lambda *_: 0 if first <= len(transport.sent) <= last else None)
    async with client(transport, deadline=5.0, workers=workers) as pay:
        assert [call.error for call in await crowd(pay, rate=5, until=20.0) if call.error is not None] == []


@pytest.mark.parametrize("status", [429, 503])
async def test_refused_an_hour_ago(status):
    """Refusals of an hour ago say nothing about now."""
    service = Changing(0.02)
    async with client(service, deadline=5.0, on_outage="wait") as pay:
        await ask(pay, 20)
        service.status, ends = status, now() + 5.0
        while now() < ends:
            with pytest.raises(PayClientError):
                await pay.get_transaction("T0", deadline=0.2)
        service.status = 200
        await asyncio.sleep(HOUR)
        assert await ask(pay, 100, first=100) == (100, 0)


async def test_one_refusal_at_a_quiet_moment():
    """A single 429 beside a few lookups isn't a limit: whoever comes right afterwards is answered."""
    transport = ScriptedTransport(latency=0.1, Q9=[answer(status=429)], default=lambda each: answer(document(each)))
    async with client(transport, deadline=5.0) as pay:
        for number in range(10):
            await pay.get_transaction(f"Q{number}")
            await asyncio.sleep(0.4)
        assert await ask(pay, 20) == (20, 0)
        await asyncio.sleep(10.0)
        assert await ask(pay, 100, first=100) == (100, 0)
