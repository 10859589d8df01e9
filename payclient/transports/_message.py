"""A request as HTTP/1.1 writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from payclient.protocol import Request
from payclient.transports._proxy import Origin

_Value = TypeVar("_Value")


class SharedPart(Generic[_Value]):
    """Cache of the part that consecutive requests have in common."""

    def __init__(self, make: Callable[[Request], _Value]) -> None:
        self._make = make
        self._last: tuple[Request, _Value] | None = None

    def get(self, request: Request) -> _Value:
        """Return the value for *request*; the last one if address and headers are the same."""
        if self._last is None or request.headers is not self._last[0].headers or request.url != self._last[0].url:
            self._last = request, self._make(request)
        return self._last[1]


def common_headers(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the headers that do not depend on the body, without `Authorization`."""
    # RFC 9110, part 7.2, for `Host`.
    headers = {"Host": str(Origin.of(request.url)), **request.headers}
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def own_headers(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the other headers; do not keep them in a variable, because they hold the API key."""
    return [
        (b"Content-Length", str(len(request.body)).encode()),
        (b"Authorization", request.authorization().encode("latin-1")),
    ]


def head(request: Request) -> bytes:
    """Return the beginning of the message, up to the request's own headers."""
    # RFC 9112, part 3.
    line = f"{request.method} {urlsplit(request.url).path or '/'} HTTP/1.1\r\n"
    return line.encode("latin-1") + b"".join(b"%b: %b\r\n" % header for header in common_headers(request))


def rest(request: Request) -> bytes:
    """Return the message after the `head`; do not keep it in a variable, because it holds the API key."""
    return b"Content-Length: %d\r\nAuthorization: %b\r\n\r\n%b" % (
        len(request.body),
        request.authorization().encode("latin-1"),
        request.body,
    )
