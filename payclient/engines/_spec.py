"""The instructions for a worker, as plain data that can be sent, printed and stored: without the API key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from attrs import Attribute, field, frozen

from payclient import client
from payclient._shared.checks import is_count, is_seconds, must_be
from payclient._shared.options import DEADLINE, MAX_CONCURRENCY, STALL_TIMEOUT, TIMEOUT, options_of
from payclient.errors import ConfigurationError
from payclient.protocol import Environment
from payclient.reconcile import STRICT, Rules, rules_as_json, rules_from_json
from payclient.transports import TransportName, resolve_transport

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}", re.ASCII | re.IGNORECASE)


def _is_variable(_: object, attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):  # not shown: it may be the key itself
        raise ConfigurationError(f"{attribute.name} must be the name of an environment variable, not the key")


_is_name = must_be("the name of a column", lambda value: isinstance(value, str) and bool(value))
_is_text = must_be("text", lambda value: isinstance(value, str))


def _are_different(names: str | tuple[object, ...] | None) -> bool:
    if names is None or isinstance(names, str):
        return names is None
    return all(isinstance(each, str) and each for each in names) and len({*names}) == len(names)


_are_names = must_be("several different names of columns", _are_different)
_is_reference = must_be(
    "a reference that is known to exist, or None",
    lambda value: value is None or (isinstance(value, str) and bool(value.strip())),
)


def _to_names(names: Iterable[str] | None) -> Any:
    return names if names is None or isinstance(names, str) else tuple(names)


def _to_messages(messages: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(client.resolve_messages(messages)))


def _to_network(options: Mapping[str, object] | Iterable[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
    given = {name: _to_text(value) for name, value in dict(options).items()}
    if "@" in str(given.get("proxy")):
        message = "network must not contain a password: workers take it from their PAYCLIENT_PROXY or HTTPS_PROXY"
        raise ConfigurationError(message)
    is_known = given.keys() <= {*options_of("network")}
    if not is_known or not all(isinstance(value, str | bool | float | None) for value in given.values()):
        raise ConfigurationError("network may only have options of AsyncClient that are text, numbers, True or False")
    return tuple(sorted((name, value) for name, value in given.items() if value is not None))


def _to_text(value: object) -> object:
    return os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value


def _to_path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _to_rules(rules: Rules | str) -> str:
    """Return rules as JSON with sorted keys, which can be pickled and compared. `Rules` cannot be pickled."""
    try:
        kept = rules if isinstance(rules, Rules) else rules_from_json(json.loads(rules))
    except (TypeError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        message = f"rules must be Rules, or the JSON of rules_as_json, got {type(rules).__name__} that is neither"
        raise ConfigurationError(message) from error
    if kept.lines.are_summed:
        message = "rules must not sum lines: an engine judges each row for itself. Reconcile the whole ledger instead"
        raise ConfigurationError(message)
    if left_out := next((name for name in _OF_WHOLE_LEDGERS if getattr(kept.ledger, name)), None):
        problem = f"rules must not declare {left_out} for the ledger: an engine leaves no row out"
        raise ConfigurationError(f"{problem}, so filter the rows before")
    return json.dumps(rules_as_json(kept), sort_keys=True)


_OF_WHOLE_LEDGERS = ("debit_columns", "skip_totals", "skip_rows_like", "only_currency")
"""Declarations about a ledger that only `open_ledger` obeys."""
_STRICT = _to_rules(STRICT)


@frozen(kw_only=True)
class LookupSpec:
    """
    The instructions for a worker that looks references up.

    Options that are not given are read from the environment where the specification is created, as with `AsyncClient`.
    Only the key is read by each worker. A specification can be pickled, compared, hashed and printed. It contains no
    secret.

    Attributes:
        base_url: Address of the service. `PAYCLIENT_BASE_URL` if not given.
        environment: `live` or `sandbox`. `PAYCLIENT_ENVIRONMENT`, or else live, if not given.
        key_variable: Name of the worker's environment variable that contains the API key.
        key_file: Path of the worker's file that contains the API key. Replaces *key_variable*.
        reference: Name of the column with the references. It must be text.
        keep: Names of the columns to carry over, unchanged, before ours. None for all but the column of references.
        prefix: Prefix of the names of our columns, in case a kept column has one of their names.
        max_concurrency: Attempts in flight at once, at most, in each worker process.
        max_rate: Attempts per second, retries included, of all workers together. None if the limit is unknown.
        workers: Worker processes that run at the same time. Each takes its share of *max_rate*, or adapts more slowly
            if that is unknown.
        transport: `httpx`, `httpx2` or `fast`. `PAYCLIENT_TRANSPORT` if not given, or else `httpx`.
        timeout: Seconds for one attempt.
        deadline: Seconds for one lookup, queueing excluded. None for no bound other than the attempts.
        retry: When to ask again. None for never.
        not_found_messages: Whole messages that mean "no such transaction" at this service, as with `AsyncClient`.
        application: Name and version of your job, such as `ledger/1.2`. First in the `User-Agent`.
        network: The way to the service, as with `AsyncClient`: any of `proxy`, `trust_env`, `ca_file`, `client_cert`,
            `client_key`, `connect_timeout` and `keepalive`. The files are the worker's. A proxy's
            password is not among them: the worker takes it from its `PAYCLIENT_PROXY` or `HTTPS_PROXY`.
        stall_timeout: Seconds without an answer until a worker gives up.
        window: Rows in flight below which the next batch is read.

    Raises:
        ConfigurationError: When a value cannot be used.
    """

    base_url: str = field(default=None, converter=client.resolve_base_url)
    environment: Environment = field(default=None, converter=client.resolve_environment)
    key_variable: str = field(default="PAYCLIENT_API_KEY", validator=_is_variable)
    key_file: str | None = field(default=None, converter=_to_path)
    reference: str = field(default="reference", validator=_is_name)
    keep: tuple[str, ...] | None = field(default=(), converter=_to_names, validator=_are_names)
    prefix: str = field(default="", validator=_is_text)
    max_concurrency: int = field(default=MAX_CONCURRENCY, validator=is_count)
    max_rate: float | None = field(default=None, converter=client.resolve_rate)
    workers: int = field(default=1, validator=is_count)
    transport: TransportName = field(default=None, converter=resolve_transport)
    timeout: float = TIMEOUT
    deadline: float | None = DEADLINE
    retry: client.RetryPolicy | None = client.RetryPolicy()  # noqa: RUF009  frozen
    not_found_messages: tuple[str, ...] = field(default=(), converter=_to_messages)
    application: str | None = field(default=None, converter=client.resolve_application)
    network: tuple[tuple[str, object], ...] = field(default=(), converter=_to_network)
    stall_timeout: float = field(default=STALL_TIMEOUT, validator=is_seconds)
    window: int = field(default=4000, validator=is_count)

    def __attrs_post_init__(self) -> None:
        client.Options(timeout=self.timeout, deadline=self.deadline, retry=self.retry)


@frozen(kw_only=True)
class ReconcileSpec(LookupSpec):
    """
    The instructions for a worker that also compares the answers with the ledger's own columns.

    Attributes:
        rules: For the judgement of differences. Kept as JSON.
        canary: A reference that is known to exist, looked up first. Finding it makes "not found" credible when nothing
            else is found.
        ignore: Names of columns to leave unused. Any other unused column is refused.

    Raises:
        ConfigurationError: When a value cannot be used.
    """

    rules: str = field(default=_STRICT, converter=_to_rules)
    canary: str | None = field(default=None, validator=_is_reference)
    ignore: tuple[str, ...] = field(default=(), converter=_to_names, validator=_are_names)


def rules_of(spec: ReconcileSpec) -> Rules:
    rules = rules_from_json(json.loads(spec.rules))
    rules.check_zone()
    return rules


def key_of(spec: LookupSpec) -> str:
    """Return the API key of this worker. Do not keep it in a variable."""
    if spec.key_file is None:
        if not os.environ.get(spec.key_variable, "").strip():
            raise ConfigurationError(f"no API key: this worker lacks the environment variable {spec.key_variable}")
        return os.environ[spec.key_variable]
    try:
        return client.read_key_file(spec.key_file)
    except OSError as error:
        message = f"no API key: this worker cannot read the file {spec.key_file}: {error.strerror}"
        raise ConfigurationError(message) from error
