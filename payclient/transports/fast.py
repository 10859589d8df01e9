"""
The transport `fast`: payclient's connections without httpx on top.

It does what `HttpxTransport` does at a fraction of the cost, without the other features of httpx: for HTTP/2 or
respx, pass an `http_client` to `AsyncClient`.
"""

import re
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from payclient.errors import ConfigurationError
from payclient.protocol import Request, Response
from payclient.transports._connections import Connection, Connections
from payclient.transports._network import Network, Origin, Proxy

__all__ = ["FastTransport"]

_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n")


class FastTransport:
    """
    Sends attempts over HTTP/1.1 and kept-alive connections.

    Proxies of the environment are left to `AsyncClient`. `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured. No redirect
    is followed, and no cookie is kept. Runs on asyncio's own event loop and on uvloop.

    Args:
        ssl_context: Which certificates are trusted. The system's own if not given.
        connect_timeout: Seconds to wait for a connection.
        keepalive: Seconds an idle connection is kept.
        proxy: Address of the proxy for `https`, such as `http://proxy:3128`. None for none.

    Raises:
        ConfigurationError: When *proxy* is not such an address, or a number of seconds cannot be one.

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
            through = proxy if isinstance(proxy, Proxy | None) else Proxy(proxy)
            self._connections = Connections(Network(through, ssl_context, connect_timeout, keepalive))
        finally:
            del proxy  # it may contain a password
        self.abort: Callable[[], object] = self._connections.abort
        self._last: tuple[Request, Any] | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Make what another transport needs over these connections."""

    async def send(self, request: Request) -> Response:
        """
        Exchange *request* for a response. See `Transport.send`.

        Raises:
            TransportError: When no complete response was received.
        """
        pool, beginning = self._shared(request)
        return await self._connections.exchange(pool, request, partial(_message, beginning, request))

    async def discard(self, response: Response) -> None:
        """Close the connection of *response*."""
        if isinstance(response.connection, Connection):
            response.connection.abort()

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        await self._connections.aclose()

    def _shared(self, request: Request) -> Any:
        """Return what consecutive requests with the same address and headers have in common."""
        if self._last is None or request.headers is not self._last[0].headers or request.url != self._last[0].url:
            self._last = request, self._part(request)
        return self._last[1]

    def _part(self, request: Request) -> Any:
        # RFC 9112, part 3.
        line = f"{request.method} {urlsplit(request.url).path or '/'} HTTP/1.1\r\n"
        beginning = line.encode("latin-1") + header_lines(common_headers(request))
        return self._connections.pool(Origin.of(request.url)), beginning


def common_headers(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the headers that do not depend on the body, without `Authorization`."""
    # RFC 9110, part 7.2, for `Host`.
    headers = {"Host": str(Origin.of(request.url)), **request.headers}
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def header_lines(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the lines of headers, with the headers of a tracing context or an instrumentation."""
    # RFC 9110, part 5. A line end in one would begin another header.
    lines = [b"%b: %b\r\n" % header for header in headers]
    if not all(map(_LINE.fullmatch, lines)):
        wrong = next(line for line in lines if not _LINE.fullmatch(line)).partition(b": ")[0]
        del headers, lines  # a traceback may include the local variables of its frames, and these contain the API key
        message = f"the header {wrong.decode('latin-1')!r} has a name that is not one, or a control character"
        raise ConfigurationError(message)
    return b"".join(lines)


def _message(beginning: bytes, request: Request) -> bytes:
    """Return the whole message. Do not keep it in a variable, because it contains the API key."""
    return b"%bContent-Length: %d\r\nAuthorization: %b\r\n\r\n%b" % (
        beginning,
        len(request.body),
        request.authorization().encode("latin-1"),
        request.body,
    )
