"""
The transport of the extra `fast`: asyncio connections, parsed by httptools.

It does what `HttpxTransport` does at a fraction of the cost, without the other features of httpx: for HTTP/2 or
respx, pass an `http_client` to `AsyncClient`.
"""

from __future__ import annotations

import asyncio
import ssl

from attrs import evolve

from payclient.protocol import Request, Response
from payclient.transports._connection import BrokenError, Connection
from payclient.transports._dial import Dialer
from payclient.transports._failures import broken, closed
from payclient.transports._message import InCommon, head, rest
from payclient.transports._pool import Pool, StaleError
from payclient.transports._proxy import Proxy, as_proxy

__all__ = ["FastTransport"]


class FastTransport:
    """
    Sends attempts over HTTP/1.1 and kept-alive connections.

    Proxies of the environment are left to `AsyncClient`. `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured; no redirect
    is followed, and no cookie is kept. Runs on asyncio's own event loop and on uvloop.

    Args:
        ssl_context: Which certificates are trusted; the system's own if not given.
        connect_timeout: Seconds to wait for a connection.
        keepalive: Seconds an idle connection is kept.
        proxy: Address of the proxy through which `https` goes, such as `http://proxy:3128`; None for none.

    Raises:
        ConfigurationError: When *proxy* is not such an address.

    Source:
        RFC 9112 (HTTP/1.1) for messages and connections, RFC 8305 for hosts with several addresses.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connect_timeout: float = 5.0,
        keepalive: float = 30.0,
        proxy: str | Proxy | None = None,
    ) -> None:
        try:
            self._dialer = Dialer(ssl_context, connect_timeout, as_proxy(proxy))
        finally:
            del proxy  # it may hold a password
        self._head = InCommon(head)
        self._pool: Pool[Connection] = Pool(keepalive)
        self._is_closed = False

    async def send(self, request: Request) -> Response:
        """Exchange *request* for a response; see `Transport.send`."""
        if self._is_closed:
            raise closed()
        kept = None if request.needs_fresh_connection else self._take()
        if kept is not None:
            try:
                return await self._exchange(kept, request, reused=True)
            except StaleError:
                pass  # the service closed it while it was idle, which is not a failed attempt
        return await self._exchange(await self._new_connection(request), request, reused=False)

    async def discard(self, response: Response) -> None:
        """Close the connection of *response*."""
        if isinstance(response.connection, Connection):
            self._drop(response.connection)

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self._is_closed = True
        connections = list(self._pool.connections)
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.closed for connection in connections])

    async def _exchange(self, connection: Connection, request: Request, *, reused: bool) -> Response:
        try:
            # The message holds the key, so it is in no variable when an error is raised from here.
            response = await connection.exchange(self._head.of(request) + rest(request))
        except BrokenError as error:
            is_stale = reused and error.silent
            failure = StaleError() if is_stale else broken(error, request, connection.place(), answered=error.answered)
        except asyncio.CancelledError as error:
            connection.place().mark(error)
            raise
        else:
            return evolve(response, is_fresh=True) if connection.is_alone else response
        finally:
            self._give_back(connection)
        raise failure

    async def _new_connection(self, request: Request) -> Connection:
        connection = await self._dialer.dial(request)
        self._pool.add(connection)
        connection.closed.add_done_callback(lambda _: self._pool.remove(connection))
        return connection

    def _take(self) -> Connection | None:
        """Return the most recently used connection that is still open."""
        while (connection := self._pool.take(asyncio.get_running_loop().time())) is not None:
            if connection.is_usable and connection.is_quiet():
                return connection
            self._drop(connection)
        return None

    def _give_back(self, connection: Connection) -> None:
        if not connection.is_usable or self._is_closed:
            self._drop(connection)
            return
        now = connection.now()
        self._pool.give_back(connection, now)
        while (surplus := self._pool.surplus(now)) is not None:
            self._drop(surplus)

    def _drop(self, connection: Connection) -> None:
        self._pool.remove(connection)
        connection.abort()
