"""Trusted certificates, socket options, and what a socket still holds, for all connections."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from payclient.errors import ClientClosedError

_READ_BYTES = 16 * 1024


async def system_trust() -> ssl.SSLContext:
    """Return the SSL context of the process, created in a thread because it reads some hundred certificates."""
    with _needs_thread():
        return await asyncio.to_thread(_system_trust)


async def addresses_of(host: str, port: int) -> Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]:
    """Return the addresses of *host*; the name is resolved in a thread."""
    loop = asyncio.get_running_loop()
    with _needs_thread():
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)


@contextmanager
def _needs_thread() -> Generator[None]:
    """Translate the error of an executor that starts no thread, because Python or its event loop is about to end."""
    try:
        yield
    except RuntimeError as error:
        message = f"no new connection can be made: {error}"
    else:
        return
    raise ClientClosedError(message)


@functools.cache
def _system_trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # Without `SSLKEYLOGFILE`, whose TLS secrets would reveal the API key. Typeshed does not know that None is allowed.
    context.keylog_filename = None  # type: ignore[assignment]
    return context


def socket_options() -> list[tuple[int, int, int]]:
    """Return options that keep an idle connection alive behind a NAT, and detect a dead peer."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def unread(lost: Any) -> Iterator[bytes]:
    """
    Yield what the socket of a lost connection has received and still holds.

    When a write fails, asyncio closes the connection without a look. What is left may say why: in TLS 1.3, the alert
    of a service that demands a client certificate comes while the request is sent.
    """
    with suppress(OSError, TypeError), lost.dup() as own:  # uvloop's cannot be duplicated
        while data := own.recv(_READ_BYTES):
            yield data
