"""
An httpx transport over the connections of payclient, so that the tools of the httpx ecosystem see each lookup.

Only what lies below httpx's own transport is replaced: `handle_async_request` of `httpx.AsyncHTTPTransport` stays, so
tools that patch or wrap it keep working. respx patches httpcore's classes instead, which are not used here; it is
told about ours as soon as it is imported, before a request is sent.
"""

import sys
from functools import partial
from importlib import import_module
from typing import Any

import httpx
from attrs import frozen

from payclient.transports._connection import Connection
from payclient.transports._connections import Connections, Pool
from payclient.transports._proxy import Origin
from payclient.transports.fast import header_lines

NEEDS_FRESH = "payclient.needs_fresh"
"""Request extension: whether the lookup needs a fresh connection."""
ON_LATE = "payclient.on_late"
"""Request extension: called with the response if it comes after the caller has left."""
RESPONSE = "payclient.response"
"""Response extension: the `Response` as payclient's connection returned it."""


@frozen(eq=False)
class _Head:
    """A response in the form of httpcore."""

    status: int
    headers: list[tuple[bytes, bytes]]
    stream: httpx.AsyncByteStream
    extensions: dict[str, Any]


class PoolAdapter:
    """Takes the place of httpcore's pool below httpx, for lookups."""

    def __init__(self, connections: Connections, library: Any) -> None:
        self.connections = connections
        self._library = library
        self._pools: dict[tuple[bytes, bytes, int | None], Pool] = {}  # by scheme, host and port of the URL
        # httpx does so during a request, where it would block the event loop for some 15 ms.
        import_module(library.__name__.replace("httpx", "httpcore"))

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request of httpcore's form, and return its response."""
        if (mocks := sys.modules.get("respx.mocks")) is not None and _tell_respx(mocks):
            return await self.handle_async_request(request)  # which may be a mock now
        stream, url = request.stream, request.url
        is_in_memory = isinstance(stream, self._library.ByteStream)
        body = b"".join(stream if is_in_memory else [part async for part in stream])
        pool = self._pools.get((url.scheme, url.host, url.port)) or self._pool(url)
        response = await self.connections.exchange(
            pool,
            partial(_message, request, body),
            needs_fresh=request.extensions[NEEDS_FRESH],
            on_late=request.extensions.get(ON_LATE),
        )
        connection = response.connection
        headers = connection.raw_headers if isinstance(connection, Connection) else []
        extensions = {"http_version": b"HTTP/1.1", RESPONSE: response}
        return _Head(response.status_code, headers, self._library.ByteStream(response.body), extensions)

    def _pool(self, url: Any) -> Pool:
        scheme, host = url.scheme.decode("ascii"), url.host.decode("ascii").strip("[]")
        pool = self.connections.pool(Origin(scheme, host, url.port or {"http": 80, "https": 443}[scheme]))
        self._pools[url.scheme, url.host, url.port] = pool
        return pool

    async def aclose(self) -> None:
        await self.connections.aclose()


_told: set[str] = set()
"""Mockers of respx that know `PoolAdapter`; pytest-httpx2 brings the one for httpcore2."""


def transport_over(connections: Connections, library: Any) -> Any:
    """Return a transport of *library* (`httpx` or `httpx2`) that sends over *connections*."""
    kind = library.AsyncHTTPTransport
    transport = kind.__new__(kind)  # without its own pool
    transport._pool = PoolAdapter(connections, library)  # noqa: SLF001
    return transport


def _tell_respx(mocks: Any) -> bool:
    """Have the mockers of httpcore and httpcore2 patch `PoolAdapter` too; return whether one of them is new."""
    new = mocks.Mocker.registry.keys() & {"httpcore", "httpcore2"} - _told
    _told.update(new)
    for name in new:
        mocks.Mocker.registry[name].add_targets(f"{__name__}.{PoolAdapter.__name__}")
    return bool(new)


def _message(request: Any, body: bytes) -> bytes:
    """Return the request as it is written; do not keep it in a variable, because it holds the API key."""
    return b"%b %b HTTP/1.1\r\n%b\r\n%b" % (request.method, request.url.target, header_lines(request.headers), body)
