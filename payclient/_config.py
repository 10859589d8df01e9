"""What a client is told at construction: checked, and completed from the environment."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from payclient._models import Environment
from payclient._retry import RetryPolicy
from payclient._secret import ApiKey
from payclient._telemetry import OnAttempt, Tracing
from payclient.errors import ConfigurationError

_HOST = re.compile(r"(?!.*\.[0-9]+\.?$)[a-z0-9_](?:[a-z0-9_-]|\.(?!\.))*")
"""A name, in lower case; what ends in a number would be an IPv4 address, and is none."""


def _seconds(_: object, attribute: object, value: Any) -> None:
    name = getattr(attribute, "name", "")
    if value is None and name == "deadline":
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        message = f"{name} must be a number of seconds above 0, got {value!r}"
        raise ConfigurationError(message)


def _callable(_: object, attribute: object, value: Any) -> None:
    if value is not None and not callable(value):
        message = f"{getattr(attribute, 'name', '')} must be callable, got {type(value).__name__}"
        raise ConfigurationError(message)


def _policy(_: object, __: object, value: Any) -> None:
    if not isinstance(value, RetryPolicy):
        message = f"retry must be a RetryPolicy or None, got {type(value).__name__}"
        raise ConfigurationError(message)


def _or_never(policy: RetryPolicy | None) -> RetryPolicy:
    return RetryPolicy(attempts=1) if policy is None else policy


@frozen(kw_only=True)
class Options:
    """
    The options that a view of a client may change.

    Attributes:
        timeout: Seconds for one attempt, its whole body included.
        deadline: Seconds for one lookup, everything included; None for no bound but the attempts.
        retry: When to ask again.
        on_attempt: Gets a record per attempt.
        tracing: Entered around each lookup.
    """

    timeout: float = field(default=10.0, validator=_seconds)
    deadline: float | None = field(default=30.0, validator=_seconds)
    retry: RetryPolicy = field(factory=RetryPolicy, converter=_or_never, validator=_policy)
    on_attempt: OnAttempt | None = field(default=None, validator=_callable)
    tracing: Tracing | None = field(default=None, validator=_callable)

    @property
    def observers(self) -> tuple[OnAttempt, ...]:
        """Who gets the records, besides the trace of the lookup."""
        return () if self.on_attempt is None else (self.on_attempt,)


def resolve_api_key(given: str | None, environ: Mapping[str, str] = os.environ) -> ApiKey:
    """Return the key from the argument, or from `PAYCLIENT_API_KEY`."""
    try:
        return ApiKey(environ.get("PAYCLIENT_API_KEY", "") if given is None else given)
    finally:
        del given, environ  # a traceback may come with the local variables of its frames


def resolve_environment(given: Environment | str | None, environ: Mapping[str, str] = os.environ) -> Environment:
    """Return the environment from the argument, or from `PAYCLIENT_ENVIRONMENT`, or live."""
    name = (environ.get("PAYCLIENT_ENVIRONMENT") or "live") if given is None else given
    del environ  # it holds the API key too, and a traceback may come with the local variables of its frames
    try:
        return Environment(name)
    except ValueError:
        message = f"environment must be 'live' or 'sandbox', got {name!r}"
    raise ConfigurationError(message)


def resolve_base_url(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """
    Return the base URL from the argument, or from `PAYCLIENT_BASE_URL`, without a final slash.

    Raises:
        ConfigurationError: When there is none, or it could send the key where it must not go.
    """
    url = environ.get("PAYCLIENT_BASE_URL", "") if given is None else given
    if problem := _url_problem(url):
        del url, given, environ  # the URL may hold a password, and the environment the API key
        message = f"base_url {problem}"
        raise ConfigurationError(message)
    return url.rstrip("/")


def resolve_concurrency(given: object) -> int:
    """Return *given* if it is a count of at least 1."""
    return _count("max_concurrency", given)


def resolve_workers(given: object) -> int:
    """Return *given* if it is a count of at least 1."""
    return _count("workers", given)


def resolve_rate(given: object) -> float | None:
    """Return *given* if it is a rate above 0, or None."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
        message = f"max_rate must be a number of attempts per second above 0, or None, got {given!r}"
        raise ConfigurationError(message)
    return float(given)


def _count(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        message = f"{name} must be an integer of at least 1, got {given!r}"
        raise ConfigurationError(message)
    return given


def _url_problem(url: object) -> str | None:
    if not isinstance(url, str):
        return f"must be a string, got {type(url).__name__}"
    if not url:
        return "is not set; pass base_url=… or set PAYCLIENT_BASE_URL"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must be visible ASCII without white space"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL: its host or port cannot be read"
    problems: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: parts.scheme not in ("https", "http"), "must begin with https://"),
        (lambda: not host, "names no host"),
        (lambda: "@" in parts.netloc, "must not hold a user name or password"),
        (lambda: not _is_host(host or ""), "names a host that cannot be one"),
        (lambda: bool(parts.query or parts.fragment or url.endswith(("?", "#"))), "must not hold a query or fragment"),
        (
            lambda: parts.scheme == "http" and not _is_loopback(host or ""),
            "must begin with https://: plain http is for loopback addresses only",
        ),
    )
    return next((text for is_so, text in problems if is_so()), None)


def _is_host(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return _HOST.fullmatch(host) is not None and _is_decodable(host)
    return True


def _is_decodable(host: str) -> bool:
    try:
        host.encode("ascii").decode("idna")
    except UnicodeError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
