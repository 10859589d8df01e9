"""What a proxy can do, over each transport: the error names it, nothing is left behind, and it never sees the key."""

import asyncio
import socket
import ssl
import traceback
from contextlib import asynccontextmanager

import attrs
import pytest
import trustme

from faults.proxies import FAULTS
from faults.stage import AT_ONCE, NOTHING, ask, at_rest, cancel_many, ours, settle, shown, signal_of, traces
from faults.stepping import Moment, Stepper, cancelled_at_turn
from payclient import AsyncClient, ConfigurationError, ConnectionFailedError, TLSVerificationError, Transaction
from pools import connections, idle
from support.fakes import KEY, answer
from support.raw_proxy import OPEN, RawProxy, relay
from support.raw_server import RawServer, Script, head, refusing_port, server_context

AUTHORITY = trustme.CA()
PASSWORD = "p%40ss-canary-51d2e84b"
CREDENTIALS = f"clerk:{PASSWORD}"
SPELLINGS = ("p@ss-canary-51d2e84b", PASSWORD, "cEBzcy1jYW5hcnktNTFkMmU4NG", "Y2xlcms6cEBzcy1jYW5hcnkt")
"""The password as it is, in a URL and in base64."""
# asyncio's own, for a handshake that fails on the server's side
HANDSHAKE = pytest.mark.filterwarnings("ignore::ResourceWarning")

pytestmark = pytest.mark.usefixtures("each_of_ours")


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context


def service(*scripts):
    """Return a service with TLS."""
    return RawServer(*scripts, ssl=server_context(AUTHORITY, "localhost"))


def through(proxy, **options):
    """Return a transport that goes through *proxy*."""
    return ours(ssl_context=trusting(), proxy=proxy.with_password(CREDENTIALS), **options)


def assert_secret(texts):
    assert [spelling for spelling in SPELLINGS for text in texts if spelling in text] == []


@asynccontextmanager
async def proxied(proxy, server, *, address=None, **options):
    """
    Give a client that asks *server* through *proxy*, and see that nothing is left, and that the proxy saw no key.

    Args:
        proxy: Started and stopped here.
        server: The service, likewise.
        address: Of the proxy, in the place of its own.
        options: Of the client, in the place of the usual ones.
    """
    before = traces()
    async with proxy, server:
        transport = through(proxy) if address is None else ours(ssl_context=trusting(), proxy=address(proxy))
        options = {"base_url": server.url, "retry": AT_ONCE, "timeout": 60, **options}
        async with AsyncClient(api_key=KEY, transport=transport, **options) as pay:
            yield pay
            assert at_rest(pay) == NOTHING
        await transport.aclose()
        assert connections(transport) == set()
        assert (await proxy.deserted(), await server.deserted()) == (0, 0)
        assert KEY.encode() not in proxy.seen
    await settle()
    assert traces() <= before


def shown_locals(error):
    """Return what a crash reporter stores of an error."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


@pytest.fixture(autouse=True)
def password_is_not_shown(caplog, capfd):
    """Whatever happens, the password is in no log and in no output."""
    yield
    output = capfd.readouterr()
    assert_secret([caplog.text, output.out, output.err])


@pytest.mark.virtual_time
async def test_row(row, subtests, request):
    """The verdict is the one of the row, the proxy is named, and neither it nor the error holds a secret."""
    of_fast = "fast" in request.node.callspec.id
    for fault in FAULTS if of_fast else FAULTS[::4]:  # with httpx on top it is the same tunnel
        row(f"proxy: {fault}", fault.verdict.__name__)
        proxy, unreached = RawProxy(Script(fault.script)), service()
        with subtests.test(f"proxy: {fault}"):
            async with proxied(proxy, unreached, **fault.options) as pay:
                outcome = await ask(pay)
                assert (type(outcome), pay.stats.attempts) == (fault.verdict, fault.attempts)
                assert f"the proxy {proxy.address}" in outcome.message
                assert fault.says in outcome.message
                assert outcome.step in ("proxy", "tls")
                assert outcome.address == f"127.0.0.1:{proxy.address.rpartition(':')[2]}"
                assert_secret([shown(outcome)])
                assert await signal_of(pay.with_options(retry=None)) is fault.signal
            assert unreached.requests == []


async def test_tunnel(row):
    """Lookups one after the other share one tunnel; the proxy sees the address of the service and the password."""
    row("proxy: a tunnel", Transaction.__name__)
    async with proxied(proxy := RawProxy(), service()) as pay:
        for n in range(5):
            assert type(await ask(pay, f"T{n}")) is Transaction
        port = pay.url.partition("localhost:")[2].partition("/")[0]
    (request,) = proxy.requests
    lines = request.decode().split("\r\n")
    assert lines[:2] == [f"CONNECT localhost:{port} HTTP/1.1", f"Host: localhost:{port}"]
    assert lines[2:] == ["Proxy-Authorization: Basic Y2xlcms6cEBzcy1jYW5hcnktNTFkMmU4NGI=", "", ""]


async def test_interim_answers(row):
    """What comes before the answer to CONNECT, with a status below 200, does not keep the tunnel from being used."""
    row("proxy: an announcement before the 200", Transaction.__name__)

    async def announce(connection):
        await relay(connection, head("HTTP/1.1 103 Early Hints", "Link: </x>") + OPEN)

    async with proxied(RawProxy(announce), service()) as pay:
        assert type(await ask(pay)) is Transaction


async def test_idle_tunnel_is_dropped(row):
    """A proxy that closes idle tunnels costs new ones, and no failure."""
    row("proxy: idle tunnels dropped", Transaction.__name__)
    async with proxied(proxy := RawProxy(), service(), retry=None) as pay:
        for number in range(3):
            assert type(await ask(pay, f"T{number}")) is Transaction
            proxy.connections[-1].reset()
            await proxy.deserted()
        assert pay.stats.attempts == 3
    assert len(proxy.requests) == 3


@HANDSHAKE
async def test_stranger_behind_the_proxy(row):
    """A proxy that opens TLS with its own authority gets one attempt and no request; what helps is said."""
    row("proxy: TLS opened by the proxy", TLSVerificationError.__name__)
    stranger = RawServer(ssl=server_context(trustme.CA(), "localhost"))
    async with proxied(proxy := RawProxy(), stranger) as pay:
        outcome = await ask(pay)
        assert (type(outcome), pay.stats.attempts, outcome.step) == (TLSVerificationError, 1, "tls")
        assert f"through the proxy {proxy.address} could not prove who it is" in outcome.message
        assert "ca_file" in outcome.message
    assert stranger.requests == []


async def test_nobody_listens(row):
    """A proxy that is not there is named, with its address; the service is not asked around it."""
    row("proxy: refuses the connection", ConnectionFailedError.__name__)
    with refusing_port() as port:
        address = f"127.0.0.1:{port}"
        async with proxied(RawProxy(), server := service(), address=lambda _: f"http://{address}") as pay:
            outcome = await ask(pay)
            assert (type(outcome), outcome.sent, pay.stats.attempts) == (ConnectionFailedError, "no", 4)
            assert outcome.message.startswith(f"cannot connect to the proxy {address}: ")
            assert (outcome.step, outcome.address) == ("connect", address)
        assert server.connections == []


async def test_unknown_name(monkeypatch, row):
    """The name of a proxy that cannot be resolved stands in the message; the name of the service is not asked for."""
    row("proxy: its name cannot be resolved", ConnectionFailedError.__name__)
    asked = []

    def resolve(host, *_):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def address(_):
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return "http://proxy.invalid:3128"

    async with proxied(RawProxy(), service(), address=address, base_url="https://pay.invalid", retry=None) as pay:
        outcome = await ask(pay)
        assert (type(outcome), outcome.step) == (ConnectionFailedError, "name")
        assert outcome.message.startswith("cannot connect to the proxy proxy.invalid:3128: the name was not")
    assert asked == ["proxy.invalid"]


async def test_plain_http(row):
    """A request over plain http does not go through a proxy, whoever made the transport."""
    row("proxy: a service without TLS", ConfigurationError.__name__)
    async with proxied(proxy := RawProxy(), server := RawServer()) as pay:
        outcome = await ask(pay)
        assert type(outcome) is ConfigurationError
        assert outcome.message.startswith("plain http does not go through the proxy")
    assert (proxy.connections, server.connections) == ([], [])


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
async def test_cancelled(moment, row):
    """Wherever a lookup through a proxy is cancelled, tunnel and slot are given back, and no frame has a secret."""
    row(f"proxy: a lookup cancelled at each await, {moment.value}", "CancelledError")
    async with proxied(RawProxy(), service()) as pay:
        transport = pay._session._transport
        for number in range(1, 1000):
            for connection in idle(transport):  # so that it has to connect
                await transport.discard(attrs.evolve(answer(), connection=connection))
            stepper = Stepper(pay.get_transaction("T1"), cancel_at=number, moment=moment)
            (outcome,) = await asyncio.gather(asyncio.create_task(stepper), return_exceptions=True)
            assert at_rest(pay) == NOTHING
            if not stepper.is_struck:
                break
            if isinstance(outcome, BaseException):
                assert_secret([shown_locals(outcome)])
        assert number > 2
        for number in range(1, 1000):  # while it connects, which is a task of the pool
            for connection in idle(transport):
                await transport.discard(attrs.evolve(answer(), connection=connection))
            is_done, outcome = await cancelled_at_turn(pay.get_transaction("T1"), number)
            assert at_rest(pay) == NOTHING
            if is_done:
                break
            if isinstance(outcome, BaseException):
                assert_secret([shown_locals(outcome)])
        assert number > 5
        assert type(await ask(pay)) is Transaction


@pytest.mark.slow
async def test_storm(storm, row, record_property):
    """After lookups through a proxy that are cancelled at any turn, no descriptor, slot or task is left."""
    row("proxy: a storm of cancelled lookups", Transaction.__name__)
    async with proxied(RawProxy(), service()) as pay:
        cancelled = await cancel_many(pay, storm, turns=60)
        assert at_rest(pay) == NOTHING
        healthy = [type(await ask(pay, f"H{n}")) for n in range(20)]
        record_property("figures", f"{cancelled:,} cancelled, then {len(healthy)} of 20 answered")
        assert healthy == [Transaction] * 20
