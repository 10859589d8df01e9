"""A transport over the caller's own `httpx.AsyncClient`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

from payclient._http import Request, Response
from payclient.errors import ConfigurationError
from payclient.transports._cancel import in_own_scope
from payclient.transports._exchange import read_body, translate
from payclient.transports._failures import closed

_LIBRARIES = ("httpx", "httpx2")


class HttpClient(Protocol):
    """The part of `httpx.AsyncClient` that is used; `httpx2.AsyncClient` has it too."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""
        ...

    def build_request(self, method: str, url: str, *, content: bytes, headers: Mapping[str, str]) -> Any:
        """Merge a request with the client's own defaults."""
        ...

    async def send(self, request: Any, *, stream: bool, auth: None, follow_redirects: bool) -> Any:
        """Send a request, and return once the head of the answer has come."""
        ...


def _library_of(client: object) -> ModuleType:
    """Return the module that *client* is of: its exceptions are the ones to expect."""
    for kind in type(client).__mro__:
        library = sys.modules.get(kind.__module__.partition(".")[0])
        if library is not None and library.__name__ in _LIBRARIES and isinstance(client, library.AsyncClient):
            return library
    message = f"http_client must be an httpx.AsyncClient, got {type(client).__name__}"
    raise ConfigurationError(message)


class HttpxClientTransport:
    """
    Carries attempts over a client that belongs to somebody else, and so is never closed here.

    Its proxies, mounts, hooks, certificates and time-outs hold; its redirects and its `auth` do
    not: either would send the API key where it was not meant to go, or another key in its place.

    Args:
        client: An `httpx.AsyncClient`, or one of httpx's maintained successor `httpx2`.

    Raises:
        ConfigurationError: When *client* is something else, such as a synchronous client.
    """

    def __init__(self, client: HttpClient) -> None:
        self._library = _library_of(client)
        self._client = client

    async def send(self, request: Request) -> Response:
        """Exchange *request* for a response; see `Transport.send`."""
        if self._client.is_closed:
            raise closed()
        return await in_own_scope(self._exchange(request))

    async def _exchange(self, request: Request) -> Response:
        answered = False
        try:
            head = await self._client.send(
                self._client.build_request(
                    request.method,
                    request.url,
                    headers={**request.headers, "Authorization": request.authorization()},
                    content=request.body,
                ),
                stream=True,
                auth=None,
                follow_redirects=False,
            )
            answered = True
            body, is_truncated = await read_body(head)
            headers = {name.lower(): value for name, value in head.headers.items()}
            return Response(head.status_code, headers, body, is_truncated, head.extensions.get("network_stream"))
        except (self._library.HTTPError, OSError) as error:
            failure = translate(error, request, library=self._library, answered=answered)
        raise failure  # outside the handler: the error must not drag httpx's frames and request along

    async def discard(self, response: Response) -> None:
        """Close the connection that *response* came by, where the client's own transport shows it."""
        stream = response.connection
        if stream is not None:
            await stream.aclose()  # type: ignore[attr-defined]  # httpcore's network stream

    async def aclose(self) -> None:
        """Leave the client as it is: it belongs to the caller."""
