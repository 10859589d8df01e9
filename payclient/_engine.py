"""
One lookup from admission to answer: the loop that executes the policies.

Design rules:

- A slot is held during an attempt and never during a wait.
- Whatever ends an attempt, its slot is given back, together with what the attempt showed.
- Errors are raised outside of the handlers that caught foreign ones, so that no traceback drags
  the HTTP library's frames, and with them the request, along.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable

from attrs import define

from payclient import _wire
from payclient._alarm import Clock
from payclient._config import Options
from payclient._http import Request, Response
from payclient._limiter import Limiter
from payclient._lookup import Lookup
from payclient._models import Transaction
from payclient._retry import Again, Retries, judge
from payclient._secret import ApiKey
from payclient._signal import Signal
from payclient._telemetry import Attempt, Stats, logger
from payclient.errors import (
    ClientClosedError,
    DeadlineExceededError,
    PayClientError,
    RateLimitedError,
    ResponseError,
)
from payclient.transports import Transport


@define
class _Counts:
    lookups: int = 0
    attempts: int = 0
    retries: int = 0
    throttled: int = 0


class Engine:
    """
    What all views of one client share: transport, limiter, key, counters and the client's life.

    Args:
        transport: Carries the attempts; closed with the engine.
        url: The address of the operation.
        api_key: Added to each request as it is written.
        user_agent: Names us to the service.
        max_concurrency: What the limiter never exceeds.
        max_rate: Attempts per second of all workers together, at most; None for no such bound.
        workers: How many clients share the key.
        random: Draws from 0 to 1, for jitter.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        url: str,
        api_key: ApiKey,
        user_agent: str,
        max_concurrency: int,
        max_rate: float | None,
        workers: int,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.max_concurrency = max_concurrency
        self._transport = transport
        self._url = url
        # Kept as methods, or each lookup would make them anew.
        self._authorization, self._redact = api_key.authorization, api_key.redact
        self._headers = _wire.request_headers(user_agent)
        self._random = random
        self._limiter = Limiter(max_concurrency=max_concurrency, max_rate=max_rate, workers=workers, random=random)
        self._workers = workers
        self._counts = _Counts()
        self._process = os.getpid()
        self._clock: Clock | None = None
        self._is_closed = False
        self._under_way = 0
        self._drained = asyncio.Event()

    # Life

    def check_usable(self) -> Clock:
        """
        Return the running event loop's clock; bind to that loop at the first use, and refuse any other.

        Raises:
            ClientClosedError: After close, after a fork, or in another event loop.
        """
        if self._is_closed:
            problem = "it has been closed"
        elif self._process != os.getpid():  # before asking for the loop, which does not survive a fork either
            problem = "it was made in another process; make a client after the fork"
        elif (clock := self._its_clock()) is None:
            problem = "it belongs to another event loop; make one client per loop"
        else:
            return clock
        message = f"this client cannot be used: {problem}"
        raise ClientClosedError(message)

    def _its_clock(self) -> Clock | None:
        loop = asyncio.get_running_loop()
        if self._clock is None:
            self._clock = Clock(loop)
        return self._clock if self._clock.loop is loop else None

    async def aclose(self, *, grace: float) -> None:
        """
        Refuse new lookups, let attempts under way end for *grace* seconds, then close the transport.

        In another process or event loop than its own, the engine is only marked: the connections
        are not ours to close there.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._process != os.getpid() or (clock := self._its_clock()) is None:
            return
        self._limiter.close(_closed)
        try:
            if self._under_way:
                async with asyncio.timeout(grace):
                    await self._drained.wait()
        except TimeoutError:
            logger.debug("closing with %d lookups under way", self._under_way)
        finally:
            clock.rest()
            await self._transport.aclose()

    def share(self, max_rate: float | None, workers: int | None) -> None:
        """Divide the rate, and what the limiter adapts, among as many workers, or as many as before."""
        self._workers = workers or self._workers
        self._limiter.share(max_rate, self._workers)

    def stats(self) -> Stats:
        """Return a snapshot of the counters."""
        counts, limiter = self._counts, self._limiter
        return Stats(
            lookups=counts.lookups,
            attempts=counts.attempts,
            retries=counts.retries,
            throttled=counts.throttled,
            in_flight=limiter.in_flight,
            limit=limiter.limit,
            paused_seconds=limiter.paused_seconds(),
        )

    # Lookups

    async def look_up(self, lookup: Lookup, options: Options) -> Transaction:
        """Ask until there is an answer, or a reason to stop; *lookup* keeps the account."""
        self._counts.lookups += 1
        self._under_way += 1
        try:
            return await self._ask(lookup, options)
        except PayClientError as error:
            error.attempts = lookup.attempts
            raise
        finally:
            self._under_way -= 1
            if self._is_closed and not self._under_way:
                self._drained.set()

    async def _ask(self, lookup: Lookup, options: Options) -> Transaction:
        request = _wire.build_request(
            self._url, lookup.reference, headers=self._headers, authorization=self._authorization
        )
        retries: Retries | None = None  # nearly no lookup needs any
        while True:
            self._check_patience(lookup, options)
            try:
                return await self._attempt(request, lookup, options)
            except DeadlineExceededError:
                raise
            except PayClientError as error:
                lookup.last_error = error
                retries = retries or Retries(options.retry, random=self._random)
                delay = retries.delay(judge(error))
                if delay is None or self._is_closed:
                    raise
            if delay:
                await lookup.spend("backoff", asyncio.sleep(delay))

    def _check_patience(self, lookup: Lookup, options: Options) -> None:
        """Raise at once when the service's pause outlasts the time that the lookup has."""
        pause = self._limiter.paused_seconds()
        if not pause or pause <= lookup.patience(options.retry.longest_pause):
            return
        if isinstance(lookup.last_error, ResponseError) and lookup.last_error.retry_after is not None:
            raise lookup.last_error
        message = f"the service asked this client to wait; {pause:.0f} s of that remain"
        raise RateLimitedError(message, retry_after=pause)

    async def _attempt(self, request: Request, lookup: Lookup, options: Options) -> Transaction:
        ticket = self._limiter.acquire_now()
        if ticket is None:
            ticket = await lookup.spend("queued", self._limiter.acquire())
        lookup.attempts += 1
        self._counts.attempts += 1
        self._counts.retries += lookup.attempts > 1
        response: Response | None = None
        signal, pause, name = Signal.SILENT, None, "cancelled"
        try:
            response = await lookup.spend("attempts", self._transport.send(request), at_most=options.timeout)
            transaction = _wire.parse_response(response, lookup.reference, redact=self._redact)
            signal, name = Signal.ACCEPTED, ""
        except DeadlineExceededError:
            raise  # which cancelled the attempt
        except PayClientError as error:
            verdict, name = judge(error), type(error).__name__
            signal = verdict.signal
            if signal is Signal.THROTTLED and isinstance(error, ResponseError):
                self._counts.throttled += 1
                pause = error.retry_after
            if response is not None and verdict.again is Again.ONCE:
                # An accident of the way, which may still be out of step.
                await lookup.spend("attempts", self._transport.discard(response))
            raise
        else:
            return transaction
        finally:
            self._limiter.release(ticket, signal, retry_after=pause)
            if lookup.is_observed or logger.isEnabledFor(logging.DEBUG):
                self._report(lookup, response, ticket.started_at, name)

    def _report(self, lookup: Lookup, response: Response | None, began: float, error: str) -> None:
        seconds = lookup.now() - began
        status = None if response is None else response.status_code
        logger.debug("attempt %d: status %s in %.3f s, %s", lookup.attempts, status, seconds, error or "found")
        if lookup.is_observed:
            lookup.tell(
                Attempt(
                    reference=lookup.reference,
                    number=lookup.attempts,
                    status=status,
                    seconds=seconds,
                    error=error or None,
                )
            )


def _closed() -> ClientClosedError:
    message = "this client cannot be used: it has been closed"
    return ClientClosedError(message)
