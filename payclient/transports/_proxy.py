"""The way to the service: its origin, the settings of the network, and a proxy with its password and its tunnel."""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from typing import NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

from attrs import field, frozen

from payclient._shared.checks import invalid_option, is_seconds, is_wait, read_url
from payclient._shared.options import CONNECT_TIMEOUT, KEEPALIVE

_DEFAULT_PORTS = {"http": 80, "https": 443}


@frozen
class Origin:
    """Where requests go. Requests to the same origin share connections."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme])

    def __str__(self) -> str:
        """Return host and port in the form of the `Host` header: without a port that the scheme implies."""
        host = f"[{self.host}]" if ":" in self.host else self.host
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
        parts, problem = _read(url)
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
            _check(status, rest, has_password=has_password)
            return True
    if rest[: len(_BEGINNING)] != _BEGINNING[: len(rest)]:
        raise TunnelError("answered with something that is not HTTP")
    if len(received) > _MAX_HEAD:  # announcements count, too
        raise TunnelError(f"answered with a head of more than {_MAX_HEAD} bytes")
    return False


def _check(status: int, rest: bytes, *, has_password: bool) -> None:
    if status >= 300:
        from http.client import responses  # noqa: PLC0415  only where a tunnel is refused

        words = f"{status} {responses.get(status, '')}".rstrip()
        advice = "" if status != 407 else _REFUSED_LOGIN if has_password else _WANTS_LOGIN
        raise TunnelError(f"refused the tunnel ({words}){advice}", status)
    if rest:  # the service does not speak first in TLS, so they are the proxy's own
        raise TunnelError("opened the tunnel and sent something through it that is not the service's")


def _read(url: object) -> tuple[SplitResult, str]:
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
