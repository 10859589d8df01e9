"""
The client's options, the defaults that others need, and the words that other libraries have for the options.

Signatures write the options out with their defaults, because editors show what is written.
`tests/client/test_options.py` compares each signature with this table.
"""

import inspect
import os
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any, Literal, TypeAlias

from attrs import frozen

from payclient._shared.escape import did_you_mean

MAX_CONCURRENCY = 64
TIMEOUT = 10.0  # seconds
DEADLINE: float | None = 30.0  # seconds. None: no limit
CONNECT_TIMEOUT, KEEPALIVE = 5.0, 30.0  # seconds
STALL_TIMEOUT = 900.0  # seconds


Scope: TypeAlias = Literal["client", "view", "network"]
_SCOPES: dict[Scope, str] = {
    "client": """
        api_key base_url environment max_concurrency max_rate workers transport http_client not_found_messages
        application
    """,
    "view": "timeout deadline retry on_attempt tracing on_outage",
    "network": "proxy trust_env ca_file client_cert client_key ssl_context connect_timeout keepalive",
}
"""The options. `with_options` can change the options of a view."""
_WITH_VARIABLE = ("api_key", "base_url", "environment", "proxy", "transport")


@frozen
class Option:
    """One option of `AsyncClient`."""

    scope: Scope
    variable: str

    def value(self, argument: str | None) -> str:
        """Return the given value, or else the variable's. It may be a secret."""
        return os.environ.get(self.variable, "") if argument is None else argument


OPTIONS = {
    name: Option(scope, f"PAYCLIENT_{name.upper()}" if name in _WITH_VARIABLE else "")
    for scope, names in _SCOPES.items()
    for name in names.split()
}


def options_of(scope: Scope) -> list[str]:
    return _SCOPES[scope].split()


_WORDS = {
    "api_key": "key token auth secret secret_key api_token access_token",
    "application": "user_agent app_name app_info",
    "base_url": "url endpoint host api_base api_url",
    "ca_file": "verify verify_ssl ssl ca_bundle ca_certs cafile",
    "client_cert": "cert client_certificate",
    "concurrency max_concurrency": "limits max_connections pool_size max_workers batch_size",
    "connect_timeout": "connect",
    "deadline": "timeout total_timeout timeout_total max_time",
    "environment": "env mode sandbox test_mode live",
    "http_client": "headers default_headers http2 session client cookies mounts",
    "initial_backoff retry": "backoff backoff_factor wait_initial initial_delay",
    "interval": "poll_interval every",
    "keepalive": "keep_alive keepalive_expiry keepalive_timeout",
    "max_attempts retry": "max_retries retries num_retries retry_policy max_tries attempts total",
    "max_backoff retry": "max_delay max_wait wait_max",
    "max_rate": "rate rate_limit rps requests_per_second",
    "on_attempt": "logger hooks event_hooks callback",
    "proxy": "proxies",
    "timeout": "read_timeout write_timeout pool_timeout request_timeout",
}
_FORMS = {
    "ca_file": "ca_file= or ssl_context=",
    "client_cert": "client_cert= and client_key=",
    "deadline": "deadline= for the whole lookup",
    "http_client": "http_client=httpx.AsyncClient(...)",
    "max_attempts": "max_attempts=, the first included",
    "retry": "retry=RetryPolicy(max_attempts=...)",
}
"""How an argument is written, if not as `name=`."""
ELSEWHERE = {word: tuple(ours.split()) for ours, words in _WORDS.items() for word in words.split()}
"""Words of other libraries with ours. The first that a function takes is meant."""


def refuse_other(called: str, arguments: Iterable[str], names: Collection[str]) -> None:
    """Raise for the first of the *arguments* that a function does not have. It has *names*."""
    for name in (word for word in arguments if word not in names):
        ours = ELSEWHERE.get(name, ())
        advice = [f"pass {_FORMS.get(word, f'{word}=')}" for word in ours if word in names][:1]
        if name in OPTIONS or not advice:  # such as a time-out: payclient has two
            of_view = next((word for word in (name, *ours) if word in options_of("view") and word not in names), "")
            form = _FORMS[of_view] if of_view == "retry" else f"{of_view}=..."
            per_attempt = " for one attempt" if name == "timeout" else ""
            advice += [f"use with_options({form}){per_attempt}"] * bool(of_view)
        if not advice and any(word in OPTIONS for word in (name, *ours)):
            advice = ["it is an option of the client itself"]
        if advice:
            raise TypeError(f"{called} takes no {name}; {', or '.join(advice)}") from None
        raise TypeError(f"{called} got an unexpected keyword argument {name!r}{did_you_mean(name, names)}") from None


def answer_other_words(owner: type, *names: str) -> None:
    """Let methods refuse unknown arguments with what they have instead."""
    # Only at run time: in the declared signature, `**other` would make each natural override an error of types.
    for name in names:
        setattr(owner, name, _answering(getattr(owner, name), owner.__name__ if name == "__init__" else name))


def _answering(method: Callable[..., Any], called: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError:
            refuse_other(called, kwargs, inspect.signature(method).parameters)
            raise

    async def call_and_wait(*args: Any, **kwargs: Any) -> Any:
        try:
            coroutine = method(*args, **kwargs)
        except TypeError:
            refuse_other(called, kwargs, inspect.signature(method).parameters)
            raise
        return await coroutine

    return wraps(method)(call_and_wait if inspect.iscoroutinefunction(method) else call)
