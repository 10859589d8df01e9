"""
The refusal of lookups in an outage: the rules of `Outage` on one client's clock, limiter and pending lookups.

Design rules:

- A lookup is refused wherever it waits: in the queue, in back-off, for an equal lookup, or for a response once the time
  allowed has passed since it began. It is the mechanism of its time-outs that ends it.
- One timer of the shared clock looks after silence. It is set by attempts only, so a client that is not used has none.
- An event loop that was blocked has not read the responses that have come, so a timer that is late decides nothing.
"""

from __future__ import annotations

import math

from attrs import define, field

from payclient._shared.logger import logger
from payclient.client._lookup import Lookup, LookupPhase
from payclient.client.policies import Clock, Limiter, Outage, Signal, Ticket
from payclient.errors import OutageError

_MAX_LATENESS = 0.1
"""Seconds by which a timer may be late on an event loop that is not blocked."""


@define(eq=False, repr=False)
class Refusals:
    """Refuses lookups in an outage."""

    _limiter: Limiter
    outage: Outage = field(init=False, factory=Outage)
    _clock: Clock | None = field(init=False, default=None)
    _fires_at: float = field(init=False, default=math.inf)

    def concerns(self, lookup: Lookup) -> bool:
        return self.outage.is_on and lookup.outage is not None

    def check(self, lookup: Lookup) -> None:
        if self.concerns(lookup):
            raise self._refusal(lookup)

    def probe(self, lookup: Lookup) -> tuple[Ticket, float]:
        """Make *lookup* the probe of an outage; return its ticket and its time limit in seconds."""
        now = lookup.clock.now()
        ticket = None if self.outage.probe_due_in(now) else self._limiter.probe()
        if ticket is None:
            raise self._refusal(lookup)
        lookup.is_probe = True
        return ticket, self.outage.probe(now)

    def _refusal(self, lookup: Lookup) -> OutageError:
        error = lookup.refused()
        error.retry_after = max(error.retry_after, self._limiter.paused_seconds())
        if error.refused == 1:
            message = "no answer for %.1f s: lookups are refused until there is one; the last failure was %s"
            extra = {"seconds": error.outage_seconds, "failure": error.last_failure}
            logger.warning(message, error.outage_seconds, error.last_failure, extra=extra)
        return error

    # Attempts

    def sent(self, ticket: Ticket, lookup: Lookup) -> None:
        self.outage.sent(ticket, lookup.reference)
        if self._fires_at == math.inf:
            self._clock = lookup.clock
            self._schedule(ticket.started_at + self.outage.allowed)

    def ended(
        self,
        ticket: Ticket,
        lookup: Lookup,
        failure: str | None,  # "" if the service answered, None if the attempt was given up
        *,
        signal: Signal,
        is_over: bool,  # its deadline has ended it
        is_final: bool,  # every lookup ends with its error, although the service has said nothing
        pause: float | None,
    ) -> None:
        outage, now = self.outage, lookup.clock.now()
        lookup.is_probe = False  # its attempt was; in a later outage it is refused as others are
        if is_final or failure == "":
            if outage.answered(ticket, now, is_accepted=signal is Signal.ACCEPTED, is_final=is_final):
                logger.info("lookups are sent again")
                self._limiter.controller.start_slowly()  # all those who were refused may come back at once
            return
        was_on = outage.is_on
        if failure is None:
            outage.given_up(ticket, now, is_over=is_over)
        else:
            outage.failed(ticket, now, failure, pause=pause or 0.0)
        if outage.is_on and not was_on:
            self._refuse_pending(now)
        elif outage.due_at() < self._fires_at and not outage.is_on:
            self._schedule(max(now, outage.due_at()))

    # Time

    def stop(self) -> None:
        self._fires_at = math.inf
        if self._clock is not None:
            self._clock.cancel(self)

    def fire(self) -> None:
        """Begin the outage if it is due, and refuse the lookups that have waited long enough."""
        assert self._clock is not None  # noqa: S101  it has called this
        now, late = self._clock.now(), self._clock.now() - self._fires_at
        self._fires_at = math.inf
        if late > _MAX_LATENESS:
            self._schedule(now + _MAX_LATENESS)
            return
        self.outage.check(now)
        if self.outage.is_on:
            self._refuse_pending(now)
        elif (due_at := self.outage.due_at()) < math.inf:
            self._schedule(due_at)

    def _refuse_pending(self, now: float) -> None:
        assert self._clock is not None  # noqa: S101  an attempt was sent
        following = math.inf
        for phase in self._clock.pending():
            if not isinstance(phase, LookupPhase):
                continue
            when = phase.refused_at(self.outage.allowed)
            if when <= now:
                phase.refuse()
            else:
                following = min(following, when)
        if following < self._fires_at:
            self._schedule(following)

    def _schedule(self, when: float) -> None:
        assert self._clock is not None  # noqa: S101  as above
        self._fires_at = when
        self._clock.schedule(self, when)
