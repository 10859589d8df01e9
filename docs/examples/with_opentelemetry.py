"""One lookup with a span and metrics, kept in memory."""

import asyncio

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from payclient import AsyncClient
from payclient.otel import OpenTelemetry

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
tracer_provider, meter_provider = TracerProvider(), MeterProvider([reader])
tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
telemetry = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)


async def main():
    async with AsyncClient(tracing=telemetry) as client:
        telemetry.observe(client)  # its limit and its pauses, too
        await client.get_transaction("T0000000001DEMO")
        (span,) = spans.get_finished_spans()
        print(span.name, dict(span.attributes), [event.name for event in span.events])
        for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
            print(metric.name, metric.unit)


asyncio.run(main())
