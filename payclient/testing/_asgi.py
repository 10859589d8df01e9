"""ASGI: receive a complete request, wait, send the response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias, cast

from attrs import field, frozen

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
"""An ASGI 3 application."""

_BODY_LIMIT = 64 * 1024
"""Maximum size of a request body in bytes; the documented one has about 40."""


@frozen(eq=False)
class ParsedRequest:
    method: str
    path: str  # decoded, without the query
    headers: Mapping[str, str] = field(repr=False)  # names in lower case; they hold a key
    body: object  # the JSON value, or None if it is not JSON

    @property
    def reference(self) -> str | None:
        body = cast("dict[str, object]", self.body) if isinstance(self.body, dict) else {}
        reference = body.get("reference")
        return reference if isinstance(reference, str) and reference else None


async def receive_request(scope: Mapping[str, Any], receive: Receive) -> ParsedRequest | None:
    """Return the request, or None if its client disconnected before it was complete."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        more = message.get("more_body", False)
        if len(body) <= _BODY_LIMIT:  # the rest is read and dropped, so that the answer can be sent
            body += message.get("body", b"")
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return ParsedRequest(scope["method"], scope["path"], headers, _json(body))


def _json(body: bytearray) -> object:
    if len(body) > _BODY_LIMIT:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


async def still_connected_after(receive: Receive, seconds: float | None) -> bool:
    """Wait *seconds*, or for ever where it is None, and return whether the client is still connected."""
    if seconds == 0:
        await asyncio.sleep(0)  # let the client run once, as with any real service
        return True
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return True
    return False


async def send_response(send: Send, status: int, headers: Mapping[str, str], content: bytes) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})
