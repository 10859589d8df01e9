"""Open connections: name resolution, TCP, the tunnel of a proxy, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack, suppress
from typing import Any

import aiohappyeyeballs

from payclient._telemetry import logger
from payclient.transports._connection import Connection
from payclient.transports._failures import not_connected, plain_text_refused, refused
from payclient.transports._origin import Origin
from payclient.transports._proxy import Proxy, Tunnel, TunnelError
from payclient.transports._socket import addresses_of, socket_options, system_trust
from payclient.transports._tls import TlsSession
from payclient.transports._way import Way, shown_address, shown_addresses

_NEXT_ADDRESS_AFTER = 0.25  # seconds; RFC 8305, section 8
_BUFFER = 16 * 1024


class Dialer:
    """
    Makes connections.

    Args:
        ssl_context: Which certificates are trusted; the system's own if None.
        timeout: Seconds for one connection, from the name to the end of the handshake.
        proxy: Which is asked for a tunnel; None for none.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None, timeout: float, proxy: Proxy | None = None) -> None:
        self._context = ssl_context
        self._timeout = timeout
        self._proxy = proxy

    async def dial(self, origin: Origin, timeout: float | None = None) -> Connection:  # noqa: ASYNC109  in one scope
        """
        Return a new connection to *origin*, in *timeout* seconds if given.

        Cancelling closes everything that has been opened.

        Raises:
            TransportError: Without the original error as its cause or context.
        """
        scope = asyncio.timeout(self._timeout if timeout is None else timeout)
        way = Way(self._proxy.name if self._proxy else "")
        try:
            async with scope:
                return await self._connect(origin, way)
        except (OSError, TunnelError) as error:
            is_late = isinstance(error, TimeoutError) and scope.expired()
            failure = refused(error, origin, way) or not_connected(error, origin, way, is_late=is_late)
        except asyncio.CancelledError as error:
            way.mark(error)
            raise
        raise failure

    async def _connect(self, origin: Origin, way: Way) -> Connection:
        host, port, loop = origin.host, origin.port, asyncio.get_running_loop()
        context = await self._trust() if origin.scheme == "https" else None
        if self._proxy is not None and context is None:
            raise plain_text_refused(self._proxy)
        if self._proxy is None:
            opened = await _open_socket(host, port, way)
        else:
            opened = await _open_tunnel(self._proxy, host, port, way)
        with ExitStack() as on_failure:
            on_failure.callback(opened.close)
            tls = None if context is None else TlsSession(context, host)
            on_failure.pop_all()
        connection = Connection(way, tls)
        await loop.create_connection(lambda: connection, sock=opened)
        if tls is not None:
            way.enter("tls", loop.time())
            with ExitStack() as on_failure:  # refused, or cancelled
                on_failure.callback(connection.abort)
                await connection.secure()
                on_failure.pop_all()
        way.enter("sending", loop.time())
        return connection

    async def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await system_trust()
        return self._context


async def _open_tunnel(proxy: Proxy, host: str, port: int, way: Way) -> socket.socket:
    """Return a socket at whose other end is the service."""
    logger.debug("connecting to %s:%d through the proxy %s", host, port, proxy.name)
    opened = await _open_socket(proxy.host, proxy.port, way)
    with ExitStack() as on_failure:  # refused, or cancelled
        on_failure.callback(opened.close)
        way.enter("proxy", asyncio.get_running_loop().time())
        # At once: it is the first that is sent and finds room. Nor is the password in a variable of a frame that a
        # cancellation could leave through.
        opened.send(proxy.connect_message(host, port))
        tunnel = Tunnel(has_password=proxy.has_password)
        while not tunnel.receive(await _receive(opened)):
            pass
        on_failure.pop_all()
    return opened


async def _receive(opened: socket.socket) -> bytes:
    """Return what the proxy says next; nothing when it has closed the connection."""
    with suppress(ConnectionResetError):
        return await asyncio.get_running_loop().sock_recv(opened, _BUFFER)
    return b""


async def _open_socket(host: str, port: int, way: Way) -> socket.socket:
    loop = asyncio.get_running_loop()
    way.enter("name", loop.time())
    addresses = await addresses_of(host, port)
    way.enter("connect", loop.time())
    way.address = shown_addresses([address for *_, address in addresses])
    opened = await aiohappyeyeballs.start_connection(  # pyright: ignore[reportUnknownMemberType]  its socket addresses are bare tuples
        addresses,
        happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
        socket_factory=_new_socket,
    )
    if len(addresses) > 1:
        with suppress(OSError):  # the other side has gone already
            way.address = shown_address(opened.getpeername())
    return opened


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    for option in socket_options():
        made.setsockopt(*option)
    return made
