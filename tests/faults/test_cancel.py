"""Cancel everywhere: at each await of a lookup, a stream, coalesced lookups and a close, in both of its moments."""

from __future__ import annotations

import asyncio
import random
import ssl

import attrs
import pytest
import trustme

from faults.answers import page
from faults.stage import NOTHING, ask, at_rest, ok, ours, settle, stage, traces
from faults.stepping import Moment, Stepper
from payclient import Found, PayClientError, Transaction
from pools import idle
from support.fakes import ScriptedTransport, answer, client, document
from support.raw_server import RawServer, Script, server_context

DOWN = answer(b'{"success": false, "message": "try later"}', 500)
SLOW_DOWN = answer(b"slow down", 429, retry_after="1")
MIXED_UP = answer(document("T9"))
each_moment = pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())


async def run(work):
    """Return how a coroutine ended, in a task of its own: with a value, or with an error."""
    return (await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True))[0]


def troubled(latency=1.0):
    """Return a transport that answers T1 only after everything that can go wrong has."""
    transport = ScriptedTransport(latency=latency)
    transport.script("T1", DOWN, SLOW_DOWN, MIXED_UP)
    return transport


@each_moment
@pytest.mark.virtual_time
async def test_lookup(moment, row):
    """Wherever a lookup is cancelled, its slot, attempt, flight and place in the queue are given back."""
    row(f"a lookup cancelled at each await, {moment.value}", "CancelledError")
    for number in range(1, 1000):
        transport = troubled()
        async with client(transport, max_concurrency=1) as pay:
            ahead, behind = (asyncio.ensure_future(pay.get_transaction(name)) for name in ("T0", "T2"))
            await asyncio.sleep(0)
            stepper = Stepper(pay.get_transaction("T1"), cancel_at=number, moment=moment)
            outcome = await run(stepper)
            assert ((await ahead).reference, (await behind).reference) == ("T0", "T2")
            assert (at_rest(pay), transport.in_flight) == (NOTHING, 0)
            assert (await pay.get_transaction("T3")).reference == "T3"
        if not stepper.is_struck:
            break
        assert isinstance(outcome, asyncio.CancelledError)
    assert number > 8
    assert outcome.reference == "T1"


@each_moment
@pytest.mark.virtual_time
async def test_stream(moment, row):
    """Wherever the reader of a stream is cancelled, no worker, slot or attempt outlives the block."""
    row(f"a stream cancelled at each await, {moment.value}", "CancelledError")
    before = traces()

    async def read(pay, outcomes):
        async with pay.stream_transactions((f"T{n}" for n in range(9)), concurrency=3) as stream:
            async for outcome in stream:
                outcomes.append(outcome)

    for number in range(1, 1000):
        transport, outcomes = troubled(), []
        async with client(transport, max_concurrency=2) as pay:
            stepper = Stepper(read(pay, outcomes), cancel_at=number, moment=moment)
            await run(stepper)
            assert (at_rest(pay), transport.in_flight) == (NOTHING, 0)
            assert traces() <= before
            assert (await pay.get_transaction("T3")).reference == "T3"
        if not stepper.is_struck:
            break
    assert number > 8
    assert [type(outcome) for outcome in outcomes] == [Found] * 9


@each_moment
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "second", "last"])
@pytest.mark.virtual_time
async def test_coalesced(place, moment, row):
    """Wherever one of several equal lookups is cancelled, the others get their answer."""
    row(f"one of three equal lookups cancelled at each await, {moment.value}", "CancelledError")
    for number in range(1, 1000):
        transport = troubled()
        async with client(transport) as pay:
            strikes = [number if n == place else 0 for n in range(3)]
            lookups = [Stepper(pay.get_transaction("T1"), cancel_at=strike, moment=moment) for strike in strikes]
            outcomes = await asyncio.gather(*map(asyncio.create_task, lookups), return_exceptions=True)
            struck = outcomes.pop(place)
            assert [type(outcome) for outcome in outcomes] == [Transaction] * 2
            assert (at_rest(pay), transport.in_flight) == (NOTHING, 0)
        if not lookups[place].is_struck:
            break
        assert isinstance(struck, asyncio.CancelledError)
    assert type(struck) is Transaction


@pytest.mark.virtual_time
async def test_all_coalesced(row):
    """When the last of equal lookups is cancelled, no request is in flight."""
    row("all of three equal lookups cancelled", "CancelledError")
    transport = ScriptedTransport(latency=10)
    async with client(transport) as pay:
        lookups = [asyncio.create_task(pay.get_transaction("T1")) for _ in range(3)]
        for count, lookup in enumerate(lookups):
            await asyncio.sleep(1)
            assert transport.in_flight == 1
            lookup.cancel()
            await settle()
            assert len(transport.sent) == min(count + 2, 3)  # the next one asks anew, if there is one
        await asyncio.wait(lookups)
        assert (at_rest(pay), transport.in_flight) == (NOTHING, 0)


@each_moment
@pytest.mark.virtual_time
async def test_close(moment, row):
    """Wherever a close is cancelled, every lookup ends."""
    row(f"a close cancelled at each await, {moment.value}", "CancelledError")
    for number in range(1, 1000):
        transport = ScriptedTransport(latency=3)
        pay = client(transport, max_concurrency=2)
        lookups = [asyncio.create_task(pay.get_transaction(f"T{n}")) for n in range(4)]
        await asyncio.sleep(1)
        stepper = Stepper(pay.aclose(), cancel_at=number, moment=moment)
        await run(stepper)
        outcomes = await asyncio.gather(*lookups, return_exceptions=True)
        assert all(isinstance(outcome, Transaction | PayClientError) for outcome in outcomes)
        assert (at_rest(pay), transport.in_flight) == (NOTHING, 0)
        if not stepper.is_struck:
            break
    assert number > 1


def flaky():
    """Return steps that answer every second time."""
    return Script(*([page("500 Internal Server Error"), [ok]] * 500))


def secure():
    """Return a server with TLS, and what trusts it."""
    authority, trust = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trust)
    return RawServer(flaky(), ssl=server_context(authority, "localhost")), trust


@pytest.mark.usefixtures("each_of_ours")
@each_moment
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
async def test_over_sockets(is_secure, moment, row):
    """Wherever a lookup over a real connection is cancelled, the connection is closed or idle."""
    row(f"a lookup over {'TLS' if is_secure else 'TCP'} cancelled at each await, {moment.value}", "CancelledError")
    server, trust = secure() if is_secure else (RawServer(flaky()), None)
    async with stage(server, transport=ours(ssl_context=trust)) as pay:
        for number in range(1, 1000):
            for connection in idle(pay._session._transport):  # so that it has to connect
                await pay._session._transport.discard(attrs.evolve(answer(), connection=connection))
            stepper = Stepper(pay.get_transaction("T1"), cancel_at=number, moment=moment)
            await run(stepper)
            assert at_rest(pay) == NOTHING
            if not stepper.is_struck:
                break
        assert number > 4
        assert type(await ask(pay)) is Transaction


@pytest.mark.parametrize("carrier", ["httpx", "httpx2"])
async def test_over_httpx(carrier, row):
    """Whenever a lookup over the caller's own client is cancelled, its pool has all its connections again."""
    row(f"a lookup over {carrier} cancelled at each turn of the event loop", "CancelledError")
    async with stage(RawServer(flaky()), carrier=carrier) as pay:
        for number in range(1, 1000):
            lookup = asyncio.create_task(pay.get_transaction("T1"))
            for _ in range(number):
                await asyncio.sleep(0)
            is_done = lookup.done()
            lookup.cancel()
            await asyncio.wait([lookup])
            assert at_rest(pay) == NOTHING
            if is_done:
                break
        assert number > 5  # uvloop needs fewer turns
        assert [type(await ask(pay, "T1")) for _ in range(20)] == [Transaction] * 20


@pytest.mark.usefixtures("each_of_ours")
@each_moment
async def test_close_over_sockets(moment, row):
    """Wherever a close is cancelled, every connection is closed."""
    row(f"a close of kept connections cancelled at each await, {moment.value}", "CancelledError")
    for number in range(1, 1000):
        async with RawServer() as server:
            async with client(None, base_url=server.url) as pay:
                await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(4)))
                stepper = Stepper(pay.aclose(), cancel_at=number, moment=moment)
                await run(stepper)
                assert await server.deserted() == 0
        if not stepper.is_struck:
            break
    assert number > 1


@pytest.mark.parametrize("carrier", ["own", "fast", "httpx", pytest.param("httpx2", marks=pytest.mark.slow)])
async def test_storm(carrier, storm, row, record_property):
    """After lookups that are cancelled at any turn of the event loop, no slot is missing and none of twenty fails."""
    row(f"a storm of cancelled lookups over {carrier}", Transaction.__name__)
    draw, cancelled = random.Random(7), 0

    async def hasty():
        nonlocal cancelled
        while cancelled < storm:
            lookup = asyncio.create_task(pay.get_transaction(f"T{draw.random()}"))
            for _ in range(draw.randrange(40)):
                await asyncio.sleep(0)
            lookup.cancel()
            await asyncio.wait([lookup])
            assert lookup.cancelled() or lookup.result().reference
            cancelled += lookup.cancelled()

    async with stage(RawServer(), carrier=carrier) as pay:
        await asyncio.gather(*(hasty() for _ in range(8)))  # fewer than connections: none is ever waited for
        lost = pay.stats.in_flight
        assert at_rest(pay) == NOTHING
        healthy = [reference for n in range(20) if type(await ask(pay, reference := f"H{n}")) is Transaction]
        record_property("figures", f"{cancelled:,} cancelled, {lost} slots lost, then {len(healthy)} of 20 answered")
        assert healthy == [f"H{n}" for n in range(20)]
