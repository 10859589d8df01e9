"""Open connections: name resolution, TCP, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohappyeyeballs

from payclient.errors import TransportError
from payclient.protocol import Request
from payclient.transports._connection import Connection
from payclient.transports._failures import not_connected, refused
from payclient.transports._socket import socket_options, system_trust
from payclient.transports._tls import TlsSession

_NEXT_ADDRESS_AFTER = 0.25  # seconds; RFC 8305, section 8
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Dialer:
    """
    Makes connections.

    Args:
        ssl_context: Which certificates are trusted; the system's own if None.
        timeout: Seconds for one connection, from the name to the end of the handshake.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None, timeout: float) -> None:
        self._context = ssl_context
        self._timeout = timeout

    async def dial(self, request: Request) -> Connection:
        """
        Return a new connection to the host of *request*.

        Cancelling closes everything that has been opened.

        Raises:
            TransportError: Without the original error as its cause or context.
        """
        scope = asyncio.timeout(self._timeout)
        try:
            async with scope:
                return await self._connect(urlsplit(request.url))
        except OSError as error:
            failure = _failure(error, request, is_late=isinstance(error, TimeoutError) and scope.expired())
        raise failure

    async def _connect(self, url: SplitResult) -> Connection:
        host, connection, loop = url.hostname or "", Connection(), asyncio.get_running_loop()
        context = await self._trust() if url.scheme == "https" else None
        opened = await _open_socket(host, url.port or _DEFAULT_PORTS[url.scheme])
        await loop.create_connection(lambda: connection, sock=opened)
        if context is not None:
            is_secure = False
            try:
                await connection.secure(TlsSession(context, host))
                is_secure = True
            finally:
                if not is_secure:  # refused, or cancelled
                    connection.abort()
        return connection

    async def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await system_trust()
        return self._context


async def _open_socket(host: str, port: int) -> socket.socket:
    addresses = await asyncio.get_running_loop().getaddrinfo(
        host,
        port,
        type=socket.SOCK_STREAM,
        proto=socket.IPPROTO_TCP,
    )
    return await aiohappyeyeballs.start_connection(  # pyright: ignore[reportUnknownMemberType]  its socket addresses are bare tuples
        addresses,
        happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
        socket_factory=_new_socket,
    )


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    for option in socket_options():
        made.setsockopt(*option)
    return made


def _failure(error: OSError, request: Request, *, is_late: bool) -> TransportError:
    return refused(error, request) or not_connected(error, request, is_late=is_late)
