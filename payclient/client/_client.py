"""The public client and its options."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Collection, Container, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Self, TypedDict, Unpack
from weakref import WeakValueDictionary

from attrs import evolve

from payclient._shared.checks import checked, is_count, is_seconds
from payclient._shared.options import OPTIONS, answer_other_words, options_of, refuse_other
from payclient.client._config import (
    OnOutage,
    Options,
    resolve_api_key,
    resolve_application,
    resolve_base_url,
    resolve_environment,
    resolve_rate,
)
from payclient.client._confirm import Claim, Condition, Confirmation, LastPoll, Wait
from payclient.client._keys import Keys, KeySource
from payclient.client._lookup import POLL, InFlight, Lookup, LookupPhase, SingleFlight
from payclient.client._session import Session
from payclient.client._stream import References, in_bulk, stream
from payclient.client._telemetry import OnAttempt, Stats, Tracing
from payclient.client.policies import Clock, Priority, RetryPolicy
from payclient.errors import CouldNotAskError, DeadlineExceededError, PayClientError, TransactionNotFoundError
from payclient.protocol import Environment, Outcome, Transaction, check_reference, check_references, endpoint
from payclient.transports import HttpClient, NetworkOptions, Transport, TransportName, make_transport, resolve_network


def _kind(options: Options) -> str:
    """Return the options that lookups must have in common to share a request. A deadline is each caller's own."""
    return f"{options.timeout} {options.retry} {id(options.on_attempt)} {id(options.tracing)}"


class OptionChanges(TypedDict, total=False):
    """The options that `AsyncClient.with_options` can change."""

    timeout: float
    deadline: float | None
    retry: RetryPolicy | None
    on_attempt: OnAttempt | None
    tracing: Tracing | None
    on_outage: OnOutage


class ClientOptions(OptionChanges, NetworkOptions, total=False):
    """The options of `AsyncClient`, for code that passes them on."""

    api_key: str | KeySource | None
    base_url: str | None
    environment: Environment | str | None
    max_concurrency: int
    max_rate: float | None
    workers: int
    transport: Transport | TransportName | None
    http_client: HttpClient | None
    not_found_messages: Iterable[str]
    application: str | None


class Shared:
    """Views and copies of either client: all views share what they do not change, and none can be copied."""

    _viewed: Self | None = None  # a view keeps its client

    def _view(self, **changes: Any) -> Self:
        view = object.__new__(type(self))
        vars(view).update(vars(self), _viewed=self, **changes)
        return view

    def _check_entered(self) -> None:
        if self._viewed is not None:
            raise TypeError("a view is not entered, because leaving it would close its client: enter the client itself")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client can't be pickled or copied with its API key: make one in each process")


class AsyncClient(Shared):
    """
    Looks up transactions, for one API key in one environment.

    Create one, share it between all tasks of one event loop, and close it at the end: it owns the
    connections and learns how many requests the service accepts.

    Args:
        api_key: The merchant's key, or a function, plain or async, that gives it.
            `PAYCLIENT_API_KEY` if not given. Never shown. The function is called at the first
            lookup, and again when the service has refused the key. Lookups that need the key at that time
            share the call. If it keeps raising, they fail with a `KeySourceError`.
        base_url: `https` address of the service. `PAYCLIENT_BASE_URL` if not given. Plain `http`
            is accepted only for loopback addresses.
        environment: `live` or `sandbox`. `PAYCLIENT_ENVIRONMENT`, or else live, if not given.
        max_concurrency: Attempts in flight at once, at most. The client starts with a few and
            adapts to what the service accepts.
        max_rate: Attempts per second, retries included, that all clients of the key together may
            start. None if it is unknown. This client starts `max_rate / workers` of them, evenly spaced.
        workers: Clients that share the key, this one included: in other tasks, processes or machines.
        timeout: Seconds for one attempt, from the request to the last byte of the body.
        deadline: Seconds for one lookup, with queueing, all attempts and the waits between them. None
            for no such limit. It bounds the default `timeout`. A longer one of your own is refused.
        retry: When to retry. None for never.
        transport: `httpx`, `httpx2`, `fast`, or your own transport, which you close. If not
            given, `PAYCLIENT_TRANSPORT`, or else `httpx`.
        http_client: Your own `httpx.AsyncClient` to send with. Never closed by payclient.
        on_attempt: Gets one record per attempt. An exception that it raises ends the lookup.
        tracing: Makes a context around each lookup. `payclient.otel.OpenTelemetry()` is one.
        on_outage: What `get_transaction`, `get_transactions` and `confirm` do while the service does not answer:
            `fail` soon, with an `OutageError`, or `wait` until `deadline` or the last attempt that
            `retry` allows. Streams and waits always wait.
        not_found_messages: Messages of this service that mean "no such transaction", in addition to the known
            ones. Case, punctuation and the position of the reference do not matter.
        application: Name and version of your application, such as `shop/1.2`. First in the `User-Agent`.
        network: Proxy, TLS trust and connections: `proxy`, `trust_env`, `ca_file`, `client_cert`, `client_key`,
            `ssl_context`, `connect_timeout`, `keepalive`. See `payclient.transports.NetworkOptions`.

    Raises:
        ConfigurationError: When an argument, or the environment variable used instead, is invalid.

    Source:
        Transaction detail specification, parts 4, 5 and 9.
    """

    def __init__(  # noqa: PLR0913  one option each, only by name
        self,
        *,
        api_key: str | KeySource | None = None,
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
        on_outage: OnOutage = "fail",
        not_found_messages: Iterable[str] = (),
        application: str | None = None,
        **network: Unpack[NetworkOptions],
    ) -> None:
        from payclient._shared.version import __version__  # noqa: PLC0415  sixteen modules that nothing else needs

        is_ours = http_client is None and (transport is None or isinstance(transport, str))
        try:
            refuse_other("AsyncClient", sorted(network.keys() - OPTIONS.keys()), OPTIONS)
            address = resolve_base_url(base_url)
            settings = resolve_network({**network}, address, is_ours=is_ours)
            self._keys = Keys(None, api_key) if callable(api_key) else Keys(resolve_api_key(api_key))
        finally:
            # A traceback with locals would show the key, or the password in a URL, when any argument is refused.
            del api_key, base_url, network
        self._options = Options(
            timeout=timeout, deadline=deadline, retry=retry, on_attempt=on_attempt, tracing=tracing, on_outage=on_outage
        )
        environment = resolve_environment(environment)
        self._url = endpoint(address, environment)
        self._label = f"{type(self).__name__}(url={self._url!r}, environment={environment.value!r}, key_fingerprint="
        self._session = Session(
            transport=make_transport(transport, http_client, network=settings),
            url=self._url,
            keys=self._keys,
            user_agent=" ".join(filter(None, (resolve_application(application), f"payclient/{__version__}"))),
            max_concurrency=max_concurrency,
            max_rate=max_rate,
            workers=workers,
            not_found_messages=not_found_messages,
            name=repr(self) if is_ours else None,
        )
        self._kind, self._calls = _kind(self._options), SingleFlight()
        self._last_polls = WeakValueDictionary[str, LastPoll]()

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """
        Return a view of this client with other options.

        Args:
            changes: Any of `timeout`, `deadline`, `retry`, `on_attempt`, `tracing` and `on_outage`.

        Note:
            A view shares connections, limiter and counters with its client, and lookups in flight with
            views that differ only in `deadline` and `on_outage`. Closing either closes both.

        Raises:
            TypeError: For any other option.
            ConfigurationError: When a value is invalid.
        """
        known = options_of("view")
        refuse_other("with_options", sorted(changes.keys() - {*known}), known)
        options = evolve(self._options, **changes)
        return self._view(_options=options, _kind=_kind(options))

    def __repr__(self) -> str:
        if not hasattr(self, "_label"):  # the constructor raised
            return object.__repr__(self)
        return f"{self._label}{self.key_fingerprint!r})"

    def set_max_rate(self, rate: float | None, *, workers: int | None = None) -> None:
        """
        Change `max_rate` or `workers` at run time, for this client and all its views.

        Args:
            rate: Attempts per second that all clients of the key together may start. None for no limit.
            workers: Clients that share the key now. Unchanged if not given.

        Note:
            Takes effect with the next attempt. Call it in the client's event loop.

        Raises:
            ConfigurationError: When an argument is invalid. The limit is unchanged.
        """
        workers = None if workers is None else checked("workers", workers, is_count)
        self._session.admission.limiter.share(resolve_rate(rate), workers)

    @property
    def url(self) -> str:
        """The URL that lookups are posted to. Live and sandbox differ in the path."""
        return self._url

    @property
    def key_fingerprint(self) -> str:
        """A short, non-reversible fingerprint of the API key, for logs and reports."""
        return self._keys.fingerprint

    @property
    def stats(self) -> Stats:
        """A snapshot of the counters since the client was created, for all views together."""
        return self._session.stats()

    async def get_transaction(
        self, reference: str, *, deadline: float | None = None, fresh: bool = False
    ) -> Transaction:
        """
        Look up one transaction.

        Lookups of the same reference at the same time share one request. A lookup can be cancelled at any time.

        Args:
            reference: The service's reference code. Sent exactly as given.
            deadline: Seconds for this lookup. The client's own if not given.
            fresh: Send the request after this call, and over a new connection, to confirm an earlier answer.

        Raises:
            InvalidReferenceError: When *reference* is invalid. It was not sent.
            TransactionNotFoundError: When the service answers that it does not know the transaction.
            RejectedError: When the service declines the request.
            CouldNotAskError: When the transaction's state stays unknown. The subclasses give the reason.
            ClientClosedError: When the client is closed, or used in another event loop or after a fork.

        Source:
            Transaction detail specification, part 4.
        """
        clock = self._session.check_usable()
        now = clock.now()
        seconds = self._options.deadline if deadline is None else checked("deadline", deadline, is_seconds)
        until = math.inf if seconds is None else now + seconds  # `_until` would be one more call for each lookup
        return await self._look_up(reference, clock, now, until, is_fresh=fresh)

    async def get_transactions(
        self, references: Iterable[str], *, concurrency: int | None = None, deadline: float | None = None
    ) -> list[Outcome]:
        """
        Look up a small number of transactions, within one deadline for all of them.

        Args:
            references: As many as can be answered in `deadline` seconds. For more, use
                `stream_transactions`.
            concurrency: Maximum of lookups in flight. The client's limit if not given.
            deadline: Seconds for all of them together. The client's own if not given.

        Note:
            One outcome per reference, in the order of *references*.

        Raises:
            PayClientError: When every reference would fail the same way, such as with an
                `AuthenticationError`. Other errors are in the outcomes.
            TypeError: When *references* is a single string.
        """
        check_references(references)
        clock = self._session.check_usable()
        began = clock.now()
        until = self._until(began, deadline)
        async with stream(
            lambda reference: self._look_up(reference, clock, now := clock.now(), until, queued=now - began),
            references,
            concurrency=self._concurrency(concurrency),
            defer=False,
        ) as results:
            outcomes = [outcome async for outcome in results]
        return sorted(outcomes, key=lambda outcome: outcome.index)

    def stream_transactions(
        self,
        references: References,
        *,
        concurrency: int | None = None,
        stall_timeout: float = 900.0,
        fresh: Container[str] = (),
    ) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        """
        Look up any number of transactions.

        A lookup's `deadline` counts only attempts and back-off, not time in the queue or pauses that the service asks
        for. A lookup that fails for a temporary reason is repeated later. It becomes `Failed` only after several
        passes.

        Args:
            references: Iterable or async iterable, read lazily. Need not fit in memory.
            concurrency: Maximum of lookups in flight. The client's limit if not given.
            stall_timeout: Seconds without an outcome until the stream ends with an error.
            fresh: References to look up as `get_transaction` does with `fresh`. Read when a lookup begins.

        Note:
            One outcome per reference, in order of completion. `Outcome.index` is the position of
            its reference. Memory grows with *concurrency*, not with *references*. Leaving the
            block cancels all lookups of the stream.

        Raises:
            PayClientError: From the iteration, once, when every other lookup would fail the same
                way, such as with an `AuthenticationError`. References without an outcome can be
                looked up again.
            DeadlineExceededError: From the iteration, after *stall_timeout*.
            RuntimeError: From the iteration, when the block has ended.
            TypeError: At once, when *references* is a single string.

        Source:
            Transaction detail specification, part 4.
        """
        check_references(references)
        check_references(fresh)
        stall_timeout = checked("stall_timeout", stall_timeout, is_seconds)
        clock = self._session.check_usable()

        def look_up(reference: str) -> Awaitable[Transaction]:
            budget, is_fresh = self._options.deadline, reference in fresh
            return self._look_up(
                reference, clock, clock.now(), budget=budget, max_pause=stall_timeout, is_fresh=is_fresh
            )

        made = stream(look_up, references, concurrency=self._concurrency(concurrency), stall_timeout=stall_timeout)
        self._session.streams.add(made)
        return made

    async def wait_for(
        self,
        reference: str,
        *,
        until: Condition,
        unless: Condition = frozenset(),
        deadline: float,
        appear: float = 10.0,
        interval: float = 2.0,
        max_interval: float = 30.0,
    ) -> Transaction:
        """
        Poll one transaction until its status is one of *until*.

        All waits for one reference share its polls, and polls queue behind all other lookups. A wait that
        joins others starts from their last result, if that is younger than `interval`. Temporary failures, and pauses
        that the service asks for, do not end the wait. Closing the client does.

        Args:
            reference: The service's reference code.
            until: Status words of the service, compared exactly, or a predicate over `Transaction`.
                Without a default, because no status is documented to be final.
            unless: Statuses, or a predicate, that rule `until` out.
            deadline: Seconds for the whole wait.
            appear: Seconds to tolerate "not found", because a reference may be new.
            interval: Maximum of seconds between the first two polls. It grows by half with each poll,
                and is shortened at random by up to 20 %.
            max_interval: Maximum of the interval, in seconds.

        Raises:
            UnreachableStatusError: When `unless` is true.
            WaitDeadlineError: When neither is true after *deadline* seconds. A `WaitUnansweredError` if the service
                could not be asked at the end.
            TransactionNotFoundError: When the transaction does not exist for *appear* seconds.
            PayClientError: When every other lookup would fail too, such as with an `AuthenticationError`.
            ConfigurationError: When an argument is invalid.
        """
        check_reference(reference)
        clock = self._session.check_usable()
        wait = Wait(
            reference=reference,
            until=until,
            unless=unless,
            deadline=deadline,
            appear=appear,
            interval=interval,
            max_interval=max_interval,
            began_at=clock.now(),
            random=random.random,
        )
        last, cut = self._last_polls.setdefault(reference, LastPoll()), None
        while (now := clock.now()) < wait.ends_at:
            if now < wait.due_at:
                await self._session.sleep(min(wait.due_at, wait.ends_at))
                continue
            if last.at <= wait.taken_at:  # this result is the newest
                try:
                    last.result = await self._look_up(reference, clock, now, wait.ends_at, is_poll=True)
                except DeadlineExceededError as error:
                    cut = error
                    break
                except PayClientError as error:
                    last.result = error.with_traceback(None)  # it may be kept for long
                last.at = clock.now()
            if last.result is not None and (found := wait.take(last.result, last.at)) is not None:
                return found
        raise wait.exceeded(clock.now(), cut)

    async def confirm(
        self,
        reference: str,
        *,
        amount: int,
        merchant_reff: str | None = None,
        status: Collection[str],
        deadline: float | None = None,
    ) -> Confirmation:
        """
        Check a claim about a transaction, such as a callback's.

        Args:
            reference: The service's reference code.
            amount: The expected amount, in the unit of the service.
            merchant_reff: The expected merchant reference. Not compared if not given. An empty one is refused.
            status: The accepted status words of the service, compared exactly.
            deadline: Seconds for the lookup. The client's own if not given.

        Note:
            "Not found" is a result: the claim is not confirmed. An accepted status does not confirm it if less was
            received than the amount minus the fee. Pending, canceled, expired, failed and refunded payments are not
            due. A lookup that was sent before this call is not shared.

        Raises:
            PayClientError: When the service could not be asked. Then the claim is neither true nor false.
            ConfigurationError: When an argument is invalid, such as an amount below 0.
        """
        claimed = Claim(reference=reference, amount=amount, merchant_reff=merchant_reff, status=status)
        clock = self._session.check_usable()
        now = clock.now()
        try:
            transaction = await self._look_up(reference, clock, now, self._until(now, deadline), is_newer=True)
        except TransactionNotFoundError:
            transaction = None
        return claimed.against(transaction)

    async def aclose(self) -> None:
        """
        Refuse new lookups, end waits, wait up to `timeout` seconds for lookups in flight, and disconnect.

        Closing twice is harmless.
        """
        await self._session.aclose(grace=self._options.timeout)

    async def __aenter__(self) -> Self:
        self._check_entered()
        self._session.check_usable()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _until(self, now: float, given: float | None) -> float:
        seconds = self._options.deadline if given is None else checked("deadline", given, is_seconds)
        return math.inf if seconds is None else now + seconds

    def _concurrency(self, given: int | None) -> int:
        return self._session.max_concurrency if given is None else checked("concurrency", given, is_count)

    def _look_up(
        self,
        reference: str,
        clock: Clock,
        now: float,
        until: float = math.inf,
        *,
        budget: float | None = None,
        max_pause: float = math.inf,
        is_newer: bool = False,
        is_fresh: bool = False,
        is_poll: bool = False,
        queued: float = 0.0,
    ) -> Awaitable[Transaction]:
        check_reference(reference)
        options, is_bulk = self._options, in_bulk.get()
        observers = () if options.on_attempt is None and options.tracing is None else options.observers
        is_rejectable = not (is_poll or is_bulk or options.on_outage == "wait")
        priority = Priority.POLL if is_poll else Priority.BULK if is_bulk else Priority.AWAITED
        after = now if is_newer or is_fresh else -math.inf  # a confirmation is sent after what it confirms
        most = min(max_pause, options.retry.max_retry_after)
        lookup = Lookup(reference, clock, until, budget, observers, is_rejectable, priority, is_fresh, most, now)
        lookup.seconds["queued"] = queued  # while it waited for its turn in a list
        if options.tracing is not None:
            return self._traced(options.tracing, lookup, after)
        return self._join_or_start(lookup, after)

    async def _join_or_start(self, lookup: Lookup, after: float) -> Transaction:
        """Share the result of an equal lookup that was sent *after* a time, or make the lookup itself."""
        is_fresh = lookup.needs_fresh_connection
        kind = POLL if lookup.priority is Priority.POLL else self._kind
        self._session.lookups[lookup] = None
        try:
            while lookup.reference in self._calls and (
                other := self._calls.joinable(lookup.reference, kind, after=after, is_fresh=is_fresh)
            ):
                lookup.joined = other.made
                self._session.admission.check(lookup)
                with LookupPhase(lookup, "queued"):
                    transaction = await other.join(lookup)
                if transaction is not None:
                    return transaction
            lookup.joined = None
            with InFlight(lookup.reference, self._calls, lookup, is_fresh, kind) as call:
                try:
                    transaction = call.value = await self._session.look_up(lookup, self._options)
                except CouldNotAskError as error:
                    call.is_cut_short = self._session.admission.is_cut_short(lookup, error)
                    raise
                return transaction
        except CouldNotAskError as error:
            self._session.admission.tell(lookup, error)
            raise
        finally:
            del self._session.lookups[lookup]

    async def _traced(self, tracing: Tracing, lookup: Lookup, after: float) -> Transaction:
        found: list[Transaction] = []
        with tracing() as trace:
            lookup.add_observer(trace)
            found.append(await self._join_or_start(lookup, after))
        if found:
            return found[0]
        raise TypeError("the tracing context suppressed what the lookup raised: its __exit__ must not return true")


answer_other_words(
    AsyncClient, "get_transaction", "get_transactions", "stream_transactions", "wait_for", "confirm", "set_max_rate"
)
