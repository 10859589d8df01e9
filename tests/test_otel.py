"""OpenTelemetry: one span per lookup, its attempts as events; metrics of a client; no payload."""

import asyncio
import gc

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes
from opentelemetry.semconv.metrics import http_metrics
from opentelemetry.trace import StatusCode

import payclient
from payclient import RetryPolicy, ServiceError, TransactionNotFoundError
from payclient.otel import OpenTelemetry
from payclient.testing import FakeService, serve
from support.fakes import DOWN, KEY, SAMPLE, ScriptedTransport, answer, client, document, now, throttled, timeline
from support.outages import crowd


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield OpenTelemetry(tracer_provider=provider), exporter.get_finished_spans
    provider.shutdown()


async def test_one_span(spans):
    """A lookup with a retry is one span with two events, in order, with status and error class."""
    tracing, finished = spans
    transport = ScriptedTransport(T1=[DOWN])
    async with client(transport, tracing=tracing, retry=RetryPolicy(initial_backoff=0)) as pay:
        await pay.get_transaction("T1")
    (span,) = finished()
    assert span.name == "payclient.get_transaction"
    assert span.attributes == {"payclient.attempts": 2}
    events = [(e.name, e.attributes["http.response.status_code"], e.attributes.get("error.type")) for e in span.events]
    assert events == [("payclient.attempt", 503, "503"), ("payclient.attempt", 200, None)]
    assert [event.attributes.get("http.request.resend_count") for event in span.events] == [None, 1]


@pytest.mark.parametrize(
    ("step", "error", "status"),
    [
        pytest.param(DOWN, ServiceError, StatusCode.ERROR, id="failure"),
        pytest.param(answer(b'{"success": false}', 404), TransactionNotFoundError, StatusCode.UNSET, id="an-answer"),
    ],
)
async def test_errors(spans, step, error, status):
    """A failed lookup marks its span with the class; "not found" is an answer and not an error."""
    tracing, finished = spans
    async with client(ScriptedTransport(default=lambda _: step), tracing=tracing, retry=None) as pay:
        with pytest.raises(error):
            await pay.get_transaction("T1")
    (span,) = finished()
    assert (span.attributes["error.type"], span.status.status_code) == (str(step.status_code), status)


async def test_no_payload(spans):
    """Neither key, reference, URL nor any field of the answer is in a span."""
    tracing, finished = spans
    async with client(ScriptedTransport(), tracing=tracing) as pay:
        await pay.get_transaction("T-secret-reference")
    shown = finished()[0].to_json()
    for word in (KEY, "T-secret-reference", "pay.example", SAMPLE["payment_code"], SAMPLE["merchant_reff"]):
        assert word not in shown


@pytest.mark.parametrize("transport", ["httpx", "fast"])
async def test_trace_context_is_sent_on(spans, transport):
    """Each request carries the context of its lookup's span, and nothing else that the application has set."""
    tracing, finished = spans
    service = FakeService(api_key=KEY)
    service.add(reference="T1")
    token = attach(set_baggage("customer", "c-77"))
    try:
        async with serve(service) as url, client(transport, base_url=url, tracing=tracing) as pay:
            await pay.get_transaction("T1")
    finally:
        detach(token)
    (span,), (request,) = finished(), service.requests
    sent = request.headers["traceparent"].split("-")
    assert sent[:3] == ["00", f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]
    assert "baggage" not in request.headers


@pytest.fixture
def meter():
    """Give metrics, and a function that reads them: name and attributes, to a number or to count and sum."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    def read():
        data = reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.data.data_points:
                    key = (metric.name, *sorted(point.attributes.items()))
                    found[key] = (point.count, point.sum) if hasattr(point, "count") else point.value
        return found

    yield OpenTelemetry(meter_provider=provider), read
    provider.shutdown()


def request_key(**attributes):
    known = {"http.request.method": "POST", "server.address": "pay.example", "server.port": 443}
    more = {name.replace("__", "."): value for name, value in attributes.items()}
    return ("http.client.request.duration", *sorted({**known, **more}.items()))


@pytest.mark.virtual_time
async def test_durations(meter):
    """Requests are measured by status and error, lookups by their outcome."""
    metrics, read = meter
    transport = ScriptedTransport(latency=2.0, T1=[DOWN])
    transport.script("T9", *[answer(b'{"success": false, "message": "no such transaction"}', 404)] * 2)
    pay = client(transport, tracing=metrics, retry=RetryPolicy(initial_backoff=0))
    await pay.get_transaction("T1")
    with pytest.raises(TransactionNotFoundError):
        await pay.get_transaction("T9")
    found = read()
    assert found[request_key(http__response__status_code=200)] == (1, pytest.approx(2.0))
    assert found[request_key(http__response__status_code=503, error__type="503")] == (1, pytest.approx(2.0))
    assert found["payclient.lookup.duration", ("payclient.outcome", "found")] == (1, pytest.approx(4.0))
    assert found["payclient.lookup.duration", ("payclient.outcome", "TransactionNotFoundError")] == (
        1,
        pytest.approx(2.0),
    )
    assert (found["payclient.retries",], ("payclient.throttled",) in found) == (1, False)


@pytest.mark.virtual_time
async def test_throttled_counts_as_stats_do(meter):
    """The metric and `stats.throttled` count the same attempts, a 503 with a pause included."""
    metrics, read = meter
    transport = ScriptedTransport(T1=[throttled(0), answer(b'{"success": false}', 503, retry_after="0"), DOWN])
    pay = client(transport, tracing=metrics, retry=RetryPolicy(initial_backoff=0))
    await pay.get_transaction("T1")
    assert (read()["payclient.throttled",], pay.stats.throttled) == (2, 2)


@pytest.mark.virtual_time
async def test_probe_whose_caller_was_told(meter):
    """The answer to a probe is measured as `stats` counts it, even if it comes after its caller was told."""
    metrics, read = meter

    def state(reference):
        return answer(document(reference)) if now() < turns_at else late

    async def late():
        await asyncio.sleep(3.0)
        return throttled(0)

    turns_at = now() + 2.0
    async with client(ScriptedTransport(default=state), tracing=metrics, retry=None) as pay:
        await crowd(pay, rate=20, until=now() + 10.0)
        await asyncio.sleep(10.0)
        counted = pay.stats.attempts, pay.stats.throttled
    measured = [value[0] for (name, *_), value in read().items() if name == "http.client.request.duration"]
    assert (sum(measured), read()["payclient.throttled",]) == counted
    assert pay.stats.refused > 0 < counted[1]


@pytest.mark.virtual_time
async def test_throttled_and_gauges(meter):
    """Throttled attempts are counted, and limit and pause of a client are measured."""
    metrics, read = meter
    pay = client(timeline({"T1": [(0, throttled(60)), (1, "Paid")]}), tracing=metrics, deadline=None)
    metrics.observe(pay)
    looking = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(20.1)
    found = read()
    assert (found["payclient.throttled",], found["payclient.paused",]) == (1, pytest.approx(40.0))
    assert found["payclient.limit",] == pay.stats.limit
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


def test_gauges_end_with_their_client(meter):
    """A client is measured as long as it lives, and not kept alive for that."""
    metrics, read = meter
    pay = client(ScriptedTransport())
    metrics.observe(pay)
    before = ("payclient.limit",) in read()
    del pay
    gc.collect()
    assert (before, ("payclient.limit",) in read()) == (True, False)


async def test_deviations_by_field(meter):
    """Deviations are counted by field, those beyond the documented fields together."""
    metrics, read = meter
    odd = answer(document("T1", amount="15000", fee=None, colour="red", taste="sour"))
    await client(ScriptedTransport(default=lambda _: odd), tracing=metrics).get_transaction("T1")
    found = {key[1][1]: value for key, value in read().items() if key[0] == "payclient.deviations"}
    assert found == {"amount": 1, "fee": 1, "other": 2}


async def test_cardinality(meter):
    """However many references are looked up, and whatever they answer, the time series stay few and hold no value."""
    metrics, read = meter
    transport = ScriptedTransport()
    for number in range(300):
        fields = {f"field {number}": number, "amount": str(number)}
        transport.script(f"T{number}", answer(document(f"T{number}", **fields)) if number % 3 else DOWN)
    pay = client(transport, tracing=metrics, retry=None)
    await pay.get_transactions([f"T{number}" for number in range(300)])
    found = read()
    assert len(found) <= 8
    assert [text for text in (KEY, "T7", "field 7", "15000") if text in str(found.keys())] == []


@pytest.mark.virtual_time
async def test_published_convention():
    """Each name is in the published convention or in our namespace; scopes have a version, instruments a unit."""
    exporter, provider, reader = InMemorySpanExporter(), TracerProvider(), InMemoryMetricReader()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    metrics = OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider([reader]))
    transport = ScriptedTransport(T1=[DOWN, throttled(0)])
    async with client(transport, tracing=metrics, retry=RetryPolicy(initial_backoff=0)) as pay:
        metrics.observe(pay)
        await pay.get_transaction("T1")
    (span,) = exporter.get_finished_spans()
    assert "traceparent" in transport.sent[0].headers
    (scope,) = (scope for resource in reader.get_metrics_data().resource_metrics for scope in resource.scope_metrics)
    assert {span.instrumentation_scope.version, scope.scope.version} == {payclient.__version__}
    assert [metric.name for metric in scope.metrics if not metric.unit] == []
    published = {
        value
        for module in (error_attributes, http_attributes, server_attributes, http_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    names = {name for each in (span, *span.events) for name in each.attributes} | {
        metric.name for metric in scope.metrics
    }
    names |= {name for metric in scope.metrics for point in metric.data.data_points for name in point.attributes}
    assert {name for name in names - published if not name.startswith("payclient.")} == set()
    kinds = {each.attributes["error.type"] for each in span.events if "error.type" in each.attributes}
    assert kinds == {"503", "429"}
