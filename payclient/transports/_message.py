"""A request as HTTP/1.1 writes it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from payclient._http import Request

_DEFAULT_PORTS = {"http": 80, "https": 443}


class MessageWriter:
    """
    Writes requests; what all of them have in common is written once.

    Source:
        RFC 9112, parts 3 and 6.2.
    """

    def __init__(self) -> None:
        self._url = ""
        self._headers: Mapping[str, str] = {}
        self._constant = b""

    def write(self, request: Request) -> bytes:
        """Return the whole message, API key and all; do not keep it in a variable."""
        if request.headers is not self._headers or request.url != self._url:
            self._url, self._headers = request.url, request.headers
            self._constant = _constant(request)
        last = f"Content-Length: {len(request.body)}\r\nAuthorization: {request.authorization()}\r\n\r\n"
        return b"".join((self._constant, last.encode("latin-1"), request.body))


def _constant(request: Request) -> bytes:
    parts = urlsplit(request.url)
    host = parts.netloc
    if parts.port == _DEFAULT_PORTS.get(parts.scheme):
        host = host.removesuffix(f":{parts.port}")
    lines = [f"{request.method} {parts.path or '/'} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
