"""
The table of the client's options, and the defaults that others need.

Signatures and pages write the options out, because editors and readers show what is written;
`tests/client/test_options.py` compares each of them with this table.
"""

import os
from collections.abc import Mapping
from typing import Literal

from attrs import frozen

MAX_CONCURRENCY = 64
TIMEOUT = 10.0  # seconds
DEADLINE: float | None = 30.0  # seconds; None: no limit
CONNECT_TIMEOUT, KEEPALIVE = 5.0, 30.0  # seconds
STALL_TIMEOUT = 900.0  # seconds


@frozen(kw_only=True)
class Option:
    """One option of `AsyncClient`."""

    default: str = "None"  # as Python writes it
    variable: str = ""
    scope: Literal["client", "view", "network"] = "client"  # `view`: `with_options` can change it
    worker: str  # the attribute of `LookupSpec`, or, in several words, the reason why none holds it
    command: str  # the option of the command line, or the reason why there is none

    @property
    def attribute(self) -> str:
        """The attribute that holds its option of the command line; "" if there is none."""
        return self.command[2:].replace("-", "_") if self.command.startswith("--") else ""

    def value(self, given: str | None, environ: Mapping[str, str] = os.environ) -> str:
        """Return the given value, or else the variable's; it may be a secret."""
        try:
            return environ.get(self.variable, "") if given is None else given
        finally:
            del given, environ  # a traceback may come with the local variables of its frames


_NO_CODE = "callables and objects stay in the process"
_OWN_POLICY = "a command decides itself"

OPTIONS = {
    "api_key": Option(
        variable="PAYCLIENT_API_KEY", worker="each worker reads key_variable or key_file", command="--api-key-file"
    ),
    "base_url": Option(variable="PAYCLIENT_BASE_URL", worker="base_url", command="--base-url"),
    "environment": Option(variable="PAYCLIENT_ENVIRONMENT", worker="environment", command="--environment"),
    "max_concurrency": Option(default=repr(MAX_CONCURRENCY), worker="max_concurrency", command="--max-concurrency"),
    "max_rate": Option(worker="max_rate", command="--max-rate"),
    "workers": Option(default="1", worker="workers", command="a command is one client"),
    "timeout": Option(default=repr(TIMEOUT), scope="view", worker="timeout", command="--timeout"),
    "deadline": Option(
        default=repr(DEADLINE), scope="view", worker="deadline", command="each command has its own bound"
    ),
    "retry": Option(default="RetryPolicy()", scope="view", worker="retry", command=_OWN_POLICY),
    "transport": Option(variable="PAYCLIENT_TRANSPORT", worker="transport", command=_OWN_POLICY),
    "http_client": Option(worker=_NO_CODE, command=_NO_CODE),
    "on_attempt": Option(scope="view", worker=_NO_CODE, command=_NO_CODE),
    "tracing": Option(scope="view", worker=_NO_CODE, command=_NO_CODE),
    "on_outage": Option(default="'fail'", scope="view", worker="workers only stream, which waits", command=_OWN_POLICY),
    "not_found_messages": Option(default="()", worker="not_found_messages", command="--not-found-message"),
    "application": Option(worker="application", command="the command line is its own application"),
    "proxy": Option(variable="PAYCLIENT_PROXY", scope="network", worker="network", command="--proxy"),
    "trust_env": Option(default="True", scope="network", worker="network", command="unset the variables instead"),
    "ca_file": Option(scope="network", worker="network", command="--ca-file"),
    "client_cert": Option(scope="network", worker="network", command="--client-cert"),
    "client_key": Option(scope="network", worker="network", command="--client-key"),
    "ssl_context": Option(scope="network", worker=_NO_CODE, command=_NO_CODE),
    "connect_timeout": Option(default=repr(CONNECT_TIMEOUT), scope="network", worker="network", command=_OWN_POLICY),
    "keepalive": Option(default=repr(KEEPALIVE), scope="network", worker="network", command=_OWN_POLICY),
}


def options_of(scope: Literal["client", "view", "network"]) -> list[str]:
    return [name for name, option in OPTIONS.items() if option.scope == scope]
