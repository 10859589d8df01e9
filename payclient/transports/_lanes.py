"""
The default transport: httpx's own connections, without its client and its pool.

Why no pool: httpcore's walks over all its connections for every request, and a request that is
cancelled between getting a connection and using it leaves that connection in the pool for good
(encode/httpcore#1093). A lane is one connection, used by one attempt at a time and thrown away
unless its attempt ended well, so neither can happen. How many there are is the limiter's business.
Why no client: nothing of it is used, and it costs as much as the exchange.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import httpcore

from payclient._http import Request, Response
from payclient.transports._exchange import read_body, translate
from payclient.transports._failures import closed
from payclient.transports._message import InCommon, common_headers, own_headers
from payclient.transports._socket import socket_options, system_trust

_DIED = (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError)
_FAILED = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)
_MOST_CLOSED_AT_ONCE = 2


class _Lane:
    """One connection, kept alive between attempts."""

    __slots__ = ("_socket", "http", "idle_since")

    def __init__(self, url: httpcore.URL, context: ssl.SSLContext | None) -> None:
        self.http = httpcore.AsyncHTTPConnection(url.origin, ssl_context=context, socket_options=socket_options())
        self.idle_since = 0.0
        self._socket: Any = None

    async def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep hold of the socket: httpcore forgets to close it when a TLS handshake is cancelled."""
        if event == "connection.connect_tcp.complete":
            self._socket = info["return_value"]

    async def aclose(self) -> None:
        """Close the connection, however far it had come."""
        try:
            await self.http.aclose()
        finally:
            if self._socket is not None:
                await self._socket.aclose()


class HttpxTransport:
    """
    Carries attempts over httpx, with HTTP/1.1 and kept-alive connections.

    Neither proxies nor certificates are taken from the environment, no redirect is followed, no
    cookie kept. For a proxy, give `AsyncClient` an `http_client` of your own.

    Args:
        ssl_context: Which certificates are trusted; the system's own if not given.
        connect_timeout: Seconds to wait for a connection.
        keepalive: Seconds an idle connection is kept.
    """

    def __init__(
        self, *, ssl_context: ssl.SSLContext | None = None, connect_timeout: float = 5.0, keepalive: float = 30.0
    ) -> None:
        _import_ahead()
        self._context = ssl_context
        self._extensions = {"timeout": {"connect": connect_timeout}}
        self._keepalive = keepalive
        self._in_common = InCommon(lambda request: (httpcore.URL(request.url), common_headers(request)))
        self._connections: set[_Lane] = set()
        self._idle: deque[_Lane] = deque()  # the warmest at the right
        self._is_closed = False

    async def send(self, request: Request) -> Response:
        """Exchange *request* for a response; see `Transport.send`."""
        if self._is_closed:
            raise closed()
        kept = await self._take()
        if kept is not None:
            try:
                return await self._exchange(kept, request, reused=True)
            except _StaleLane:
                pass  # the service closed it while it was idle: that is no failed attempt
        return await self._exchange(await self._new_lane(request), request, reused=False)

    async def discard(self, response: Response) -> None:
        """Close the connection that *response* came by."""
        lane = response.connection
        if isinstance(lane, _Lane):
            if lane in self._idle:
                self._idle.remove(lane)
            await self._close(lane)

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._is_closed = True
        self._idle.clear()
        interruption: asyncio.CancelledError | None = None
        while self._connections:
            try:
                await self._connections.pop().aclose()
            except asyncio.CancelledError as error:
                interruption = error  # the others are still open
        if interruption is not None:
            raise interruption

    async def _new_lane(self, request: Request) -> _Lane:
        url, _ = self._in_common.of(request)
        if url.scheme == b"https" and self._context is None:
            self._context = await system_trust()
        lane = _Lane(url, self._context)
        self._connections.add(lane)
        return lane

    async def _exchange(self, lane: _Lane, request: Request, *, reused: bool) -> Response:
        answered = ended_well = False
        try:
            head = await lane.http.handle_async_request(self._native(request, None if reused else lane))
            answered = True
            body, is_truncated = await read_body(head)
            ended_well = not is_truncated and lane.http.is_available()
        except _FAILED as error:
            is_stale = reused and not answered and isinstance(error, _DIED)
            failure = _StaleLane() if is_stale else translate(error, request, library=httpcore, answered=answered)
        else:
            return Response(head.status, _read_headers(head.headers), body, is_truncated, lane)
        finally:
            await self._give_back(lane) if ended_well else await self._close(lane)
        raise failure  # outside the handler: the error must not drag httpcore's frames and request along

    def _native(self, request: Request, new: _Lane | None) -> httpcore.Request:
        url, headers = self._in_common.of(request)
        return httpcore.Request(
            request.method,
            url,
            headers=[*headers, *own_headers(request)],
            content=request.body,
            extensions={**self._extensions, "trace": new.watch} if new else self._extensions,
        )

    async def _take(self) -> _Lane | None:
        """Return the warmest connection that is still good."""
        oldest = asyncio.get_running_loop().time() - self._keepalive
        while self._idle:
            lane = self._idle.pop()
            if lane.idle_since >= oldest and not lane.http.has_expired():
                return lane
            await self._close(lane)
        return None

    async def _give_back(self, lane: _Lane) -> None:
        if self._is_closed:
            await self._close(lane)
            return
        now = asyncio.get_running_loop().time()
        lane.idle_since = now
        self._idle.append(lane)
        for _ in range(_MOST_CLOSED_AT_ONCE):
            if self._idle[0].idle_since + self._keepalive >= now:
                return
            await self._close(self._idle.popleft())

    async def _close(self, lane: _Lane) -> None:
        self._connections.discard(lane)
        await lane.aclose()


def _import_ahead() -> None:
    """Import now what httpcore and anyio would import on the event loop, in the middle of the first lookup."""
    for module in ("sniffio", "anyio._backends._asyncio"):
        with suppress(ModuleNotFoundError):  # named differently one day; then it is imported late again
            import_module(module)


def _read_headers(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


class _StaleLane(Exception):  # noqa: N818  a signal inside this module
    """A kept-alive connection turned out to be closed."""
