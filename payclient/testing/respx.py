"""
respx routes that answer like the payment service.

Add them to `respx.mock`, or to a `respx.Router`: `httpx.MockTransport` takes its `async_handler`. A route matches the
documented request: `POST`, either path, any base URL, and a JSON body with only the reference. A later route for the
same reference replaces the earlier one.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import httpx

from payclient._shared.version import from_extra
from payclient.testing._service import Assumptions, Reply, envelope

with from_extra("testing", "payclient.testing.respx needs respx"):
    import respx

__all__ = ["answered", "envelope", "found", "not_found", "throttled", "unavailable"]

_PATH = re.compile(r"/api(-sandbox)?/transaction/detail$")
_ASSUMED = Assumptions()


def answered(reference: str | None, *replies: Reply, **fields: object) -> respx.Route:
    """
    Return a route that sends the replies one after the other, and then repeats the last one.

    Args:
        reference: None for a route that matches every reference.
        replies: At least one. The normal answer is `envelope(reference=…, **fields)`.
        fields: Fields of the transaction.

    Raises:
        ValueError: Without a reply.
    """
    if not replies:
        raise ValueError("a route needs at least one reply")
    asked: dict[str, Any] = {} if reference is None else {"json": {"reference": reference}}
    data = envelope(**fields) if reference is None else envelope(**{"reference": reference, **fields})
    return respx.Route(method="POST", path__regex=_PATH, **asked).mock(side_effect=_in_turn(replies, data))


def found(reference: str, **fields: object) -> respx.Route:
    """
    Return a route that finds the transaction.

    Args:
        reference: The requested reference, and the one in the answer unless *fields* has another.
        fields: Replace the defaults. See `envelope`.

    Source:
        Transaction detail specification, part 4, rule 1.
    """
    return answered(reference, Reply(), **fields)


def not_found(reference: str | None = None) -> respx.Route:
    """
    Return a route that answers "not found".

    Source:
        None in the specification. `Assumptions` has the answer.
    """
    return answered(reference, _ASSUMED.unknown_reference)


def throttled(reference: str | None = None, *, retry_after: float | str | None = None) -> respx.Route:
    """
    Return a route that asks for fewer requests, with status 429.

    Args:
        reference: None for all.
        retry_after: Seconds, or any text for the header, such as a date. None for no header.

    Source:
        RFC 9110, part 10.2.3, and RFC 6585, part 4. `Assumptions` has the body.
    """
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return answered(reference, Reply(status=429, headers=headers, body=_ASSUMED.throttled.body))


def unavailable(reference: str | None = None, *, status: int = 503) -> respx.Route:
    """Return a route that answers with a server error, by default 503."""
    return answered(reference, Reply(status=status))


def _in_turn(replies: tuple[Reply, ...], data: dict[str, Any]) -> Callable[[httpx.Request], Awaitable[httpx.Response]]:
    turns = chain(replies, repeat(replies[-1]))

    async def answer(request: httpx.Request) -> httpx.Response:
        reply = next(turns)
        if reply.never_responds:
            await asyncio.get_running_loop().create_future()  # until the client gives up
        await asyncio.sleep(reply.delay)
        content = reply.content(data)
        return httpx.Response(reply.status, headers=reply.all_headers(content), content=content, request=request)

    return answer
