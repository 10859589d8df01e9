"""HTTP transports, which send one request and return one response. `payclient.transports.fast` has another one."""

# `HttpxTransport` is loaded at its first use, so a client with the transport `fast` does not import httpx.

from attrs import asdict

from payclient._shared.lazy import load_at_first_use
from payclient.errors import ConfigurationError
from payclient.protocol import Request, Response
from payclient.transports._failures import Progress as Progress
from payclient.transports._failures import progress_of as progress_of
from payclient.transports._network import HttpClient as HttpClient
from payclient.transports._network import Network as Network
from payclient.transports._network import NetworkOptions as NetworkOptions
from payclient.transports._network import Transport, own_transport
from payclient.transports._network import TransportName as TransportName
from payclient.transports._network import resolve_network as resolve_network
from payclient.transports._network import resolve_transport as resolve_transport

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.transports._client import HttpxTransport

# Names that are imported `as` themselves are for packages above, and not public.
__all__ = ["HttpxTransport", "Request", "Response", "Transport"]

if not TYPE_CHECKING:  # type checkers read the import above, and so notice a name that is not there
    __getattr__, __dir__ = load_at_first_use(__name__, "_client")


def make_transport(
    given: Transport | str | None = None, http_client: HttpClient | None = None, *, network: Network | None = None
) -> Transport:
    """Return the transport of this name, the caller's own, or a new one that sends through *http_client*."""
    if http_client is not None:
        if given is not None:
            raise ConfigurationError("pass a transport or an http_client, not both")
        from payclient.transports._client import HttpxClientTransport  # noqa: PLC0415  it imports httpx

        return HttpxClientTransport(http_client)
    if given is not None and not isinstance(given, str):
        return own_transport(given)
    name, settings = resolve_transport(given), asdict(network or Network(), recurse=False)
    if name == "fast":
        from payclient.transports.fast import FastTransport  # noqa: PLC0415  without httpx

        return FastTransport(**settings)
    from payclient.transports._client import transport_over  # noqa: PLC0415  it imports httpx

    return transport_over(name)(**settings)
