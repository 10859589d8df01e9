"""
Detect that the service answers no lookup, and reject the lookups that would wait for it.

| state | what is known | a lookup that arrives | one that waits | one in flight |
|---|---|---|---|---|
| quiet | the last attempt was answered | queues | goes on | has `timeout` |
| suspected | since the last answer attempts have failed, or are silent | queues | goes on | has `timeout` |
| paused | the service asked to wait | queues, or fails if its time ends first | likewise | has `timeout` |
| out | nothing was answered for the time allowed | probes, or is rejected | likewise | has twice that since it began |

A lookup waits in the queue, in back-off, or for an equal lookup that waits. Polls, rows of a stream and lookups that
are to wait (`on_outage`) are never rejected: for them *out* is the same as *suspected*. No probe is sent in a pause.

1.  An attempt is answered by any response that shows a live service: a transaction, "not found", a refusal, a 429. It
    fails without a response, or with one that says nothing (5xx, 408, 425, malformed). An untrusted certificate or a
    refused tunnel is final: each lookup gets that error at once. It never starts an outage, and three in a row end one.
2.  The time allowed is 1.3 s, one retransmission of TCP (RFC 6298), or twice the slowest of the recent responses, if
    that is longer. An attempt without a response by then is silent. Before the first response no attempt is. An attempt
    that its caller gives up says nothing; one that a deadline ends after that time has failed.
3.  An outage begins when nothing was answered for the time allowed, and three attempts in a row for two references, or
    ten for one, have failed or are silent. If all have failed, 0.8 s are enough instead of 1.3 s. A reference that has
    failed counts again, here and for the limiter, once it has been answered: two that always fail do not make
    an outage. The first response ends it.
4.  A probe is sent for a new or a queued lookup, at least a second after the last probe. If its
    reference has failed or was rejected before, or is in flight, no attempt may have been sent for a second. So a
    reference that always fails takes no probe from the others.
5.  A probe belongs to the client: it has a new connection and the whole `timeout`. Its caller gets a rejection after
    the time allowed, or leaves; the response still counts.
6.  After an outage the limiter starts slowly: all rejected lookups may come back at once.

Sources: "Site Reliability Engineering", chapter "Handling Overload": clients reject requests locally; the circuit
breaker of "Release It!" (Nygard), with probes instead of a half-open state.
"""

import math
from collections.abc import Collection
from typing import Protocol

from payclient._shared.escape import plural
from payclient._shared.logger import logger
from payclient.client.policies import Clock, Limiter, Ticket
from payclient.errors import OutageError

_MIN_ALLOWED = 1.3  # seconds of silence
_MIN_FAILING = 0.8  # seconds of failures
_SLOWER = 2.0  # times the slowest of the recent responses
_FORGETTING = 0.1  # weight of a faster response; a slower one counts at once
_MIN_ROUND_TRIP = 1e-6  # seconds; in a test a response may take no time
_ATTEMPTS, _REFERENCES, _ATTEMPTS_OF_ONE = 3, 2, 10
_PROBE_GAP = 1.0  # seconds
_MAX_FAILING = 1000  # references


class Rejectable(Protocol):
    """A lookup that an outage may end."""

    def rejected_at(self, allowed: float) -> float: ...

    def reject(self, error: OutageError) -> None: ...


class Outage:
    """The evidence of one client's attempts about the service, and the lookups that may be rejected."""

    _clock: Clock  # of the first attempt; nothing is done before

    def __init__(self, limiter: Limiter, lookups: Collection[Rejectable] = ()) -> None:
        self.allowed: float = _MIN_ALLOWED  # seconds that a response may take
        self.rejected: int = 0  # lookups, in all outages together
        self._limiter, self._lookups = limiter, lookups
        self._fires_at = math.inf
        self._slowest = 0.0  # of the recent responses; 0: none yet
        self._in_flight: dict[int, tuple[float, str]] = {}  # start and reference of each attempt, in order
        self._failing: dict[str, float] = {}  # not answered since: when it first failed; infinite if only rejected
        self._answered_at = self._sent_at = self._probed_at = -math.inf
        self._rejected_before = 0
        self._forget()

    def _forget(self) -> None:
        self.is_on: bool = False
        self.last_failure: str = ""  # class and text, since the last response
        self._failures = self._finals = self._last_final = 0  # each in a row, and the number of the last final one
        self._references: set[str] = set()  # that failed; two are enough
        self._since = math.inf  # start of the first attempt that failed

    def seconds(self) -> float:
        return self._clock.now() - self._since if self.is_on else 0.0

    # Attempts

    def sent(self, ticket: Ticket, reference: str, clock: Clock) -> None:
        self._in_flight[ticket.number] = ticket.started_at, reference
        self._sent_at, self._clock = ticket.started_at, clock
        if self._fires_at == math.inf:
            self._schedule(ticket.started_at + self.allowed)

    def ended(self, ticket: Ticket, now: float, failure: str | None, *, is_over: bool, is_final: bool) -> None:
        """Record an attempt that ended with *failure*, or, if that is None, was given up or ended by a deadline."""
        took = now - ticket.started_at
        if is_final:
            self._finals, self._last_final = self._finals + 1, ticket.number
            if self.is_on and self._finals >= _ATTEMPTS:
                self.answered(ticket, now, is_accepted=False)
        elif failure is not None:
            self._failed(ticket, now, failure)
        elif is_over and took >= self.allowed:
            self._failed(ticket, now, self.last_failure or f"no answer within {took:.1f} s")
        self._in_flight.pop(ticket.number, None)

    def answered(self, ticket: Ticket, now: float, *, is_accepted: bool) -> None:
        _, reference = self._in_flight.pop(ticket.number)
        self._failing.pop(reference, None)
        if is_accepted:
            took = now - ticket.started_at
            self._slowest = max(took, self._slowest + _FORGETTING * (took - self._slowest), _MIN_ROUND_TRIP)
            self.allowed = max(_MIN_ALLOWED, _SLOWER * self._slowest)
        self._answered_at = now
        if self.is_on and self.rejected > self._rejected_before:
            logger.info("lookups are sent again")
            self._limiter.capacity.recover()
        if self._failures or self.is_on:
            self._forget()

    def _failed(self, ticket: Ticket, now: float, failure: str) -> None:
        began, reference = self._in_flight.pop(ticket.number)
        self.last_failure = failure
        if ticket.number > self._last_final:  # else it was sent before, perhaps a probe that nothing has answered
            self._finals = 0
        self._failing[reference] = min(now, self._failing.get(reference, now))
        if self.is_evidence(reference):
            self._failures += 1
            self._references |= {reference} if len(self._references) < _REFERENCES else set()
            self._since = min(self._since, max(began, self._answered_at))
        while len(self._failing) > _MAX_FAILING:
            del self._failing[next(iter(self._failing))]
        if self.is_on:
            return
        if (due_at := self.due_at()) <= now:
            self._begin(now)
        elif due_at < self._fires_at:
            self._schedule(due_at)

    def is_evidence(self, reference: str) -> bool:
        """Return whether a failure of *reference* says something about the service: it is not one that always fails."""
        return self._failing.get(reference, math.inf) >= self._answered_at

    # The beginning

    def due_at(self) -> float:
        """Return when an outage begins if nothing is answered until then; infinite if that takes more attempts."""
        attempts, references = self._failures, {*self._references}
        since, allowed = self._since, max(_MIN_FAILING, _SLOWER * self._slowest)
        silent = iter(self._in_flight.values() if self._slowest else ())
        while attempts < (_ATTEMPTS if len(references) >= _REFERENCES else _ATTEMPTS_OF_ONE):
            began, reference = next(silent, (math.inf, ""))
            if began == math.inf:
                return math.inf
            if self.is_evidence(reference):
                attempts, since, allowed = attempts + 1, began, self.allowed
                references.add(reference)
        return max(since, self._answered_at) + allowed

    def fire(self) -> None:
        """Begin the outage if it is due, and reject the lookups whose time is over."""
        self._fires_at, now = math.inf, self._clock.now()
        if self.is_on:
            self._reject_due(now)
        elif (due_at := self.due_at()) <= now:
            self._begin(now)
        elif due_at < math.inf:
            self._schedule(due_at)

    def _schedule(self, when: float) -> None:
        self._fires_at = when
        self._clock.schedule(self, when)

    def _begin(self, now: float) -> None:
        self.is_on, self._rejected_before = True, self.rejected
        oldest, _ = next(iter(self._in_flight.values()), (math.inf, ""))
        self._since = min(self._since, max(oldest, self._answered_at))
        self.last_failure = self.last_failure or f"no answer to {plural(len(self._in_flight), 'attempt')} in flight"
        self._reject_due(now)

    # Lookups

    def _reject_due(self, now: float) -> None:
        following = math.inf
        for waiting in tuple(self._lookups):
            if (when := waiting.rejected_at(_SLOWER * self.allowed)) <= now:
                waiting.reject(self.rejection())
            else:
                following = min(following, when)
        if following < self._fires_at:
            self._schedule(following)

    def probe(self, reference: str) -> Ticket | None:
        """Return a ticket if a lookup of *reference* is the probe now."""
        in_flight = (each for _, each in self._in_flight.values())
        now, is_first = self._clock.now(), reference not in self._failing and reference not in in_flight
        if now < (self._probed_at if is_first else self._sent_at) + _PROBE_GAP:
            self._failing.setdefault(reference, math.inf)  # so that one that comes again lets others go first
            return None
        if (ticket := self._limiter.probe()) is not None:
            self._sent_at = now  # another may ask before this one is sent
            self._probed_at = now if is_first else self._probed_at
        return ticket

    def rejection(self) -> OutageError:
        probe_due_in = max(0.0, self._probed_at + _PROBE_GAP - self._clock.now())
        return OutageError(
            f"the service does not answer; the last failure was {self.last_failure}",
            sent="no",
            last_failure=self.last_failure,
            outage_seconds=self.seconds(),
            retry_after=max(probe_due_in or _PROBE_GAP, self._limiter.paused_seconds()),
        )

    def count(self, error: OutageError) -> None:
        """Record that a caller is told of a rejection; until then its lookup may become the probe."""
        self.rejected += 1
        error.refused = self.rejected - self._rejected_before
        if error.is_first:
            message = "no answer for %.1f s: lookups are refused until there is one; the last failure was %s"
            extra = {"seconds": error.outage_seconds, "failure": error.last_failure}
            logger.warning(message, error.outage_seconds, error.last_failure, extra=extra)
