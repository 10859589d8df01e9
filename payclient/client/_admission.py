"""
Admission: who may make an attempt now, who waits, and who is refused because waiting is useless.

A lookup gets a slot at once, or in its turn, or as the probe of an outage. The end of an attempt is reported to the
outage and the limiter. They decide about the next attempts.

A reference that is refused again (429), while others are accepted, isn't refused for the load: that says nothing about
the others, so the limiter does not hear of it. Such a reference backs off, and waits out its own pause. Its first
refusals count, and so do refusals of many references: a service may refuse a share of all. Of two that wait, the one
refused in a row goes last. Otherwise it would take the only slot after each pause.
"""

import math
from collections.abc import Collection
from contextlib import ExitStack
from typing import Self

from attrs import Factory, define, field, frozen

from payclient import errors
from payclient._shared.logger import logger
from payclient.client._lookup import Lookup, LookupPhase
from payclient.client._outage import End, Outage, State
from payclient.client.policies import Limiter, Priority, Signal, Ticket, classify, pause_of


@frozen
class Result:
    """How an attempt ended, for outage, limiter and observers."""

    name: str  # the class of its error; "" for a transaction
    end: End = End.LEFT
    signal: Signal = Signal.SILENT
    failure: str = ""  # class and text
    pause: float = 0.0  # seconds that the service asks for
    status: int = 0

    @classmethod
    def of(cls, error: errors.PayClientError) -> Self:
        name, verdict = type(error).__name__, classify(error)
        if isinstance(error, errors.TransportError) and not isinstance(error, errors.OutageError):
            return cls(name, End.FINAL if verdict.is_fatal else End.FAILED, verdict.signal, f"{name}: {error}")
        if not isinstance(error, errors.ResponseError):
            return cls(name)  # it was cut short, or the transport is closed
        status, signal = error.status_code, verdict.signal
        if signal is Signal.ACCEPTED:
            end = End.ACCEPTED
        elif signal is Signal.OVERLOADED or isinstance(error, errors.ServiceError):
            end = End.FAILED
        else:
            end = End.LIMITED if isinstance(error, errors.RateLimitedError) and status >= 500 else End.REFUSED
        pause = pause_of(error) if signal is Signal.THROTTLED else 0.0
        return cls(name, end, signal, f"{name}: {error}", pause, status)


@frozen
class Refused:
    """A reference that was refused last time."""

    at: float = -math.inf
    times: int = 0  # in a row
    chance: float = 1.0  # how likely that is, if the load was the reason
    is_alone: bool = False  # the load was not the reason: others were accepted since, and it is too unlikely
    until: float = -math.inf  # the end of the pause that the service asked for, if it is alone


_WEIGHT = 0.03  # weight of an attempt in the refused share
_ALONE = 0.0005  # chance of a row of refusals below which the load was not the reason
_LAST = 0.05  # chance below which others go first. Else who has waited longest does, or he would wait for ever
_MAX_REFUSED, _MAX_AGE = 1000, 600.0  # references, and seconds
NOT_REFUSED = Refused()
FOUND = Result("", End.ACCEPTED, Signal.ACCEPTED)
CANCELLED = Result("cancelled")


@define(eq=False, repr=False)
class Admission:
    """The queue, the outage and the pause of one client."""

    limiter: Limiter
    _lookups: Collection[Lookup]  # unfinished ones
    outage: Outage = field(init=False, default=Factory(lambda self: Outage(self.limiter, self._lookups), True))
    refused: dict[str, Refused] = field(init=False, factory=dict)
    _share: float = field(default=0.5, init=False)  # refused share of the recent attempts. At first a guess
    _accepted_from: float = field(default=-math.inf, init=False)  # start of the last accepted attempt
    _told_until: float = field(default=-math.inf, init=False)  # the end of the last reported pause

    async def admit(self, lookup: Lookup) -> Ticket:
        """Return a slot for the next attempt of *lookup*, which may be a probe, or raise the reason against it."""
        failure: errors.OutageError | None = None
        if self.outage.state is not State.OUT or not self.is_rejected(lookup):
            if (ticket := self.limiter.acquire_now(lookup.priority)) is not None:
                lookup.at = ticket.started_at
                return ticket
            try:
                return await self._queue(lookup)
            except errors.OutageError as error:
                failure = error
        if (probe := self.outage.probe(lookup.reference)) is None:
            raise failure or self.outage.rejection()
        return probe

    def settle(self, ticket: Ticket, reference: str, result: Result, now: float, *, is_late: bool = False) -> None:
        """Report the end of an attempt to the outage and the limiter. It is *late* if its slot was freed before."""
        signal, pause = Signal.OVERLOADED if result.end is End.LIMITED else result.signal, result.pause
        if result.signal is Signal.THROTTLED and self._is_alone(reference, pause, now):
            signal, pause = Signal.SILENT, 0.0
        elif signal is Signal.ACCEPTED:
            self._share -= _WEIGHT * self._share
            self._accepted_from = ticket.started_at
            if self.refused:
                self.refused.pop(reference, None)
        try:
            if not (is_late and result.end is End.FAILED):  # it was left before, and counted then
                self.outage.ended(ticket, reference, now, result.end, result.failure, result.status)
            if signal is Signal.OVERLOADED and not self.outage.is_evidence(reference, result.status, now):
                signal = Signal.SILENT
        finally:
            self.limiter.release(ticket, signal, pause=pause, now=now, is_late=is_late, is_found=result is FOUND)
        if pause:
            self._tell_of_pause(result.status)

    def _is_alone(self, reference: str, pause: float, now: float) -> bool:
        """Note a refusal of *reference*, and return whether it is about that, and not about the load."""
        before = self.refused.pop(reference, NOT_REFUSED)
        times = before.times + 1 if now < before.at + _MAX_AGE else 1
        chance = self._share**times if times > 1 else 1.0
        is_alone = chance < _ALONE and before.at < self._accepted_from
        self._share += _WEIGHT * (1 - self._share)
        self.refused[reference] = Refused(now, times, chance, is_alone, now + pause if is_alone else -math.inf)
        if len(self.refused) > _MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
        return is_alone

    def judged(self, error: errors.PayClientError, ticket: Ticket, now: float) -> errors.PayClientError:
        """Return *error*, or a `RateLimitedError` if its status looks like a failure, but means a limit here."""
        if not isinstance(error, errors.ServiceError) or error.asked_pause is not None:
            return error
        if not self.outage.is_limit(error.status_code, now - ticket.started_at, now):
            return error
        message = f"the service limits requests: it refuses some at once, and answers others (HTTP {error.status_code})"
        fields = {name: getattr(error, name) for name in ("status_code", "headers", "body", "request_id")}
        return errors.RateLimitedError(message, service_message=error.service_message, **fields)

    async def _queue(self, lookup: Lookup) -> Ticket:
        try:
            with ExitStack() as on_failure:  # time of the clock that the phase reads
                with LookupPhase(lookup, "queued"):
                    began_at, refused = lookup.began_at, self.refused.get(lookup.reference, NOT_REFUSED)
                    if refused.chance < _LAST:  # others go first, even if they begin in a pause
                        began_at = max(began_at, refused.at, self.limiter.paused_until)
                    ticket = await self.limiter.acquire(
                        lookup.priority, began_at=began_at, until=lookup.until, is_again=lookup.attempts > 0
                    )
                    on_failure.callback(self.limiter.release, ticket, Signal.SILENT)
                on_failure.pop_all()
                return ticket
        except (errors.DeadlineExceededError, errors.OverloadedError) as error:
            reasons, failure = [error.message], self.outage.last_failure
            if pause := self.limiter.paused_seconds():
                reasons += [f"the service asked for a pause: {pause:.0f} s remain"]
            else:
                reasons += [f"the last failure of this client was {failure}"] * (failure not in error.message)
                reasons.append(self.limiter.bound())
            error.args = ("; ".join(reasons),)
            raise

    # In vain

    def is_rejected(self, lookup: Lookup) -> bool:
        return lookup.is_rejectable and self.outage.is_on

    def too_late(self, lookup: Lookup) -> errors.PayClientError | None:
        """Return the error for a lookup that waits, and has less time than the pause lasts."""
        last, own = lookup.last_error, self.refused.get(lookup.reference, NOT_REFUSED).until
        pause = max(self.limiter.paused_seconds(), own - lookup.clock.now())
        remaining = lookup.max_pause if lookup.until == math.inf else lookup.until - lookup.clock.now()
        if pause <= 0 or lookup.is_in_flight or pause <= remaining:
            return None
        if isinstance(last, errors.ResponseError) and last.asked_pause is not None:
            return last
        return errors.RateLimitedError("the service asked this client to wait", asked_pause=pause)

    def check(self, lookup: Lookup) -> None:
        """Raise at once when *lookup* would wait in vain for another one, or for its own probe."""
        if failure := self.outage.rejection() if self.is_rejected(lookup) else self.too_late(lookup):
            raise failure

    def is_cut_short(self, lookup: Lookup, error: errors.CouldNotAskError) -> bool:
        """Return whether *error* is only about this lookup: others may have more time, or wait out an outage."""
        is_own = isinstance(error, errors.OverloadedError) or lookup.priority is Priority.BULK
        return is_own or bool(self.too_late(lookup)) or self.is_rejected(lookup)

    def tell(self, lookup: Lookup, error: errors.CouldNotAskError) -> None:
        """Complete an error for its caller: an outage counts it, and a pause has the time to ask again."""
        if isinstance(error, errors.OutageError):
            lookup.record_failure(error)
        self.outage.count(error, lookup.reference)
        if pause := self.limiter.paused_seconds():
            is_shorter = isinstance(error, errors.ResponseError) and pause + 1 < error.retry_after
            error.retry_after = pause if is_shorter else max(pause, error.retry_after)

    def _tell_of_pause(self, status: int) -> None:
        """Log a new pause, once instead of once per attempt in flight, and end the waits that would end in it."""
        if self.limiter.paused_until <= self._told_until + 1:
            return
        self._told_until, seconds = self.limiter.paused_until, self.limiter.paused_seconds()
        extra = {"status": status, "seconds": seconds}
        logger.warning("the service asks for a pause of %(seconds).3g s (status %(status)s)", extra, extra=extra)
        for lookup in tuple(self._lookups):
            if failure := self.too_late(lookup):
                lookup.reject(failure)
