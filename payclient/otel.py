"""OpenTelemetry (extra `otel`): a span for each lookup and metrics of a client, without payload."""

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType, TracebackType
from typing import Self
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from payclient._shared.version import __version__
from payclient.client import AsyncClient, Attempt, Stats
from payclient.errors import PayClientError, ResponseError, TransactionNotFoundError

__all__ = ["OpenTelemetry"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Bounds of the histograms. Source: OpenTelemetry's semantic conventions for HTTP."""

_send_on = TraceContextTextMapPropagator()
"""`traceparent` and `tracestate`, but no baggage: what else the application knows is not for the service."""


class OpenTelemetry:
    """
    Makes a span for each lookup, and measures lookups and attempts. Pass one to `AsyncClient(tracing=…)`.

    The span is named `payclient.get_transaction` and contains the number of attempts and, as `error.type`, the
    HTTP status of an error, or else its class. A lookup that shares the request of an equal one has a span without
    attempts. The requests carry the span's `traceparent`. The metrics:

    - `http.client.request.duration` in seconds: method, server address and port, status, `error.type`
    - `payclient.lookup.duration` in seconds: `payclient.outcome`, which is `found` or the error class
    - `payclient.retries` and `payclient.throttled`: counts, without attributes
    - `payclient.deviations`: a count by `payclient.field`
    - `payclient.limit`, and `payclient.paused` in seconds: gauges, only with `observe`

    No span and no attribute contains a reference, an amount or a key.

    Args:
        tracer_provider: Where spans go. The global provider if not given.
        meter_provider: Where measurements go. The global provider if not given.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("payclient", __version__, tracer_provider=tracer_provider)
        meter = self._meter = metrics.get_meter("payclient", __version__, meter_provider=meter_provider)
        self._requests, self._lookups = (
            meter.create_histogram(name, unit="s", description=words, explicit_bucket_boundaries_advisory=_SECONDS)
            for name, words in (
                ("http.client.request.duration", "Duration of HTTP client requests."),
                ("payclient.lookup.duration", "Duration of lookups, with queueing, retries and waits."),
            )
        )
        self._retries, self._throttled, self._deviations = (
            meter.create_counter(f"payclient.{name}", unit=unit, description=words)
            for name, unit, words in (
                ("retries", "{attempt}", "Attempts after the first of a lookup."),
                ("throttled", "{attempt}", "Attempts that the service throttled."),
                ("deviations", "{field}", "Fields not as documented."),
            )
        )

    def __call__(self) -> "_Lookup":
        """Return the context manager for one lookup."""
        return _Lookup(self._tracer, self._lookups)

    def observe(self, client: AsyncClient) -> None:
        """
        Measure the limit and the pause of *client*, too, for as long as it lives.

        Args:
            client: An `AsyncClient`. One of its views is enough.
        """
        self._gauge("payclient.limit", "{attempt}", "Attempts allowed at once.", client, lambda stats: stats.limit)
        self._gauge("payclient.paused", "s", "Until the pause ends.", client, lambda stats: stats.paused_seconds)

    def _gauge(self, name: str, unit: str, words: str, client: AsyncClient, value: Callable[[Stats], float]) -> None:
        known = weakref.ref(client)

        def observed(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            alive = known()
            return () if alive is None else (metrics.Observation(value(alive.stats)),)

        self._meter.create_observable_gauge(name, [observed], unit=unit, description=words)

    def measure(self, attempt: Attempt) -> None:
        """Measure one attempt. The client calls it."""
        self._requests.record(attempt.seconds, _attributes(attempt.url, attempt.status, attempt.error))
        if attempt.number > 1:
            self._retries.add(1)
        if attempt.is_throttled:
            self._throttled.add(1)
        for name in attempt.deviations:
            self._deviations.add(1, {"payclient.field": name})


class _Lookup:
    """One lookup: its span and its measurements. A class, because a generator costs twice as much."""

    __slots__ = ("_began", "_durations", "_now", "_scope", "_span", "headers")

    def __init__(self, tracer: trace.Tracer, durations: metrics.Histogram) -> None:
        self._durations = durations
        self._scope = tracer.start_as_current_span(
            "payclient.get_transaction",
            kind=trace.SpanKind.CLIENT,
            record_exception=False,  # its message may quote the service
            set_status_on_exception=False,
        )
        self.headers: dict[str, str] = {}  # sent with each request
        self._now = asyncio.get_running_loop().time
        self._began = self._now()

    def __enter__(self) -> Self:
        self._span = self._scope.__enter__()
        _send_on.inject(self.headers)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        outcome = "found" if kind is None else kind.__name__ if issubclass(kind, PayClientError) else "cancelled"
        if isinstance(error, PayClientError):
            status = error.status_code if isinstance(error, ResponseError) else None
            self._span.set_attribute("error.type", _error_type(status, outcome))
            if not isinstance(error, TransactionNotFoundError):  # "not found" is a result
                self._span.set_status(trace.StatusCode.ERROR)
        try:
            self._scope.__exit__(kind, error, traceback)
        finally:
            self._durations.record(self._now() - self._began, {"payclient.outcome": outcome})

    def __call__(self, attempt: Attempt) -> None:
        self._span.set_attribute("payclient.attempts", attempt.number)
        attributes: dict[str, str | int | float] = {
            "payclient.attempt.duration": attempt.seconds,
            **_result(attempt.status, attempt.error),
        }
        if attempt.number > 1:
            attributes["http.request.resend_count"] = attempt.number - 1
        self._span.add_event("payclient.attempt", attributes)


def _error_type(status: int | None, error: str) -> str:
    """Return the status of HTTP if it is an error, or else the class, as the conventions for HTTP have it."""
    return error if status is None or status < 400 else str(status)


def _result(status: int | None, error: str | None) -> dict[str, str | int]:
    code: dict[str, str | int] = {} if status is None else {"http.response.status_code": status}
    return code if error is None else {**code, "error.type": _error_type(status, error)}


@lru_cache(maxsize=128)
def _attributes(url: str, status: int | None, error: str | None) -> Mapping[str, str | int]:
    address = urlsplit(url)
    attributes: dict[str, str | int] = {"http.request.method": "POST", "server.address": address.hostname or ""}
    if (port := address.port or {"https": 443, "http": 80}.get(address.scheme)) is not None:
        attributes["server.port"] = port
    return MappingProxyType(attributes | _result(status, error))
