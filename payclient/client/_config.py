"""Options of a client: validated, and completed from environment variables."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

from attrs import field, frozen, validators

from payclient._shared import checks
from payclient._shared.options import DEADLINE, OPTIONS, TIMEOUT
from payclient.client._telemetry import OnAttempt, Tracing
from payclient.client.policies import RetryPolicy
from payclient.errors import ConfigurationError
from payclient.protocol import ApiKey, Environment, plain

OnOutage: TypeAlias = Literal["fail", "wait"]
"""The behaviour of an awaited lookup in an outage."""

_MAX_KEY_BYTES = 64 * 1024
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}"
_PRODUCT = re.compile(f"{_WORD}(?:/{_WORD})?")
_HOST = re.compile(r"(?!.*\.[0-9]+\.?$)[a-z0-9_](?:[a-z0-9_-]|\.(?!\.))*")
"""A name in lower case. With a number at the end it would be an invalid IPv4 address."""
_OPERATION = re.compile(r"(?:/api(-sandbox)?(?:/transaction(?:/detail)?)?|/transaction/detail)$", re.IGNORECASE)
"""The path that payclient adds to the address, its beginnings, and its end."""


def _is_tracing(_: object, attribute: Any, value: Any) -> None:
    checks.is_callback(_, attribute, value)
    if isinstance(value, type) and not hasattr(value, "__enter__"):
        message = f"tracing must be an object such as {value.__name__}(), got the class {value.__name__}"
        raise ConfigurationError(message)


_is_reaction: Callable[[object, object, object], None] = checks.must_be(
    "'fail' or 'wait'", lambda value: value in ("fail", "wait")
)
_is_policy = checks.must_be("a RetryPolicy or None", lambda value: isinstance(value, RetryPolicy), shows_type=True)


def _or_never(policy: RetryPolicy | None) -> RetryPolicy:
    return RetryPolicy(max_attempts=1) if policy is None else policy


@frozen(kw_only=True)
class Options:
    """The options that a view of a client may change. `AsyncClient` describes them."""

    timeout: float = field(default=TIMEOUT, validator=checks.is_seconds)
    deadline: float | None = field(default=DEADLINE, validator=validators.optional(checks.is_seconds))
    retry: RetryPolicy = field(factory=RetryPolicy, converter=_or_never, validator=_is_policy)
    on_attempt: OnAttempt | None = field(default=None, validator=validators.optional(checks.is_callback))
    tracing: Tracing | None = field(default=None, validator=validators.optional(_is_tracing))
    on_outage: OnOutage = field(default="fail", validator=_is_reaction)

    def __attrs_post_init__(self) -> None:
        if self.deadline is not None:
            checks.check_order("timeout", self.timeout, "deadline", self.deadline, defaults=(TIMEOUT, DEADLINE))

    @property
    def observers(self) -> tuple[OnAttempt, ...]:
        """The functions that get every attempt, even if its caller has left. The object `tracing` may have one."""
        return tuple(each for each in (self.on_attempt, getattr(self.tracing, "measure", None)) if each is not None)


def resolve_api_key(given: str | None) -> ApiKey:
    try:
        return ApiKey(OPTIONS["api_key"].value(given))
    finally:
        del given  # a traceback may include the local variables of its frames


def read_key_file(path: str | Path) -> str:
    """Return the beginning of a file that contains the API key. Do not keep it in a variable."""
    # Non-ASCII text is not an error here: `ApiKey` refuses it, and names the position.
    with Path(path).open("rb") as file:
        return decode_key(file)


def decode_key(file: BinaryIO) -> str:
    return file.read(_MAX_KEY_BYTES).decode("utf-8-sig", "replace")


def resolve_environment(given: Environment | str | None) -> Environment:
    name = OPTIONS["environment"].value(given)
    if given is None and OPTIONS["environment"].variable not in os.environ:
        name = Environment.LIVE
    if name not in [*Environment]:
        raise checks.unknown_name("environment", Environment, name)
    return Environment(name)


def resolve_base_url(given: str | None) -> str:
    """Return the base URL from the argument, or from `PAYCLIENT_BASE_URL`, without a final slash."""
    url = OPTIONS["base_url"].value(given)
    if problem := _url_problem(url):
        del url, given  # it may contain a password
        raise checks.invalid_option("base_url", problem)
    return url.rstrip("/")


def resolve_rate(given: object) -> float | None:
    if given is not None and not (checks.is_number(given) and given):
        raise checks.unfit("max_rate", "a number of attempts per second above 0, or None", repr(given))
    return None if given is None else float(cast("float", given))


def resolve_messages(given: object) -> frozenset[str]:
    """Return *given* normalised for comparison, if each message has a word."""
    texts = cast("Iterable[object]", given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    messages = frozenset(plain(text) if isinstance(text, str) else "" for text in texts)
    if "" in messages:
        raise checks.invalid_option("not_found_messages", "must be a list of messages, each with a word in it")
    return messages


def resolve_application(given: object) -> str | None:
    # RFC 9110, part 10.1.5.
    if given is not None and not (isinstance(given, str) and _PRODUCT.fullmatch(given)):
        raise checks.unfit("application", "a name without spaces, such as 'shop' or 'shop/1.2'", repr(given))
    return given


def _url_problem(url: object) -> str | None:
    """Return the problem with a base URL: behind the host it may have a path, but not the operation's own."""
    if not isinstance(url, str):
        return f"must be a string, got {type(url).__name__}"
    parts, problem = checks.read_url(url)
    host, operation = parts.hostname or "", _OPERATION.search(url.rstrip("/"))
    added, is_sandbox = (operation[0], operation[1]) if operation else ("", "")
    without = url.rstrip("/").removesuffix(added) + " and environment='sandbox'" * bool(is_sandbox)
    is_exposed = parts.scheme == "http" and not checks.is_loopback(host)
    problems = (
        (not url, "is not set: pass base_url=… or set PAYCLIENT_BASE_URL"),
        (url[:1] == url[-1:] and url[:1] in ("'", '"'), "is in quotes: pass it without them"),
        (problem, problem),
        (parts.scheme not in ("https", "http"), "must begin with https://, as in https://pay.example"),
        (not host, "names no host"),
        ("@" in parts.netloc, "must not contain a user name or password"),
        (not _is_host(host), "names a host that cannot be one"),
        (is_exposed, "must begin with https://: only a loopback address may have http"),
        ("?" in url or "#" in url, "must not contain a query or fragment"),
        (added, f"must end before {added}, which payclient adds: write {without}"),
    )
    return next((problem for holds, problem in problems if holds), None)


def _is_host(host: str) -> bool:
    with suppress(ValueError):  # a name
        ip_address(host)
        return True
    with suppress(UnicodeError):
        return bool(_HOST.fullmatch(host) and host.encode("ascii").decode("idna"))
    return False
