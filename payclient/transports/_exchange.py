"""One exchange over httpx, and what its failures mean in our terms."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from payclient._http import BODY_LIMIT, Request, Response
from payclient.errors import (
    AttemptTimeoutError,
    ClientClosedError,
    ConnectionFailedError,
    Sent,
    TLSVerificationError,
    TransportError,
)

_LONGEST_REASON = 200
_SMALLEST_PART = 64
"""What a piece of a body counts at least: the cap in pieces of one byte would take seconds of the event loop."""
_PASSING_TLS_ERRORS = (
    ssl.SSLEOFError,  # the connection broke during the handshake
    ssl.SSLZeroReturnError,
    ssl.SSLWantReadError,  # the handshake was still waiting when its time was over
    ssl.SSLWantWriteError,
)


async def read(response: Any, *, connection: object) -> Response:
    """
    Read *response* to its end, or to the cap, as it comes from the wire.

    Args:
        response: An `httpx.Response` whose body is still on the wire; closed here in every case.
        connection: What the transport wants to know it by.
    """
    parts: list[bytes] = []
    size = 0
    try:
        # Past `aiter_raw`, which would keep a second count and needs a request; and never
        # `aread`, which inflates without a bound.
        async for part in response.stream:
            parts.append(part)
            size += max(len(part), _SMALLEST_PART)
            if size > BODY_LIMIT:
                break
    finally:
        await response.aclose()
    body = b"".join(parts)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Response(response.status_code, headers, body[:BODY_LIMIT], size > BODY_LIMIT, connection)


def translate(error: Exception, request: Request, *, library: ModuleType, answered: bool) -> TransportError:
    """
    Return *error* in our terms, without a link to it.

    Args:
        error: What httpx raised, or an `OSError`.
        request: The one that failed.
        library: The module whose exceptions they are; httpx, or its maintained successor.
        answered: Whether the head of an answer had come.
    """
    host = urlsplit(request.url).netloc
    reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
    if refusal := _tls_refusal(error):
        message = f"{host} could not prove who it is: {refusal}"
        return TLSVerificationError(message, sent="no")
    if _has_no_descriptor(error):
        message = f"no file descriptor left for a connection to {host}; raise `ulimit -n` or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    if isinstance(error, library.PoolTimeout):
        message = f"the http_client had no free connection to {host}; raise its limits or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    if isinstance(error, (library.ConnectError, library.ConnectTimeout, library.ProxyError)):
        kind = AttemptTimeoutError if isinstance(error, library.ConnectTimeout) else ConnectionFailedError
        message = f"cannot connect to {host}: {reason}"
        return kind(message, sent="no")
    sent: Sent = "yes" if answered else "unknown"
    if isinstance(error, (library.TimeoutException, TimeoutError)):
        message = f"{host} did not answer in time: {reason}"
        return AttemptTimeoutError(message, sent=sent)
    place = "in the middle of its answer" if answered else "before it answered"
    message = f"the connection to {host} broke {place}: {reason}"
    return ConnectionFailedError(message, sent=sent)


def closed() -> ClientClosedError:
    """Return the error for a transport that is used after its end."""
    message = "the transport has been closed"
    return ClientClosedError(message)


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(8):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__


def _tls_refusal(error: Exception) -> str | None:
    """Return why a handshake failed for good; a connection that broke during it is not such a case."""
    for link in _chain(error):
        if isinstance(link, _PASSING_TLS_ERRORS):
            return None
        if isinstance(link, ssl.SSLCertVerificationError):
            return link.verify_message or link.reason
        if isinstance(link, ssl.SSLError):
            return (link.reason or "the handshake failed").replace("_", " ").lower()
    return None


def _has_no_descriptor(error: Exception) -> bool:
    return any(isinstance(link, OSError) and link.errno in (errno.EMFILE, errno.ENFILE) for link in _chain(error))
