"""`payclient doctor`: check the connection to the service step by step, and say what to do."""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Annotated, Any

from attrs import asdict, define, field, frozen
from cyclopts import Parameter

from payclient import AsyncClient, Transaction
from payclient._config import resolve_base_url, resolve_environment
from payclient._escape import escape_unprintable, plural
from payclient._options import DEADLINE
from payclient.cli._connection import ConnectionOptions
from payclient.cli._status import Exit, status_of
from payclient.cli._streams import Streams, aligned
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
```console
$ payclient doctor
$ payclient doctor T0000000033KGJ0D --json
```

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
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    deadline: float | None = DEADLINE,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Check the connection to the service step by step, and say what to do.

    Args:
        reference: Of the transaction that is looked up; a made-up one if not given, which the service does not know.
        as_json: One JSON object: `status`, and `checks` with `topic`, `state`, `text` and `advice`.
        deadline: Seconds for the lookup.
        connection: Which service is asked, and how.
        streams: Of the process.

    Returns:
        The exit status.
    """
    check_reference(reference)
    checkup = Checkup()
    _check_versions(checkup)
    status = Exit.USAGE
    network = _check_configuration(connection, checkup)
    if network is not None:
        transport = _Watched(FastTransport(ssl_context=network.ssl_context, proxy=network.proxy))
        try:
            client = connection.client(streams, deadline=deadline, transport=transport)
        except ConfigurationError as error:
            checkup.add("API key", State.WRONG, str(error))
        else:
            checkup.add("API key", State.OK, f"fingerprint {client.key_fingerprint}, from {connection.key_source}")
            checkup.add("request", State.OK, f"POST {client.url}")
            async with client:
                status = await _check_lookup(client, transport, reference, network, checkup)
        finally:
            await transport.aclose()
    rows = [tuple(map(escape_unprintable, row)) for row in checkup.as_rows()]
    streams.show([json.dumps(checkup.as_json())] if as_json else aligned(rows))
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
        """Exchange *request* for a response."""
        response = await self._inner.send(request)
        if self.request is None:
            self.request, self.connection = request, response.connection
            self.date, self.received_at = response.headers.get("date"), time.time()
            _, sent_at = self.connection.progress.times[-1]
            self.seconds = asyncio.get_running_loop().time() - sent_at
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()


def _check_versions(checkup: Checkup) -> None:
    found = [f"payclient {version('payclient')}", f"Python {platform.python_version()}", ssl.OPENSSL_VERSION]
    for name in _DEPENDENCIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # of an extra
            continue
    checkup.add("versions", State.OK, ", ".join(found))


def _check_configuration(connection: ConnectionOptions, checkup: Checkup) -> Network | None:
    """Check what was given and where it comes from; return how the service is reached, if nothing is wrong."""
    try:
        url = resolve_base_url(connection.base_url)
        source = "--base-url" if connection.base_url is not None else "PAYCLIENT_BASE_URL"
        checkup.add("address", State.OK, f"{url}, from {source}")
    except ConfigurationError as error:
        checkup.add("address", State.WRONG, str(error), "pass --base-url https://… or set PAYCLIENT_BASE_URL")
        return None
    try:
        environment = resolve_environment(connection.environment)
        _check_environment(environment, connection, checkup)
        network = resolve_network({**connection.network()}, url)
    except ConfigurationError as error:
        checkup.add("options", State.WRONG, str(error))
        return None
    _check_proxy(network, checkup)
    _check_trust(connection, url, checkup)
    return network


def _check_environment(environment: Environment, connection: ConnectionOptions, checkup: Checkup) -> None:
    source = "by default"
    if connection.environment is not None:
        source = "from --environment"
    elif os.environ.get("PAYCLIENT_ENVIRONMENT"):
        source = "from PAYCLIENT_ENVIRONMENT"
    checkup.add("environment", State.OK, f"{environment.value}, {source}")


def _check_proxy(network: Network, checkup: Checkup) -> None:
    if network.proxy is None:
        is_set = any(os.environ.get(name) or os.environ.get(name.lower()) for name in ("HTTPS_PROXY", "ALL_PROXY"))
        checkup.add("proxy", State.OK, "none, although the environment names one" if is_set else "none")
        return
    source = "--proxy" if network.proxy.source == "proxy" else network.proxy.source
    with_password = "with" if network.proxy.has_password else "without"
    checkup.add("proxy", State.OK, f"{network.proxy.name}, {with_password} a password, from {source}")


def _check_trust(connection: ConnectionOptions, url: str, checkup: Checkup) -> None:
    if url.startswith("http:"):
        checkup.add("authorities", State.OK, "not needed: plain http on this machine")
        return
    named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    trusted, wrong = "those that OpenSSL finds", ""
    if connection.ca_file is not None:
        trusted = f"those in {connection.ca_file}, from --ca-file"
    elif named:
        problems = {name: _unreadable(name) for name in named}
        sources = (f"{os.environ[name]}, from {name}{problem}" for name, problem in problems.items())
        trusted = f"those in {' and '.join(sources)}"
        wrong = next((name for name, problem in problems.items() if problem), "")
    elif connection.network().get("trust") == "system":
        trusted = "those of the operating system, by truststore"
    advice = f"unset {wrong}, or correct it" if wrong else ""
    checkup.add("authorities", State.LOOK if wrong else State.OK, trusted, advice)
    if connection.client_cert is not None:
        try:
            certificate = read_certificate(connection.client_cert, connection.client_key)
        except ssl.SSLError as error:  # it can be shown, and does not verify as a client's
            text = f"{connection.client_cert}, from --client-cert, cannot be read as a client's: {error.reason}"
            checkup.add("client certificate", State.LOOK, text, "ask the service which certificates it accepts")
        else:
            check_client_certificate(str(connection.client_cert), certificate, time.time(), checkup)
    if os.environ.get("SSLKEYLOGFILE"):
        text = "SSLKEYLOGFILE is set, which payclient does not honour"
        checkup.add("secrets of TLS", State.LOOK, text, "unset it: other programs write secrets there")


def _unreadable(name: str) -> str:
    """Return why OpenSSL, in silence, finds no authority in what a variable names; "" if it does."""
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


async def _check_lookup(
    client: AsyncClient,
    transport: _Watched,
    reference: str,
    network: Network,
    checkup: Checkup,
) -> Exit:
    """Look one transaction up, and check what was seen on the way."""
    seen: Transaction | PayClientError
    try:
        seen = await client.with_options(retry=None).get_transaction(reference)
    except PayClientError as error:
        if transport.request is None:
            return _add_failure(error, client, checkup)
        seen = error
    connection = transport.connection
    checkup.add("connection", State.OK, f"{connection.progress.address}, {steps_in_words(connection.progress.times)}")
    if connection.tls is not None and transport.request is not None:
        is_public = await is_publicly_trusted(transport.request, network.proxy)
        certificate = connection.tls.certificate()
        check_certificate(connection.tls.version, certificate, time.time(), checkup, is_public=is_public)
    check_clock(transport.date, transport.received_at, transport.seconds, checkup)
    status = _add_outcome(seen, client, checkup, transport.seconds)
    stats = client.stats
    is_throttled = stats.throttled > 0
    text = f"{stats.limit:g} attempts at once after this one, {'throttled' if is_throttled else 'not throttled'}"
    advice = "the service limits requests: set --max-rate" if is_throttled else ""
    checkup.add("limiter", State.LOOK if is_throttled else State.OK, text, advice)
    return status


def _add_outcome(seen: Transaction | PayClientError, client: AsyncClient, checkup: Checkup, seconds: float) -> Exit:
    took = f", answered in {seconds:.3f} s"
    if isinstance(seen, Transaction):
        checkup.add("lookup", State.OK, f"found, status {seen.status}{took}")
        for deviation in seen.deviations:
            checkup.add("lookup", State.LOOK, deviation, "the answer differs from the specification")
        return Exit.DONE
    if isinstance(seen, TransactionNotFoundError):
        checkup.add("lookup", State.OK, f"the service accepts the key, and has no such transaction{took}")
        return Exit.DONE
    if isinstance(seen, RejectedError):
        checkup.add("lookup", State.LOOK, str(seen), "pass the reference of a transaction that exists")
        return Exit.DONE
    return _add_failure(seen, client, checkup)


def _add_failure(error: PayClientError, client: AsyncClient, checkup: Checkup) -> Exit:
    checkup.add("lookup", State.WRONG, str(error), advice_for(error, client.url))
    return status_of(error)


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


class State(StrEnum):
    """State of a check; `LOOK` works, and needs attention."""

    OK = "ok"
    LOOK = "look"
    WRONG = "wrong"


@frozen
class Check:
    """One check: its topic, what came of it, what was found, and what to do; "" when there is nothing to do."""

    topic: str
    state: State
    text: str
    advice: str = ""


@define
class Checkup:
    """The checks in the order in which they were made."""

    checks: list[Check] = field(factory=list)

    def add(self, topic: str, state: State, text: str, advice: str = "") -> None:
        """Note one check."""
        self.checks.append(Check(topic, state, text, advice))

    @property
    def state(self) -> State:
        """The worst of all."""
        return max((check.state for check in self.checks), key=list(State).index, default=State.OK)

    def as_json(self) -> dict[str, Any]:
        """Return them as one JSON object."""
        return {"status": str(self.state), "checks": [asdict(check) for check in self.checks]}

    def as_rows(self) -> list[tuple[str, str, str]]:
        """Return a line for each check, and one for each advice below it."""
        rows: list[tuple[str, str, str]] = []
        for check in self.checks:
            rows.append((str(check.state), check.topic, check.text))
            rows += [("", "", f"-> {check.advice}")] if check.advice else []
        return rows


def advice_for(error: PayClientError, url: str = "") -> str:
    """Return what to do about a lookup at *url* that failed; "" when the message says it."""
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


def steps_in_words(times: Sequence[tuple[str, float]]) -> str:
    """Return how long each step took, from when each began; the last one only ends the one before it."""
    seconds = ((step, after - began) for (step, began), (_, after) in pairwise(times))
    return ", ".join(f"{step} {taken:.3f} s" for step, taken in seconds)


def check_certificate(
    version: str,
    certificate: Mapping[str, Any],
    now: float,
    checkup: Checkup,
    *,
    is_public: bool | None,
) -> None:
    """Check the certificate that the service has shown, which has been verified."""
    # `is_public`: the authorities that browsers trust vouch for it; None when that is not known.
    issuer = _name_of(certificate.get("issuer", ()))
    if is_public is False:
        text = f"{version}, issued by {issuer}, which is not a public authority"
        advice = "unless it is your company's or the service's own: something in between opens TLS, and sees the key"
        checkup.add("TLS", State.LOOK, text, advice)
    else:
        checkup.add("TLS", State.OK, f"{version}, issued by {issuer}")
    days = _days_left(certificate, now)
    if days < _FEW_DAYS:
        checkup.add("certificate", State.LOOK, f"expires in {plural(days, 'day')}", "tell the service to renew it")
    else:
        checkup.add("certificate", State.OK, f"expires in {plural(days, 'day')}")


def check_client_certificate(path: str, certificate: Mapping[str, Any], now: float, checkup: Checkup) -> None:
    """Check the certificate that is shown to the service."""
    days, state, advice = _days_left(certificate, now), State.OK, ""
    text = f"{path}, from --client-cert, issued by {_name_of(certificate.get('issuer', ()))}"
    if days < 0:
        state, advice = State.WRONG, "renew it: the service will refuse it"
    elif ssl.cert_time_to_seconds(certificate["notBefore"]) > now:
        state, advice = State.WRONG, "check this machine's clock, or wait: the service will refuse it until then"
    elif days < _FEW_DAYS:
        state, advice = State.LOOK, "renew it"
    ends = f"expired on {certificate['notAfter']}" if days < 0 else f"expires in {plural(days, 'day')}"
    begins = f", valid from {certificate['notBefore']}" if state is State.WRONG and days >= 0 else ""
    checkup.add("client certificate", state, f"{text}, {ends}{begins}", advice)


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


def check_clock(date: str | None, received_at: float, seconds: float, checkup: Checkup) -> None:
    """Compare this machine's clock with the `Date` header, which came at *received_at* after *seconds*."""
    try:
        theirs = parsedate_to_datetime(date or "").timestamp()
    except (ValueError, OverflowError):
        checkup.add("clock", State.OK, "not compared: the service names no date")
        return
    ahead = received_at - theirs
    if -_MAX_CLOCK_SECONDS <= ahead <= _MAX_CLOCK_SECONDS + seconds:
        checkup.add("clock", State.OK, f"within {_MAX_CLOCK_SECONDS:.0f} s of the service's")
        return
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the service's"
    checkup.add("clock", State.LOOK, text, "set this machine's clock: certificates and --grace are judged by it")


def _name_of(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return the organisation and the name in a certificate."""
    parts = {key: value for group in name for key, value in group}
    found = [parts[key] for key in ("organizationName", "commonName") if parts.get(key)]
    return ", ".join(found) or "an authority without a name"
