"""
An httpx transport over the connections of payclient, so that the tools of the httpx ecosystem see each lookup.

Only what lies below httpx's own transport is replaced: `handle_async_request` of `httpx.AsyncHTTPTransport` stays, so
tools that patch or wrap it keep working. respx patches httpcore's classes instead, which are not used here; it is
told about ours as soon as it is imported, before a request is sent.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Self

import httpx
from attrs import frozen

from payclient.errors import AttemptTimeoutError, TransportError
from payclient.protocol import Response
from payclient.transports._connection import Connection
from payclient.transports._connections import Connections
from payclient.transports._failures import progress_of
from payclient.transports._proxy import Origin, Proxy, as_proxy

LOOKUP = "payclient.lookup"
"""Request extension of a lookup, which is safe to repeat; its value says whether it needs a fresh connection."""
RESPONSE = "payclient.response"
"""Response extension: the `Response` as payclient's connection returned it."""

_UNSENDABLE = (b"CONNECT", b"HEAD")


@frozen(eq=False)
class _Head:
    """A response in the form of httpcore."""

    status: int
    headers: list[tuple[bytes, bytes]]
    stream: httpx.AsyncByteStream
    extensions: dict[str, Any]


class PoolAdapter:
    """Takes the place of httpcore's pool below httpx."""

    is_known_to_respx = False

    def __init__(self, connections: Connections, library: Any) -> None:
        self.connections = connections
        self._library = library
        # httpx does so during a request, where it would block the event loop for some 15 ms.
        import_module(library.__name__.replace("httpx", "httpcore"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request of httpcore's form, and return its response."""
        if not PoolAdapter.is_known_to_respx and (mocks := sys.modules.get("respx.mocks")) is not None:
            _tell_respx(mocks)
            return await self.handle_async_request(request)  # which may be a mock now
        if (trace := request.extensions.get("trace")) is not None:
            await trace("payclient.exchange.started", {})
        is_lookup = LOOKUP in request.extensions
        if not is_lookup and request.method in _UNSENDABLE:
            message = f"payclient's transport sends lookups, and no {request.method.decode('ascii')}"
            raise self._library.UnsupportedProtocol(message)
        body = b"".join([part async for part in request.stream])
        try:
            response = await self._exchange(request, body, is_lookup=is_lookup)
        except TransportError as error:
            if is_lookup:
                raise
            failure = error
        else:
            if response.is_truncated and not is_lookup:
                message = f"the body is longer than {len(response.body)} bytes, the limit of payclient's transport"
                raise self._library.ReadError(message)
            return self._head_of(response)
        raise self._native(failure)

    async def aclose(self) -> None:
        await self.connections.aclose()

    async def _exchange(self, request: Any, body: bytes, *, is_lookup: bool) -> Response:
        timeouts: Mapping[str, float | None] = request.extensions.get("timeout", {})
        url, seconds = request.url, timeouts.get("read")
        scheme, host = url.scheme.decode("ascii"), url.host.decode("ascii").strip("[]")
        exchange = self.connections.exchange(
            Origin(scheme, host, url.port or {"http": 80, "https": 443}[scheme]),
            lambda: _message(request, body),
            needs_fresh=bool(request.extensions.get(LOOKUP)),
            is_repeatable=is_lookup,
            connect_timeout=timeouts.get("connect"),
        )
        if seconds is None:
            return await exchange
        try:
            async with asyncio.timeout(seconds):
                return await exchange
        except TimeoutError as error:
            if isinstance(error, TransportError):
                raise
            progress = progress_of(error)
        through = f" through the proxy {progress.proxy}" if progress.proxy else ""
        message = f"{host} did not answer within {seconds:g} s{through}"
        raise AttemptTimeoutError(message, sent=progress.sent, step=progress.step, address=progress.address)

    def _head_of(self, response: Response) -> _Head:
        connection = response.connection
        headers = connection.raw_headers if isinstance(connection, Connection) else []
        extensions = {"http_version": b"HTTP/1.1", RESPONSE: response}
        return _Head(response.status_code, headers, self._library.ByteStream(response.body), extensions)

    def _native(self, error: TransportError) -> Exception:
        """Return the library's own error for callers other than payclient."""
        is_late, library = isinstance(error, AttemptTimeoutError), self._library
        if error.step == "proxy":
            kind = library.ProxyError
        elif error.sent == "no":
            kind = library.ConnectTimeout if is_late else library.ConnectError
        else:
            kind = library.ReadTimeout if is_late else library.RemoteProtocolError
        return kind(str(error))  # type: ignore[no-any-return]  # of either library


class PooledTransport(httpx.AsyncHTTPTransport):
    """
    An httpx transport over payclient's connections, for your own `httpx.AsyncClient`.

    HTTP/1.1 only. Mounted in a client that is passed as `http_client`, it gives lookups the same guarantees as the
    default transport. Other requests pass through it, with bodies up to 256 KiB, and fail with the errors of httpx.
    The number of connections is not limited; time-outs are those of the request.

    Args:
        ssl_context: Which certificates are trusted; the system's if not given.
        connect_timeout: Seconds to wait for a connection, where the request has no such time-out.
        keepalive: Seconds for which an idle connection is kept.
        proxy: Address of the proxy through which `https` goes, such as `http://proxy:3128`; None for none.

    Raises:
        ConfigurationError: When *proxy* is not such an address; out of a request over plain `http` through a proxy.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connect_timeout: float = 5.0,
        keepalive: float = 30.0,
        proxy: str | Proxy | None = None,
    ) -> None:
        # Without httpx's own `__init__`, which makes a pool of httpcore. The other methods stay, and tests patch them.
        try:
            self._pool: Any = PoolAdapter(Connections(ssl_context, connect_timeout, keepalive, as_proxy(proxy)), httpx)
        finally:
            del proxy  # it may hold a password


def transport_over(connections: Connections, library: Any) -> Any:
    """Return a transport of *library* (`httpx` or `httpx2`) that sends over *connections*."""
    kind = library.AsyncHTTPTransport
    transport = kind.__new__(kind)  # without its own pool
    transport._pool = PoolAdapter(connections, library)  # noqa: SLF001
    return transport


def _tell_respx(mocks: Any) -> None:
    """Have respx patch `PoolAdapter` together with httpcore's classes, now if it is patching them already."""
    PoolAdapter.is_known_to_respx = True
    mocks.HTTPCoreMocker.add_targets(f"{__name__}.{PoolAdapter.__name__}")


def _message(request: Any, body: bytes) -> bytes:
    """Return the request as it is written; do not keep it in a variable, because it holds the API key."""
    lines = [b"%b %b HTTP/1.1" % (request.method, request.url.target)]
    lines += [b"%b: %b" % header for header in request.headers if header[0].lower() != b"transfer-encoding"]
    if len(lines) <= len(request.headers):  # the body was streamed, and is sent at once
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])
