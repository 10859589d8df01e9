"""OpenTelemetry (extra `otel`): a span for each lookup and metrics of a client, without payload."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from types import MappingProxyType, TracebackType
from typing import Protocol
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from payclient._shared.version import __version__
from payclient.client import Attempt, OnAttempt, Stats, Tracing
from payclient.errors import PayClientError, ResponseError, TransactionNotFoundError

__all__ = ["OpenTelemetryMetrics", "OpenTelemetryTracing"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Bounds of the histograms. Source: OpenTelemetry's semantic conventions for HTTP."""

_send_on = TraceContextTextMapPropagator()
"""`traceparent` and `tracestate`, but no baggage: what else the application knows is not for the service."""


class _HasStats(Protocol):
    @property
    def stats(self) -> Stats: ...


class OpenTelemetryTracing:
    """
    Makes a span for each lookup; pass one to `AsyncClient(tracing=…)`.

    The span is named `payclient.get_transaction` and holds the number of attempts and, as `error.type`, the
    HTTP status of an error, or else its class. Neither reference, amount, URL nor key is in it. A lookup
    that shares the request of an equal one has a span without attempts. The requests carry the
    span's `traceparent`.

    Args:
        provider: Where spans go; the global provider if not given.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("payclient", __version__, tracer_provider=provider)

    @contextmanager
    def __call__(self) -> Generator[OnAttempt]:
        """Enter one lookup."""
        with self._tracer.start_as_current_span(
            "payclient.get_transaction",
            kind=trace.SpanKind.CLIENT,
            record_exception=False,  # its message may hold what the service said
            set_status_on_exception=False,
        ) as span:
            try:
                yield _SpanOfLookup(span)
            except PayClientError as error:
                status = error.status_code if isinstance(error, ResponseError) else None
                span.set_attribute("error.type", _error_type(status, type(error).__name__))
                if not isinstance(error, TransactionNotFoundError):  # which is a result
                    span.set_status(trace.StatusCode.ERROR)
                raise


class _SpanOfLookup:
    """
    Records the attempts of one lookup in its span.

    Attributes:
        headers: Sent with each request.
    """

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.headers: dict[str, str] = {}
        _send_on.inject(self.headers)

    def __call__(self, attempt: Attempt) -> None:
        self._span.set_attribute("payclient.attempts", attempt.number)
        attributes: dict[str, str | int | float] = {"payclient.attempt.duration": attempt.seconds}
        if attempt.number > 1:
            attributes["http.request.resend_count"] = attempt.number - 1
        if attempt.status is not None:
            attributes["http.response.status_code"] = attempt.status
        if attempt.error is not None:
            attributes["error.type"] = _error_type(attempt.status, attempt.error)
        self._span.add_event("payclient.attempt", attributes)


def _error_type(status: int | None, error: str) -> str:
    """
    Return the status of HTTP if it is an error, or else the class.

    Source:
        OpenTelemetry's semantic conventions for HTTP.
    """
    return error if status is None or status < 400 else str(status)


class OpenTelemetryMetrics:
    """
    Measures lookups and attempts; pass one to `AsyncClient(tracing=…)`.

    - `http.client.request.duration` in seconds: method, server address and port, status, `error.type`
    - `payclient.lookup.duration` in seconds: `payclient.outcome`, which is `found` or the error class
    - `payclient.retries` and `payclient.throttled`: counts, without attributes
    - `payclient.deviations`: a count by `payclient.field`
    - `payclient.limit`, and `payclient.paused` in seconds: gauges, only with `observe`

    No attribute holds a reference, an amount or a key.

    Args:
        provider: Where measurements go; the global provider if not given.
        tracing: Entered around each lookup as well, such as `OpenTelemetryTracing()`.
    """

    def __init__(self, provider: metrics.MeterProvider | None = None, *, tracing: Tracing | None = None) -> None:
        meter = metrics.get_meter("payclient", __version__, meter_provider=provider)
        self._meter = meter
        self._tracing = tracing
        self._requests = meter.create_histogram(
            "http.client.request.duration",
            unit="s",
            description="Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._lookups = meter.create_histogram(
            "payclient.lookup.duration",
            unit="s",
            description="Duration of lookups, with queueing, retries and waits.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._retries = meter.create_counter(
            "payclient.retries", unit="{attempt}", description="Attempts after the first of a lookup."
        )
        self._throttled = meter.create_counter(
            "payclient.throttled", unit="{attempt}", description="Attempts that the service throttled."
        )
        self._deviations = meter.create_counter(
            "payclient.deviations", unit="{field}", description="Fields not as documented."
        )

    def __call__(self) -> AbstractContextManager[OnAttempt]:
        """Return the context manager for one lookup."""
        return _MeasuredLookup(self._record, self._lookups, None if self._tracing is None else self._tracing())

    def observe(self, client: _HasStats) -> None:
        """
        Measure the limit and the pause of *client*, too, for as long as it lives.

        Args:
            client: An `AsyncClient`; one of its views is enough.
        """
        self._gauge("payclient.limit", "{attempt}", "Attempts allowed at once.", client, lambda stats: stats.limit)
        self._gauge("payclient.paused", "s", "Until the pause ends.", client, lambda stats: stats.paused_seconds)

    def _gauge(self, name: str, unit: str, words: str, client: _HasStats, value: Callable[[Stats], float]) -> None:
        known = weakref.ref(client)

        def observed(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            alive = known()
            return () if alive is None else (metrics.Observation(value(alive.stats)),)

        self._meter.create_observable_gauge(name, [observed], unit=unit, description=words)

    def _record(self, attempt: Attempt) -> None:
        self._requests.record(attempt.seconds, _attributes(attempt.url, attempt.status, attempt.error))
        if attempt.number > 1:
            self._retries.add(1)
        if attempt.error == "RateLimitedError":
            self._throttled.add(1)
        for name in attempt.deviations:
            self._deviations.add(1, {"payclient.field": name})


@lru_cache(maxsize=128)
def _attributes(url: str, status: int | None, error: str | None) -> Mapping[str, str | int]:
    address = urlsplit(url)
    attributes: dict[str, str | int] = {"http.request.method": "POST", "server.address": address.hostname or ""}
    if (port := address.port or {"https": 443, "http": 80}.get(address.scheme)) is not None:
        attributes["server.port"] = port
    if status is not None:
        attributes["http.response.status_code"] = status
    if error is not None:
        attributes["error.type"] = _error_type(status, error)
    return MappingProxyType(attributes)


class _MeasuredLookup:
    """Measures one lookup; a class, because a generator costs twice as much."""

    __slots__ = ("_began", "_durations", "_now", "_record", "_traced")

    def __init__(
        self, record: OnAttempt, durations: metrics.Histogram, traced: AbstractContextManager[OnAttempt | None] | None
    ) -> None:
        self._record = record
        self._durations = durations
        self._traced = traced
        self._now = asyncio.get_running_loop().time
        self._began = self._now()

    def __enter__(self) -> OnAttempt:
        inner = None if self._traced is None else self._traced.__enter__()
        return self._record if inner is None else _Both(self._record, inner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        outcome = "found" if kind is None else kind.__name__ if issubclass(kind, PayClientError) else "cancelled"
        try:
            return None if self._traced is None else self._traced.__exit__(kind, error, trace)
        finally:
            self._durations.record(self._now() - self._began, {"payclient.outcome": outcome})


class _Both:
    """Passes each record on to two observers; sends the headers of the second."""

    def __init__(self, first: OnAttempt, second: OnAttempt) -> None:
        self._first, self._second = first, second
        self.headers: Mapping[str, str] | None = getattr(second, "headers", None)

    def __call__(self, attempt: Attempt) -> None:
        self._first(attempt)
        self._second(attempt)
