"""The client: what a caller can ask for, and with which options."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypedDict, Unpack

import attrs

from payclient import _wire
from payclient._alarm import Clock
from payclient._coalesce import Flights
from payclient._config import (
    Options,
    resolve_api_key,
    resolve_base_url,
    resolve_concurrency,
    resolve_environment,
    resolve_rate,
    resolve_workers,
)
from payclient._engine import Engine
from payclient._lookup import Lookup
from payclient._models import Environment, Outcome, Transaction
from payclient._reference import check_reference
from payclient._retry import RetryPolicy
from payclient._stream import References, stream
from payclient._telemetry import OnAttempt, Stats, Tracing
from payclient.errors import ConfigurationError
from payclient.transports import HttpClient, HttpxClientTransport, Transport, TransportName
from payclient.transports._choice import make_transport

_BULK_STALL = 900.0


@functools.cache
def _user_agent() -> str:
    from importlib.metadata import version  # noqa: PLC0415  sixteen modules that nothing else needs

    return f"payclient/{version('payclient')}"


class OptionChanges(TypedDict, total=False):
    """The options that `AsyncClient.with_options` can change."""

    timeout: float
    deadline: float | None
    retry: RetryPolicy | None
    on_attempt: OnAttempt | None
    tracing: Tracing | None


class AsyncClient:
    """
    Looks transactions up, for one API key in one environment.

    Make one, share it between all tasks of one event loop, and close it at the end: it owns the
    connections and learns how many requests the service can take.

    Args:
        api_key: The merchant's key; `PAYCLIENT_API_KEY` if not given. Never shown again.
        base_url: `https` address of the service; `PAYCLIENT_BASE_URL` if not given. Plain `http`
            is accepted for loopback addresses only.
        environment: `live` or `sandbox`; `PAYCLIENT_ENVIRONMENT`, or else live, if not given.
        max_concurrency: Attempts in flight at once, at most. The client starts with a few and
            adapts to what the service accepts.
        max_rate: Attempts per second, retries included, that all clients of the key together may
            start; None when it is not known. This client starts `max_rate / workers` of them, evenly.
        workers: Clients that share the key, this one included: in other tasks, processes or machines.
        timeout: Seconds for one attempt, its whole body included.
        deadline: Seconds for one lookup: queueing, attempts, waits and all. None leaves a lookup
            bounded by its attempts alone.
        retry: When to ask again; None for never.
        transport: What carries the attempts: `httpx`, `fast` (extra `fast`), or a transport of your
            own; closed with the client. `PAYCLIENT_TRANSPORT` if not given, or else `httpx`.
        http_client: An `httpx.AsyncClient` of your own to send with; never closed by us.
        on_attempt: Gets one record per attempt. An exception it raises ends the lookup.
        tracing: Entered around each lookup; `payclient.otel.OpenTelemetryTracing` is one.

    Raises:
        ConfigurationError: When an argument, or the variable in its place, cannot be used.

    Source:
        Transaction detail specification, parts 4, 5 and 9.
    """

    def __init__(  # noqa: PLR0913  one option each, by name only
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        environment: Environment | str | None = None,
        max_concurrency: int = 64,
        max_rate: float | None = None,
        workers: int = 1,
        timeout: float = 10.0,
        deadline: float | None = 30.0,
        retry: RetryPolicy | None = RetryPolicy(),  # noqa: B008  frozen
        transport: Transport | TransportName | None = None,
        http_client: HttpClient | None = None,
        on_attempt: OnAttempt | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        try:
            key = resolve_api_key(api_key)
        finally:
            del api_key  # or a traceback with locals would show it when another argument is refused
        if transport is not None and http_client is not None:
            message = "pass a transport or an http_client, not both"
            raise ConfigurationError(message)
        self._options = Options(timeout=timeout, deadline=deadline, retry=retry, on_attempt=on_attempt, tracing=tracing)
        self._url = _wire.endpoint(resolve_base_url(base_url), resolve_environment(environment))
        self._key_fingerprint = key.fingerprint
        concurrency = resolve_concurrency(max_concurrency)
        rate, workers = resolve_rate(max_rate), resolve_workers(workers)
        if http_client is not None:
            transport = HttpxClientTransport(http_client)
        elif transport is None or isinstance(transport, str):
            transport = make_transport(transport)
        self._engine = Engine(
            transport=transport,
            url=self._url,
            api_key=key,
            user_agent=_user_agent(),
            max_concurrency=concurrency,
            max_rate=rate,
            workers=workers,
        )
        self._flights: Flights[Transaction] = Flights()

    def with_options(self, **changes: Unpack[OptionChanges]) -> AsyncClient:
        """
        Return a view of this client with other options.

        Args:
            changes: Any of `timeout`, `deadline`, `retry`, `on_attempt` and `tracing`.

        Shape:
            A view shares connections, limiter and counters with its client: they are one client,
            and closing either closes both.
        """
        view = object.__new__(type(self))
        view._options = attrs.evolve(self._options, **changes)
        view._engine = self._engine
        view._url = self._url
        view._key_fingerprint = self._key_fingerprint
        view._flights = Flights()
        return view

    def set_max_rate(self, rate: float | None, *, workers: int | None = None) -> None:
        """
        Share the key's rate anew, because it changed or clients came or went; for all views.

        Args:
            rate: Attempts per second that all clients of the key together may start; None for no such bound.
            workers: Clients that share the key now; as many as before if not given.

        Shape:
            Holds from the next attempt on. Call it in the client's event loop.

        Raises:
            ConfigurationError: When an argument cannot be used; nothing has changed.
        """
        self._engine.share(resolve_rate(rate), None if workers is None else resolve_workers(workers))

    @property
    def url(self) -> str:
        """Where lookups are posted; the path tells live from sandbox."""
        return self._url

    @property
    def key_fingerprint(self) -> str:
        """By what the API key is known again in logs and reports, never the key."""
        return self._key_fingerprint

    @property
    def stats(self) -> Stats:
        """A snapshot of the counters, of all views together."""
        return self._engine.stats()

    async def get_transaction(self, reference: str) -> Transaction:
        """
        Look one transaction up.

        Equal lookups awaited at the same time share one request. Cancelling is safe at any moment.

        Args:
            reference: The service's reference code; sent exactly as it is.

        Raises:
            InvalidReferenceError: When it cannot be a reference; nothing was sent.
            TransactionNotFoundError: When the service says that it has no such transaction.
            DeadlineExceededError: When `deadline` seconds were not enough.
            TransportError: When no usable answer came.
            ResponseError: When an answer came that is not a transaction; its subclasses say more.
            ClientClosedError: When the client cannot be used, or no longer.

        Source:
            Transaction detail specification, part 4.
        """
        clock = self._engine.check_usable()
        return await self._look_up(reference, clock, until=self._deadline(clock))

    async def get_transactions(self, references: Iterable[str], *, concurrency: int | None = None) -> list[Outcome]:
        """
        Look a small set of transactions up, within one deadline for all of them.

        Args:
            references: As many as can be answered in `deadline` seconds; for more, use
                `stream_transactions`.
            concurrency: Lookups in flight at once; the client's own limit if not given.

        Shape:
            One outcome per reference, in the order of *references*.

        Raises:
            PayClientError: When what went wrong is the same for every reference, such as
                `AuthenticationError`; otherwise errors are in the outcomes.
        """
        clock = self._engine.check_usable()
        until = self._deadline(clock)
        async with stream(
            lambda reference: self._look_up(reference, clock, until=until),
            references,
            concurrency=self._concurrency(concurrency),
            stall_timeout=_BULK_STALL,
            defer=False,
        ) as answers:
            outcomes = [outcome async for outcome in answers]
        return sorted(outcomes, key=lambda outcome: outcome.index)

    def stream_transactions(
        self, references: References, *, concurrency: int | None = None, stall_timeout: float = _BULK_STALL
    ) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        """
        Look many transactions up.

        A lookup's `deadline` counts its attempts and back-off only: its turn comes when it comes,
        and pauses that the service asks for are waited out. Rows that fail for passing reasons are
        asked again later; only what fails in several passes becomes `Failed`.

        Args:
            references: Iterable or async iterable, read lazily: there may be more than memory holds.
            concurrency: Lookups in flight at once; the client's own limit if not given.
            stall_timeout: Seconds without any outcome after which the stream ends.

        Shape:
            One outcome per reference, in order of completion; `Outcome.index` is the position of
            its reference. Memory grows with *concurrency*, not with *references*. Leaving the
            block ends every lookup of the stream.

        Raises:
            PayClientError: Out of the iteration, once, when no other lookup could succeed either,
                such as `AuthenticationError`. What has no outcome by then can be asked for again.
            DeadlineExceededError: Out of the iteration, after *stall_timeout*.

        Source:
            Transaction detail specification, part 4.
        """
        clock = self._engine.check_usable()
        return stream(
            lambda reference: self._look_up(reference, clock, budget=self._options.deadline),
            references,
            concurrency=self._concurrency(concurrency),
            stall_timeout=stall_timeout,
        )

    async def aclose(self) -> None:
        """
        Refuse new lookups, let those under way finish for up to `timeout` seconds, and disconnect.

        Closing twice is harmless.
        """
        await self._engine.aclose(grace=self._options.timeout)

    async def __aenter__(self) -> Self:
        self._engine.check_usable()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _deadline(self, clock: Clock) -> float | None:
        seconds = self._options.deadline
        return None if seconds is None else clock.now() + seconds

    def _concurrency(self, given: int | None) -> int:
        return self._engine.max_concurrency if given is None else resolve_concurrency(given)

    def _look_up(
        self, reference: str, clock: Clock, *, until: float | None = None, budget: float | None = None
    ) -> Awaitable[Transaction]:
        check_reference(reference)
        options = self._options
        lookup = Lookup(reference, clock=clock, until=until, budget=budget, observers=options.observers)
        return self._ask(lookup) if options.tracing is None else self._ask_traced(lookup, options.tracing)

    async def _ask_traced(self, lookup: Lookup, tracing: Tracing) -> Transaction:
        with tracing() as trace:
            lookup.observe(trace)
            return await self._ask(lookup)

    async def _ask(self, lookup: Lookup) -> Transaction:
        while lookup.reference in self._flights:
            transaction = await lookup.spend("queued", self._flights.follow(lookup.reference))
            if transaction is not None:
                return transaction
        with self._flights.take_off(lookup.reference) as flight:
            return flight.land(await self._engine.look_up(lookup, self._options))
