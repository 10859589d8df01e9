"""`payclient doctor`: check the connection to the service step by step, with advice."""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from payclient import AsyncClient, Transaction
from payclient._shared.escape import escape_unprintable, plural
from payclient._shared.options import DEADLINE
from payclient.cli._connection import ConnectionOptions
from payclient.cli._streams import Exit, JsonFlag, OwnStreams, aligned, status_of
from payclient.client import resolve_base_url, resolve_environment
from payclient.errors import (
    AuthenticationError,
    ConfigurationError,
    PayClientError,
    PermissionDeniedError,
    ProxyRefusedError,
    RateLimitedError,
    RejectedError,
    ResponseError,
    ServiceError,
    TransactionNotFoundError,
    TransportError,
    UnexpectedResponseError,
)
from payclient.protocol import Environment, check_reference, endpoint
from payclient.transports import Network, Request, Response, is_publicly_trusted, resolve_network
from payclient.transports.fast import FastTransport

EXAMPLES = """
$ payclient doctor
$ payclient doctor T0000000033KGJ0D --json

Exit status: 0 nothing is wrong. 2 the configuration is wrong. 3 the key, this address or this computer is refused.
75 the service could not be asked, try again. 130 interrupted.
"""

_MADE_UP = "PAYCLIENT-DOCTOR"
"""A reference that no transaction has: that the service says so is all that is needed."""
_DEPENDENCIES = ("httpx", "httpx2", "attrs", "cattrs", "httptools", "aiohappyeyeballs", "truststore")


async def doctor(
    reference: str = _MADE_UP,
    /,
    *,
    as_json: JsonFlag = False,
    deadline: float | None = DEADLINE,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Check the connection to the service step by step, and say what to do.

    Args:
        reference: Of the transaction that is looked up; a made-up one if not given, which the service does not know.
        as_json: One JSON object: `status`, and `checks` with `topic`, `state`, `text` and `advice`.
        deadline: Seconds for the lookup.
        connection: Which service is asked, and how.
        streams: Of the process.
    """
    check_reference(reference)
    found = [f"payclient {version('payclient')}", f"Python {platform.python_version()}", ssl.OPENSSL_VERSION]
    for name in _DEPENDENCIES:
        with suppress(PackageNotFoundError):  # of an extra
            found.append(f"{name} {version(name)}")
    checks = [_ok("versions", ", ".join(found))]
    status = Exit.USAGE
    network = _configuration(connection, checks)
    if network is not None:
        transport = _Watched(FastTransport(ssl_context=network.ssl_context, proxy=network.proxy))
        try:
            client = connection.client(streams, deadline=deadline, transport=transport)
        except ConfigurationError as error:
            checks.append(Check("API key", State.WRONG, str(error)))
        else:
            checks.append(_ok("API key", f"fingerprint {client.key_fingerprint}, from {connection.key_source}"))
            checks.append(_ok("request", f"POST {client.url}"))
            async with client:
                status = await _look_up(client, transport, reference, network, checks)
        finally:
            await transport.aclose()
    streams.show([json.dumps(in_json(checks))] if as_json else table(checks))
    return status


@define
class _Watched:
    """A transport that keeps the first answer, with its connection and its times."""

    _inner: FastTransport
    request: Request | None = field(init=False, default=None)
    date: str | None = field(init=False, default=None)
    received_at: float = field(init=False, default=0.0)
    seconds: float = field(init=False, default=0.0)
    """From the request to the whole answer, without those of connecting."""
    connection: Any = field(init=False, default=None)

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        if self.request is None:
            self.request, self.connection = request, response.connection
            self.date, self.received_at = response.headers.get("date"), time.time()
            _, sent_at = self.connection.progress.times[-1]
            self.seconds = asyncio.get_running_loop().time() - sent_at
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class State(StrEnum):
    """State of a check, from good to bad; `LOOK` works, and needs attention."""

    OK = "ok"
    LOOK = "look"
    WRONG = "wrong"


@frozen
class Check:
    topic: str
    state: State
    text: str
    advice: str = ""


def _ok(topic: str, text: str) -> Check:
    return Check(topic, State.OK, text)


def _look(topic: str, text: str, advice: str) -> Check:
    """Return a check that needs attention if there is *advice*."""
    return Check(topic, State.LOOK if advice else State.OK, text, advice)


def in_json(checks: Iterable[Check]) -> dict[str, Any]:
    states = [*State]
    worst = max((check.state for check in checks), key=states.index, default=State.OK)
    return {"status": str(worst), "checks": [asdict(check) for check in checks]}


def table(checks: Iterable[Check]) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for check in checks:
        rows.append((check.state, check.topic, escape_unprintable(check.text)))
        if check.advice:
            rows.append(("", "", escape_unprintable(f"-> {check.advice}")))
    return aligned(rows)


def _configuration(connection: ConnectionOptions, checks: list[Check]) -> Network | None:
    """Check what was given and where it comes from; return how the service is reached, if nothing is wrong."""
    try:
        url = resolve_base_url(connection.base_url)
    except ConfigurationError as error:
        checks.append(Check("address", State.WRONG, str(error), "pass --base-url https://… or set PAYCLIENT_BASE_URL"))
        return None
    source = "PAYCLIENT_BASE_URL" if connection.base_url is None else "--base-url"
    checks.append(_ok("address", f"{url}, from {source}"))
    source = "from PAYCLIENT_ENVIRONMENT" if os.environ.get("PAYCLIENT_ENVIRONMENT") else "by default"
    source = source if connection.environment is None else "from --environment"
    try:
        checks.append(_ok("environment", f"{resolve_environment(connection.environment).value}, {source}"))
        network = resolve_network({**connection.network()}, url)
    except ConfigurationError as error:
        checks.append(Check("options", State.WRONG, str(error)))
        return None
    checks += [_proxy(network), *_trust(connection, url)]
    return network


def _proxy(network: Network) -> Check:
    if network.proxy is None:
        is_set = any(os.environ.get(name) or os.environ.get(name.lower()) for name in ("HTTPS_PROXY", "ALL_PROXY"))
        return _ok("proxy", "none, although the environment names one" if is_set else "none")
    source = "--proxy" if network.proxy.source == "proxy" else network.proxy.source
    with_password = "with" if network.proxy.has_password else "without"
    return _ok("proxy", f"{network.proxy.name}, {with_password} a password, from {source}")


def _trust(connection: ConnectionOptions, url: str) -> Iterator[Check]:
    if url.startswith("http:"):
        yield _ok("authorities", "not needed: plain http on this machine")
        return
    yield _authorities(connection)
    if connection.client_cert is not None:
        yield _client_certificate(connection.client_cert, connection.client_key)
    if os.environ.get("SSLKEYLOGFILE"):
        text = "SSLKEYLOGFILE is set, which payclient does not honour"
        yield _look("secrets of TLS", text, "unset it: other programs write secrets there")


def _authorities(connection: ConnectionOptions) -> Check:
    if connection.ca_file is not None:
        return _ok("authorities", f"those in {connection.ca_file}, from --ca-file")
    problems = {name: _unreadable(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)}
    if problems:
        sources = " and ".join(f"{os.environ[name]}, from {name}{problem}" for name, problem in problems.items())
        wrong = [f"unset {name}, or correct it" for name, problem in problems.items() if problem]
        return _look("authorities", f"those in {sources}", "".join(wrong[:1]))
    is_system = connection.network().get("trust") == "system"
    trusted = "those of the operating system, by truststore" if is_system else "those that OpenSSL finds"
    return _ok("authorities", trusted)


def _unreadable(name: str) -> str:
    """Return why OpenSSL silently finds no authority at the path in a variable; "" if it finds one."""
    path = os.environ[name]
    if name == "SSL_CERT_DIR":
        return "" if all(map(os.path.isdir, path.split(os.pathsep))) else ", which is not a folder"
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return ", which is not a PEM file with certificates"
    except OSError as error:
        return f", which cannot be read: {error.strerror}"
    return ""


async def _look_up(
    client: AsyncClient, transport: _Watched, reference: str, network: Network, checks: list[Check]
) -> Exit:
    seen: Transaction | PayClientError
    try:
        seen = await client.with_options(retry=None).get_transaction(reference)
    except PayClientError as error:
        seen = error
    connection = transport.connection
    if transport.request is not None:
        progress = connection.progress
        # A step takes until the next one begins; the last one only ends the one before it.
        steps = (f"{step} {after - began:.3f} s" for (step, began), (_, after) in pairwise(progress.times))
        checks.append(_ok("connection", ", ".join((progress.address, *steps))))
        if connection.tls is not None:
            is_public = await is_publicly_trusted(transport.request, network.proxy)
            certificate = connection.tls.certificate()
            checks += certificates(connection.tls.version, certificate, time.time(), is_public=is_public)
        checks.append(clock(transport.date, transport.received_at, transport.seconds))
    checks += _outcome(seen, client.url, f", answered in {transport.seconds:.3f} s")
    if transport.request is not None:
        is_throttled = client.stats.throttled > 0
        how = "throttled" if is_throttled else "not throttled"
        advice = "the service limits requests: set --max-rate" if is_throttled else ""
        checks.append(_look("limiter", f"a limit of {client.stats.limit:g} at once after this one, {how}", advice))
    if isinstance(seen, Transaction | TransactionNotFoundError | RejectedError):
        return Exit.DONE
    return status_of(seen)


def _outcome(seen: Transaction | PayClientError, url: str, took: str) -> Iterator[Check]:
    if isinstance(seen, Transaction):
        yield _ok("lookup", f"found, status {seen.status}{took}")
        yield from (_look("lookup", each, "the answer differs from the specification") for each in seen.deviations)
    elif isinstance(seen, TransactionNotFoundError):
        yield _ok("lookup", f"the service accepts the key, and has no such transaction{took}")
    elif isinstance(seen, RejectedError):
        yield _look("lookup", str(seen), "pass the reference of a transaction that exists")
    else:
        yield Check("lookup", State.WRONG, str(seen), advice_for(seen, url))


_FEW_DAYS = 21
"""Before a certificate expires, when it should have been renewed."""
_MAX_CLOCK_SECONDS = 60.0
_DAY = 86400.0
_NO_CHECK_TIME = 0x200000
"""OpenSSL's flag `X509_V_FLAG_NO_CHECK_TIME`: the times in a certificate are not looked at."""
_PAGE = "see the page When it cannot connect"
_ADVICE_BY_STEP = {
    "name": f"check the host of the address, DNS and VPN; behind a proxy, name it; {_PAGE}",
    "connect": f"check host and port, firewall and proxy; {_PAGE}",
    "proxy": f"check the proxy's address, user and password, and whether it may reach the service; {_PAGE}",
    "tls": f"check host, authorities and client certificate; {_PAGE}",
    "sending": "try again; if it stays so, ask the service",
    "waiting": "try again; if it stays so, raise --timeout or ask the service",
    "body": "try again; if it stays so, raise --timeout or ask the service",
}
_ADVICE_BY_KIND = (
    (AuthenticationError, "check the key, and whether it is one of this environment"),
    (PermissionDeniedError, "check the key's rights, and whether the service allows this IP address"),
    (ServiceError, "try again later; if it stays so, ask the service"),
)
_SIGN_IN = "if this network wants you to sign in first, open a page in a browser"
_OTHER_ADDRESS = f"check --base-url against the URL above; {_SIGN_IN}"
_NO_SANDBOX = "this service may have no sandbox: pass --environment live, or the sandbox's own --base-url"


def advice_for(error: PayClientError, url: str = "") -> str:
    """Return advice on a failed lookup at *url*; "" when the message has it."""
    for kind, advice in _ADVICE_BY_KIND:
        if isinstance(error, kind):
            return advice
    if isinstance(error, ResponseError):
        return _advice_for_response(error, url)
    if isinstance(error, ProxyRefusedError) and 300 <= error.status_code < 400:  # a captive portal
        return _SIGN_IN
    return _ADVICE_BY_STEP.get(error.step, "") if isinstance(error, TransportError) else ""


def _advice_for_response(error: ResponseError, url: str) -> str:
    if isinstance(error, RateLimitedError):
        when = f"in {math.ceil(error.retry_after)} s" if error.retry_after else "later"
        return f"come back {when}, or set --max-rate"
    if error.status_code == 404 and url.endswith(endpoint("", Environment.SANDBOX)):
        return _NO_SANDBOX
    if error.status_code // 100 == 3 or error.status_code == 404 or error.body.lstrip().startswith("<"):
        return _OTHER_ADDRESS
    is_odd = isinstance(error, UnexpectedResponseError)
    return "ask the service, with the URL above and this message" if is_odd else ""


def certificates(
    version: str, certificate: Mapping[str, Any], now: float, *, is_public: bool | None
) -> Iterator[Check]:
    # `is_public`: the authorities that browsers trust vouch for it; None when that is not known.
    text, advice = f"{version}, issued by {_name_of(certificate.get('issuer', ()))}", ""
    if is_public is False:
        text = f"{text}, which is not a public authority"
        advice = "unless it is your company's or the service's own: something in between opens TLS, and sees the key"
    yield _look("TLS", text, advice)
    days = _days_left(certificate, now)
    advice = "tell the service to renew it" if days < _FEW_DAYS else ""
    yield _look("certificate", f"expires in {plural(days, 'day')}", advice)


def _client_certificate(path: Path, key: Path | None) -> Check:
    topic, text, now = "client certificate", f"{path}, from --client-cert", time.time()
    try:
        certificate = read_certificate(path, key)
    except ssl.SSLError as error:  # it can be shown, and does not verify as a client's
        text = f"{text}, cannot be read as a client's: {error.reason}"
        return _look(topic, text, "ask the service which certificates it accepts")
    text, days = f"{text}, issued by {_name_of(certificate.get('issuer', ()))}", _days_left(certificate, now)
    if days < 0:
        text = f"{text}, expired on {certificate['notAfter']}"
        return Check(topic, State.WRONG, text, "renew it: the service will refuse it")
    text = f"{text}, expires in {plural(days, 'day')}"
    if ssl.cert_time_to_seconds(certificate["notBefore"]) > now:
        advice = "check this machine's clock, or wait: the service will refuse it until then"
        return Check(topic, State.WRONG, f"{text}, valid from {certificate['notBefore']}", advice)
    return _look(topic, text, "renew it" if days < _FEW_DAYS else "")


def read_certificate(certificate: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return the certificate in a file, of any age, as `ssl` describes one."""
    # `ssl` describes only what it has verified. So the certificate is shown in a handshake in memory, to a side that
    # takes it for its own authority and does not look at its times.
    asking, showing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (asking, showing):
        context.load_cert_chain(certificate, key)
    showing.check_hostname, showing.verify_mode = False, ssl.CERT_NONE
    asking.load_verify_locations(certificate)
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = showing.wrap_bio(back, there)
    server = asking.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return server.getpeercert() or {}


def _days_left(certificate: Mapping[str, Any], now: float) -> int:
    return int((ssl.cert_time_to_seconds(certificate["notAfter"]) - now) // _DAY)


def clock(date: str | None, received_at: float, seconds: float) -> Check:
    """Compare this machine's clock with the `Date` header, which came at *received_at* after *seconds*."""
    try:
        ahead = received_at - parsedate_to_datetime(date or "").timestamp()
    except (ValueError, OverflowError):
        return _ok("clock", "not compared: the service names no date")
    if -_MAX_CLOCK_SECONDS <= ahead <= _MAX_CLOCK_SECONDS + seconds:
        return _ok("clock", f"within {_MAX_CLOCK_SECONDS:.0f} s of the service's")
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the service's"
    return _look("clock", text, "set this machine's clock: certificates and --grace are judged by it")


def _name_of(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    parts = {key: value for group in name for key, value in group}
    found = [parts[key] for key in ("organizationName", "commonName") if parts.get(key)]
    return ", ".join(found) or "an authority without a name"
