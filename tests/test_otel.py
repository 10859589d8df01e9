"""Tracing: one span per lookup, its attempts as events, no payload."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from payclient import RetryPolicy, ServiceError, TransactionNotFoundError
from payclient.otel import OpenTelemetryTracing
from support.fakes import KEY, SAMPLE, ScriptedTransport, answer, client

DOWN = answer(b'{"success": false, "message": "try later"}', 503)


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield OpenTelemetryTracing(provider), exporter.get_finished_spans
    provider.shutdown()


async def test_one_span(spans):
    """A lookup with a retry is one span with two events, in order, with status and error class."""
    tracing, finished = spans
    transport = ScriptedTransport()
    transport.script("T1", DOWN)
    async with client(transport, tracing=tracing, retry=RetryPolicy(initial_backoff=0)) as pay:
        await pay.get_transaction("T1")
    (span,) = finished()
    assert span.name == "payclient.get_transaction"
    assert span.attributes == {"payclient.attempts": 2}
    events = [(e.name, e.attributes["http.response.status_code"], e.attributes.get("error.type")) for e in span.events]
    assert events == [("attempt", 503, "ServiceError"), ("attempt", 200, None)]


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
    async with client(ScriptedTransport(default=lambda: step), tracing=tracing, retry=None) as pay:
        with pytest.raises(error):
            await pay.get_transaction("T1")
    (span,) = finished()
    assert (span.attributes["error.type"], span.status.status_code) == (error.__name__, status)


async def test_no_payload(spans):
    """Neither key, reference, URL nor any field of the answer is in a span."""
    tracing, finished = spans
    async with client(ScriptedTransport(), tracing=tracing) as pay:
        await pay.get_transaction("T-secret-reference")
    shown = finished()[0].to_json()
    for word in (KEY, "T-secret-reference", "pay.example", SAMPLE["payment_code"], SAMPLE["merchant_reff"]):
        assert word not in shown
