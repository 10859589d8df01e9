"""What the transport `fast` does by itself, where others leave it to httpx."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from payclient import ConnectionFailedError
from payclient.transports import BODY_LIMIT, Request
from payclient.transports.fast import FastTransport
from pools import connections, idle
from support.fakes import document
from support.raw_server import RawServer, Script, http, send

HEADERS = {"Content-Type": "application/json"}
FOUND = document("T1")


def request(url, *, headers=HEADERS):
    return Request("POST", url, headers, b'{"reference":"T1"}', lambda: "Bearer of-nothing")


@asynccontextmanager
async def carrying(*steps, **options):
    """Give a transport and the address of a server that answers with these steps, again and again."""
    transport = FastTransport(**options)
    async with RawServer(Script(steps)) as server:
        try:
            yield transport, server
        finally:
            await transport.aclose()


async def test_message():
    """A request is written completely, with the usual order of headers and without a default port."""
    async with carrying(send(http(FOUND))) as (transport, server):
        await transport.send(request(f"{server.url}/a/b"))
        host = server.url.removeprefix("http://")
    expected = (
        f"POST /a/b HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        'Content-Length: 18\r\nAuthorization: Bearer of-nothing\r\n\r\n{"reference":"T1"}'
    )
    assert server.requests == [expected.encode()]


async def test_each_request_is_its_own():
    """Common parts of requests are cached, and other parts are never taken from an earlier request."""
    async with carrying(send(http(FOUND))) as (transport, server):
        await transport.send(request(f"{server.url}/a", headers={"A": "1"}))
        await transport.send(request(f"{server.url}/b", headers={"B": "2"}))
    lines = [message.split(b"\r\n") for message in server.requests]
    assert [(first, third) for first, _, third, *_ in lines] == [
        (b"POST /a HTTP/1.1", b"A: 1"),
        (b"POST /b HTTP/1.1", b"B: 2"),
    ]


async def test_response():
    """Header names are in lower case, repeated headers are joined, and the body is unchanged."""
    answer = http(FOUND, "203 Odd", "X-Odd: \xe9", "Set-Cookie: a=1", "Set-Cookie: b=2")
    async with carrying(send(answer)) as (transport, server):
        response = await transport.send(request(server.url))
    assert (response.status_code, response.body, response.is_truncated) == (203, FOUND, False)
    assert (response.headers["x-odd"], response.headers["set-cookie"]) == ("\xe9", "a=1, b=2")


async def test_announcements_are_no_answer():
    """An interim response (1xx) leaves nothing in the answer."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nContent-Type: text/css\r\n\r\n"
    async with carrying(send(early * 3 + http(FOUND))) as (transport, server):
        response = await transport.send(request(server.url))
    assert (response.status_code, "link" in response.headers, response.body) == (200, False, FOUND)


async def test_trailers_are_no_headers():
    """A trailer does not replace a header."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Kind: head\r\n\r\n"
    async with carrying(send(head + b"2\r\n{}\r\n0\r\nX-Kind: trailer\r\nX-More: trailer\r\n\r\n")) as (
        transport,
        server,
    ):
        response = await transport.send(request(server.url))
    assert (response.headers["x-kind"], "x-more" in response.headers) == ("head", False)


@pytest.mark.parametrize("size", [BODY_LIMIT, BODY_LIMIT + 1])
async def test_body_cap(size):
    """A body as long as the cap is whole; of a longer one the cap is kept, and the connection is not."""
    async with carrying(send(http(b"x" * size))) as (transport, server):
        response = await transport.send(request(server.url))
        kept = len(idle(transport))
    assert (len(response.body), response.is_truncated, kept) == (BODY_LIMIT, size > BODY_LIMIT, size <= BODY_LIMIT)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 200_000 + b"\r\n\r\n", "headers of more than", id="head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 30_000, "more than 524288 bytes", id="announcements"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: x\r\n" * 100_000,
            "more than 524288 bytes",
            id="trailers",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"x" * 600_000,
            "more than 524288 bytes",
            id="chunk-extension",
        ),
    ],
)
async def test_nothing_grows_without_end(answer, reason):
    """Every part of an answer has a size limit."""
    async with carrying(send(answer)) as (transport, server):
        with pytest.raises(ConnectionFailedError, match=reason):
            await transport.send(request(server.url))


@pytest.mark.parametrize("control", ["\0", "\x01", "\x0b", "\x7f"], ids=ascii)
async def test_control_characters(control):
    """A header with a control character is refused."""
    async with carrying(send(http(FOUND, "200 OK", f"X-Odd: a{control}b"))) as (transport, server):
        with pytest.raises(ConnectionFailedError, match="control character"):
            await transport.send(request(server.url))


async def test_lengths_and_chunks():
    """An answer with both a length and chunks is read, and its connection is not reused."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with carrying(send(head + b"2\r\n{}\r\n0\r\n\r\n")) as (transport, server):
        bodies = [(await transport.send(request(server.url))).body for _ in range(2)]
    assert (bodies, len(server.connections)) == ([b"{}", b"{}"], 2)


async def test_cold_connections_are_not_used():
    """A connection that was idle for longer than `keepalive` is not reused."""
    async with carrying(send(http(FOUND)), keepalive=0.0) as (transport, server):
        for _ in range(3):
            await transport.send(request(server.url))
            await asyncio.sleep(0)
    assert len(server.connections) == 3


async def test_second_address(monkeypatch):
    """When the first address of a host does not answer, the next one is tried before the time is over."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        async with carrying(send(http(FOUND))) as (transport, server):
            there = [("127.0.0.1", port) for port in (full.getsockname()[1], int(server.url.rpartition(":")[2]))]

            async def resolve(host, port, **_):  # uvloop asks for addresses of digits, too
                found = there if host == "pay.example" else [(host, port)]
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in found]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            response = await transport.send(request("http://pay.example"))
    assert response.body == FOUND


async def test_closed_while_connecting():
    """A connection that is made while the transport closes is closed when its exchange has ended."""
    async with carrying(send(http(FOUND))) as (transport, server):
        under_way = asyncio.create_task(transport.send(request(server.url)))
        await asyncio.sleep(0)
        await transport.aclose()
        await asyncio.wait([under_way])
        assert (connections(transport), len(idle(transport))) == (set(), 0)
