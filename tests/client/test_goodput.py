"""Visitors with little time before limits that nobody documented: whoever can be served is served."""

import asyncio
import random
from contextlib import suppress

import pytest

from payclient import Stats, Transaction
from payclient.errors import PayClientError, RateLimitedError
from support.fakes import ScriptedTransport, answer, client, document, now, throttled
from support.goodput import SITUATIONS, Service, play, visit
from support.limits import bucket, nothing, window
from support.outages import crowd

pytestmark = pytest.mark.virtual_time
SECONDS, SETTLED = 60.0, 20.0


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
@pytest.mark.parametrize(("load", "share"), [(0.7, 0.97), (0.9, 0.97), (1.25, 0.9)])
async def test_hidden_limit(situation, load, share):
    """Of those who can be answered nearly all are, with at most one request in twenty refused."""
    played = await play(situation, load, seconds=SECONDS, seed=1)
    assert played.answered(SETTLED) >= share * min(1, 1 / load)
    assert played.refused_share <= 0.05


OWN = {
    # Visitors a second, seconds of an answer, options, and the share that can be answered
    "11/s at max_rate=10, deadline 2": (11, 0.3, {"max_rate": 10.0, "deadline": 2.0}, 0.91),
    "20/s at max_rate=10, deadline 2": (20, 0.1, {"max_rate": 10.0, "deadline": 2.0}, 0.5),
    "20/s at max_rate=10, deadline 30": (20, 0.1, {"max_rate": 10.0, "deadline": 30.0}, 0.5),
    "40/s at max_concurrency=10": (40, 0.5, {"max_concurrency": 10}, 0.5),
    "200/s, answers in 0.5 s": (200, 0.5, {}, 0.64),
    "20/s, answers in 2 s": (20, 2.0, {}, 1.0),
}


@pytest.mark.parametrize("case", OWN)
async def test_own_limit(case):
    """Before a limit of our own, or of the network, as many are answered as can be."""
    load, latency, options, possible = OWN[case]
    service = Service(nothing, lambda: latency)
    played = await visit(service, load, seconds=40.0, seed=1, is_even=True, **options)
    assert played.answered(20.0) >= 0.95 * possible


async def test_queue_of_a_few_seconds():
    """Below a limit everybody is answered, though queues stand for some seconds when many come by chance."""
    service = Service(nothing, lambda: 0.3)
    played = await visit(service, 9.5, seconds=100.0, seed=1, max_rate=10.0)
    assert played.answered(20.0) == 1.0


ALWAYS_REFUSED = {
    # Number of references, seconds of `Retry-After`, the limit besides, and the share of the others that is answered
    "one": (1, None, lambda: nothing, 1.0),
    "three": (3, None, lambda: nothing, 0.99),
    "one, with a pause": (1, 5, lambda: nothing, 0.98),
    "three, before a bucket": (3, None, lambda: bucket(20), 0.99),
    "one, before a limit without a burst": (1, None, lambda: bucket(20, 1), 0.98),
}


@pytest.mark.parametrize("case", ALWAYS_REFUSED)
async def test_references_that_are_always_refused(case):
    """Some references that are asked for again and again, and always get a 429, take no answer from the others."""
    bad, asked, refuse, share = ALWAYS_REFUSED[case]
    random.seed(1)
    chance, told = random.Random(1), throttled(asked)
    transport = ScriptedTransport(
        latency=lambda: chance.uniform(0.03, 0.12),
        refuse=refuse(),
        default=lambda reference: told if reference.startswith("BAD") else answer(document(reference)),
    )

    async def reload(reference):
        await asyncio.sleep(10.0)
        while True:
            with suppress(PayClientError):
                await pay.get_transaction(reference)
            await asyncio.sleep(2.0)

    async with client(transport, deadline=5.0) as pay, asyncio.TaskGroup() as staff:
        reloading = [staff.create_task(reload(f"BAD{number}")) for number in range(bad)]
        calls = await crowd(pay, rate=14, until=60.0)
        for each in reloading:
            each.cancel()
    assert sum(call.error is None for call in calls) >= share * len(calls)
    assert len(transport.sent) - len(calls) <= bad * 60


async def test_pause_of_one_reference():
    """If only one reference is refused, its lookups wait out the pause, or are told at once."""

    async def answered(count):
        for number in range(count):
            await pay.get_transaction(f"T{number}")

    told = throttled(60)
    async with client(ScriptedTransport(latency=0.1, BAD=[told, told, answer(document("BAD"))])) as pay:
        await answered(200)
        for sent in (1, 2, 2):
            with pytest.raises(RateLimitedError) as caught:
                await pay.get_transaction("BAD")
            assert caught.value.retry_after == pytest.approx(60.0, abs=0.5)
            assert (pay.stats.paused_seconds > 0, pay.stats.attempts) == (sent == 1, 200 + (1 if sent == 1 else 22))
            await asyncio.sleep(pay.stats.paused_seconds)
            if sent == 1:
                await answered(20)
        began = now()
        assert (await pay.get_transaction("BAD", deadline=100.0)).reference == "BAD"
        assert 59 < now() - began < 61


async def test_overload_of_seconds():
    """Who has waited longest goes first while many are refused again, so that nobody's time runs out by chance."""
    service = Service(bucket(15, 1), lambda: 0.02, lambda _: answer(b"busy", 503), 0.002)
    played = await visit(service, 20, seconds=12.0, seed=1, is_even=True, deadline=5.0)
    assert played.answered(0.0) >= 0.95


async def test_burst():
    """All of 3,000 who come at once are answered, although the first refusals make the rate look low."""
    async with client(Service(bucket(200, 20), lambda: 0.05), deadline=30.0) as pay:
        answers = await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(3000)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {Transaction}


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("load", [20, 100])
async def test_refused_at_any_rate(load, share):
    """A client that is refused a share of its requests whatever it does, as by one of several nodes, asks again."""
    chance = random.Random(1)
    service = Service(lambda _, __: 0.0 if chance.random() < share else None, lambda: 0.15)
    played = await visit(service, load, seconds=SECONDS, seed=1)
    assert played.answered(2 * SETTLED) >= 0.95


async def test_stream_refused_at_any_rate():
    """A stream that is refused a tenth of its requests has most of its speed from the start."""
    chance, began = random.Random(1), now()
    service = Service(lambda _, __: 0.0 if chance.random() < 0.1 else None, lambda: 0.1)
    async with client(service) as pay, pay.stream_transactions(f"T{n}" for n in range(5000)) as outcomes:
        assert len([outcome async for outcome in outcomes]) == 5000
    assert now() - began < 15


async def test_several_clients_far_below_a_limit_without_burst():
    """At a quarter of a limit that allows no burst, most visitors of four clients are answered."""
    played = await visit(Service(bucket(200, 1), lambda: 0.1), 50, seconds=2 * SECONDS, seed=1, clients=4)
    assert played.answered(SECONDS) >= 0.8


async def test_several_clients_above_a_limit_that_looks_like_a_failure():
    """Others may get all that a limit allows for some seconds, and nobody is told that the service does not answer."""
    service = Service(bucket(20, 1), lambda: 0.02, lambda _: answer(b"busy", 503), 0.002)
    played = await visit(service, 25, seconds=60.0, seed=1, clients=4, deadline=5.0)
    assert played.errors["OutageError"] == 0 < played.errors["OverloadedError"]
    assert played.requests <= 10 * (played.requests - played.refused)  # who is refused often backs off


@pytest.mark.parametrize("deadline", [2.0, 5.0, 30.0])
async def test_after_a_storm(deadline):
    """Everybody who comes ten seconds after a storm of refusals is answered."""
    service = Service(lambda at, _: 0.0 if 5 <= at < 35 else None, lambda: 0.05)
    played = await visit(service, 20, seconds=70.0, seed=1, is_even=True, deadline=deadline)
    assert played.answered(45.0) == 1.0


async def test_several_clients_after_a_storm():
    """Four clients near their limit take a storm for no limit per minute, though refusals in a row are common."""
    limit = bucket(20, 10)
    service = Service(lambda at, each: 0.0 if 100 <= at < 130 else limit(at, each), lambda: 0.15)
    played = await visit(service, 18, seconds=180.0, seed=2, clients=4)
    assert played.answered(140.0) >= 0.97


async def test_after_a_window_that_was_closed_for_longer_than_a_deadline():
    """Refusals in a row make a rate at which everybody waits for too long, until one that has just come is sent."""
    played = await visit(
        Service(window(300, 5.0, is_told=False), lambda: 0.25), 120, seconds=40.0, seed=1, deadline=1.0
    )
    assert played.answered(SETTLED) >= 0.45  # of the half that can be


async def test_visitors_beside_a_stream():
    """A stream that uses all of a limit keeps no visitor waiting."""
    transport, waited = ScriptedTransport(latency=0.1), []
    async with client(transport, max_rate=10.0, deadline=5.0) as pay, asyncio.TaskGroup() as tasks:

        async def visits():
            for number in range(60):
                at = now()
                await pay.get_transaction(f"V{number}")
                waited.append(now() - at)
                await asyncio.sleep(1.0)

        tasks.create_task(visits())
        async with pay.stream_transactions(f"R{number}" for number in range(1000)) as outcomes:
            assert len([outcome async for outcome in outcomes]) == 1000
        streamed_in = now()
    assert max(waited) <= 0.31
    assert streamed_in < 110


async def test_flood():
    """Callers far above a limit of ten a second send little more than it allows."""
    allowed = {}

    def refuse(at, _):
        allowed[int(at)] = allowed.get(int(at), 0) + 1
        return None if allowed[int(at)] <= 10 else 1.0

    service = Service(refuse, lambda: 0.1, throttled)
    played = await visit(service, 100, seconds=40.0, seed=1, is_even=True, deadline=2.0)
    assert played.answered(20.0) >= 0.08
    assert sum(at >= 20 for at in service.sent_at) / 20 <= 13


async def test_stats_of_an_overload():
    """While more lookups come than can be answered, the counters say so; in a pause the client is not ready."""
    service = Service(nothing, lambda: 0.1)
    async with client(service, max_concurrency=1, max_rate=1.0, deadline=None) as pay:
        waiting = [asyncio.create_task(pay.get_transaction(f"T{n}")) for n in range(31)]
        await asyncio.sleep(14.0)
        is_early = pay.stats.is_overloaded
        await asyncio.sleep(4.0)
        assert (is_early, pay.stats.is_overloaded, pay.stats.waiting > 0) == (False, True, True)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (pay.stats.is_overloaded, pay.stats.waiting) == (False, 0)


def test_readiness():
    """A client is ready unless nothing may be sent: in an outage, and in a pause."""
    counters = {"lookups": 1, "attempts": 1, "retries": 0, "throttled": 0, "in_flight": 0, "limit": 4.0}
    cases = [(0.0, 0.0), (2.0, 0.0), (0.0, 2.0)]
    ready = [Stats(**counters, paused_seconds=pause, outage_seconds=out).is_ready for pause, out in cases]
    assert ready == [True, False, False]
