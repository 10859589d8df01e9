"""The httpx transport over payclient's connections: requests that are no lookups, and mocks that must hold."""

from __future__ import annotations

import subprocess
import sys

import httpx
import httpx2
import pytest

from payclient import AsyncClient, AttemptTimeoutError
from payclient.transports import PooledTransport
from support.fakes import KEY
from support.in_thread import serving
from support.raw_server import RawServer, Script, close, head, http, send, stall

BODY = b'{"reference":"T1"}'
SCRIPT = """
import asyncio, sys

from payclient import AsyncClient

KEY = "sk-0123456789abcdef"
URL = "http://127.0.0.1:9"  # nothing answers there, so a request that goes out fails

async def main(when):
    transport = sys.argv[2]
    if when == "before":
        import respx
    client = AsyncClient(api_key=KEY, base_url=URL, retry=None, transport=transport)
    if when == "late":  # the client has sent already
        try:
            await client.get_transaction("T0")
        except Exception as error:
            print(type(error).__name__)
    import httpx, respx
    document = {"success": True, "data": dict(reference="T1", merchant_reff="m", payment_method="QR", payment_name="q",
        amount=1, fee=0, amount_received=1, payment_code="c", expdate="2030-01-01 00:00:00", status="Paid")}
    with respx.mock as router:
        route = router.post(URL + "/api/transaction/detail").respond(200, json=document)
        print((await client.get_transaction("T1")).status, route.call_count)
        router.reset(); router.clear()
        router.post("http://elsewhere/")
        try:
            await client.get_transaction("T2")
        except Exception as error:
            print(type(error).__name__)
        router.clear()
        router.post("http://elsewhere/").pass_through()
    try:
        await client.get_transaction("T3")
    except Exception as error:
        print(type(error).__name__)
    await client.aclose()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(httpx.__name__ != "httpx", reason="respx patches httpx by its name")
@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_respx_in_a_script(when):
    """In a plain script respx answers, and refuses what it was not told of, whenever it is imported."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, when, "httpx"], capture_output=True, text=True, check=False, timeout=60
    )
    went_out = ["ConnectionFailedError"]
    expected = [*(went_out if when == "late" else []), "Paid 1", "AllMockedAssertionError", *went_out]
    assert ended.stdout.split("\n")[:-1] == expected, ended.stderr


FIRST_LOOKUP = """
import asyncio, sys

from payclient import AsyncClient, PayClientError

async def main(url, transport):
    async with AsyncClient(api_key="sk-0123456789abcdef", base_url=url, transport=transport) as pay:
        before = {*sys.modules}
        print((await pay.get_transaction("T1")).reference)
        print(sorted({name.partition(".")[0] for name in {*sys.modules} - before} - sys.stdlib_module_names))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("transport", ["httpx", "httpx2"])
def test_first_lookup_imports_nothing(transport):
    """What httpx imports during a request has been imported with the client: it would block the event loop."""
    server = RawServer()
    with serving(server):
        command = [sys.executable, "-c", FIRST_LOOKUP, server.url, transport]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["T1", "[]"]


@pytest.fixture
async def plain():
    """Make a client of httpx over the transport, as an application that is no payclient uses it."""
    async with httpx.AsyncClient(transport=PooledTransport(), trust_env=False) as client:
        yield client


async def test_other_requests(plain):
    """Methods, paths, headers, streamed bodies and repeated response headers pass through."""

    async def parts():
        yield b'{"reference":'
        yield b'"T1"}'

    cookies = http(b"{}", "200 OK", "Set-Cookie: a=1", "Set-Cookie: b=2")
    async with RawServer(Script([send(cookies)], [send(cookies)])) as server:
        response = await plain.get(f"{server.url}/x?y=1", headers={"X-Own": "z"})
        assert (response.json(), response.headers.get_list("set-cookie")) == ({}, ["a=1", "b=2"])
        await plain.put(f"{server.url}/p", content=parts())
    first, second = server.requests
    assert first.startswith(b"GET /x?y=1 HTTP/1.1\r\n")
    assert b"X-Own: z\r\n" in first
    assert b"ontent-Length" not in first
    assert second.endswith(b"Content-Length: 18\r\n\r\n" + BODY)
    assert b"hunked" not in second


async def test_no_cut_body(plain):
    """A body above the limit raises; it is not cut."""
    async with RawServer(Script([send(http(b"x" * 300_000))])) as server:
        with pytest.raises(httpx.ReadError, match="longer than 262144 bytes"):
            await plain.get(server.url)


async def test_no_head(plain):
    """A request whose response has another end than its head says is refused before it is sent."""
    async with RawServer() as server:
        with pytest.raises(httpx.UnsupportedProtocol, match="sends lookups, and no HEAD"):
            await plain.head(server.url)
    assert server.requests == []


@pytest.mark.virtual_time
async def test_errors_of_httpx(plain):
    """Requests that are no lookups fail with the errors of httpx, and are not sent twice."""
    for script, error in (
        ([stall], httpx.ReadTimeout),
        ([send(head("HTTP/1.1 200 OK", "Content-Length: 9")), stall], httpx.ReadTimeout),
        ([close], httpx.RemoteProtocolError),
        ([send(b"no HTTP")], httpx.RemoteProtocolError),
    ):
        async with RawServer(Script(script)) as server:
            with pytest.raises(error):
                await plain.post(server.url, content=BODY, timeout=5)
            assert len(server.requests) == 1, script
            url = server.url
    with pytest.raises(httpx.ConnectError):
        await plain.get(url)


async def test_stale_connection_is_not_repeated(plain):
    """A request that may not be sent twice fails when its kept connection turns out to be closed."""
    async with RawServer(Script([send(http(b"{}"))], [close])) as server:
        await plain.post(server.url, content=BODY)
        with pytest.raises(httpx.RemoteProtocolError):
            await plain.post(server.url, content=BODY)
    assert len(server.requests) == 2


async def test_either_library():
    """The name `httpx2` puts httpx2 on top of the same connections."""
    async with (
        RawServer() as server,
        AsyncClient(api_key=KEY, base_url=server.url, transport="httpx2") as pay,
    ):
        assert (await pay.get_transaction("T1")).reference == "T1"
        assert type(pay._session._transport._own).__mro__[0] is httpx2.AsyncClient


@pytest.mark.virtual_time
async def test_time_out_of_the_client_in_a_handshake():
    """A time-out of the caller's httpx client says where it struck: no request was sent before the handshake ended."""
    timeout = httpx.Timeout(None, read=1.0)
    async with (
        RawServer(Script((), greeting=[stall])) as server,
        httpx.AsyncClient(transport=PooledTransport(connect_timeout=60.0), timeout=timeout) as http_client,
        AsyncClient(
            api_key=KEY, base_url=server.url.replace("http:", "https:"), http_client=http_client, retry=None
        ) as pay,
    ):
        with pytest.raises(AttemptTimeoutError) as caught:
            await pay.get_transaction("T1")
        assert (caught.value.step, caught.value.sent, caught.value.address) == (
            "tls",
            "no",
            server.url.partition("//")[2],
        )
