"""What the transport `fast` does by itself, where others leave it to httpx."""

import socket
from contextlib import asynccontextmanager

from payclient.transports import Request
from payclient.transports.fast import FastTransport
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


async def test_second_address(monkeypatch):
    """When the first address of a host does not answer, the next one is tried before the time is over."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        async with carrying(send(http(FOUND))) as (transport, server):
            there = [("127.0.0.1", port) for port in (full.getsockname()[1], int(server.url.rpartition(":")[2]))]

            def resolve(*_):
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in there]

            monkeypatch.setattr(socket, "getaddrinfo", resolve)
            response = await transport.send(request("http://pay.example"))
    assert response.body == FOUND
