"""What patches or watches httpx sees the lookups of the default client, and those of a client that is passed in."""

import importlib
import json
import subprocess
import sys
import textwrap

import httpx
import pytest
import respx

from payclient import AsyncClient, TransactionNotFoundError
from support.fakes import KEY, document
from support.raw_server import RawServer

if httpx.__name__ != "httpx":
    pytest.skip("these tools patch httpx by its name, and httpx2 answers for it", allow_module_level=True)

URL = "https://pay.example"
PATH = f"{URL}/api/transaction/detail"
NOT_FOUND = {"success": False, "message": "Transaction not found"}


@pytest.fixture(params=["default", "passed in"])
async def connect(request):
    """Make clients: the default one, and one over a client of the caller's."""
    made = []

    def make(base_url=URL):
        options = {"transport": "httpx2"} if request.param == "httpx2" else {}
        if request.param == "passed in":
            made.append(httpx.AsyncClient(trust_env=False))
            options["http_client"] = made[-1]
        return AsyncClient(api_key=KEY, base_url=base_url, retry=None, **options)

    yield make
    for client in made:
        await client.aclose()


@respx.mock
async def test_respx_decorator(connect):
    """`respx.mock` answers instead of the network."""
    route = respx.post(PATH).respond(200, content=document("T1"))
    async with connect() as pay:
        assert (await pay.get_transaction("T1")).reference == "T1"
    assert json.loads(route.calls.last.request.content) == {"reference": "T1"}


async def test_respx_fixture(connect, respx_mock):
    """The respx fixture works too, and a refusal is requested once."""
    route = respx_mock.post(PATH).respond(404, json=NOT_FOUND)
    async with connect() as pay:
        with pytest.raises(TransactionNotFoundError):
            await pay.get_transaction("T1")
    assert route.call_count == 1


@pytest.mark.parametrize("using", ["httpcore", "httpx"])
async def test_respx_unmatched(connect, using):
    """A request without a matching route never reaches the network."""
    with respx.mock(using=using) as router:
        router.post("https://elsewhere.example/")
        async with connect() as pay:
            with pytest.raises(AssertionError, match="not mocked"):
                await pay.get_transaction("T1")
        router.reset()
        router.clear()


async def test_respx_using_httpx(connect):
    """respx can patch httpx instead of httpcore."""
    with respx.mock(using="httpx") as router:
        route = router.post(PATH).respond(200, content=document("T1"))
        async with connect() as pay:
            assert (await pay.get_transaction("T1")).reference == "T1"
        assert route.call_count == 1


ALL = pytest.mark.parametrize("connect", ["default", "passed in", "httpx2"], indirect=True)


@ALL
async def test_vcrpy(connect, tmp_path):
    """A cassette records a lookup without the key, and replays it without a network."""
    vcr = importlib.import_module("vcr").VCR(filter_headers=["authorization"])
    cassette = str(tmp_path / "lookup.yaml")
    async with RawServer() as server:
        url = server.url
        with vcr.use_cassette(cassette):
            async with connect(url) as pay:
                await pay.get_transaction("T1")
    with vcr.use_cassette(cassette, record_mode="none") as played:
        async with connect(url) as pay:
            assert (await pay.get_transaction("T1")).reference == "T1"
    assert played.play_count == 1
    assert KEY not in (tmp_path / "lookup.yaml").read_text()


async def test_opentelemetry(connect):
    """OpenTelemetry's instrumentation of httpx makes a span per attempt, and `traceparent` is sent."""
    httpx_instrumentation = importlib.import_module("opentelemetry.instrumentation.httpx")
    trace = importlib.import_module("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    instrumentor = httpx_instrumentation.HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        async with RawServer() as server, connect(server.url) as pay:
            await pay.get_transaction("T1")
    finally:
        instrumentor.uninstrument()
    (span,) = memory.get_finished_spans()
    assert span.name == "POST"
    assert b"traceparent: 00-" in server.requests[0]


@ALL
async def test_sentry(connect):
    """Sentry has a span of the request, and the key in no frame of an error that it captures."""
    sentry = importlib.import_module("sentry_sdk")
    modules = [importlib.import_module(f"sentry_sdk.integrations.{name}") for name in ("httpx", "httpx2")]
    sent = []

    def keep(envelope):
        sent.extend(item.payload.json for item in envelope.items)

    transport = type("Memory", (sentry.transport.Transport,), {"capture_envelope": lambda _, envelope: keep(envelope)})

    async def fall_silent(connection):
        await connection.request()
        connection.reset()

    with sentry.isolation_scope():
        options = {
            "traces_sample_rate": 1.0,
            "default_integrations": False,
            "integrations": [modules[0].HttpxIntegration(), modules[1].Httpx2Integration()],
        }
        sentry.init(dsn="https://public@sentry.example/1", transport=transport, **options)
        try:
            async with RawServer(fall_silent) as server, connect(server.url) as pay:
                with sentry.start_transaction(name="lookup"):
                    try:
                        await pay.get_transaction("T1")
                    except Exception:  # as a crash reporter would  # noqa: BLE001
                        sentry.capture_exception()
        finally:
            sentry.get_client().close()
            sentry.init(default_integrations=False)  # which would patch threads and processes of every later test
    (spans,) = (payload["spans"] for payload in sent if "spans" in payload)
    assert [span["op"] for span in spans] == ["http.client"]
    assert any("exception" in payload for payload in sent)
    assert KEY not in json.dumps(sent)


@pytest.mark.slow
def test_pytest_httpx(tmp_path):
    """pytest-httpx answers, and refuses what it was not told of; in a process of its own, for it patches at import."""
    (tmp_path / "test_lookup.py").write_text(
        textwrap.dedent("""
        import httpx, pytest
        from payclient import AsyncClient, TransactionNotFoundError

        @pytest.fixture(params=["default", "passed in"])
        def options(request):
            return {} if request.param == "default" else {"http_client": httpx.AsyncClient()}

        async def test_answered(httpx_mock, options):
            httpx_mock.add_response(status_code=404, json={"success": False, "message": "Transaction not found"})
            async with AsyncClient(api_key="sk-0123456789abcdef", base_url="https://pay.example", **options) as pay:
                with pytest.raises(TransactionNotFoundError):
                    await pay.get_transaction("T1")
            assert len(httpx_mock.get_requests()) == 1

        @pytest.mark.httpx_mock(assert_all_requests_were_expected=False)
        async def test_unmatched(httpx_mock, options):
            pay = AsyncClient(api_key="sk-0123456789abcdef", base_url="https://pay.example", retry=None, **options)
            async with pay:
                with pytest.raises(Exception, match="No response can be found"):
                    await pay.get_transaction("T1")
        """)
    )
    command = [sys.executable, "-m", *f"pytest -q -c /dev/null --rootdir {tmp_path} -p no:cacheprovider".split()]
    command += [*["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"], str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "4 passed" in ended.stdout, ended.stdout + ended.stderr
