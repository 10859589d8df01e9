"""Check whether the service's certificate was issued by a public authority."""

from __future__ import annotations

from payclient.errors import TLSVerificationError, TransportError
from payclient.protocol import Request
from payclient.transports._dial import Dialer
from payclient.transports._origin import Origin
from payclient.transports._proxy import Proxy
from payclient.transports._trust import make_context

_TIMEOUT = 5.0  # seconds


async def is_publicly_trusted(request: Request, proxy: Proxy | None) -> bool | None:
    """Return whether the authorities that browsers trust vouch for the host of *request*; nothing is sent to it."""
    try:
        import certifi  # noqa: PLC0415  httpx brings it, and only this needs it
    except ModuleNotFoundError:
        return None
    try:
        connection = await Dialer(make_context({"ca_file": certifi.where()}), _TIMEOUT, proxy).dial(
            Origin.of(request.url)
        )
    except TLSVerificationError:
        return False
    except TransportError:
        return None
    connection.abort()
    await connection.closed
    return True
