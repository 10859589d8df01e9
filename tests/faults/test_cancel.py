"""Cancel at each await of a lookup and a close over real connections, in both of its moments."""

import asyncio
import ssl

import attrs
import pytest
import trustme

from faults.answers import page
from faults.stage import NOTHING, ask, at_rest, cancel_many, ok, ours, stage
from faults.stepping import Moment, Stepper, cancelled_at_turn
from payclient import Transaction
from pools import idle
from support.fakes import answer, client
from support.raw_server import RawServer, Script, server_context

each_moment = pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())


async def run(work):
    """Return how a coroutine ended, in a task of its own: with a value, or with an error."""
    return (await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True))[0]


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
        assert number > 2
        assert type(await ask(pay)) is Transaction


@pytest.mark.usefixtures("each_of_ours")
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "tls"])
async def test_at_each_turn(is_secure, row):
    """Whenever a lookup is cancelled while its connection is made, nothing is left of it."""
    row(f"a lookup over {'TLS' if is_secure else 'TCP'} cancelled at each turn of the event loop", "CancelledError")
    server, trust = secure() if is_secure else (RawServer(flaky()), None)
    async with stage(server, transport=ours(ssl_context=trust), retry=None) as pay:
        for number in range(1, 1000):
            for connection in idle(pay._session._transport):
                await pay._session._transport.discard(attrs.evolve(answer(), connection=connection))
            is_done, _ = await cancelled_at_turn(pay.get_transaction("T1"), number)
            assert at_rest(pay) == NOTHING
            if is_done:
                break
        assert number > 5


@pytest.mark.parametrize("carrier", ["httpx", "httpx2"])
async def test_over_httpx(carrier, row):
    """Whenever a lookup over the caller's own client is cancelled, its pool has all its connections again."""
    row(f"a lookup over {carrier} cancelled at each turn of the event loop", "CancelledError")
    async with stage(RawServer(flaky()), carrier=carrier) as pay:
        for number in range(1, 1000):
            is_done, _ = await cancelled_at_turn(pay.get_transaction("T1"), number)
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
    async with stage(RawServer(), carrier=carrier) as pay:
        cancelled = await cancel_many(pay, storm, turns=40)
        lost = pay.stats.in_flight
        assert at_rest(pay) == NOTHING
        healthy = [reference for n in range(20) if type(await ask(pay, reference := f"H{n}")) is Transaction]
        record_property("figures", f"{cancelled:,} cancelled, {lost} slots lost, then {len(healthy)} of 20 answered")
        assert healthy == [f"H{n}" for n in range(20)]
