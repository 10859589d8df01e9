"""The way to the service: its origin, the proxy and its tunnel, TLS trust, and the transport that a name means."""

import os
import re
import ssl
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, Self, TypeAlias, TypedDict, cast, get_args
from urllib.parse import SplitResult, unquote, urlsplit

from attrs import field, frozen

from payclient._shared.checks import invalid_option, is_loopback, is_seconds, is_wait, read_url, unfit, unknown_name
from payclient._shared.escape import escape_unprintable
from payclient._shared.options import CONNECT_TIMEOUT, KEEPALIVE, OPTIONS
from payclient.errors import ConfigurationError
from payclient.protocol import Request, Response

_DEFAULT_PORTS = {"http": 80, "https": 443}


@frozen
class Origin:
    """Where requests go. Requests to the same origin share connections."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Self:
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])

    def __str__(self) -> str:
        """Return host and port in the form of the `Host` header: without a port that the scheme implies."""
        host = _bracketed(self.host)
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"


_MAX_HEAD = 16 * 1024
"""Bytes of a response to CONNECT. Real proxies send a few hundred."""
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?:[ \r\n]|$)")
_BEGINNING = b"HTTP/1."
_REFUSED_LOGIN = ": check its user and password (payclient speaks Basic, and neither NTLM nor Kerberos)"
_WANTS_LOGIN = ", because it wants a user and a password: http://user:password@host:port"
_OF_HTTPX = ("https", "socks5", "socks5h")
"""Proxies that a client of httpx can use."""


class Proxy:
    """A proxy that is asked for a tunnel. Like a key, it cannot be printed with its password, pickled or copied."""

    __slots__ = ("_authorization", "has_password", "host", "name", "port", "source")

    def __init__(self, url: object, source: str = "proxy") -> None:
        parts, problem = _proxy_parts(url)
        del url  # a traceback may include the local variables of its frames
        self._authorization = _authorization(parts)
        self.has_password: bool = bool(self._authorization)
        self.host: str = parts.hostname or ""
        self.port: int = parts.port or _DEFAULT_PORTS["http"]
        self.name: str = f"{_bracketed(self.host)}:{self.port}"
        self.source: str = source
        del parts
        if problem:
            raise invalid_option(source, problem)

    def connect_message(self, host: str, port: int) -> bytes:
        """Return the request for a tunnel. Do not keep it in a variable, for it contains the password."""
        # RFC 9110, part 9.3.6.
        target = f"{_bracketed(host)}:{port}".encode("ascii")
        return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (target, target, self._authorization)

    def __repr__(self) -> str:
        return f"Proxy('http://{self.name}')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a proxy cannot be pickled or copied: its password would travel with it")


@frozen(eq=False)
class Network:
    proxy: Proxy | None = None
    ssl_context: ssl.SSLContext | None = None
    connect_timeout: float = field(default=CONNECT_TIMEOUT, validator=is_seconds)
    keepalive: float = field(default=KEEPALIVE, validator=is_wait)


class TunnelError(Exception):
    """The proxy did not open the tunnel."""

    def __init__(self, reason: str, status_code: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status_code = status_code


def opens_tunnel(received: bytes, *, has_password: bool) -> bool:
    """Return whether a proxy that has sent *received* in response to CONNECT has opened the tunnel."""
    # Everything in it may be wrong, and none of it is shown: it may repeat the password.
    rest = received
    while (end := _END_OF_HEAD.search(rest)) is not None:
        if (line := _STATUS_LINE.match(rest)) is None:
            raise TunnelError("answered with something that is not HTTP")
        rest = rest[end.end() :]
        if (status := int(line[1])) >= 200:
            _check_tunnel(status, rest, has_password=has_password)
            return True
    if rest[: len(_BEGINNING)] != _BEGINNING[: len(rest)]:
        raise TunnelError("answered with something that is not HTTP")
    if len(received) > _MAX_HEAD:  # announcements count, too
        raise TunnelError(f"answered with a head of more than {_MAX_HEAD} bytes")
    return False


def _check_tunnel(status: int, rest: bytes, *, has_password: bool) -> None:
    if status >= 300:
        from http.client import responses  # noqa: PLC0415  only where a tunnel is refused

        words = f"{status} {responses.get(status, '')}".rstrip()
        advice = "" if status != 407 else _REFUSED_LOGIN if has_password else _WANTS_LOGIN
        raise TunnelError(f"refused the tunnel ({words}){advice}", status)
    if rest:  # the service does not speak first in TLS, so they are the proxy's own
        raise TunnelError("opened the tunnel and sent something through it that is not the service's")


def _proxy_parts(url: object) -> tuple[SplitResult, str]:
    """Return the parts of *url* and the problem with it. The problem never quotes the URL."""
    text = url.strip() if isinstance(url, str) else ""
    parts, problem = read_url(text if "://" in text else f"http://{text}")
    advice = ": pass http_client=httpx.AsyncClient(proxy=…) for it" if parts.scheme in _OF_HTTPX else ""
    is_more = parts.path not in ("", "/") or parts.query or parts.fragment
    problems = (
        (not isinstance(url, str), f"must be text like http://host:port, got {type(url).__name__}"),
        (problem, problem),
        (parts.scheme != "http", f"must be an http:// proxy: payclient can't use one of {parts.scheme}://{advice}"),
        (not parts.hostname, "names no host: it must be like http://host:port"),
        (is_more, "must not contain a path, a query or a fragment"),
    )
    found = next((text for holds, text in problems if holds), "")
    return (urlsplit(""), found) if found else (parts, "")


def _authorization(parts: SplitResult) -> bytes:
    # RFC 7617.
    if parts.username is None:
        return b""
    credentials = b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode())
    return b"Proxy-Authorization: Basic %b\r\n" % credentials


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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


def default_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return an SSL context with the authorities of *ca_file*, or else the system's."""
    context = ssl.create_default_context(cafile=ca_file)
    # `SSLKEYLOGFILE` is ignored: with the secrets of TLS anyone could read the API key. Typeshed does not know None.
    context.keylog_filename = None  # type: ignore[assignment]
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


def own_transport(given: object) -> Transport:
    """Return the caller's own transport, if it is one."""
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
    raise unknown_name("transport", get_args(TransportName), name)
