"""Checks of counts, seconds, callbacks and hosts, some also as attrs validators."""

from __future__ import annotations

import inspect
import math
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from payclient.errors import ConfigurationError


def check_count(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        message = f"{name} must be an integer of at least 1, got {given!r}"
        raise ConfigurationError(message)
    return given


def check_seconds(name: str, given: object) -> float:
    if not _is_number(given) or given == 0:
        message = f"{name} must be a number of seconds above 0, got {given!r}"
        raise ConfigurationError(message)
    return given  # type: ignore[return-value]  # a number


def check_order(name: str, given: float, bound: str, limit: float, *, defaults: tuple[float, float | None]) -> None:
    """Refuse *given* above *limit* if neither is its default; a default is bounded by what was given."""
    if given > limit and given != defaults[0] and limit != defaults[1]:
        message = f"{name} must not be above {bound}, got {given} and {limit}"
        raise ConfigurationError(message)


def check_callback(name: str, given: object) -> None:
    """Refuse anything but a callable, and async functions, whose coroutine would never be awaited."""
    if not callable(given):
        message = f"{name} must be callable, got {type(given).__name__}"
        raise ConfigurationError(message)
    inner: Any = given
    while isinstance(inner, partial):
        inner = inner.func
    for outer in (inner, type(inner).__call__):
        function = inspect.unwrap(outer)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            message = f"{name} must be a plain function, got an async one, which would never be awaited"
            raise ConfigurationError(message)


def is_count(_: object, attribute: Any, value: Any) -> None:
    check_count(attribute.name, value)


def is_seconds(_: object, attribute: Any, value: float) -> None:
    check_seconds(attribute.name, value)


def is_wait(_: object, attribute: Any, value: Any) -> None:
    if not _is_number(value):
        message = f"{attribute.name} must be a number of seconds, 0 or more, got {value!r}"
        raise ConfigurationError(message)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def read_url(text: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL, and the problem with it, which does not quote it; "" if there is none."""
    nothing = urlsplit("")
    if not text.isascii() or not text.isprintable() or " " in text:
        return nothing, "must be visible ASCII without white space"
    try:
        parts = urlsplit(text)
        _ = parts.hostname, parts.port
    except ValueError:
        return nothing, "is not a URL: its host or port cannot be read"
    return parts, ""


def is_loopback(host: str) -> bool:
    """Return whether *host* is this machine, by its address or as `localhost`."""
    with suppress(ValueError):  # a name
        return ip_address(host).is_loopback
    return host == "localhost"
