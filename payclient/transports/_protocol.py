"""The interface of a transport, and of an httpx client."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from payclient.protocol import Request, Response


class Transport(Protocol):
    """
    Sends one request and returns one response.

    A transport follows no redirect, keeps no cookie, decodes no body, and never sends a request that
    the service may have received a second time. The client does all that. Many tasks of one event
    loop may call it at once. The client limits how many. The code that creates a transport closes it.

    It may also have `async def discard(response)`, which closes the connection of *response*. It is
    called when the responses on that connection may be out of step.
    """

    async def send(self, request: Request) -> Response:
        """
        Send *request*, and return the complete response, of any status.

        Cancelling must release all resources of the attempt: time-outs are cancellations.

        Raises:
            TransportError: When no complete response was received. It must not have the original
                error as cause or context, because that contains the request and with it the API key.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection. Later sends fail."""


class HttpClient(Protocol):
    """An `httpx.AsyncClient`, or one of `httpx2`, as distinct from a synchronous client."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""
        ...

    @property
    def send(self) -> Callable[..., Awaitable[Any]]:
        """Send a request, and return when the head of the response has been received."""
        ...
