"""`payclient doctor`: what is said about the way to the service, and with which status it ends."""

import json
import re
from importlib.metadata import requires
from typing import get_args

import pytest
import trustme

from payclient import errors
from payclient.cli._lookup import Check, advice_for, certificate_of, in_json, table
from payclient.testing import Reply
from payclient.transports import TransportName
from support.fakes import KEY
from support.in_thread import serving
from support.misses import check_each
from support.raw_proxy import RawProxy
from support.raw_server import RawServer, Script, close, head, http, send, server_context

AUTHORITY = trustme.CA()
PASSWORD = "of-the-clerk-51d2e84b"


@pytest.fixture
def authority(tmp_path):
    """Write the authority of the secure service to a file."""
    path = tmp_path / "authority.pem"
    path.write_bytes(AUTHORITY.cert_pem.bytes())
    return str(path)


@pytest.fixture
def doctor(command, monkeypatch):
    """Run the doctor with a key, and return its checks by topic, and its status."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)

    def doctor(*arguments):
        result = command("doctor", "--json", *arguments)
        assert KEY not in result.out + result.err
        assert PASSWORD not in result.out + result.err
        found = json.loads(result.out)
        return {check["topic"]: check for check in found["checks"]}, result.status

    return doctor


def test_healthy(configured, service):
    """Every line is ok, the key is a fingerprint, each value has its source, and a known reference is found, once."""
    result = configured("doctor")
    lines = result.out.splitlines()
    assert (result.status, {line.split()[0] for line in lines}) == (0, {"ok"})
    topics = [re.split(r"  +", line)[1] for line in lines]
    assert topics == [
        *("versions", "address", "environment", "proxy", "authorities", "API key"),
        *("request", "connection", "lookup"),
    ]
    assert service.api_key not in result.out
    assert "sandbox, from PAYCLIENT_ENVIRONMENT" in result.out
    assert ", from PAYCLIENT_BASE_URL" in result.out
    assert re.search(r"fingerprint [0-9a-f]{12}, from PAYCLIENT_API_KEY", result.out)
    assert re.search(r"the service accepts the key, and doesn't have this transaction, answered in \d+\.", result.out)
    asked = len(service.requests)

    result = configured("doctor", "T1", "--json")
    checks = {check["topic"]: check for check in json.loads(result.out)["checks"]}
    assert (result.status, checks["lookup"]["text"][:20]) == (0, "found, status Paid, ")
    assert [request.path for request in service.requests[asked:]] == ["/api-sandbox/transaction/detail"]
    service.add(reference="T5", status="\x1b[31mPaid")
    assert "  found, status <U+001B>[31mPaid, " in configured("doctor", "T5").out


CONFIGURATIONS = {
    "": (3, "address", "base_url is not set"),
    "--base-url ftp://x": (3, "address", "base_url must begin with https://"),
    "--base-url https://x --proxy socks5://p": (3, "options", "proxy must be an http:// proxy"),
    "--base-url https://x --ca-file /none": (2, "options", "ca_file /none cannot be read"),
    "--base-url https://x --max-rate 0": (2, "options", "max_rate must be a number"),
}


def test_configuration(doctor, command, monkeypatch):
    """What cannot be used is a line that says why, with a status of its own; nothing is asked."""

    def told(arguments):
        _, topic, text = CONFIGURATIONS[arguments]
        checks, status = doctor(*arguments.split())
        return status, checks[topic]["state"], checks[topic]["text"][: len(text)], "lookup" in checks

    expected = {each: (status, "wrong", text, False) for each, (status, _, text) in CONFIGURATIONS.items()}
    check_each(expected, told)
    monkeypatch.delenv("PAYCLIENT_API_KEY")
    result = command("doctor", "--base-url", "https://pay.invalid")
    assert result.status == 3
    assert "no API key: set PAYCLIENT_API_KEY or pass --api-key-file PATH" in result.out


def test_secure(doctor, authority, tmp_path):
    """With TLS, version, issuer and days of the certificate are shown, and the files of both sides."""
    server, path = RawServer(ssl=server_context(AUTHORITY, "localhost")), tmp_path / "client.pem"
    path.write_bytes(AUTHORITY.issue_cert("clerk@merchant.example").private_key_and_cert_chain_pem.bytes())
    with serving(server):
        options = ("--base-url", server.url, "--ca-file", authority, "--client-cert", str(path))
        checks, status = doctor("T1", *options)
    assert (status, checks["lookup"]["state"]) == (0, "ok")
    assert checks["authorities"]["text"] == f"those in {authority}, from --ca-file"
    assert checks["client certificate"]["text"] == f"{path}, from --client-cert"
    assert re.fullmatch(r"TLSv1\.3, issued by trustme v.*, expires in [\d,]+ days", checks["TLS"]["text"])
    assert re.fullmatch(
        r"127\.0\.0\.1:\d+(, (name|connect|tls) \d{1,2}\.\d{3} s){3}",  # of each step, and not since the machine began
        checks["connection"]["text"],
    )
    assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, for a handshake that fails on the server's side
def test_stranger(doctor):
    """An authority that is not trusted is status 3, with the step and what to do."""
    server = RawServer(ssl=server_context(AUTHORITY, "localhost"))
    with serving(server):
        checks, status = doctor("--base-url", server.url)
    assert (status, checks["lookup"]["state"]) == (3, "wrong")
    assert "could not prove who it is" in checks["lookup"]["text"]
    assert "[step tls, 127.0.0.1:" in checks["lookup"]["text"]
    assert checks["lookup"]["advice"].startswith("check host, authorities")


def test_proxy(doctor, authority, monkeypatch):
    """The proxy, what named it, and how long it took; never its password."""
    server, proxy = RawServer(ssl=server_context(AUTHORITY, "pay.example")), RawProxy()
    with serving(server, proxy):
        address = proxy.address
        url = server.url.replace("localhost", "pay.example")
        monkeypatch.setenv("HTTPS_PROXY", proxy.with_password(f"clerk:{PASSWORD}"))
        checks, status = doctor("T1", "--base-url", url, "--ca-file", authority)
        around, _ = doctor("T1", "--base-url", server.url, "--ca-file", authority)
    assert status == 0
    assert checks["proxy"]["text"] == f"{address}, with a password, from HTTPS_PROXY"
    assert re.search(r"connect \d+\.\d+ s, proxy \d+\.\d+ s, tls \d+\.\d+ s", checks["connection"]["text"])
    assert around["proxy"]["text"] == "none, although the environment names one"
    assert KEY.encode() not in proxy.seen


def test_refusing_proxy(doctor, authority):
    """A proxy that refuses is status 3, and the line says what it wants, or to sign in first on a page of it."""
    found = []
    for answer in (head("HTTP/1.1 407 No"), http(b"", "302 Found", "Location: http://portal.example/")):
        proxy = RawProxy(Script([send(answer), close]))
        with serving(proxy):
            options = ("--base-url", "https://pay.example", "--proxy", proxy.url, "--ca-file", authority)
            checks, status = doctor(*options)
        assert (status, checks["lookup"]["state"]) == (3, "wrong")
        found.append(checks["lookup"])
    assert "(407 Proxy Authentication Required), because it wants a user" in found[0]["text"]
    assert "[step proxy, " in found[0]["text"]
    assert found[1]["advice"] == "if this network wants you to sign in first, open a page in a browser"


VARIABLES = {
    ("SSL_CERT_FILE", "/nope.pem"): "/nope.pem, from SSL_CERT_FILE, which does not exist",
    ("SSL_CERT_DIR", "/nope"): "/nope, from SSL_CERT_DIR, which does not exist",
}


def test_authorities_of_a_variable(doctor, monkeypatch):
    """A variable that names no authorities, which OpenSSL passes over in silence, is not ok."""

    def told(case):
        name, value = case
        for each in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.delenv(each, raising=False)
        monkeypatch.setenv(name, value)
        check = doctor("--base-url", "https://127.0.0.1:1")[0]["authorities"]
        return check["state"], check["text"], check["advice"]

    expected = {
        (name, value): ("look", f"those in {text}", f"unset {name}") for (name, value), text in VARIABLES.items()
    }
    check_each(expected, told)


PAGE = {"body": "<!DOCTYPE html><title>Sign in</title>", "headers": {"Content-Type": "text/html"}}
ANSWERS = [
    (Reply(status=404, body="no such page"), 3, "HTTP 404", "this service may lack a sandbox"),
    (Reply(status=302, headers={"Location": "/"}), 3, "HTTP 302", "check --base-url against the URL above"),
    (Reply(status=200, **PAGE), 75, "HTTP 200", "check --base-url against the URL above, and if this network wants"),
    (Reply(status=503), 75, "HTTP 503", "try again later"),
    (Reply(status=429, headers={"Retry-After": "90"}), 75, "[retry after 90 s]", "try again later, or set --max-rate"),
    (Reply(status=200, body={"success": True}), 75, "HTTP 200", "ask the service"),
    (Reply(status=422, body={"success": False, "message": "Too old"}), 0, "Too old", "pass the reference of"),
    (Reply(status=401), 3, "the service refuses the API key", "check the key, and whether it is one of this"),
]


def test_answers(configured, service):
    """What is answered decides line, advice and exit status, as with any other command, and the URL is shown."""
    for number, (reply, status, says, advice) in enumerate(ANSWERS):
        service.script(f"D{number}", *[reply] * 2)
        result = configured("doctor", f"D{number}", "--json")
        checks = {check["topic"]: check for check in json.loads(result.out)["checks"]}
        lookup = checks["lookup"]
        assert (result.status, lookup["advice"][: len(advice)], says in lookup["text"]) == (status, advice, True), says
        assert lookup["state"] == ("wrong" if status else "look")
        assert re.fullmatch(r"POST http://.*/api-sandbox/transaction/detail", checks["request"]["text"])


NOW = 1_790_000_000.0


def test_certificate():
    """A certificate about to expire needs attention, and says what to do; an issuer without a name is no error."""
    issuer = ((("countryName", "ID"),), (("organizationName", "Bank"),), (("commonName", "Bank Root"),))
    for named, day, days, state in ((issuer, 12, 21, "ok"), (issuer, 11, 20, "look"), ((), 12, 21, "ok")):
        found = certificate_of("TLSv1.3", {"issuer": named, "notAfter": f"Oct {day} 14:13:20 2026 GMT"}, NOW)
        name = "Bank, Bank Root" if named else "an authority without a name"
        assert (found.state, found.text) == (state, f"TLSv1.3, issued by {name}, expires in {days} days")
        assert bool(found.advice) == (state == "look")


def test_advice():
    """What to do depends on the step at which a lookup failed, or on who refused it."""
    for error, advice in (
        (errors.PermissionDeniedError("x"), "check the key's rights"),
        (errors.RateLimitedError("x"), "try again later"),
        (errors.ProxyRefusedError("x", step="proxy"), "check the proxy's address"),
        (errors.ConnectionFailedError("x", step="name"), "check the host"),
        (errors.AttemptTimeoutError("x", step="waiting"), "try again"),
        (errors.ConnectionFailedError("x"), ""),
    ):
        found = advice_for(error)
        assert (found[: len(advice)], bool(found)) == (advice, bool(advice)), repr(error)


def test_checkup():
    """A checkup is as good as its worst check; advice stands below it."""
    checks = [Check("one", "broken", "mend it", is_wrong=True), Check("two", "odd", "see"), Check("three", "fine")]
    assert table(checks) == [
        *("wrong  one    broken", "              -> mend it", "look   two    odd", "              -> see"),
        "ok     three  fine",
    ]
    assert in_json([]) == {"status": "ok", "checks": []}
    found = in_json(checks)
    assert (found["status"], found["checks"][0]) == (
        "wrong",
        {"topic": "one", "state": "wrong", "text": "broken", "advice": "mend it"},
    )


def test_versions(doctor):
    """The versions are those of each dependency, and of the library of each transport."""
    checks, _ = doctor("T1", "--base-url", "http://127.0.0.1:9")
    needed = {re.match(r"[\w-]+", each)[0] for each in requires("payclient") if "extra ==" not in each}
    named = {each.split()[0] for each in checks["versions"]["text"].split(", ")}
    assert needed | {*get_args(TransportName)} - {"fast"} <= named
