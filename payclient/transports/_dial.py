"""Open connections: name resolution, TCP, the tunnel of a proxy, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohappyeyeballs

from payclient._telemetry import logger
from payclient.protocol import Request
from payclient.transports._connection import Connection
from payclient.transports._failures import not_connected, plain_text_refused, refused
from payclient.transports._proxy import Proxy, Tunnel, TunnelError
from payclient.transports._socket import socket_options, system_trust
from payclient.transports._tls import TlsSession, TunnelledTlsSession
from payclient.transports._way import Way, shown_address, shown_addresses

_NEXT_ADDRESS_AFTER = 0.25  # seconds; RFC 8305, section 8
_DEFAULT_PORTS = {"http": 80, "https": 443}
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

    async def dial(self, request: Request) -> Connection:
        """
        Return a new connection to the host of *request*.

        Cancelling closes everything that has been opened.

        Raises:
            TransportError: Without the original error as its cause or context.
        """
        scope = asyncio.timeout(self._timeout)
        way = Way(self._proxy.name if self._proxy else "")
        try:
            async with scope:
                return await self._connect(urlsplit(request.url), way)
        except (OSError, TunnelError) as error:
            is_late = isinstance(error, TimeoutError) and scope.expired()
            failure = refused(error, request, way) or not_connected(error, request, way, is_late=is_late)
        except asyncio.CancelledError as error:
            way.mark(error)
            raise
        raise failure

    async def _connect(self, url: SplitResult, way: Way) -> Connection:
        host, port, loop = url.hostname or "", url.port or _DEFAULT_PORTS[url.scheme], asyncio.get_running_loop()
        context = await self._trust() if url.scheme == "https" else None
        if self._proxy is not None and context is None:
            raise plain_text_refused(self._proxy)
        connection = Connection(way)
        if self._proxy is None:
            opened, outer = await _open_socket(host, port, way), None
        else:
            opened, outer = await self._open_tunnel(self._proxy, host, port, way)
        await loop.create_connection(lambda: connection, sock=opened)
        if context is not None:
            way.enter("tls", loop.time())
            with ExitStack() as on_failure:  # refused, or cancelled
                on_failure.callback(connection.abort)
                tls = TlsSession(context, host) if outer is None else TunnelledTlsSession(context, host, outer)
                await connection.secure(tls)
                on_failure.pop_all()
        way.enter("sending", loop.time())
        return connection

    async def _open_tunnel(
        self, proxy: Proxy, host: str, port: int, way: Way
    ) -> tuple[socket.socket, TlsSession | None]:
        """Return a socket at whose other end is the service, and the TLS connection to the proxy, if it wants one."""
        logger.debug("connecting to %s:%d through the proxy %s", host, port, proxy.name)
        opened = await _open_socket(proxy.host, proxy.port, way)
        with ExitStack() as on_failure:  # refused, or cancelled
            on_failure.callback(opened.close)
            way.enter("proxy", asyncio.get_running_loop().time())
            hop = _Hop(opened)
            if proxy.is_secure:
                await hop.secure(TlsSession(proxy.ssl_context or await self._trust(), proxy.host))
            hop.send_request(proxy, host, port)
            tunnel = Tunnel(has_password=proxy.has_password)
            while not tunnel.receive(await hop.receive()):
                pass
            on_failure.pop_all()
        return opened, hop.tls

    async def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await system_trust()
        return self._context


class _Hop:
    """The connection to a proxy, before it is a tunnel."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self.tls: TlsSession | None = None

    async def secure(self, tls: TlsSession) -> None:
        """Do the TLS handshake with the proxy."""
        while True:
            if message := tls.handshake():
                await self._loop.sock_sendall(self._socket, message)
            if tls.is_established:
                break
            data = await self._loop.sock_recv(self._socket, _BUFFER)
            if not data:
                raise ConnectionResetError("the connection was closed in the handshake")
            tls.receive(data)
        self.tls = tls

    def send_request(self, proxy: Proxy, host: str, port: int) -> None:
        """
        Ask for the tunnel, at once: it is the first that is sent and finds room.

        The password is in no variable of a frame that a cancellation could leave through.
        """
        if self.tls is None:
            self._socket.send(proxy.connect_message(host, port))
        else:
            self._socket.send(self.tls.encrypted(proxy.connect_message(host, port)))

    async def receive(self) -> bytes:
        """Return what the proxy says next; nothing when it has closed the connection."""
        with suppress(ConnectionResetError):
            while not self._is_over and (data := await self._loop.sock_recv(self._socket, _BUFFER)):
                if self.tls is None:
                    return data
                self.tls.receive(data)
                if parts := list(self.tls.decrypted()):  # else it was no message: a session ticket
                    self._is_over = not parts[-1]  # the proxy may wait for our end before it closes
                    return b"".join(parts)
        return b""


async def _open_socket(host: str, port: int, way: Way) -> socket.socket:
    loop = asyncio.get_running_loop()
    way.enter("name", loop.time())
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
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
