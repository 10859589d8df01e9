"""Every transport, over real sockets."""

import asyncio
import gc
import re
import shutil
import ssl
import traceback
from contextlib import asynccontextmanager, nullcontext, suppress

import httpx
import httpx2
import pytest

from payclient import (
    AsyncClient,
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    RateLimitedError,
    RetryPolicy,
    ServiceError,
    TLSVerificationError,
    TransactionNotFoundError,
    TransportError,
    UnexpectedResponseError,
)
from payclient.protocol import BODY_LIMIT, request_body
from payclient.transports import HttpxTransport, Request
from payclient.transports._client import HttpxClientTransport
from payclient.transports.fast import FastTransport
from pools import connections, idle
from support.fakes import KEY, document
from support.raw_server import RawServer, Script, http, send
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
    """Lookups one after the other share one connection; one that needs a fresh connection has its own."""
    async with RawServer() as server, connect(server) as pay:
        for n in range(3):
            await pay.get_transaction(f"T{n}")
        assert len(server.connections) == 1
        await pay.get_transaction("T3", fresh=True)
        assert len(server.connections) == 2


async def test_body_cap(connect):
    """Reading stops at the limit, however long the body is."""
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


@pytest.mark.parametrize("framing", [b"Content-Length: 100000\r\n\r\n", b"Connection: close\r\n\r\n"])
async def test_limit_of_request(connect, framing):
    """What is read of a body is what its request allows, in each transport, and of a known head too."""

    async def answer(connection):
        while (reference := await connection.request()) is not None:
            if reference == "large":
                await connection.write(b"HTTP/1.1 200 OK\r\n" + framing + b"x" * 100_000)
                return
            await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100)

    async with RawServer(answer) as server, connect(server) as pay:
        sizes = []
        for reference, limit in (("small", 100), ("small", 99), ("large", 1000)):
            body = request_body(reference)
            request = Request("POST", f"{server.url}/x", {}, body, lambda: "Bearer k", body_limit=limit)
            response = await pay._session._transport.send(request)
            sizes.append((len(response.body), response.is_truncated))
    assert sizes == [(100, False), (99, True), (1000, True)]


async def test_errors_hold_no_request(connect):
    """The error of a broken connection has no cause or context of the library, whose frames hold the request."""

    async def die(connection):
        await connection.request()
        connection.reset()

    async with RawServer(die) as server, connect(server) as pay:
        with pytest.raises(ConnectionFailedError) as caught:
            await pay.get_transaction("T1")
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_nothing_waits_for_the_collector(connect):
    """Request and response of the library, which hold the key, go with the lookup and not with the next collection."""
    kinds = (httpx.Request, httpx.Response, httpx2.Request, httpx2.Response)
    async with RawServer() as server, connect(server) as pay:
        gc.disable()
        gc.collect(0)  # what is young after this is of the lookups; without the GIL, no object is ever old
        try:
            earlier = [each for each in gc.get_objects(generation=0) if type(each) in kinds]
            for number in range(3):
                await pay.get_transaction(f"T{number}")
            later = [each for each in gc.get_objects(generation=0) if type(each) in kinds]
            assert [each for each in later if not any(each is one for one in earlier)] == []
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
            with pytest.raises(ConnectionFailedError, match="the http_client uses all its connections"):
                await pay.get_transaction("T2")
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)


async def test_close_waits(kind):
    """Closing a transport waits for the end of its connections."""
    transport = kind()
    async with RawServer() as server, own(server, transport) as pay:
        await pay.get_transaction("T1")
        (connection,) = idle(transport)
        await transport.aclose()
        assert connection.closed.done()


@pytest.mark.parametrize("name", ["httpx", "fast"])
async def test_keepalive_of_a_client(name):
    """A client without `keepalive` uses no connection twice; by default it does."""
    for options, count in (({"keepalive": 0}, 2), ({}, 1)):
        async with RawServer() as server, own(server, name, **options) as pay:
            for _ in range(2):
                await pay.get_transaction("T1")
                now = asyncio.get_running_loop().time()
                while asyncio.get_running_loop().time() == now:  # uvloop's clock ticks in milliseconds
                    await asyncio.sleep(0)
            assert len(server.connections) == count


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
                    said = rf"localhost:\d+ refused the .* \(alert {REFUSALS[alert]}\): .*pass client_cert"
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


NO_HEADERS = [
    *(("x-a", value) for value in ("1\r\nX-Injected: 1", "1\nX-Injected: 1", "1\0", "1\x0b")),
    *((name, "1") for name in ("x-a: 1\r\nX-Injected", "x a", "x:a", "")),
]


@pytest.mark.parametrize(("name", "value"), NO_HEADERS)
async def test_header_that_would_be_two(connect, name, value):
    """A header of a tracing context that holds a line end, or is none, is refused; nothing is sent, or retried."""

    def trace(attempt):
        pass

    trace.headers = {name: value}
    async with RawServer() as server, connect(server, tracing=lambda: nullcontext(trace)) as pay:
        with pytest.raises(ConfigurationError, match=f"the header '{name[:3]}|Illegal header") as caught:
            await pay.get_transaction("T1")
        assert (server.requests, pay.stats.attempts) == ([], 1)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert KEY not in "".join(shown.format())


async def test_closed_while_connecting(kind):
    """A connection that is opened while its transport is closed sends nothing."""
    transport = kind()
    async with RawServer() as server:
        url = f"{server.url}/api/transaction/detail"
        request = Request("POST", url, {}, request_body("T1"), lambda: f"Bearer {KEY}")
        sending = asyncio.create_task(transport.send(request))
        await asyncio.sleep(0)
        await transport.aclose()
        with pytest.raises(ClientClosedError, match="has been closed"):
            await sending
        assert (server.requests, connections(transport)) == ([], set())


HOOKED = [
    (404, b'{"success": false, "message": "Transaction not found"}', TransactionNotFoundError),
    (401, b'{"success": false, "message": "Invalid API key"}', AuthenticationError),
    (429, b'{"success": false}', RateLimitedError),
    (503, b'{"success": false}', ServiceError),
]


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize(("status", "body", "error"), HOOKED)
async def test_hook_that_raises_for_status(library, status, body, error):
    """A response hook of the caller's that raises for the status changes no verdict, and can read the body."""
    seen = []

    async def read(response):
        await response.aread()
        seen.append(response.content)

    async def raise_for_status(response):
        response.raise_for_status()

    answers = [send(http(body, f"{status} Status"))] * 4
    hooks = {"response": [read, raise_for_status]}
    async with (
        RawServer(Script(answers), Script(answers)) as server,
        library.AsyncClient(trust_env=False, event_hooks=hooks) as http_client,
        own(server, http_client=http_client, retry=None) as pay,
    ):
        with pytest.raises(error) as caught:
            await pay.get_transaction("T1")
        assert (caught.value.status_code, seen[0], pay.stats.throttled) == (status, body, int(status == 429))
        with pytest.raises(library.HTTPStatusError):  # the caller's own requests are as before
            await http_client.get(server.url)


@pytest.mark.parametrize("event", ["request", "response"])
@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_hook_that_raises_for_another_request(library, event):
    """The status of what a hook has asked elsewhere is no answer of the service: it could not be asked."""

    async def log_in(_):
        elsewhere = library.Request("GET", "https://login.example/")
        body = b'{"success": false, "message": "Transaction not found"}'
        library.Response(404, content=body, request=elsewhere).raise_for_status()

    async with (
        RawServer() as server,
        library.AsyncClient(trust_env=False, event_hooks={event: [log_in]}) as http_client,
        own(server, http_client=http_client, retry=None) as pay,
    ):
        with pytest.raises(ConnectionFailedError, match="404 Not Found"):
            await pay.get_transaction("T1")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs OpenSSL's command: no other server renegotiates")
async def test_renegotiation(kind, tmp_path):
    """A server of TLS 1.2 that renegotiates on an idle connection is answered, and the connection is used again."""
    certificate = AUTHORITY.issue_cert("localhost")
    (tmp_path / "key.pem").write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
    command = f"openssl s_server -accept localhost:0 -tls1_2 -cert {tmp_path}/key.pem -key {tmp_path}/key.pem"
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
    server = await asyncio.create_subprocess_exec(*command.split(), **pipes)
    shown = b""

    async def until(words):
        nonlocal shown
        while words not in shown:
            received = await server.stdout.read(4096)
            assert received, shown.decode()
            shown += received
        before, _, shown = shown.partition(words)
        return before

    async def tell(line):
        server.stdin.write(line)
        await server.stdin.drain()

    try:
        await until(b"ACCEPT ")
        port = int((await until(b"\n")).rpartition(b":")[2])
        async with own(f"https://localhost:{port}", kind(ssl_context=trust()), retry=None) as pay:
            for reference in ("T1", "T2"):
                lookup = asyncio.create_task(pay.get_transaction(reference))
                await until(f'{{"reference":"{reference}"}}'.encode())
                await tell(http(document(reference)) + b"\n")
                assert (await lookup).reference == reference
                await tell(b"r\n")
                await until(b"Read BLOCK")  # it has an answer to its question, and waits for the rest
            assert len(connections(pay._session._transport)) == 1
    finally:
        server.kill()
        await server.communicate()


@pytest.mark.filterwarnings("ignore:unclosed AsyncClient:ResourceWarning")
@pytest.mark.parametrize("transport", ["httpx", "fast"])
@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "other-loop"])
async def test_dropped_client(transport, is_dropped):
    """A client that is dropped without being closed closes its sockets, as does one closed in another event loop."""
    left = asyncio.Event()

    async def serve_once(connection):
        await connection.request()
        await connection.write(http(document("T1")))
        await connection.peer_leaves()
        left.set()

    async def use(url):
        pay = own(url, transport)
        assert (await pay.get_transaction("T1")).reference == "T1"
        return None if is_dropped else pay

    async with RawServer(serve_once) as server:
        if (pay := await use(server.url)) is not None:
            await asyncio.to_thread(asyncio.run, pay.aclose())
        gc.collect()
        async with asyncio.timeout(30):
            await left.wait()
