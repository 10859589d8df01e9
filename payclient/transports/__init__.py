"""HTTP transports, which send one request and return one response. `payclient.transports.fast` has another one."""

# The names are loaded at their first use, so a client with the transport `fast` does not import httpx.

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.protocol import Request, Response
    from payclient.transports._client import HttpxTransport
    from payclient.transports._failures import Progress as Progress
    from payclient.transports._failures import progress_of as progress_of
    from payclient.transports._network import HttpClient as HttpClient
    from payclient.transports._network import NetworkOptions as NetworkOptions
    from payclient.transports._network import Transport
    from payclient.transports._network import TransportName as TransportName
    from payclient.transports._network import make_transport as make_transport
    from payclient.transports._network import resolve_network as resolve_network
    from payclient.transports._network import resolve_transport as resolve_transport
    from payclient.transports._proxy import Network as Network

# Names that are imported `as` themselves are for packages above, and not public.
__all__ = ["HttpxTransport", "Request", "Response", "Transport"]

_HOME = {"payclient.transports._client": ("HttpxTransport",), "payclient.protocol": ("Request", "Response")}
_ROOMS = ("_failures", "_network", "_proxy")
"""Searched for the other names. They do not import httpx."""

if not TYPE_CHECKING:  # type checkers read the imports above, and so notice a name that is not there
    __getattr__, __dir__ = load_at_first_use(__name__, _HOME, _ROOMS)
