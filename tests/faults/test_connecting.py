"""Faults before anything could be asked: names, ports, certificates, proxies, and descriptors of our own."""

import asyncio
import datetime as dt
import os
import resource
import socket
import ssl

import httpx
import pytest
import trustme

from faults.stage import AT_ONCE, ask, ours, signal_of, stage
from payclient import AsyncClient, AttemptTimeoutError, ConnectionFailedError, TLSVerificationError, Transaction
from payclient.errors import Signal
from support.fakes import KEY
from support.raw_server import (
    RawServer,
    Script,
    close,
    head,
    refusing_port,
    reset,
    send,
    server_context,
    stall,
    well_behaved,
)

AUTHORITY = trustme.CA()
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
# asyncio's own, for a handshake that fails on the server's side
HANDSHAKE = pytest.mark.filterwarnings("ignore::ResourceWarning")


pytestmark = pytest.mark.usefixtures("each_of_ours")


def trusting(*authorities):
    """Return a transport that trusts these authorities, and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for authority in authorities:
        authority.configure_trust(context)
    return ours(ssl_context=context)


def self_signed(tmp_path):
    """Return the TLS side of a server whose certificate vouches for itself."""
    file = tmp_path / "own.pem"
    file.write_bytes(AUTHORITY.private_key_pem.bytes() + AUTHORITY.cert_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_refused(row):
    """A refused connection is retried, signals an overload, and its error has the host."""
    row("a port that nobody listens on", ConnectionFailedError.__name__)
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        async with stage(RawServer(), base_url=url) as pay:
            outcome = await ask(pay)
            assert (type(outcome), outcome.sent, pay.stats.attempts) == (ConnectionFailedError, "no", 4)
            assert (outcome.step, outcome.address) == ("connect", f"127.0.0.1:{port}")
            assert outcome.message == f"cannot connect to 127.0.0.1:{port}: Connection refused"
        async with stage(RawServer(), base_url=url, retry=None) as pay:
            assert await signal_of(pay) is Signal.OVERLOADED


async def test_unknown_host(monkeypatch, row):
    """An unresolvable host is retried, signals an overload, and is in the message."""
    row("a host that nobody knows", ConnectionFailedError.__name__)
    resolve = socket.getaddrinfo

    def unknown(host, *args):
        if host == "pay.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *args)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with stage(RawServer(), base_url="https://pay.invalid", retry=None) as pay:
        outcome = await ask(pay)
        assert (type(outcome), outcome.sent, outcome.step, outcome.address) == (ConnectionFailedError, "no", "name", "")
        assert "pay.invalid: the name was not resolved: [Errno -2] Name or service not known" in str(outcome)
        assert await signal_of(pay) is Signal.OVERLOADED


@pytest.mark.virtual_time
async def test_black_hole(row):
    """When the first packet is swallowed, the attempt's time ends it, and it is tried again."""
    row("a host that swallows the first packet", AttemptTimeoutError.__name__)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        url = "http://{}:{}".format(*full.getsockname())
        async with stage(RawServer(), base_url=url, timeout=0.1) as pay:
            assert (type(await ask(pay)), pay.stats.attempts) == (AttemptTimeoutError, 4)
        for given in ({"transport": ours(connect_timeout=0.1)}, {"connect_timeout": 0.1}):
            async with stage(RawServer(), base_url=url, retry=None, **given) as pay:
                outcome = await ask(pay)
                assert (type(outcome), outcome.sent, outcome.seconds < 1) == (AttemptTimeoutError, "no", True)
                assert (outcome.step, outcome.address) == ("connect", url.removeprefix("http://"))
                assert await signal_of(pay) is Signal.OVERLOADED


@pytest.mark.virtual_time
async def test_blocked_loop():
    """While the event loop was blocked, a connection may have been made, whatever its timer says: it is made again."""
    async with stage(RawServer(well_behaved), transport=ours(connect_timeout=1.0), retry=None) as pay:
        asking = asyncio.create_task(ask(pay))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().advance, 3.0)
        assert type(await asking) is Transaction


async def test_no_descriptors(row):
    """Without a descriptor to be had, attempts fail with the remedy, and succeed when there is one again."""
    row("no file descriptors left", ConnectionFailedError.__name__)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def restore(_=None):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def exhaust():
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))

    async with stage(RawServer(well_behaved), transport=ours(keepalive=0)) as pay:  # each attempt needs a descriptor
        try:
            exhaust()
            outcome = await ask(pay)
            assert (type(outcome), outcome.sent, pay.stats.attempts) == (ConnectionFailedError, "no", 4)
            assert "raise `ulimit -n` or lower max_concurrency" in str(outcome)
            assert type(await ask(pay.with_options(on_attempt=restore))) is Transaction
            exhaust()
            assert await signal_of(pay.with_options(retry=None)) is Signal.OVERLOADED
        finally:
            restore()


@HANDSHAKE
@pytest.mark.parametrize(
    ("sentence", "context", "trusted", "reason"),
    [
        (
            "a certificate that has expired",
            lambda _: server_context(AUTHORITY, "localhost", not_after=LONG_AGO),
            [AUTHORITY],
            "certificate has expired",
        ),
        (
            "a certificate for another host",
            lambda _: server_context(AUTHORITY, "elsewhere.example"),
            [AUTHORITY],
            "Hostname mismatch",
        ),
        (
            "a certificate of an unknown authority",
            lambda _: server_context(AUTHORITY, "localhost"),
            [],
            "unable to get local issuer certificate",
        ),
        ("a certificate that vouches for itself", self_signed, [], "self-signed certificate"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("a ") else "",
)
async def test_certificate(sentence, context, trusted, reason, row, tmp_path):
    """A service with an untrusted certificate gets one attempt and no request; the error has host and reason."""
    row(sentence, TLSVerificationError.__name__)
    server = RawServer(ssl=context(tmp_path))
    async with stage(server, transport=trusting(*trusted)) as pay:
        outcome = await ask(pay)
        assert (type(outcome), pay.stats.attempts, server.requests) == (TLSVerificationError, 1, [])
        assert outcome.message.startswith(f"{server.url.removeprefix('https://')} could not prove who it is: {reason}")
        assert await signal_of(pay) is Signal.SILENT


@pytest.mark.parametrize(
    ("sentence", "greeting", "verdict", "attempts", "signal"),
    [
        ("plain HTTP on the https port", [send(head("HTTP/1.1 400 Bad"))], TLSVerificationError, 1, Signal.SILENT),
        ("a RST in the handshake", [reset], ConnectionFailedError, 4, Signal.OVERLOADED),
        ("a FIN in the handshake", [close], ConnectionFailedError, 4, Signal.OVERLOADED),
        ("silence in the handshake", [stall], AttemptTimeoutError, 4, Signal.OVERLOADED),
    ],
    ids=["plain", "reset", "close", "stall"],
)
@pytest.mark.virtual_time
async def test_handshake(sentence, greeting, verdict, attempts, signal, row):
    """What does not speak TLS is never asked without; a handshake that breaks is tried again."""
    row(sentence, verdict.__name__)
    server = RawServer(Script((), greeting=greeting))
    async with stage(server, scheme="https", transport=trusting(), timeout=0.1) as pay:
        assert (type(await ask(pay)), pay.stats.attempts) == (verdict, attempts)
        assert await signal_of(pay.with_options(retry=None)) is signal
    assert server.requests == []


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "403 Forbidden"])
async def test_proxy(status, row):
    """A proxy that refuses the tunnel is a connection that failed; it never sees the key."""
    row(f"a proxy that refuses the tunnel with {status}", ConnectionFailedError.__name__)
    server = RawServer(Script([send(head(f"HTTP/1.1 {status}", "Content-Length: 0")), close]))
    async with server, httpx.AsyncClient(proxy=server.url, trust_env=False) as http_client:
        options = {"base_url": "https://pay.invalid", "retry": AT_ONCE, "http_client": http_client}
        async with AsyncClient(api_key=KEY, **options) as pay:
            outcome = await ask(pay)
            assert (type(outcome), outcome.sent, pay.stats.attempts) == (ConnectionFailedError, "no", 4)
    assert len(server.requests) == 4
    assert not any(KEY.encode() in request for request in server.requests)
