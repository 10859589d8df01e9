"""The shape of a transport."""

from __future__ import annotations

from typing import Protocol

from payclient._http import Request, Response


class Transport(Protocol):
    """
    Carries one attempt: bytes out, bytes in.

    A transport follows no redirect, keeps no cookie, decodes no body and makes no second attempt
    that the service could see as one; all of that is the client's business. It may be called by
    many tasks of one event loop at once: the client bounds how many.
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

    async def discard(self, response: Response) -> None:
        """Close the connection that *response* came by, because its answers are out of step."""
        ...

    async def aclose(self) -> None:
        """Close every connection; later sends fail."""
        ...
