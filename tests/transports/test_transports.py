"""Every transport, over real sockets."""

import asyncio
import gc
import re
import socket
import ssl
import traceback
from contextlib import asynccontextmanager, suppress

import httpx
import httpx2
import pytest
import trustme

from payclient import (
    AsyncClient,
    AttemptTimeoutError,
    ClientClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    RetryPolicy,
    TLSVerificationError,
    TransportError,
    UnexpectedResponseError,
)
from payclient.transports import BODY_LIMIT, HttpxClientTransport, HttpxTransport, Request
from payclient.transports.fast import FastTransport
from pools import connections, idle
from support.fakes import KEY, document
from support.raw_server import RawServer, head, http, refusing_port, well_behaved
from support.tls_server import AUTHORITY, REFUSALS, Server, refusing, trust

AT_ONCE = RetryPolicy(initial_backoff=0)
TRUST = ssl.create_default_context()  # one for all: to load the certificates takes longer than most tests


@pytest.fixture(scope="module", autouse=True)
def _unclosed_sockets():
    """Find what no test closed: an unclosed socket is a warning, and a warning is an error."""
    yield
    gc.collect()


@pytest.fixture(params=[HttpxTransport, FastTransport])
async def kind(request):
    """Make transports of each kind of ours; who makes one closes it."""
    made = []

    def make(**options):
        made.append(request.param(**options))
        return made[-1]

    yield make
    for transport in made:
        await transport.aclose()


@pytest.fixture
def kind_of(request):
    """Give the option that makes a client of `connect` trust the authority of the tests."""
    name = request.node.callspec.params["connect"]

    @asynccontextmanager
    async def give():
        if name in ("own", "fast"):
            transport = {"own": HttpxTransport, "fast": FastTransport}[name](ssl_context=trust())
            yield {"transport": transport}
            await transport.aclose()
            return
        library = {"httpx": httpx, "httpx2": httpx2}[name]
        async with library.AsyncClient(trust_env=False, verify=trust()) as http_client:
            yield {"http_client": http_client}

    return give


@pytest.fixture(params=["own", "fast", "httpx", "httpx2"])
async def connect(request):
    """Make clients over our own transport, and over a client of the caller's, of either library."""
    library = httpx2 if request.param == "httpx2" else httpx
    async with library.AsyncClient(trust_env=False, verify=TRUST) as http_client:

        def make(server, **options):
            url = server if isinstance(server, str) else server.url
            if request.param == "fast":
                options.setdefault("transport", "fast")
            elif request.param != "own":
                options.setdefault("http_client", http_client)
            return AsyncClient(**{"api_key": KEY, "base_url": url, "retry": AT_ONCE, **options})

        yield make


def own(server, transport=None, **options):
    url = server if isinstance(server, str) else server.url
    return AsyncClient(**{"api_key": KEY, "base_url": url, "retry": AT_ONCE, "transport": transport, **options})


async def test_what_is_sent(connect):
    """One POST with the documented path, headers and body, and nothing about us but the name."""
    async with RawServer() as server, connect(server, environment="sandbox") as pay:
        await pay.get_transaction("T1")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    request_line, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines)}
    assert request_line == b"POST /api-sandbox/transaction/detail HTTP/1.1"
    assert body == b'{"reference":"T1"}'
    assert headers[b"authorization"] == b"Bearer " + KEY.encode()
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"accept-encoding"] == b"identity"
    assert headers[b"user-agent"].startswith(b"payclient/")


async def test_connections_are_kept(connect):
    """Lookups one after the other share one connection."""
    async with RawServer() as server, connect(server) as pay:
        for n in range(20):
            await pay.get_transaction(f"T{n}")
    assert len(server.connections) == 1


async def test_connection_close(connect):
    """A service that closes after each answer costs new connections, and no failure."""

    async def close_after_one(connection):
        reference = await connection.request()
        await connection.write(http(document(reference), "200 OK", "Connection: close"))

    async with RawServer(close_after_one) as server, connect(server) as pay:
        for n in range(5):
            await pay.get_transaction(f"T{n}")
        assert pay.stats.attempts == 5
    assert len(server.connections) == 5


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_stale_connection(end):
    """A kept-alive connection that dies before the answer begins is replaced at once, uncounted."""

    async def die_at_the_second(connection):
        reference = await connection.request()
        await connection.write(http(document(reference)))
        await connection.request()
        if end == "reset":
            connection.reset()

    async with RawServer(die_at_the_second, well_behaved) as server, own(server, retry=None) as pay:
        await pay.get_transaction("T1")
        await pay.get_transaction("T2")
        assert pay.stats.attempts == 2


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(b"", id="before-the-head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", id="in-the-head"),
        pytest.param(http(document("T1"))[:-20], id="in-the-body"),
    ],
)
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_cut_answer(connect, cut, end):
    """An answer that is truncated anywhere is a broken connection, and retried."""

    async def cut_it(connection):
        await connection.request()
        await connection.write(cut)
        if end == "reset":
            connection.reset()

    async with RawServer(cut_it, well_behaved) as server, connect(server) as pay:
        assert (await pay.get_transaction("T1")).amount == 15000
        assert pay.stats.attempts == 2
    async with RawServer(cut_it) as server, connect(server) as pay:
        with pytest.raises(ConnectionFailedError):
            await pay.get_transaction("T1")


async def test_unsolicited_answer(connect):
    """An unsolicited second response is never taken for the next lookup's answer."""

    async def one_too_many(connection):
        reference = await connection.request()
        await connection.write(http(document(reference)) + http(document("T-other")))
        while (reference := await connection.request()) is not None:
            await connection.write(http(document(reference)))

    async with RawServer(one_too_many, well_behaved) as server, connect(server) as pay:
        for n in range(10):
            assert (await pay.get_transaction(f"T{n}")).reference == f"T{n}"


@pytest.mark.virtual_time
async def test_drip(connect):
    """A body that drips is cut by the attempt's time, although each read succeeds."""

    async def drip(connection):
        await connection.request()
        await connection.drip(http(document("T1")), 0.02)

    async with RawServer(drip) as server, connect(server, timeout=0.3, retry=None) as pay:
        with pytest.raises(AttemptTimeoutError):
            await pay.get_transaction("T1")
        assert pay.stats.in_flight == 0


@pytest.mark.virtual_time
async def test_silence(connect):
    """A service that accepts and never answers is cut by the deadline."""

    async def silence(connection):
        await connection.request()
        await connection.request()

    async with RawServer(silence) as server, connect(server, deadline=0.3) as pay:
        with pytest.raises(DeadlineExceededError):
            await pay.get_transaction("T1")


async def test_body_cap(connect):
    """Reading stops at the limit, and the connection is not reused."""
    written = 0

    async def flood(connection):
        nonlocal written
        await connection.request()
        await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not connection.writer.transport.is_closing() and written < 64 * BODY_LIMIT:
            await connection.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            written += 65536

    async with RawServer(flood) as server, connect(server, retry=None) as pay:
        with pytest.raises(UnexpectedResponseError, match="longer than 262144 bytes"):
            await pay.get_transaction("T1")
    assert written < 64 * BODY_LIMIT


async def test_nobody_listens(connect):
    """The error of a refused connection has the host, and `sent` is "no"."""
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}"
        async with connect(url) as pay:
            with pytest.raises(ConnectionFailedError, match=r"cannot connect to 127\.0\.0\.1:\d+") as caught:
                await pay.get_transaction("T1")
        assert caught.value.sent == "no"


async def test_redirect(connect):
    """A redirect is not followed: neither key nor body goes anywhere else."""
    async with RawServer() as elsewhere:

        async def redirect(connection):
            await connection.request()
            await connection.write(http(b"", "307 Temporary Redirect", f"Location: {elsewhere.url}/"))

        async with RawServer(redirect) as server, connect(server) as pay:
            with pytest.raises(UnexpectedResponseError, match=r"redirect to .* not followed"):
                await pay.get_transaction("T1")
        assert elsewhere.requests == []


async def test_environment_is_not_trusted(monkeypatch):
    """Proxies named by the environment are not used: they would see where the key goes."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with RawServer() as server, own(server) as pay:
        await pay.get_transaction("T1")


async def test_errors_hold_no_key(connect):
    """Neither the traceback with its locals, nor the context of an error, shows the key."""

    async def die(connection):
        await connection.request()
        connection.reset()

    async with RawServer(die) as server, connect(server) as pay:
        with pytest.raises(ConnectionFailedError) as caught:
            await pay.get_transaction("T1")
    error = caught.value
    shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert KEY not in shown
    assert (error.__cause__, error.__context__) == (None, None)


async def test_nothing_waits_for_the_collector(connect):
    """Request and response of the library, which hold the key, go with the lookup and not with the next collection."""
    kinds = (httpx.Request, httpx.Response, httpx2.Request, httpx2.Response)
    async with RawServer() as server, connect(server) as pay:
        gc.disable()
        gc.collect(0)  # what is young after this is of the lookups
        try:
            for number in range(3):
                await pay.get_transaction(f"T{number}")
            assert [each for each in gc.get_objects(generation=0) if type(each) in kinds] == []
        finally:
            gc.enable()


async def test_callers_client_stays_open():
    """A client that was passed in is not closed with ours; closed by its owner, it is a clear error."""
    async with RawServer() as server:
        http_client = httpx.AsyncClient(trust_env=False)
        async with own(server, http_client=http_client) as pay:
            await pay.get_transaction("T1")
        assert not http_client.is_closed
        pay = own(server, http_client=http_client)
        await http_client.aclose()
        with pytest.raises(ClientClosedError):
            await pay.get_transaction("T1")


async def test_callers_auth_does_not_replace_the_key():
    """The `auth` of a client that was passed in is not used."""
    async with RawServer() as server, httpx.AsyncClient(auth=("user", "other"), trust_env=False) as http_client:
        async with own(server, http_client=http_client) as pay:
            await pay.get_transaction("T1")
    assert f"Bearer {KEY}".encode() in server.requests[0]


@pytest.mark.virtual_time
class _Remade(httpx.AsyncBaseTransport):
    """A third-party transport: it makes the response itself, after *reads_timeouts* as one over a network does."""

    def __init__(self, *, reads_timeouts):
        self.reads_timeouts = reads_timeouts

    async def handle_async_request(self, request):
        if self.reads_timeouts:
            request.extensions["timeout"].get("connect")
        await asyncio.sleep(0)
        return httpx.Response(404, json={})


@pytest.mark.parametrize("reads_timeouts", [False, True])
async def test_unknown_connection(reads_timeouts):
    """A response over an unknown connection is not fresh; one that was made in memory, after any wait, is."""
    async with httpx.AsyncClient(transport=_Remade(reads_timeouts=reads_timeouts)) as client:
        response = await HttpxClientTransport(client).send(Request("POST", "http://pay.example/", {}, b"", str))
        assert (response.connection, response.is_fresh) == (None, not reads_timeouts)


async def test_exhausted_pool():
    """A full pool of the caller's client is distinguished from a slow service."""
    limits, timeout = httpx.Limits(max_connections=1), httpx.Timeout(5, pool=0.05)

    async def silence(connection):
        await connection.request()
        await connection.request()

    async with RawServer(silence) as server, httpx.AsyncClient(limits=limits, timeout=timeout) as http_client:
        async with own(server, http_client=http_client, retry=None) as pay:
            first = asyncio.create_task(pay.get_transaction("T1"))
            while not server.requests:
                await asyncio.sleep(0)
            with pytest.raises(ConnectionFailedError, match="the http_client had no free connection"):
                await pay.get_transaction("T2")
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


async def test_no_lane_is_left(kind):
    """After cancelled, failed and successful attempts, only idle connections are kept, and none after close."""
    transport = kind()

    async def half(connection):
        while (reference := await connection.request()) is not None:
            if reference.startswith("bad"):
                return
            if reference.startswith("slow"):
                await asyncio.sleep(3600)
            await connection.write(http(document(reference)))

    async with RawServer(half) as server:
        pay = own(server, transport, retry=None)
        references = [f"{fate}{n}" for n in range(4) for fate in ("good", "bad", "slow")]
        tasks = [asyncio.create_task(pay.get_transaction(reference)) for reference in references]
        while len(server.requests) < len(tasks) or sum(task.done() for task in tasks) < 8:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert connections(transport) == set(idle(transport))
        await pay.aclose()
        await transport.aclose()
        assert (connections(transport), idle(transport)) == (set(), [])
        with pytest.raises(ClientClosedError):
            await transport.send(Request("POST", server.url, {}, b"", str))


async def test_idle_lanes_expire(kind):
    """A connection that was idle for longer than `keepalive` is closed when another comes back."""
    transport = kind(keepalive=0.0)
    async with RawServer() as server, own(server, transport) as pay:
        await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(4)))
        for n in range(6):
            await pay.get_transaction(f"U{n}")
            now = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() == now:  # uvloop's clock ticks in milliseconds
                await asyncio.sleep(0)
        assert len(idle(transport)) == 1


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def server_context(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_tls(kind, authority):
    """With a trusted certificate the exchange is as it is without TLS."""
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusted)
    transport = kind(ssl_context=trusted)
    async with RawServer(ssl=server_context(authority, "localhost")) as server, own(server, transport) as pay:
        await pay.get_transaction("T1")
        await pay.get_transaction("T2")
    assert len(server.connections) == 1


@pytest.mark.parametrize(
    ("names", "is_trusted", "reason"),
    [
        pytest.param(["localhost"], False, "unable to get local issuer certificate", id="unknown-authority"),
        pytest.param(["elsewhere.example"], True, "Hostname mismatch", id="wrong-host"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # asyncio's own, for a refused handshake on the server's side
async def test_tls_refused(kind, authority, names, is_trusted, reason):
    """A service with an untrusted certificate gets one attempt and no request; the error has host and reason."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if is_trusted:
        authority.configure_trust(trust)
    async with RawServer(ssl=server_context(authority, *names)) as server:
        async with own(server, kind(ssl_context=trust)) as pay:
            with pytest.raises(TLSVerificationError, match=rf"localhost:\d+ could not prove who it is: {reason}"):
                await pay.get_transaction("T1")
            assert pay.stats.attempts == 1
        assert server.requests == []


async def test_plain_http_on_the_https_port(kind):
    """A server that does not speak TLS is refused, and never asked without."""

    async def plain(connection):
        await connection.write(http(b"", "400 Bad Request"))
        await connection.request()

    async with RawServer(plain) as server:
        async with own(server.url.replace("http:", "https:"), kind()) as pay:
            said = r"127.0.0.1:\d+ does not speak TLS on this port \(.*\); check the scheme and the port of base_url"
            with pytest.raises(TLSVerificationError, match=said):
                await pay.get_transaction("T1")
        assert server.requests == []


def demand_certificate(listener, context):
    """Refuse a client in the handshake as a server does, with an alert that arrives whole."""
    plain, _ = listener.accept()
    with plain, suppress(OSError):
        try:
            context.wrap_socket(plain.dup(), server_side=True)
        finally:
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
async def test_client_certificate(kind, authority, version):
    """A service that demands a client certificate gets one attempt, and the message says what it wants."""
    demanding, trust = server_context(authority, "localhost"), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    demanding.verify_mode, demanding.maximum_version = ssl.CERT_REQUIRED, version
    authority.configure_trust(demanding)
    authority.configure_trust(trust)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(asyncio.to_thread(demand_certificate, listener, demanding))
        async with own(f"https://localhost:{listener.getsockname()[1]}", kind(ssl_context=trust)) as pay:
            said = r"localhost:\d+ refused the TLS handshake \(.*\); if it wants a client certificate, pass client_cert"
            with pytest.raises(TLSVerificationError, match=said):
                await pay.get_transaction("T1")
            assert pay.stats.attempts == 1
        await serving


def demand_and_close(listener, context, count):
    """Refuse clients one after the other, and close with their requests unread, so that the kernel answers with RST."""
    listener.settimeout(30)  # so that this ends when a test fails
    for _ in range(count):
        plain, _ = listener.accept()
        with plain, suppress(OSError):
            context.wrap_socket(plain, server_side=True)


async def test_client_certificate_and_reset(kind, authority):
    """The alert of TLS 1.3 is read even if the request cannot be written any more, which is so every second time."""
    demanding, trust = server_context(authority, "localhost"), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    demanding.verify_mode, demanding.minimum_version = ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3
    authority.configure_trust(demanding)
    authority.configure_trust(trust)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(asyncio.to_thread(demand_and_close, listener, demanding, 10))
        async with own(f"https://localhost:{listener.getsockname()[1]}", kind(ssl_context=trust)) as pay:
            for _ in range(10):
                with pytest.raises(TLSVerificationError, match="if it wants a client certificate"):
                    await pay.get_transaction("T1")
        await serving


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
async def test_refused_client_certificate(connect, kind_of, version):
    """An alert that refuses a client certificate is final, also behind the handshake; others there are not."""
    outcomes = {}
    for alert in [*REFUSALS, 20, 80]:
        async with RawServer(refusing(alert, version)) as server, kind_of() as options:
            url = server.url.replace("http://127.0.0.1", "https://localhost")
            async with connect(url, **options) as pay:
                with pytest.raises(TransportError) as caught:
                    await pay.get_transaction("T1")
                outcomes[alert] = (type(caught.value), pay.stats.attempts)
                if alert in REFUSALS:
                    said = rf"localhost:\d+ refused the .* \(alert {REFUSALS[alert]}\); .*pass client_cert"
                    assert re.match(said, caught.value.message)
                    assert (caught.value.step, caught.value.sent) == ("tls", "no")
    once_more = (ConnectionFailedError, 4) if version is ssl.TLSVersion.TLSv1_3 else (TLSVerificationError, 1)
    assert outcomes == {**dict.fromkeys(REFUSALS, (TLSVerificationError, 1)), 20: once_more, 80: once_more}


async def never_close_tls(connection):
    """Answer one request over TLS, and then neither read, nor answer `close_notify`, nor close."""
    tls, asked = Server("localhost"), b""
    while not asked.endswith(b'{"reference":"T1"}') and (message := await connection.reader.read(65536)):
        tls.incoming.write(message)
        with suppress(ssl.SSLWantReadError):
            while True:
                asked += tls.ssl.read(65536)
        await connection.write(tls.outgoing.read())
    await connection.write(tls.encrypted(http(document("T1"))))
    await asyncio.Event().wait()


@pytest.mark.virtual_time
@pytest.mark.parametrize("end", ["close", "discard"])
async def test_close_notify_is_not_awaited(kind, end):
    """Closing a transport or a connection never waits for the service."""
    trust, loop = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), asyncio.get_running_loop()
    AUTHORITY.configure_trust(trust)
    transport = kind(ssl_context=trust)
    async with RawServer(never_close_tls) as server, asyncio.timeout(60):
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        response = await transport.send(Request("POST", url, {}, b'{"reference":"T1"}', str))
        started_at = loop.time()
        await (transport.aclose() if end == "close" else transport.discard(response))
        assert (connections(transport), loop.time()) == (set(), started_at)


@pytest.mark.virtual_time
async def test_handshake_that_stalls(kind):
    """An unanswered handshake is a time-out, which is retried."""

    async def silence(connection):
        await connection.request()

    async with RawServer(silence) as server:
        transport = kind(connect_timeout=0.2)
        async with own(server.url.replace("http:", "https:"), transport) as pay:
            with pytest.raises(AttemptTimeoutError) as caught:
                await pay.get_transaction("T1")
    assert (caught.value.attempts, caught.value.sent) == (4, "no")


BOTH = head("HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        pytest.param(http(b"{}"), 1, id="200"),
        pytest.param(http(b"x" * 60_000), 1, id="many-reads"),
        pytest.param(head("HTTP/1.1 204 No Content"), 0, id="204"),
        pytest.param(head("HTTP/1.1 204 No Content", "Content-Length: 2"), 0, id="204-with-a-length"),
        pytest.param(head("HTTP/1.1 304 Not Modified", "Content-Length: 2"), 0, id="304-with-a-length"),
        pytest.param(BOTH, 0, id="both-framings"),
        pytest.param(http(b"{}") + b"HTTP/1.1 ", 0, id="more-behind-it"),
    ],
)
async def test_connection_goes_back(kind, answer, kept):
    """A connection is kept only after an answer with an unambiguous end and nothing after it."""
    transport = kind()

    async def once(connection):
        await connection.request()
        await connection.write(answer)
        await connection.request()

    async with RawServer(once) as server:
        request = Request("POST", f"{server.url}/", {}, b'{"reference": "T1"}', str)
        response = await transport.send(request)
        assert len(idle(transport)) == kept
        assert response.is_fresh is not answer.endswith(b"HTTP/1.1 ")
        await transport.discard(response)
        assert connections(transport) == set()
