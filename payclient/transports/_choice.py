"""Choose a transport by name, from an argument or an environment variable."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from payclient.errors import ConfigurationError
from payclient.transports._network import Network
from payclient.transports._protocol import Transport

TransportName: TypeAlias = Literal["httpx", "fast"]
"""The name of a transport; `fast` needs the extra `fast`."""


def make_transport(given: str | None = None, *, network: Network | None = None) -> Transport:
    """
    Return the transport named by the argument, by `PAYCLIENT_TRANSPORT`, or else the default.

    Args:
        given: The name.
        network: How the service is reached; directly if not given.

    Raises:
        ConfigurationError: When the name is unknown, or its libraries are not installed.
    """
    name, network = resolve_transport(given), network or Network()
    if name == "fast":
        return _fast(network)
    from payclient.transports._client import HttpxTransport  # noqa: PLC0415  it imports httpx, which `fast` does without

    return HttpxTransport(ssl_context=network.ssl_context, proxy=network.proxy)


def resolve_transport(given: str | None) -> TransportName:
    """Return the name from the argument, or from `PAYCLIENT_TRANSPORT`, or else `httpx`; raises as `make_transport`."""
    name = (os.environ.get("PAYCLIENT_TRANSPORT") or "httpx") if given is None else given
    if name == "httpx":
        return "httpx"
    if name == "fast":
        return "fast"
    message = f"transport must be 'httpx' or 'fast', got {name!r}"
    raise ConfigurationError(message)


def _fast(network: Network) -> Transport:
    try:
        from payclient.transports.fast import FastTransport  # noqa: PLC0415  it imports the extra
    except ModuleNotFoundError as error:
        missing = error.name
    else:
        return FastTransport(ssl_context=network.ssl_context, proxy=network.proxy)
    message = f"the transport 'fast' needs {missing}; install it with: pip install 'payclient[fast]'"
    raise ConfigurationError(message)
