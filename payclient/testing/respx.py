"""
respx routes that answer like the payment service, for tests that use respx already.

```python
router = respx.Router()
router.add(found("T1", status="Paid"))
http_client = httpx.AsyncClient(transport=httpx.MockTransport(router.async_handler))
```

`respx.mock` takes the same routes. A route fits the documented request: `POST`, either path,
under any base URL, and a JSON body that is just the reference. A later route for the same
reference takes the place of the earlier one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import httpx

from payclient.testing._reply import Assumptions, Reply
from payclient.testing._sample import envelope

try:
    import respx
except ModuleNotFoundError as _missing:
    _message = "payclient.testing.respx needs respx; install it with: pip install 'payclient[testing]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

__all__ = ["answered", "envelope", "found", "not_found", "refused_key", "throttled", "unavailable"]

_PATH = re.compile(r"/api(-sandbox)?/transaction/detail$")
_ASSUMED = Assumptions()


def answered(reference: str | None, *replies: Reply, **fields: object) -> respx.Route:
    """
    Return a route that gives one reply after the other, and the last one for ever.

    Args:
        reference: None for a route that fits every reference.
        replies: At least one; what the transaction goes into is `envelope(reference=…, **fields)`.
        fields: Of the transaction.

    Raises:
        ValueError: When there is no reply.
    """
    if not replies:
        message = "a route needs at least one reply"
        raise ValueError(message)
    asked: dict[str, Any] = {} if reference is None else {"json": {"reference": reference}}
    data = envelope(**fields) if reference is None else envelope(**{"reference": reference, **fields})
    route = respx.Route(method="POST", path__regex=_PATH, **asked)
    return route.mock(side_effect=_in_turn(replies, data))


def found(reference: str, **fields: object) -> respx.Route:
    """
    Return a route that finds the transaction.

    Args:
        reference: As it is asked for, and as it is answered unless *fields* says otherwise.
        fields: Take the place of made-up ones; see `envelope`.
    """
    return answered(reference, Reply(), **fields)


def not_found(reference: str | None = None) -> respx.Route:
    """Return a route that knows no such transaction, in the form that `Assumptions` assumes."""
    return answered(reference, _ASSUMED.unknown_reference)


def refused_key() -> respx.Route:
    """Return a route that refuses the API key, in the form that `Assumptions` assumes."""
    return answered(None, _ASSUMED.refused_key)


def throttled(reference: str | None = None, *, retry_after: float | str | None = None) -> respx.Route:
    """
    Return a route that asks for fewer requests.

    Args:
        reference: None for all.
        retry_after: Seconds, or any text that shall stand in the header; None for no header.
    """
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return answered(reference, Reply(status=429, headers=headers, body=_ASSUMED.throttled.body))


def unavailable(reference: str | None = None, *, status: int = 503) -> respx.Route:
    """Return a route that fails with a status of the server's, 503 unless said."""
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
