"""Choose a transport by name, from an argument or an environment variable."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

from payclient._shared.options import OPTIONS
from payclient.errors import ConfigurationError
from payclient.transports._network import Network
from payclient.transports._protocol import Transport

TransportName: TypeAlias = Literal["httpx", "httpx2", "fast"]
"""The name of a transport; `httpx2` needs the extra `httpx2`."""


def make_transport(given: str | None = None, *, network: Network | None = None) -> Transport:
    name, network = resolve_transport(given), network or Network()
    if name == "fast":
        from payclient.transports.fast import FastTransport  # noqa: PLC0415  without httpx

        return FastTransport(ssl_context=network.ssl_context, proxy=network.proxy)
    from payclient.transports._client import HttpxTransport  # noqa: PLC0415  it imports httpx

    if name == "httpx":
        return HttpxTransport(ssl_context=network.ssl_context, proxy=network.proxy)
    try:
        from payclient.transports._httpx2 import Httpx2Transport  # noqa: PLC0415  it imports the extra
    except ModuleNotFoundError:
        message = "the transport 'httpx2' needs httpx2; install it with: pip install 'payclient[httpx2]'"
    else:
        return Httpx2Transport(ssl_context=network.ssl_context, proxy=network.proxy)
    raise ConfigurationError(message)


def resolve_transport(given: str | None) -> TransportName:
    """Return the name from the argument, or from `PAYCLIENT_TRANSPORT`, or else `httpx`; raises as `make_transport`."""
    name = OPTIONS["transport"].value(given)
    if given is None:
        name = name or "httpx"
    if name in get_args(TransportName):
        return cast("TransportName", name)
    message = f"transport must be 'httpx', 'httpx2' or 'fast', got {name!r}"
    raise ConfigurationError(message)
