"""`payclient doctor`: what is said about the way to the service, and with which status it ends."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from payclient.cli._doctor import read_certificate
from payclient.testing import Reply
from support.fakes import KEY
from support.in_thread import serving
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
    """Every line is ok, the key is a fingerprint, and where each value comes from is said."""
    result = configured("doctor")
    lines = result.out.splitlines()
    assert (result.status, {line.split()[0] for line in lines}) == (0, {"ok"})
    topics = [re.split(r"  +", line)[1] for line in lines]
    assert topics == [
        *("versions", "address", "environment", "proxy", "authorities", "API key"),
        *("request", "connection", "clock", "lookup", "limiter"),
    ]
    assert service.api_key not in result.out
    assert "sandbox, from PAYCLIENT_ENVIRONMENT" in result.out
    assert ", from PAYCLIENT_BASE_URL" in result.out
    assert re.search(r"fingerprint [0-9a-f]{12}, from PAYCLIENT_API_KEY", result.out)
    assert re.search(r"the service accepts the key, and has no such transaction, answered in \d+\.", result.out)


def test_reference(configured, service):
    """A reference that is known is looked up, once."""
    result = configured("doctor", "T1", "--json")
    checks = {check["topic"]: check for check in json.loads(result.out)["checks"]}
    assert (result.status, checks["lookup"]["text"][:20]) == (0, "found, status Paid, ")
    assert [request.path for request in service.requests] == ["/api-sandbox/transaction/detail"]


@pytest.mark.parametrize(
    ("reply", "status", "state", "text"),
    [
        (Reply(status=500), 75, "wrong", "HTTP 500"),
        (Reply(status=429, headers={"Retry-After": "9999"}), 75, "wrong", "HTTP 429"),
        (Reply(status=422, body={"success": False, "message": "Too old"}), 0, "look", "Too old"),
        (Reply(status=301, headers={"Location": "/"}), 3, "wrong", "HTTP 301"),
    ],
)
def test_answer(configured, service, reply, status, state, text):
    """What the service answers decides the line and the exit status, as with any other command."""
    service.script("T1", *[reply] * 2)
    result = configured("doctor", "T1", "--json")
    checks = {check["topic"]: check for check in json.loads(result.out)["checks"]}
    assert (result.status, checks["lookup"]["state"]) == (status, state)
    assert text in checks["lookup"]["text"]
    assert checks["limiter"]["state"] == ("look" if "429" in text else "ok")


def test_refused_key(configured, monkeypatch):
    """A refused key is status 3, with what to do."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", "some-other-key")
    result = configured("doctor")
    assert result.status == 3
    assert re.search(r"^wrong +lookup +the service refuses the API key", result.out, re.MULTILINE)
    assert re.search(r"^ +-> check the key, and whether it is one of this environment$", result.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "topic", "text"),
    [
        ((), "address", "base_url is not set"),
        (("--base-url", "ftp://x"), "address", "base_url must begin with https://"),
        (("--base-url", "https://x", "--proxy", "socks5://p"), "options", "proxy must be an http:// proxy"),
        (("--base-url", "https://x", "--proxy", "http://a:b@p"), "options", "--proxy takes no password"),
        (("--base-url", "https://x", "--ca-file", "/none"), "options", "ca_file /none cannot be read"),
        (("--base-url", "https://x", "--max-rate", "0"), "API key", "max_rate must be a number"),
    ],
)
def test_configuration(doctor, arguments, topic, text):
    """What cannot be used is a line that says why, with status 2; nothing is asked."""
    checks, status = doctor(*arguments)
    assert (status, checks[topic]["state"], checks[topic]["text"][: len(text)]) == (2, "wrong", text)
    assert "lookup" not in checks


def test_no_key(command):
    """Without a key it says where one may come from."""
    result = command("doctor", "--base-url", "https://pay.invalid")
    assert result.status == 2
    assert "no API key: set PAYCLIENT_API_KEY or pass --api-key-file PATH" in result.out


def test_secure(doctor, authority):
    """With TLS the version, the issuer and the days of the certificate are told; a private authority wants a look."""
    server = RawServer(ssl=server_context(AUTHORITY, "localhost"))
    with serving(server):
        checks, status = doctor("T1", "--base-url", server.url, "--ca-file", authority)
    assert (status, checks["lookup"]["state"]) == (0, "ok")
    assert checks["authorities"]["text"] == f"those in {authority}, from --ca-file"
    assert checks["TLS"]["state"] == "look"
    assert re.fullmatch(
        r"TLSv1\.3, issued by trustme v.*, which is not a public authority",
        checks["TLS"]["text"],
    )
    assert "something in between opens TLS" in checks["TLS"]["advice"]
    assert re.fullmatch(r"expires in [\d,]+ days", checks["certificate"]["text"])
    assert re.fullmatch(
        r"127\.0\.0\.1:\d+, name \d+\.\d+ s, connect \d+\.\d+ s, tls \d+\.\d+ s", checks["connection"]["text"]
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
    """A proxy that refuses is status 3, and the line says what it wants."""
    proxy = RawProxy(Script([send(head("HTTP/1.1 407 No")), close]))
    with serving(proxy):
        checks, status = doctor("--base-url", "https://pay.example", "--proxy", proxy.url, "--ca-file", authority)
    assert (status, checks["lookup"]["state"]) == (3, "wrong")
    assert "(407 Proxy Authentication Required); it wants a user" in checks["lookup"]["text"]
    assert "[step proxy, " in checks["lookup"]["text"]


def test_clock(doctor):
    """The service's date is compared with this machine's clock."""
    late = http(
        b'{"success": false, "message": "Transaction not found"}', "404 Not Found", "Date: Mon, 1 Jan 2024 00:00:00 GMT"
    )
    server = RawServer(Script([send(late)]))
    with serving(server):
        checks, _ = doctor("--base-url", server.url)
    assert (checks["clock"]["state"], checks["clock"]["text"].endswith(" s ahead of the service's")) == ("look", True)


def test_secrets_of_tls(doctor, authority, monkeypatch, tmp_path):
    """`SSLKEYLOGFILE` wants a look; payclient writes nothing there."""
    log = tmp_path / "secrets"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    monkeypatch.setattr("certifi.where", lambda: authority)  # so that this handshake succeeds, too
    server = RawServer(ssl=server_context(AUTHORITY, "localhost"))
    with serving(server):
        checks, _ = doctor("T1", "--base-url", server.url, "--ca-file", authority)
    assert checks["secrets of TLS"]["state"] == "look"
    assert not log.exists() or b"CLIENT_" not in log.read_bytes()


def test_public_authorities_are_unknown(doctor, authority, monkeypatch):
    """Without certifi nothing is said about whose authority it is."""
    monkeypatch.setitem(sys.modules, "certifi", None)
    server = RawServer(ssl=server_context(AUTHORITY, "localhost"))
    with serving(server):
        checks, _ = doctor("T1", "--base-url", server.url, "--ca-file", authority)
    assert checks["TLS"]["state"] == "ok"


def test_client_certificate(doctor, authority, tmp_path):
    """The certificate that is shown is read before anything is asked: its issuer, and whether its time is over."""
    path, now = tmp_path / "client.pem", dt.datetime.now(dt.UTC)
    server = RawServer(ssl=server_context(AUTHORITY, "localhost"))
    expected = {
        "ok": ({}, r"expires in [\d,]{4,} days"),
        "look": ({"not_after": now + dt.timedelta(days=9.5)}, "expires in 9 days"),
        "wrong": ({"not_after": now - dt.timedelta(days=1)}, r"expired on \w{3} .* GMT"),
        "wrong, early": ({"not_before": now + dt.timedelta(days=1)}, r"expires in [\d,]+ days, valid from .* GMT"),
    }
    with serving(server):
        for state, (validity, text) in expected.items():
            issued = AUTHORITY.issue_cert("clerk@merchant.example", **validity)
            path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
            checks, _ = doctor("T1", "--base-url", server.url, "--ca-file", authority, "--client-cert", str(path))
            check = checks["client certificate"]
            assert check["state"] == state.partition(",")[0]
            assert re.fullmatch(rf"{path}, from --client-cert, issued by trustme .*, {text}", check["text"])
            assert bool(check["advice"]) == (state != "ok")


@pytest.mark.parametrize("kind", ["client", "self-signed", "chain"])
def test_kinds_of_client_certificates(tmp_path, kind):
    """A certificate for clients alone, one that vouches for itself, and one with its issuers, are read."""
    path = tmp_path / "client.pem"
    authority = AUTHORITY.create_child_ca() if kind == "chain" else AUTHORITY
    made = authority.issue_cert("clerk@merchant.example")
    path.write_bytes(made.private_key_and_cert_chain_pem.bytes())
    if kind != "chain":
        key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=clerk")
        at = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(7).not_valid_before(at).not_valid_after(at + dt.timedelta(days=9))
        if kind == "client":
            use = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(use, critical=True)
        certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        clear = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(certificate + key.private_bytes(serialization.Encoding.PEM, *clear))
    read = read_certificate(path, None)
    assert read["notAfter"] == ("Jan 10 00:00:00 2020 GMT" if kind != "chain" else read["notAfter"])
    assert {"issuer", "notBefore", "notAfter"} <= read.keys()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("SSL_CERT_FILE", "/nope.pem", "those in /nope.pem, from SSL_CERT_FILE, which cannot be read: No such file"),
        ("SSL_CERT_FILE", __file__, f"those in {__file__}, from SSL_CERT_FILE, which is not a PEM file"),
        ("SSL_CERT_DIR", "/nope", "those in /nope, from SSL_CERT_DIR, which is not a folder"),
    ],
)
def test_authorities_of_a_variable(doctor, monkeypatch, name, value, text):
    """A variable that names no authorities, which OpenSSL passes over in silence, is not ok."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv(name, value)
    checks, _ = doctor("--base-url", "https://127.0.0.1:1")
    assert (checks["authorities"]["state"], checks["authorities"]["text"][: len(text)]) == ("look", text)
    assert checks["authorities"]["advice"] == f"unset {name}, or correct it"


PAGE = {"body": "<!DOCTYPE html><title>Sign in</title>", "headers": {"Content-Type": "text/html"}}


@pytest.mark.parametrize(
    ("reply", "says", "advice"),
    [
        (Reply(status=404, body="no such page"), "HTTP 404", "this service may have no sandbox"),
        (Reply(status=302, headers={"Location": "/"}), "HTTP 302", "check --base-url against the URL above"),
        (Reply(status=200, **PAGE), "HTTP 200", "check --base-url against the URL above; if this network wants"),
        (Reply(status=503), "HTTP 503", "try again later"),
        (
            Reply(status=429, headers={"Retry-After": "90"}),
            "[retry after 90 s]",
            "come back in 90 s, or set --max-rate",
        ),
        (Reply(status=200, body={"success": True}), "HTTP 200", "ask the service"),
    ],
)
def test_advice(configured, service, reply, says, advice):
    """What is not the service gets the advice that fits, and the URL that was asked is shown."""
    service.script("T1", *[reply] * 4)
    result = configured("doctor", "T1", "--json")
    checks = {check["topic"]: check for check in json.loads(result.out)["checks"]}
    assert says in checks["lookup"]["text"]
    assert checks["lookup"]["advice"][: len(advice)] == advice
    assert re.fullmatch(r"POST http://.*/api-sandbox/transaction/detail", checks["request"]["text"])


def test_captive_portal(doctor, authority):
    """A proxy that sends the client to a page to sign in is no matter of a password."""
    proxy = RawProxy(Script([send(http(b"", "302 Found", "Location: http://portal.example/")), close]))
    with serving(proxy):
        checks, _ = doctor("--base-url", "https://pay.example", "--proxy", proxy.url, "--ca-file", authority)
    assert checks["lookup"]["advice"] == "if this network wants you to sign in first, open a page in a browser"
