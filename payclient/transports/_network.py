"""The interface of a transport, the transport that a name means, and its network options: proxy and TLS trust."""

import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias, TypedDict, cast, get_args
from urllib.parse import SplitResult, urlsplit

from attrs import asdict

from payclient._shared.checks import invalid_option, is_loopback, unfit
from payclient._shared.escape import escape_unprintable
from payclient._shared.options import OPTIONS
from payclient.errors import ConfigurationError
from payclient.protocol import Request, Response
from payclient.transports._proxy import Network, Proxy


class Transport(Protocol):
    """
    Sends one request and returns one response.

    A transport follows no redirect, keeps no cookie, decodes no body, and never sends a request that the service may
    have received a second time. All of this is the client's work. Many tasks of one event loop may call it at once. The
    client limits how many. The code that creates a transport closes it.

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


TransportName: TypeAlias = Literal["httpx", "httpx2", "fast"]
"""The name of a transport. `httpx2` needs the extra `httpx2`."""
_NAMES = [repr(name) for name in get_args(TransportName)]
FilePath: TypeAlias = str | PathLike[str]


class NetworkOptions(TypedDict, total=False):
    """
    The network options of `AsyncClient`: proxy, TLS trust and connections.

    Attributes:
        proxy: Address of an `http://` proxy, with user and password if it wants them. If not given,
            `PAYCLIENT_PROXY`, and if that is unset, the proxy of the environment.
        trust_env: Whether the environment's `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are honoured, as urllib does it.
        ca_file: PEM file with the authorities to trust, instead of all others.
        client_cert: PEM file with the certificate to show to the service, and its issuers' certificates.
        client_key: PEM file with its key, if *client_cert* does not contain it.
        ssl_context: Instead of the three above.
        connect_timeout: Seconds to wait for a connection, within the time-out of the attempt.
        keepalive: Seconds that an idle connection is kept.
    """

    proxy: str | None
    trust_env: bool
    ca_file: FilePath | None
    client_cert: FilePath | None
    client_key: FilePath | None
    ssl_context: ssl.SSLContext | None
    connect_timeout: float
    keepalive: float


_TRUST = {"ca_file", "client_cert", "client_key", "ssl_context"}
_HAS_SYSTEM_PROXY = ("darwin", "win32")
"""Systems with a proxy in their settings."""


def resolve_network(options: MutableMapping[str, object], url: str, *, is_ours: bool = True) -> Network:
    """Return the network settings of *options* and the environment, for a service at *url*."""
    given = {name for name, value in options.items() if value is not None}
    proxy = Proxy(options.pop("proxy")) if options.get("proxy") is not None else None
    if given and not is_ours:
        message = f"{', '.join(sorted(given))}: for payclient's own transports, so set it on what you pass instead"
        raise ConfigurationError(message)
    if not isinstance(trust_env := options.get("trust_env", True), bool):
        raise unfit("trust_env", "True or False", repr(trust_env))
    if not is_ours:
        return Network()
    parts = urlsplit(url)
    if proxy is None and not is_loopback(parts.hostname or ""):
        proxy = _environment_proxy(parts, trust_env=trust_env)
    if proxy is not None and parts.scheme != "https":
        problem = "takes no plain http, because the proxy would see the API key: use an https base_url"
        raise invalid_option(proxy.source, problem)
    kept: dict[str, Any] = {name: options[name] for name in ("connect_timeout", "keepalive") if name in given}
    return Network(proxy, _make_context(options) if given & _TRUST else None, **kept)


def _make_context(options: Mapping[str, object]) -> ssl.SSLContext:
    given = [name for name in ("ca_file", "client_cert", "client_key") if options.get(name) is not None]
    if (context := options.get("ssl_context")) is not None:
        if not isinstance(context, ssl.SSLContext):
            raise unfit("ssl_context", "an ssl.SSLContext", type(context).__name__)
        if given:
            raise ConfigurationError(f"pass ssl_context or {', '.join(given)}, not both")
        return context
    if "client_key" in given and "client_cert" not in given:
        raise invalid_option("client_key", "needs a client_cert")
    from payclient.transports._connections import default_context  # noqa: PLC0415  what a client of httpx does not need

    files = {name: _path(name, options[name]) for name in given}
    name, certificate = "ca_file", files.get("client_cert")
    try:
        context = default_context(files.get(name))
        if certificate is not None:
            name = "client_key" if "client_key" in files else "client_cert"
            context.load_cert_chain(certificate, files.get("client_key"), password=_refuse_to_ask)
    except ssl.SSLError as error:
        detail = f" ({error.reason.replace('_', ' ').lower()})" if error.reason else ""
        problem = f"is not a PEM file with what is expected in it{detail}"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = "does not belong to client_cert"
        raise invalid_option(name, f"{escape_unprintable(files.get(name, ''))} {problem}") from None
    return context


def _refuse_to_ask() -> NoReturn:
    """Replace OpenSSL's prompt for a pass phrase, which would wait at the terminal."""
    message = "client_key is encrypted: decrypt it (openssl pkey), or load it into an ssl_context of your own"
    raise ConfigurationError(message)


def _path(name: str, given: object) -> str:
    shown = repr(given)
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise unfit(name, "the path of a file", shown)
    path = os.fsdecode(cast("str | os.PathLike[str]", given))
    try:
        Path(path).open("rb").close()
    except OSError as error:
        raise invalid_option(name, f"{escape_unprintable(path)} cannot be read: {error.strerror}") from None
    return path


def _environment_proxy(url: SplitResult, *, trust_env: bool) -> Proxy | None:
    """Return the proxy of our variable, or else of the environment or the system, unless *url* is excepted there."""
    variable = OPTIONS["proxy"].variable
    if os.environ.get(variable):
        return Proxy(os.environ[variable], variable)  # keeps its password out of local variables
    has_settings = sys.platform in _HAS_SYSTEM_PROXY or any(name.lower().endswith("_proxy") for name in os.environ)
    if not (url.scheme == "https" and has_settings and trust_env):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  thirty modules that nothing else needs

    found = getproxies()
    try:
        netloc = url.netloc if url.port else f"{url.netloc}:443"  # an entry may have a port, but needs none
        is_excepted = any(map(proxy_bypass, (netloc, url.hostname or "")))  # IPv6 addresses lack brackets there
        scheme = next((scheme for scheme in ("https", "all") if found.get(scheme)), None)
        return None if is_excepted or scheme is None else Proxy(found[scheme], f"{scheme.upper()}_PROXY")
    finally:
        del found  # it may contain a password


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
        return _own_transport(given)
    name, settings = resolve_transport(given), asdict(network or Network(), recurse=False)
    if name == "fast":
        from payclient.transports.fast import FastTransport  # noqa: PLC0415  without httpx

        return FastTransport(**settings)
    from payclient.transports._client import HttpxTransport  # noqa: PLC0415  it imports httpx

    if name == "httpx":
        return HttpxTransport(**settings)
    try:
        import httpx2  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        message = "the transport 'httpx2' needs httpx2: pip install 'payclient[httpx2]'"
    else:

        class Httpx2Transport(HttpxTransport):
            library: ClassVar[Any] = httpx2

        return Httpx2Transport(**settings)
    raise ConfigurationError(message)


def _own_transport(given: object) -> Transport:
    has_methods = all(callable(getattr(given, name, None)) for name in ("send", "aclose"))
    if has_methods and not isinstance(given, type) and not hasattr(given, "build_request"):
        return cast("Transport", given)
    found = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    message = (
        f"transport must be {', '.join(_NAMES)} or an object with async methods send and aclose, got {found}; "
        "pass a client of httpx, also for its transports, as http_client"
    )
    raise ConfigurationError(message)


def resolve_transport(given: str | None) -> TransportName:
    """Return the name from the argument, or from `PAYCLIENT_TRANSPORT`, or else `httpx`. Raises as `make_transport`."""
    name = OPTIONS["transport"].value(given)
    if given is None:
        name = name or "httpx"
    if name in get_args(TransportName):
        return cast("TransportName", name)
    raise unfit("transport", f"one of {', '.join(_NAMES)}", repr(name))
