"""One exchange over httpx, and what its failures mean in our terms."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from payclient.errors import AttemptTimeoutError, ConnectionFailedError, TransportError
from payclient.protocol import BODY_LIMIT, Request
from payclient.transports._failures import broken, host_of, not_connected, reason_of, refused, sent

_SMALLEST_PART = 64
"""What a part of a body counts at least: the cap in pieces of one byte would take seconds of the event loop."""


async def read_body(response: Any) -> tuple[bytes, bool]:
    """
    Return the body as it comes from the wire, and whether it is cut at the cap.

    Args:
        response: Of httpx or httpcore, its body still on the wire; closed here in every case.
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
    return body[:BODY_LIMIT], size > BODY_LIMIT


def translate(error: Exception, request: Request, *, library: ModuleType, answered: bool) -> TransportError:
    """
    Return *error* in our terms, without a link to it.

    Args:
        error: What it raised, or an `OSError`.
        request: The one that failed.
        library: The module whose exceptions they are; httpx, its maintained successor, or httpcore.
        answered: Whether the head of an answer had come.
    """
    if refusal := refused(error, request):
        return refusal
    if isinstance(error, library.PoolTimeout):
        host = host_of(request)
        message = f"the http_client had no free connection to {host}; raise its limits or lower max_concurrency"
        return ConnectionFailedError(message, sent="no")
    if isinstance(error, (library.ConnectError, library.ConnectTimeout, library.ProxyError)):
        return not_connected(error, request, is_late=isinstance(error, library.ConnectTimeout))
    if isinstance(error, (library.TimeoutException, TimeoutError)):
        message = f"{host_of(request)} did not answer in time: {reason_of(error)}"
        return AttemptTimeoutError(message, sent=sent(answered=answered))
    return broken(error, request, answered=answered)
