"""The connections of one transport to any number of hosts: which one an exchange uses, and which are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from payclient.protocol import Response
from payclient.transports._connection import BrokenError, Connection
from payclient.transports._dial import Dialer
from payclient.transports._failures import broken, closed
from payclient.transports._origin import Origin
from payclient.transports._pool import Pool, StaleError
from payclient.transports._proxy import Proxy


class Connections:
    """
    Makes exchanges, one at a time over each connection.

    A connection is closed unless the exchange ended well; so a cancelled exchange
    leaves nothing behind. The number of connections is not limited here.

    Args:
        ssl_context: Which certificates are trusted; the system's own if None.
        connect_timeout: Seconds to wait for a connection.
        keepalive: Seconds an idle connection is kept.
        proxy: Through which `https` goes; None for none.
    """

    def __init__(
        self, ssl_context: ssl.SSLContext | None, connect_timeout: float, keepalive: float, proxy: Proxy | None
    ) -> None:
        self._dialer = Dialer(ssl_context, connect_timeout, proxy)
        self._keepalive = keepalive
        self._pools: dict[Origin, Pool[Connection]] = {}
        self._is_closed = False

    async def exchange(
        self,
        origin: Origin,
        message: Callable[[], bytes],
        *,
        needs_fresh: bool,
        is_repeatable: bool = True,
        connect_timeout: float | None = None,
    ) -> Response:
        """
        Send a message, and return the response.

        Args:
            origin: Where it is sent.
            message: Returns the request. It is a function because the request holds the key, which must be in no
                variable when an error is raised.
            needs_fresh: Whether to send it over a new connection.
            is_repeatable: Whether it may be sent again if a kept connection turns out to be closed.
            connect_timeout: Instead of that of the transport.

        Raises:
            TransportError: Without the original error as its cause or context.
        """
        if self._is_closed:
            raise closed()
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = Pool(self._keepalive)
        kept = None if needs_fresh else self._take(pool)
        if kept is not None:
            try:
                return await self._exchange(kept, pool, origin, message, is_stale_possible=is_repeatable)
            except StaleError:
                pass  # the service closed it while it was idle, which is not a failed attempt
        connection = await self._dialer.dial(origin, connect_timeout)
        pool.add(connection)
        connection.pool = pool
        return await self._exchange(connection, pool, origin, message, is_stale_possible=False)

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self._is_closed = True
        connections = [connection for pool in self._pools.values() for connection in pool.connections]
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.closed for connection in connections])

    async def _exchange(
        self,
        connection: Connection,
        pool: Pool[Connection],
        origin: Origin,
        message: Callable[[], bytes],
        *,
        is_stale_possible: bool,
    ) -> Response:
        try:
            return await connection.exchange(message())
        except BrokenError as error:
            is_stale = is_stale_possible and error.silent
            failure = StaleError() if is_stale else broken(error, origin, connection.place(), answered=error.answered)
        except asyncio.CancelledError as error:
            connection.place().mark(error)
            raise
        finally:
            self._give_back(connection, pool)
        raise failure

    def _take(self, pool: Pool[Connection]) -> Connection | None:
        """Return the most recently used connection that is still open."""
        while (connection := pool.take(asyncio.get_running_loop().time())) is not None:
            if connection.is_usable and connection.is_quiet():
                return connection
            connection.abort()
        return None

    def _give_back(self, connection: Connection, pool: Pool[Connection]) -> None:
        if not connection.is_usable or self._is_closed:
            connection.abort()
            return
        now = connection.now()
        pool.give_back(connection, now)
        while (surplus := pool.surplus(now)) is not None:
            surplus.abort()
