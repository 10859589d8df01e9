"""
An httpx transport whose connections survive cancellation.

It has its own pool, because httpcore's iterates over all connections for every request, and leaks a
connection if a request is cancelled between getting it and using it (encode/httpcore#1093). Here a
connection has one exchange at a time, and is closed unless the exchange ended well. The caller limits the
number of connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Self

import httpx

from payclient.errors import Step
from payclient.transports._backend import Backend
from payclient.transports._backend import core as _core
from payclient.transports._failures import plain_text_refused
from payclient.transports._pool import Pool, StaleError
from payclient.transports._proxy import Proxy, as_proxy
from payclient.transports._socket import socket_options, system_trust
from payclient.transports._way import Way

_DIED = (_core.ReadError, _core.WriteError, _core.RemoteProtocolError)
_MAX_CLOSED_AT_ONCE = 2
_MAX_SEEN = 48 * 1024
"""Size of an answer up to which extra bytes after it are detected: anyio gives httpcore 64 KiB per read."""
_FRAMING = 16
"""Bytes of framing for each part of a body, and for each header."""
_BODILESS = (204, 304)

_STEPS: dict[str, Step] = {
    "connection.start_tls.started": "tls",
    "http11.send_request_headers.started": "sending",
    "http11.receive_response_headers.started": "waiting",
}
"""The events of httpcore that begin a step; the earlier steps are recorded by the `Backend`."""

LOOKUP = "payclient.lookup"
"""Request extension of a lookup, which is safe to repeat; its value says whether it needs a fresh connection."""
CONNECTION = "payclient.connection"
"""Response extension: the `KeptConnection` of the response."""


class KeptConnection:
    """One connection, kept alive between exchanges."""

    __slots__ = ("_socket", "exchanges", "has_more", "http", "idle_since", "pool", "way")

    def __init__(
        self,
        url: Any,
        context: ssl.SSLContext | None,
        pool: Pool[KeptConnection],
        proxy: Proxy | None = None,
    ) -> None:
        self.way = Way(proxy.name if proxy else "")
        self.http = _core.AsyncHTTPConnection(
            url.origin,
            ssl_context=context,
            socket_options=socket_options(),
            network_backend=Backend(self.way, proxy),
        )
        self.idle_since = 0.0
        self.exchanges = 0
        self.has_more = False
        """Whether anything was received after the last answer."""
        self.pool = pool
        self._socket: Any = None

    @property
    def is_alone(self) -> bool:
        """Whether there was no more than one exchange, and nothing after its answer."""
        return self.exchanges == 1 and not self.has_more

    def watch(self, theirs: Callable[[str, Any], Awaitable[None]] | None) -> Callable[[str, Any], Awaitable[None]]:
        """
        Remember the socket, because httpcore does not close it when a TLS handshake is cancelled.

        The events of httpcore also give the steps of the first exchange.
        """

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                self._socket = info["return_value"]
            if (step := _STEPS.get(event)) is not None:
                self.way.enter(step, asyncio.get_running_loop().time())
            if theirs is not None:
                await theirs(event, info)

        return trace

    def look_behind(self) -> None:
        """Check whether anything was received after the answer."""
        connection = getattr(self.http, "_connection")  # noqa: B009  httpcore shows neither parser nor TLS
        if connection is None:  # patched by respx
            return
        tls = getattr(connection, "_network_stream").get_extra_info("ssl_object")  # noqa: B009
        state = getattr(connection, "_h11_state")  # noqa: B009
        self.has_more = bool(state.trailing_data[0]) or (tls is not None and _has_more(tls))

    async def aclose(self) -> None:
        """Close the connection in any state."""
        self.pool.remove(self)
        try:
            await self.http.aclose()
        finally:
            if self._socket is not None:
                await self._socket.aclose()


class _Body:
    """An unread body; when it is closed, its connection is kept or closed."""

    def __init__(self, connections: _Connections, connection: KeptConnection, head: Any) -> None:
        self._connections, self._connection, self._head = connections, connection, head
        self._size = sum(len(name) + len(value) + _FRAMING for name, value in head.headers)
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._head.stream:
                self._size += len(part) + _FRAMING
                yield part
        except (Exception, asyncio.CancelledError) as error:
            self._connection.way.at("body").mark(error)
            raise

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        connection, is_spent = self._connection, False
        try:
            await self._head.aclose()
            connection.look_behind()
            is_spent = not (connection.has_more or self._size > _MAX_SEEN or _is_ambiguous(self._head))
        finally:
            await self._connections.settle(connection, is_spent=is_spent)


class _Connections:
    """The replacement of httpcore's pool in httpx's transport."""

    def __init__(self, context: ssl.SSLContext | None, keepalive: float, proxy: Proxy | None) -> None:
        self._context = context
        self._keepalive = keepalive
        self._proxy = proxy
        self._pools: dict[Any, Pool[KeptConnection]] = {}
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        if self._is_closed:
            message = "the transport has been closed"
            raise RuntimeError(message)
        is_lookup = LOOKUP in request.extensions
        if not request.extensions.get(LOOKUP):
            kept = await self._take(request.url)
            if kept is not None:
                try:
                    return await self._exchange(kept, request, is_repeatable=is_lookup)
                except StaleError:
                    pass  # the service closed it while it was idle, which is not a failed attempt
        connection = await self._connect(request.url)
        trace = connection.watch(request.extensions.get("trace"))
        request.extensions = {**request.extensions, "trace": trace}
        return await self._exchange(connection, request, is_repeatable=False)

    async def settle(self, connection: KeptConnection, *, is_spent: bool) -> None:
        """Keep a connection whose exchange ended well, and close any other."""
        if self._is_closed or not is_spent or not connection.http.is_available():
            await connection.aclose()
            return
        now = asyncio.get_running_loop().time()
        connection.pool.give_back(connection, now)
        for pool in list(self._pools.values()):
            for _ in range(_MAX_CLOSED_AT_ONCE):
                if (surplus := pool.surplus(now)) is not None:
                    await surplus.aclose()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._is_closed = True
        interruption: asyncio.CancelledError | None = None
        for pool in self._pools.values():
            while pool.connections:
                try:
                    await next(iter(pool.connections)).aclose()
                except asyncio.CancelledError as error:
                    interruption = error  # the others are still open
        if interruption is not None:
            raise interruption

    async def _take(self, url: Any) -> KeptConnection | None:
        pool = self._pool(url)
        while (kept := pool.take(asyncio.get_running_loop().time())) is not None:
            if not kept.http.has_expired():
                return kept
            await kept.aclose()
        return None

    async def _connect(self, url: Any) -> KeptConnection:
        if self._proxy is not None and url.scheme != b"https":
            raise plain_text_refused(self._proxy)
        if url.scheme == b"https" and self._context is None:
            self._context = await system_trust()
        pool = self._pool(url)
        connection = KeptConnection(url, self._context, pool, self._proxy)
        pool.add(connection)
        return connection

    def _pool(self, url: Any) -> Pool[KeptConnection]:
        place = (url.scheme, url.host, url.port)
        pool = self._pools.get(place)
        if pool is None:
            pool = self._pools[place] = Pool(self._keepalive)
        return pool

    async def _exchange(self, connection: KeptConnection, request: Any, *, is_repeatable: bool) -> Any:
        connection.exchanges += 1
        head: Any = None
        try:
            head = await connection.http.handle_async_request(request)
        except _DIED as error:
            if not is_repeatable:
                connection.way.mark(error)
                raise
        except _core.ConnectionNotAvailable as error:
            failure = _core.ConnectError("the connection was closed before it was used")
            connection.way.mark(failure)
            raise failure from error
        except (Exception, asyncio.CancelledError) as error:
            connection.way.mark(error)
            raise
        finally:
            if head is None:
                await connection.aclose()
        if head is None:
            raise StaleError
        extensions = {**head.extensions, CONNECTION: connection}
        return _core.Response(
            head.status,
            headers=head.headers,
            content=_Body(self, connection, head),
            extensions=extensions,
        )


class PooledTransport(httpx.AsyncHTTPTransport):
    """
    An httpx transport whose connections survive cancellation, for your own `httpx.AsyncClient`.

    HTTP/1.1 only. Mounted in a client that is passed as `http_client`, it gives lookups the
    same guarantees as the default transport. A connection is not reused after an answer with an ambiguous
    end, or of more than 48 KiB. The number of connections is not limited; time-outs are those of the request.

    Args:
        ssl_context: Which certificates are trusted; the system's if not given.
        keepalive: Seconds for which an idle connection is kept.
        proxy: Address of the proxy through which `https` goes, such as `http://proxy:3128`; None for none.

    Raises:
        ConfigurationError: When *proxy* is not such an address; out of a request over plain `http` through a proxy.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        keepalive: float = 30.0,
        proxy: str | Proxy | None = None,
    ) -> None:
        # Without httpx's own `__init__`, which makes a pool of httpcore. The other methods stay, and tests patch them.
        try:
            self._pool: Any = _Connections(ssl_context, keepalive, as_proxy(proxy))
        finally:
            del proxy  # it may hold a password
        for module in ("sniffio", "anyio._backends._asyncio"):  # otherwise imported during the first lookup
            with suppress(ModuleNotFoundError):
                import_module(module)


def _is_ambiguous(head: Any) -> bool:
    """Return whether an intermediary may have read the end of the answer differently."""
    names = {name.lower() for name, _ in head.headers}
    return head.status in _BODILESS or {b"transfer-encoding", b"content-length"} <= names


def _has_more(tls: ssl.SSLObject) -> bool:
    """Return whether TLS holds more received data, which the socket does not show."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:  # its end, for one
        return True
    return True
