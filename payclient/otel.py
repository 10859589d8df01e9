"""OpenTelemetry tracing (extra `otel`): one span per lookup, its attempts as events, no payload."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace

from payclient._telemetry import Attempt, OnAttempt
from payclient.errors import PayClientError, TransactionNotFoundError

__all__ = ["OpenTelemetryTracing"]


class OpenTelemetryTracing:
    """
    Makes a span for each lookup; pass one to `AsyncClient(tracing=…)`.

    The span is named `payclient.get_transaction`. It has the number of attempts and the class of the
    error, if there was one; no reference, amount, URL or key. A lookup that shares the request of an
    equal one has a span without attempts.

    Args:
        provider: The tracer provider; the global one if not given.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("payclient", tracer_provider=provider)

    def __call__(self) -> AbstractContextManager[OnAttempt]:
        """Enter one lookup."""
        return self._span()

    @contextmanager
    def _span(self) -> Generator[OnAttempt]:
        with self._tracer.start_as_current_span(
            "payclient.get_transaction",
            kind=trace.SpanKind.CLIENT,
            record_exception=False,  # its message may hold what the service said
            set_status_on_exception=False,
        ) as span:
            try:
                yield lambda attempt: _record(span, attempt)
            except PayClientError as error:
                span.set_attribute("error.type", type(error).__name__)
                if not isinstance(error, TransactionNotFoundError):  # which is an answer
                    span.set_status(trace.StatusCode.ERROR)
                raise


def _record(span: trace.Span, attempt: Attempt) -> None:
    span.set_attribute("payclient.attempts", attempt.number)
    attributes: dict[str, str | int | float] = {"number": attempt.number, "seconds": attempt.seconds}
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
    if attempt.error is not None:
        attributes["error.type"] = attempt.error
    span.add_event("attempt", attributes)
