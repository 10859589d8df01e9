"""`payclient get` and `payclient doctor`: look up transactions, and check the connection to the service."""

import asyncio
import codecs
import json
import os
import platform
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from shutil import get_terminal_size
from typing import Annotated, Any, BinaryIO

from attrs import define, field, frozen
from cyclopts import Parameter
from rich.cells import cell_len

from payclient import AsyncClient, Transaction, errors
from payclient._shared.escape import escape_unprintable, plural
from payclient._shared.options import DEADLINE
from payclient._shared.until_done import in_new_thread
from payclient.cli._connection import ConnectionOptions
from payclient.cli._process import Call, Deadline, Exit, JsonFlag, OwnStreams, Streams, aligned, refuse, status_of
from payclient.client import resolve_base_url, resolve_environment
from payclient.protocol import Environment, Found, Outcome, check_reference, endpoint, masked
from payclient.transports import Network, Request, Response, resolve_network
from payclient.transports.fast import FastTransport

_COLUMNS = (
    *("reference", "status", "amount", "fee", "amount_received"),
    *("payment_method", "payment_code", "expdate", "merchant_reff", "note"),
)
_MONEY = frozenset({"amount", "fee", "amount_received"})
_WORDS = (
    (errors.TransactionNotFoundError, "not found"),
    (errors.RejectedError, "declined"),
    (errors.InvalidReferenceError, "not a reference"),
)
_HAS_DIGIT = re.compile("[0-9]").search
_BETWEEN_CELLS = re.compile("[,;\t|]")
_BY_URGENCY = (Exit.DONE, Exit.DIFFERENT, Exit.AGAIN, Exit.REFUSED, Exit.BUG)
_MAX_ROWS = 1000
"""Rows that are kept back to be aligned and sorted."""


def most_urgent(statuses: Iterable[Exit]) -> Exit:
    return max(statuses, key=_BY_URGENCY.index, default=Exit.DONE)


def record_of(outcome: Outcome) -> dict[str, Any]:
    """Return *outcome* as a flat JSON object. `error` is there only without a transaction."""
    if isinstance(outcome, Found):
        transaction = outcome.transaction
        return {**transaction.as_json(with_payment_code=True), "deviations": list(transaction.deviations)}
    error = outcome.error
    return {
        "reference": outcome.reference,
        "error": type(error).__name__,
        "message": str(error),
        "is_retryable": error.is_retryable,
    }


@define
class Outcomes:
    # JSON is one line per outcome, as it arrives, in ASCII, for any terminal and any encoding. A table is in the order
    # of the references. Beyond a thousand rows, there are several.

    _streams: Streams
    as_json: bool
    _waiting: list[Outcome] = field(init=False, factory=list)
    seen: set[Exit] = field(init=False, factory=set)
    is_any_asked: bool = field(init=False, default=False)

    def add(self, outcome: Outcome) -> None:
        error = None if isinstance(outcome, Found) else outcome.error
        self.seen.add(Exit.DONE if error is None else status_of(error))
        self.is_any_asked |= not isinstance(error, errors.InvalidReferenceError)
        if self.as_json:
            self._streams.write(json.dumps(record_of(outcome)))
            return
        self._waiting.append(outcome)
        if len(self._waiting) == _MAX_ROWS:
            self.write_table()

    def write_table(self) -> None:
        rows = [_cells(outcome) for outcome in sorted(self._waiting, key=lambda outcome: outcome.index)]
        self._waiting.clear()
        lines = _table(rows) if rows else []
        if self._streams.stdout.isatty() and max(map(cell_len, lines), default=0) > get_terminal_size().columns:
            width = max(map(len, _COLUMNS))  # one row below the other, a line per field
            blocks = ([f"{name:{width}}  {row[name]}" for name in _COLUMNS if row.get(name)] for row in rows)
            lines = [line for block in blocks for line in (*block, "")][:-1]
        self._streams.show(lines)


def _cells(outcome: Outcome) -> dict[str, str]:
    if isinstance(outcome, Found):
        fields = outcome.transaction.as_json(with_payment_code=True)
        cells = {name: "" if value is None else escape_unprintable(str(value)) for name, value in fields.items()}
        note = escape_unprintable("; ".join(outcome.transaction.deviations))
        return {**cells, "payment_code": masked(cells["payment_code"]), "note": note}
    error = outcome.error
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "no answer")
    return {"reference": escape_unprintable(outcome.reference), "status": words, "note": escape_unprintable(str(error))}


def _table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lay *rows* out side by side, without the columns that are empty in all of them."""
    columns = [name for name in _COLUMNS if any(row.get(name) for row in rows)]
    right = [index for index, name in enumerate(columns) if name in _MONEY]
    return aligned([columns, *([row.get(name, "") for name in columns] for row in rows)], right=right)


_CHUNK_BYTES = 64 * 1024
_MAX_LINE = 64 * 1024


async def read_references(stream: BinaryIO) -> AsyncIterator[str]:
    """Yield the lines that are not blank, without the white space around them. Lazily."""
    # Bytes that are not UTF-8 become characters that no reference may have: they cost their own line and no other.
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    rest = ""
    while chunk := await in_new_thread("payclient-stdin", _read, stream):  # a terminal can block it for ever
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        if len(rest) > _MAX_LINE:
            refuse(f"standard input has a line of more than {_MAX_LINE} characters: give one reference per line")
        for line in lines:
            if line.strip():
                yield line.strip()
    if rest := (rest + decoder.decode(b"", final=True)).strip():
        yield rest


def _read(stream: BinaryIO) -> bytes:
    """Return the next bytes. None at the end."""
    # From the system, because one of Python's own locks, still locked by a thread when the interpreter ends, is fatal.
    try:
        number = stream.fileno()
    except OSError:  # a stream in memory
        return stream.read(_CHUNK_BYTES)
    return os.read(number, _CHUNK_BYTES)


async def _references(stream: BinaryIO) -> AsyncIterator[str]:
    """Yield the lines of *stream*. Refuse the header of a ledger, because its rows are not references."""
    is_first = True
    async for line in read_references(stream):
        if is_first and not _HAS_DIGIT(line):
            from payclient.reconcile.ledger import LedgerError, find_columns  # noqa: PLC0415  most input need not load it

            with suppress(LedgerError):
                find_columns(_BETWEEN_CELLS.split(line))
                refuse("standard input begins with the header of a ledger: give one reference per line, and no header")
        is_first = False
        yield line


async def get(
    *references: Annotated[str, Parameter(name="REFERENCE", allow_leading_hyphen=True)],
    as_json: JsonFlag = False,
    deadline: Deadline = DEADLINE,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Look up transactions.

    Args:
        references: References of the service. A single `-` reads them from standard input, one per line. Then temporary
            failures are retried until they pass, and answers appear as they arrive.
        as_json: One JSON object per line: the ten fields and `deviations`, or `error`, `message`, `is_retryable`.
        deadline: Time for all lookups together, waits included. With `-`, for each lookup. `none` for no limit.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.

    Examples:
        $ payclient get T0000000001DEMO
        $ payclient get T0000000001DEMO T0000000002DEMO --environment sandbox
        $ payclient get --json - < references.txt | jq .status
        $ payclient get --api-key-file /run/secrets/pay T0000000001DEMO

        Exit status: 0 all found. 1 some not found or declined. 2 usage. 3 the key or the address is missing or wrong,
        or this computer is refused. 75 some lookups failed: try again. 130 interrupted.
    """
    if not references:
        refuse("get needs at least one reference, or - to read them from standard input")
    is_stream = references == ("-",)
    if "-" in references and (not is_stream or connection.takes_key_from_stdin):
        refuse("standard input is either all references or the key: name - once")
    shown = Outcomes(streams, as_json=as_json)
    async with connection.client(streams, deadline=deadline) as client:
        try:
            if is_stream:
                async with client.stream_transactions(_references(streams.stdin)) as outcomes:
                    async for outcome in outcomes:
                        shown.add(outcome)
            else:
                for outcome in await client.get_transactions(references):
                    shown.add(outcome)
        finally:
            shown.write_table()
    status = most_urgent(shown.seen)
    if shown.is_any_asked and Exit.DONE not in shown.seen:
        from payclient.cli._next import diagnosis  # noqa: PLC0415  it imports reconciliation

        if status is Exit.DIFFERENT:
            streams.warn("no transaction was found: is it the key of this service and environment?")
        streams.tell(steps=[diagnosis(streams.call)])
    return status


async def doctor(
    reference: str = "PAYCLIENT-DOCTOR",  # the service only has to answer "not found"
    /,
    *,
    as_json: JsonFlag = False,
    deadline: Deadline = DEADLINE,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Check the connection to the service step by step, and propose what to do.

    Args:
        reference: Transaction to look up. Default: an invented reference, which the service does not know.
        as_json: One JSON object: `status`, and `checks` with `topic`, `state`, `text` and `advice`.
        deadline: Time for the lookup.
        connection: Which service is asked, and how.
        streams: Streams of the process.

    Examples:
        $ payclient doctor
        $ payclient doctor T0000000001DEMO --json

        Exit status: 0 everything works. 2 an option is wrong. 3 the key or the address is missing or wrong, or this
        computer is refused. 75 the service could not be asked, try again. 130 interrupted.
    """
    check_reference(reference)
    versions = [f"payclient {version('payclient')}", f"Python {platform.python_version()}", ssl.OPENSSL_VERSION]
    for name in ("httpx", "httpx2", "anyio", "attrs", "cattrs", "httptools", "aiohappyeyeballs"):
        with suppress(PackageNotFoundError):  # the extra is not installed
            versions.append(f"{name} {version(name)}")
    checks = [Check("versions", ", ".join(versions))]
    try:
        network = _configuration(connection, streams.call, checks)
        async with (
            aclosing(_Watched(ssl_context=network.ssl_context, proxy=network.proxy)) as transport,
            connection.client(streams, deadline=deadline, transport=transport) as client,
        ):
            source = (
                "standard input" if connection.takes_key_from_stdin else connection.api_key_file or "PAYCLIENT_API_KEY"
            )
            checks.append(Check("API key", f"fingerprint {client.key_fingerprint}, from {source}"))
            checks.append(Check("request", f"POST {client.url}"))
            status = await _look_up(client, transport, reference, checks)
    except errors.ConfigurationError as error:
        status = status_of(error)
        topic, advice = _TOPICS.get(error.option, ("options", ""))
        checks.append(Check(topic, str(error), advice, is_wrong=True))
    streams.show([json.dumps(in_json(checks))] if as_json else table(checks))
    return status


_TOPICS = {"base_url": ("address", "pass --base-url, or set PAYCLIENT_BASE_URL"), "api_key": ("API key", "")}


class _Watched(FastTransport):
    """Keeps the connection of the first answer, and its time without connecting."""

    connection: Any = None
    seconds = 0.0

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if self.connection is None:
            self.connection = response.connection
            _, sent_at = self.connection.progress.times[-1]
            self.seconds = asyncio.get_running_loop().time() - sent_at
        return response


@frozen
class Check:
    topic: str
    text: str
    advice: str = ""
    is_wrong: bool = field(default=False, kw_only=True)

    @property
    def state(self) -> str:
        return "wrong" if self.is_wrong else "look" if self.advice else "ok"


def in_json(checks: Iterable[Check]) -> dict[str, Any]:
    rows = [{name: getattr(check, name) for name in ("topic", "state", "text", "advice")} for check in checks]
    from_good_to_bad = ("ok", "look", "wrong")  # `look` works, but needs attention
    return {"status": max((row["state"] for row in rows), key=from_good_to_bad.index, default="ok"), "checks": rows}


def table(checks: Iterable[Check]) -> list[str]:
    rows = list[tuple[str, str, str]]()
    for check in checks:
        rows.append((check.state, check.topic, check.text))
        rows += [("", "", f"-> {check.advice}")] if check.advice else []
    return aligned([tuple(map(escape_unprintable, row)) for row in rows])


def _configuration(connection: ConnectionOptions, call: Call, checks: list[Check]) -> Network:
    """Check the options and their sources. Return the network settings."""
    url, option = resolve_base_url(connection.base_url), call.place_of("environment")
    checks.append(Check("address", f"{url}, from {call.place_of('base_url')}"))
    source = f"from {option}" if option else "by default"
    checks.append(Check("environment", f"{resolve_environment(connection.environment).value}, {source}"))
    network = resolve_network({**connection.network()}, url)
    checks += [_proxy(network), _authorities(connection, url)]
    if connection.client_cert is not None:
        checks.append(Check("client certificate", f"{connection.client_cert}, from --client-cert"))
    return network


def _proxy(network: Network) -> Check:
    if network.proxy is None:
        is_set = any(os.environ.get(name) or os.environ.get(name.lower()) for name in ("HTTPS_PROXY", "ALL_PROXY"))
        return Check("proxy", "none, although the environment names one" if is_set else "none")
    source = "--proxy" if network.proxy.source == "proxy" else network.proxy.source
    return Check(
        "proxy", f"{network.proxy.name}, with{'' if network.proxy.has_password else 'out'} a password, from {source}"
    )


def _authorities(connection: ConnectionOptions, url: str) -> Check:
    if url.startswith("http:"):
        return Check("authorities", "not needed: plain http on this machine")
    if connection.ca_file is not None:
        return Check("authorities", f"those in {connection.ca_file}, from --ca-file")
    if named := [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]:
        # OpenSSL passes over a path that does not exist in silence.
        missing = [name for name in named if not any(map(os.path.exists, os.environ[name].split(os.pathsep)))]
        sources = [f"{os.environ[name]}, from {name}" + ", which does not exist" * (name in missing) for name in named]
        return Check("authorities", f"those in {' and '.join(sources)}", f"unset {missing[0]}" if missing else "")
    return Check("authorities", "found by OpenSSL")


async def _look_up(client: AsyncClient, transport: _Watched, reference: str, checks: list[Check]) -> Exit:
    seen: Transaction | errors.PayClientError
    try:
        seen = await client.with_options(retry=None).get_transaction(reference)
    except errors.PayClientError as error:
        seen = error
    if (connection := transport.connection) is not None:
        steps = (f"{step} {after - began:.3f} s" for (step, began), (_, after) in pairwise(connection.progress.times))
        checks.append(Check("connection", ", ".join((connection.progress.address, *steps))))
        if (tls := connection.tls) is not None:
            checks.append(certificate_of(tls.ssl.version() or "", tls.ssl.getpeercert() or {}, time.time()))
    checks += _outcome(seen, client.url, f", answered in {transport.seconds:.3f} s")
    if isinstance(seen, Transaction | errors.TransactionNotFoundError | errors.RejectedError):
        return Exit.DONE
    return status_of(seen)


def certificate_of(version: str, certificate: dict[str, Any], now: float) -> Check:
    names = {key: value for group in certificate.get("issuer", ()) for key, value in group}
    parts = filter(None, map(names.get, ("organizationName", "commonName")))
    issuer = ", ".join(parts) or "an authority without a name"
    days = int((ssl.cert_time_to_seconds(certificate["notAfter"]) - now) // 86400)
    advice = "" if days >= _FEW_DAYS else "ask the service to renew its certificate"
    return Check("TLS", f"{version}, issued by {issuer}, expires in {plural(days, 'day')}", advice)


def _outcome(seen: Transaction | errors.PayClientError, url: str, took: str) -> Iterator[Check]:
    if isinstance(seen, Transaction):
        yield Check("lookup", f"found, status {seen.status}{took}")
        yield from (Check("lookup", text, "the answer differs from the specification") for text in seen.deviations)
    elif isinstance(seen, errors.TransactionNotFoundError):
        yield Check("lookup", f"the service accepts the key, and doesn't have this transaction{took}")
    elif isinstance(seen, errors.RejectedError):
        yield Check("lookup", str(seen), "pass the reference of a transaction that exists")
    else:
        yield Check("lookup", str(seen), advice_for(seen, url), is_wrong=True)


_FEW_DAYS = 21  # before a certificate expires, when it should have been renewed
_PAGE = "see the page When it cannot connect"
_ADVICE_BY_STEP = {
    "name": f"check the host of the address, DNS and VPN, or name the proxy: {_PAGE}",
    "connect": f"check host and port, firewall and proxy: {_PAGE}",
    "proxy": f"check the proxy's address, user and password, and whether it may reach the service: {_PAGE}",
    "tls": f"check host, authorities and client certificate: {_PAGE}",
    **dict.fromkeys(("sending", "waiting", "body"), "try again, then raise --timeout or ask the service"),
}
_ADVICE_BY_KIND = (
    (errors.RateLimitedError, "try again later, or set --max-rate"),
    (errors.AuthenticationError, "check the key, and whether it is one of this environment"),
    (errors.PermissionDeniedError, "check the key's rights, and whether the service allows this IP address"),
    (errors.ServiceError, "try again later, then ask the service"),
)
_SIGN_IN = "if this network wants you to sign in first, open a page in a browser"


def advice_for(error: errors.PayClientError, url: str = "") -> str:
    """Return advice on a failed lookup at *url*. "" when the message has it."""
    if isinstance(error, errors.ProxyRefusedError) and 300 <= error.status_code < 400:  # a captive portal
        return _SIGN_IN
    if isinstance(error, errors.TransportError):
        return _ADVICE_BY_STEP.get(error.step, "")
    for kind, advice in _ADVICE_BY_KIND:
        if isinstance(error, kind):
            return advice
    if not isinstance(error, errors.UnexpectedResponseError):
        return ""
    if error.status_code == 404 and url.endswith(endpoint("", Environment.SANDBOX)):
        return "this service may lack a sandbox: pass --environment live, or the sandbox's own --base-url"
    if error.status_code // 100 == 3 or error.status_code == 404 or error.body.lstrip().startswith("<"):
        return f"check --base-url against the URL above, and {_SIGN_IN}"
    return "ask the service, with the URL above and this message"
