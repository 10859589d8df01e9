"""The shape of a transport, and of the client that one can be made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from payclient.protocol import Request, Response


class Transport(Protocol):
    """
    Carries one attempt: bytes out, bytes in.

    A transport follows no redirect, keeps no cookie, decodes no body and makes no second attempt
    that the service could see as one; all of that is the client's business. It may be called by
    many tasks of one event loop at once: the client bounds how many. Who makes a transport closes it.

    It may also have `async def discard(response)`, which closes the connection that *response* came by. It
    is called when the answers on that connection may be out of step.
    """

    async def send(self, request: Request) -> Response:
        """
        Exchange *request* for a whole response of any status.

        Cancelling must free whatever the attempt held: time limits are made of cancellation.

        Raises:
            TransportError: When no whole response came. It is raised without the foreign error
                as its cause or context, because those hold the request and with it the API key.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection; later sends fail."""
        ...


class HttpClient(Protocol):
    """The part of `httpx.AsyncClient` that is used; `httpx2.AsyncClient` has it too."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""
        ...

    def build_request(
        self,
        method: str,
        url: str,
        *,
        content: bytes,
        headers: Mapping[str, str],
        extensions: dict[str, Any],
    ) -> Any:
        """Merge a request with the client's own defaults."""
        ...

    async def send(self, request: Any, *, stream: bool, auth: None, follow_redirects: bool) -> Any:
        """Send a request, and return once the head of the answer has come."""
        ...
