"""What `payclient doctor` has checked, and what it makes of what it saw."""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from attrs import asdict, define, field, frozen

from payclient._escape import plural
from payclient.errors import (
    AuthenticationError,
    PayClientError,
    PermissionDeniedError,
    ProxyRefusedError,
    RateLimitedError,
    ResponseError,
    ServiceError,
    TransportError,
    UnexpectedResponseError,
)
from payclient.protocol import Environment, endpoint

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
    """
    What came of one check.

    Attributes:
        OK: As it should be.
        LOOK: It works, and deserves a look.
        WRONG: It does not work.
    """

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
    """
    Check the certificate that the service has shown, which has been verified.

    Args:
        version: Of TLS.
        certificate: As `ssl` describes it.
        now: Seconds since 1970.
        checkup: Gets the checks.
        is_public: Whether the authorities that browsers trust vouch for it; None when that is not known.
    """
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
    """
    Check the certificate that is shown to the service.

    Args:
        path: Of its file.
        certificate: As `read_certificate` returns it.
        now: Seconds since 1970.
        checkup: Gets the check.
    """
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
    """
    Return the certificate in a file as `ssl` describes one, with `issuer`, `notBefore` and `notAfter`; of any age.

    `ssl` describes only what it has verified. So the certificate is shown in a handshake in memory, to a side that
    takes it for its own authority and does not look at its times.
    """
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
    """
    Compare this machine's clock with the service's.

    Args:
        date: The `Date` header, in whole seconds.
        received_at: When it came, in seconds since 1970.
        seconds: How long the exchange took.
        checkup: Gets the check.
    """
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
