"""What every connection of ours has in common: whom it trusts, and how its socket is set up."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl


async def system_trust() -> ssl.SSLContext:
    """Return the one context of the process, made off the event loop: it reads some hundred certificates."""
    return await asyncio.to_thread(_system_trust)


@functools.cache
def _system_trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # Not `SSLKEYLOGFILE`: with the secrets of TLS one reads the API key. Typeshed does not know that None is for none.
    context.keylog_filename = None  # type: ignore[assignment]
    return context


def socket_options() -> list[tuple[int, int, int]]:
    """Keep an idle connection alive behind a NAT, and notice a peer that vanished."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
