"""Checks of counts, seconds, callbacks and hosts, some also as attrs validators."""

import inspect
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from payclient.errors import ConfigurationError

Validator: TypeAlias = Callable[[object, Any, Any], None]
"""A validator of attrs."""
_Given = TypeVar("_Given")
_MAX_NAME = 12


def invalid_option(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{name} {problem}", option=name, problem=problem)


def unfit(name: str, wanted: str, got: str) -> ConfigurationError:
    return invalid_option(name, f"must be {wanted}, got {got}")


def unknown_name(name: str, names: Iterable[str], value: object) -> ConfigurationError:
    return unfit(name, f"one of {', '.join(repr(str(word)) for word in names)}", as_shown(value))


def as_shown(value: object) -> str:
    # It may be the key, in the wrong option or variable.
    return "a longer word" if isinstance(value, str) and len(value) > _MAX_NAME else repr(value)


def must_be(wanted: str, is_fit: Callable[[Any], bool], *, shows_type: bool = False) -> Validator:
    """Return a validator. *wanted* completes the sentence `<name> must be …`."""

    def check(_: object, attribute: Any, value: Any) -> None:
        if not is_fit(value):
            raise unfit(attribute.alias, wanted, type(value).__name__ if shows_type else as_shown(value))

    return check


def checked(name: str, value: _Given, fits: Validator) -> _Given:
    """Return an argument that *fits*."""
    fits(None, SimpleNamespace(alias=name), value)
    return value


def check_order(name: str, value: float, bound: str, limit: float, *, defaults: tuple[float, float | None]) -> None:
    """Refuse *value* above *limit*, unless one of them is a default: a default gives way to what was given."""
    if value > limit and value != defaults[0] and limit != defaults[1]:
        raise invalid_option(name, f"must not be above {bound}, got {value} and {limit}")


def is_callback(_: object, attribute: Any, value: Any) -> None:
    """Refuse anything but a callable, and async functions, whose coroutine would never be awaited."""
    if not callable(value):
        raise unfit(attribute.alias, "callable", type(value).__name__)
    inner: Any = value
    while isinstance(inner, partial):
        inner = inner.func
    for outer in (inner, type(inner).__call__):
        function = inspect.unwrap(outer)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            problem = "must be a plain function, got an async one, which would never be awaited"
            raise invalid_option(attribute.alias, problem)


def is_number(value: object) -> bool:
    """Return whether *value* is a finite number, 0 or more."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


is_count = must_be("an integer of at least 1", lambda value: isinstance(value, int) and is_number(value) and value > 0)
is_seconds = must_be("a number of seconds above 0", lambda value: is_number(value) and value > 0)
is_wait = must_be("a number of seconds, 0 or more", is_number)


def read_url(text: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL and the problem with it, "" if none. The problem never quotes the URL."""
    nothing = urlsplit("")
    if not text.isascii() or not text.isprintable() or " " in text:
        return nothing, "must be visible ASCII without white space"
    try:
        parts = urlsplit(text)
        _ = parts.hostname, parts.port
    except ValueError:
        return nothing, "is not a URL: its host or port cannot be read"
    return (nothing, "names port 0, which cannot be connected to") if parts.port == 0 else (parts, "")


def is_loopback(host: str) -> bool:
    """Return whether *host* is this machine, by its address or as `localhost`."""
    with suppress(ValueError):  # a name
        return ip_address(host).is_loopback
    return host == "localhost"
