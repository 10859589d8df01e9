"""
The transport `fast`: payclient's connections without httpx on top.

It does what `HttpxTransport` does at a fraction of the cost, without the other features of httpx: for HTTP/2 or
respx, pass an `http_client` to `AsyncClient`.
"""

from __future__ import annotations

import ssl

from payclient.protocol import Request, Response
from payclient.transports._connection import Connection
from payclient.transports._connections import Connections
from payclient.transports._message import SharedPart, head, rest
from payclient.transports._proxy import Origin, Proxy, as_proxy

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
            self._connections = Connections(ssl_context, connect_timeout, keepalive, as_proxy(proxy))
        finally:
            del proxy  # it may hold a password
        self._shared = SharedPart(lambda request: (Origin.of(request.url), head(request)))

    async def send(self, request: Request) -> Response:
        """Exchange *request* for a response; see `Transport.send`."""
        origin, beginning = self._shared.get(request)
        return await self._connections.exchange(
            origin, lambda: beginning + rest(request), needs_fresh=request.needs_fresh_connection
        )

    async def discard(self, response: Response) -> None:
        """Close the connection of *response*."""
        if isinstance(response.connection, Connection):
            response.connection.abort()

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        await self._connections.aclose()
