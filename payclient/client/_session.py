"""
One lookup, from admission to answer: the loop that applies the policies.

Design rules:

- An attempt occupies a slot, a wait never does.
- Every attempt releases its slot and reports its result to the limiter, however it ends.
- Errors are raised outside of the handlers that caught foreign ones, so no traceback keeps the HTTP library's frames,
  and with them the request.
- A refusal that names no reference is believed only from a fresh connection, because there it
  cannot belong to another request. From a reused one, the request is sent again over a fresh
  connection, and not counted as an attempt.
"""

import asyncio
import copy
import logging
import math
import os
import random
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from weakref import WeakSet

from attrs import define, field, fields_dict, setters

from payclient import errors
from payclient._shared.checks import is_count
from payclient._shared.logger import logger
from payclient._shared.until_done import shielded, until_done
from payclient.client._admission import CANCELLED, FOUND, NOT_REFUSED, Admission, Result
from payclient.client._config import Options, resolve_messages, resolve_rate
from payclient.client._keys import Keys
from payclient.client._lookup import NO_TIME, Lookup, LookupPhase, is_believed
from payclient.client._outage import Outage
from payclient.client._stream import Stream
from payclient.client._telemetry import Attempt, Stats
from payclient.client.policies import Again, Clock, Limiter, Retries, Signal, Ticket, classify, names_no_reference
from payclient.protocol import Response, Transaction, parse_response, request_body, request_headers, request_id_of
from payclient.transports import Request, Transport

_FIELDS = frozenset(fields_dict(Transaction))
_OTHER_LOOP = (
    "it belongs to another event loop, and "
    "asyncio.run makes one per call: keep one asyncio.Runner, or use payclient.blocking"
)
_NO_LOOP = (
    "it needs a running event loop of asyncio, such as in asyncio.run(...). Under trio, "
    "call a payclient.blocking.Client in a thread: trio.to_thread.run_sync(client.get_transaction, reference)"
)


@define(eq=False, repr=False, kw_only=True, slots=False, on_setattr=setters.NO_OP)  # each lookup sets some
class Session:
    """The state that all views of one client share: transport, limiter, key, counters and life cycle."""

    _name: str | None = field(default=None, alias="name")  # set if the client closes its transport
    _process: int = field(init=False, factory=os.getpid)
    _clock: Clock | None = field(init=False, default=None)
    _is_closed: bool = field(init=False, default=False)
    _transport: Transport = field(alias="transport")
    _url: str = field(alias="url")
    _keys: Keys = field(alias="keys")
    _headers: Mapping[str, str] = field(alias="user_agent", converter=request_headers)
    max_concurrency: int = field(validator=is_count)
    _max_rate: float | None = field(alias="max_rate", converter=resolve_rate)
    _workers: int = field(alias="workers", validator=is_count)
    _not_found_messages: frozenset[str] = field(alias="not_found_messages", converter=resolve_messages)
    _random: Callable[[], float] = field(default=random.random, alias="random")
    _discard: Callable[[Response], Awaitable[None]] | None = field(init=False)
    _limiter: Limiter = field(init=False)
    streams: WeakSet[Stream] = field(init=False, factory=WeakSet)
    lookups: dict[Lookup, None] = field(init=False, factory=dict)  # unfinished ones
    admission: Admission = field(init=False)
    outage: Outage = field(init=False)
    _counts: Counter[str] = field(init=False, factory=lambda: Counter(lookups=0, attempts=0, retries=0, throttled=0))
    _probes: dict[asyncio.Task[Transaction], bool] = field(init=False, factory=dict)  # and whether its caller has left
    _pending: int = field(init=False, default=0)
    _drained: asyncio.Event = field(init=False, factory=asyncio.Event)
    _closing: asyncio.Event = field(init=False, factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self._discard = getattr(self._transport, "discard", None)
        self._limiter = Limiter(
            max_concurrency=self.max_concurrency, max_rate=self._max_rate, workers=self._workers, random=self._random
        )
        self.admission = Admission(self._limiter, self.lookups)
        self.outage = self.admission.outage

    # Life cycle

    def check_usable(self) -> Clock:
        """Return the running event loop's clock. Bind to that loop at the first use, and refuse any other."""
        if self._is_closed:
            problem = "it has been closed"
        elif self._process != os.getpid():  # before asking for the loop, which does not survive a fork either
            problem = "it was created in another process: create a client after the fork"
        else:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                raise closed(_NO_LOOP) from None
            clock = self._clock = self._clock or Clock(loop)
            if clock.loop is loop:
                return clock
            problem = _OTHER_LOOP
        raise closed(problem)

    async def aclose(self, *, grace: float) -> None:
        """Refuse new lookups, end waits, wait up to *grace* seconds for lookups in flight, then close the transport."""
        # A fork cannot close the connections, and only their own event loop can: from another one, it is asked to.
        if self._is_closed:
            return
        self._is_closed = True
        loop = running_loop()
        if self._process != os.getpid() or loop is None or (self._clock is not None and self._clock.loop is not loop):
            self._abort(self._end_waits, self._end_streams)
            return
        self._end_waits()
        try:
            if self._pending:
                async with asyncio.timeout(grace):
                    await self._drained.wait()
        except TimeoutError:
            logger.debug("closing with %d lookups under way", self._pending)
        finally:
            for probe in self._probes:
                probe.cancel()
            await until_done([*self._probes, *self._end_streams()])
            if self._clock is not None:
                self._clock.cancel(self.outage)
                self._clock.stop()
            if self._name is not None:
                await shielded(self._transport.aclose())

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        if not self._is_closed and self._abort():
            warn(f"unclosed {self._name}: use it in `async with`, or await its aclose()", ResourceWarning, source=self)

    def _end_waits(self) -> None:
        self._limiter.close(closed)
        self._closing.set()
        self._keys.close()

    def _end_streams(self) -> list[asyncio.Task[None]]:
        current = asyncio.current_task()  # may read the input of a stream, and need not wait for itself
        return [task for each in tuple(self.streams) for task in each.close(closed()) if task is not current]

    def _abort(self, *steps: Callable[[], object]) -> bool:
        """Disconnect at once after *steps*, in the client's own event loop. Return whether there is one to close."""
        if self._clock is None or self._process != os.getpid():
            return False
        abort = getattr(self._transport, "abort", None) if self._name else None
        with suppress(RuntimeError):  # the event loop is closed, and its sockets with it
            for step in (*steps, *([abort] if abort else ())):
                self._clock.loop.call_soon_threadsafe(step)
        return self._name is not None

    def stats(self) -> Stats:
        limiter, outage = self._limiter, self.outage
        now = 0.0 if self._clock is None else self._clock.now()
        return Stats(
            **self._counts,
            in_flight=limiter.in_flight,
            limit=limiter.limit,
            paused_seconds=limiter.paused_seconds(),
            refused=outage.rejected,
            outage_seconds=outage.seconds(),
            last_failure=outage.last_failure,
            waiting=limiter.waiting,
            is_overloaded=limiter.is_overloaded,
            asked_ago=None if outage.sent_at == -math.inf else now - outage.sent_at,
            answered_ago=None if outage.answered_at == -math.inf else now - outage.answered_at,
        )

    # Lookups

    async def look_up(self, lookup: Lookup, options: Options) -> Transaction:
        """Make attempts until there is a result or a reason to stop. The state is in *lookup*."""
        self._counts["lookups"] += 1
        self._pending += 1
        try:
            while True:
                lookup.sent_at = None
                own = self.admission.refused.get(lookup.reference, NOT_REFUSED)
                if max(own.until, self._limiter.paused_until) > lookup.at and (
                    failure := self.admission.too_late(lookup)
                ):
                    raise failure
                if own.until > lookup.at:
                    with LookupPhase(lookup, "queued"):
                        await self.sleep(own.until)
                try:
                    if self._keys.version == lookup.declined[0]:
                        await self._renew_key(lookup)
                    ticket = await self.admission.admit(lookup)
                    lookup.attempts += 1
                    return await (self._probe if ticket.is_probe else self._attempt)(lookup, options, ticket)
                except errors.PayClientError as error:
                    delay = self._delay(error, lookup, options)
                if delay and self._limiter.paused_until <= lookup.at:  # a pause takes the place of the back-off
                    with LookupPhase(lookup, "backoff"):
                        await self.sleep(lookup.clock.now() + delay)
        except errors.PayClientError as error:
            error.attempts = lookup.attempts
            raise
        finally:
            self._pending -= 1
            if self._is_closed and not self._pending:
                self._drained.set()

    def _delay(self, error: errors.PayClientError, lookup: Lookup, options: Options) -> float:
        """Return the seconds from a failed attempt to the next one, or raise its error if it is final."""
        # If time is over, or an outage has ended the lookup, the error is final. Otherwise the next attempt is, in this
        # order:
        # 1. The same request over a fresh connection, if the refusal may belong to another request. It is not a retry.
        # 2. The same request with a newer key, once, if the service declines the key. `_renew_key` raises if there is
        #    none.
        # 3. A retry after a back-off, as the policy allows. None for a lookup that an outage rejects.
        if isinstance(error, errors.OutageError) and len(self._probes) >= self.max_concurrency:
            # There is no room for the next probe. The oldest probe without a caller hangs.
            next((task.cancel() for task, is_left in self._probes.items() if is_left), None)
        if isinstance(error, errors.DeadlineExceededError | errors.OutageError | errors.OverloadedError):
            raise error
        lookup.record_failure(error)
        if not is_believed(error, lookup.unconfirmed, is_fresh=lookup.is_fresh):
            self._check_open()  # an unconfirmed refusal is not a result, and a closed client cannot confirm it
            lookup.needs_fresh_connection, lookup.unconfirmed = True, (error, lookup.is_fresh)
            return 0.0
        if isinstance(error, errors.AuthenticationError) and self._keys.source and not lookup.declined[0]:
            self._check_open()  # there may be a newer key, and no source is asked any more
            lookup.declined = lookup.key_version, error
            return 0.0
        lookup.retries = lookup.retries or Retries(options.retry, self._random, lookup.is_timed)
        own = self.admission.refused.get(lookup.reference, NOT_REFUSED)
        delay = (
            None if self.admission.is_rejected(lookup) else lookup.retries.delay(classify(error), is_alone=own.is_alone)
        )
        if delay is None or self._is_closed:
            raise error
        return 0.0 if own.until > lookup.at + delay else max(delay, lookup.retries.own_wait(error))

    async def sleep(self, until: float) -> None:
        """Return at the time *until*, or raise when the client is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._closing.wait()
                raise closed()

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed() from None

    async def _renew_key(self, lookup: Lookup) -> None:
        """Ask for a newer key than the declined one. Without a newer one, raise its error again."""
        version, refusal = lookup.declined
        try:
            with LookupPhase(lookup, "attempts"):  # it counts towards the budget of a lookup in bulk
                is_newer = await self._keys.renew(version)
        except errors.DeadlineExceededError as error:
            problem = "the key source has not answered"
            error.args = (f"{error.message}; {problem}",)
            error.__cause__ = error.__cause__ or errors.KeySourceError(problem)
            raise
        except errors.KeySourceError:
            self._check_open()
            raise
        if refusal is not None and not is_newer:
            raise refusal
        lookup.unconfirmed = None

    async def _probe(self, lookup: Lookup, options: Options, ticket: Ticket) -> Transaction:
        """Make the attempt of *lookup* in a task of the client, which goes on when its caller leaves."""
        lookup.needs_fresh_connection, lookup.sent_at = True, ticket.started_at
        probe = copy.copy(lookup)
        probe.until, probe.budget, probe.is_rejectable, probe.at = math.inf, None, False, ticket.started_at
        probe.seconds = NO_TIME.copy()
        task = asyncio.create_task(self._attempt(probe, options, ticket), name="payclient-probe")
        self._probes[task] = False
        task.add_done_callback(self._end_probe)
        allowed = self.outage.allowed
        rest = min(allowed, max(0.0, lookup.began_at + 2 * allowed - ticket.started_at))  # it may have queued
        try:
            while not task.done():
                with LookupPhase(lookup, "attempts"):
                    await asyncio.wait([task], timeout=rest)
                    if not task.done():
                        self.admission.check(lookup)
                rest = allowed
            return task.result()
        finally:
            lookup.key_version, lookup.redact, lookup.is_fresh = probe.key_version, probe.redact, probe.is_fresh
            if not task.done():
                self._probes[task] = True
                probe.observers = options.observers  # the trace of the lookup ends with it

    def _end_probe(self, task: asyncio.Task[Transaction]) -> None:
        del self._probes[task]
        if not task.cancelled():
            task.exception()  # if its caller has left, it was recorded

    async def _attempt(self, lookup: Lookup, options: Options, ticket: Ticket) -> Transaction:
        """Make one attempt, and account for it, however it ends."""
        response: Response | None = None
        transaction: Transaction | None = None
        result = CANCELLED
        try:
            lookup.sent_at = ticket.started_at
            self._counts["attempts"] += 1
            self._counts["retries"] += lookup.attempts > 1
            self.outage.sent(ticket, lookup.reference, lookup.clock)
            keys = self._keys
            lookup.key_version, lookup.redact = keys.version, keys.redact  # the response is redacted with the same key
            headers = self._headers if lookup.headers is None else {**self._headers, **lookup.headers}
            is_fresh = lookup.needs_fresh_connection
            on_late = partial(self._learn, ticket, lookup.reference, lookup.redact)
            body = request_body(lookup.reference)
            request = Request("POST", self._url, headers, body, keys.authorization, is_fresh, on_late)
            with LookupPhase(lookup, "attempts", at_most=options.timeout, now=lookup.at):
                response = await self._transport.send(request)
            lookup.is_fresh = response.is_fresh
            transaction = parse_response(
                response, lookup.reference, redact=lookup.redact, not_found_messages=self._not_found_messages
            )
            result = FOUND
        except errors.PayClientError as error:
            error.args = (lookup.redact(error.message),)  # a transport may quote the response
            if isinstance(error, errors.TransportError):
                error.seconds = lookup.at - ticket.started_at
            failure = self.admission.judged(error, ticket, lookup.at)
            result = Result.of(failure)
            await self._discard_if_doubtful(error, response, lookup)
            if failure is not error:
                raise failure from None
            raise
        else:
            return transaction
        finally:
            self._counts["throttled"] += result.signal is Signal.THROTTLED
            self.admission.settle(ticket, lookup.reference, result, lookup.at)
            if lookup.observers or logger.isEnabledFor(logging.DEBUG):
                self._report(lookup, response, lookup.at - ticket.started_at, result, transaction)

    async def _discard_if_doubtful(
        self, error: errors.PayClientError, response: Response | None, lookup: Lookup
    ) -> None:
        """Use a fresh connection from now on if others may be out of step or dead, and close the one of *response*."""
        is_doubtful = classify(error).again is Again.ONCE or (names_no_reference(error) and not lookup.is_fresh)
        lookup.needs_fresh_connection |= is_doubtful or isinstance(error, errors.AttemptTimeoutError)
        if response is not None and self._discard is not None and is_doubtful:
            with LookupPhase(lookup, "attempts"):
                await self._discard(response)

    def _learn(self, ticket: Ticket, reference: str, redact: Callable[[str], str], response: Response) -> None:
        """Learn from the late response to an attempt whose caller has left."""
        result = FOUND
        try:
            parse_response(response, reference, redact=redact, not_found_messages=self._not_found_messages)
        except errors.PayClientError as error:
            result = Result.of(error)
        if not self._is_closed and self._clock is not None:
            self.admission.settle(ticket, reference, result, self._clock.now(), is_late=True)

    def _report(
        self, lookup: Lookup, response: Response | None, seconds: float, result: Result, found: Transaction | None
    ) -> None:
        status = None if response is None else response.status_code
        extra = {"reference": lookup.reference, "attempt": lookup.attempts, "status": status, "seconds": seconds}
        message = "attempt %(attempt)d: status %(status)s in %(seconds).3f s, " + (result.name or "found")
        logger.debug(message, extra, extra=extra)
        names = (text.partition(":")[0] for text in (() if found is None else found.deviations))
        attempt = Attempt(
            reference=lookup.reference,
            number=lookup.attempts,
            status=status,
            seconds=seconds,
            error=result.name or None,
            url=self._url,
            request_id=None if response is None else request_id_of(response.headers, lookup.redact),
            deviations=tuple(name if name in _FIELDS else "other" for name in names),
            is_throttled=result.signal is Signal.THROTTLED,
        )
        lookup.notify(attempt)


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def closed(problem: str = "it has been closed") -> errors.ClientClosedError:
    return errors.ClientClosedError(f"this client cannot be used: {problem}")
