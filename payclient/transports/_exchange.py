"""One exchange over httpx, and the translation of its errors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from payclient.errors import AttemptTimeoutError, ConnectionFailedError, Step, TransportError
from payclient.protocol import BODY_LIMIT, Request
from payclient.transports._failures import broken, host_of, not_connected, reason_of, refused, sent
from payclient.transports._way import way_of

_SMALLEST_PART = 64
"""Minimum size that a part counts as: 256 KiB in parts of one byte would block the event loop for seconds."""


async def read_body(response: Any) -> tuple[bytes, bool]:
    """
    Return the body as received, and whether it was truncated at the limit.

    Args:
        response: Of httpx or httpcore, with an unread body; always closed here.
    """
    parts: list[bytes] = []
    size = 0
    try:
        # Not `aiter_raw`, which counts a second time and needs a request, nor `aread`, which
        # decompresses without a limit.
        async for part in response.stream:
            parts.append(part)
            size += max(len(part), _SMALLEST_PART)
            if size > BODY_LIMIT:
                break
    finally:
        await response.aclose()
    body = b"".join(parts)
    return body[:BODY_LIMIT], size > BODY_LIMIT


def translate(error: Exception, request: Request, *, library: ModuleType, answered: bool) -> TransportError:
    """
    Return *error* as a `TransportError`, without a link to it.

    Args:
        error: An exception of *library*, or an `OSError`.
        request: The request that failed.
        library: httpx, its successor httpx2, or httpcore.
        answered: Whether the head of an answer had been received.
    """
    way = way_of(error)
    if refusal := refused(error, request, way):
        return refusal
    if isinstance(error, library.PoolTimeout):
        host = host_of(request)
        message = f"the http_client had no free connection to {host}; raise its limits or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    if isinstance(error, (library.ConnectError, library.ConnectTimeout, library.ProxyError)):
        return not_connected(error, request, way, is_late=isinstance(error, library.ConnectTimeout))
    if isinstance(error, (library.TimeoutException, TimeoutError)):
        step: Step = "body" if answered else "sending" if isinstance(error, library.WriteTimeout) else "waiting"
        message = f"{host_of(request)} did not answer in time: {reason_of(error)}"
        return AttemptTimeoutError(message, sent=sent(answered=answered), step=step, address=way.address)
    return broken(error, request, way, answered=answered)
