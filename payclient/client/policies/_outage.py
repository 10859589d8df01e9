"""
Detect an outage of the service from the results of a client's attempts, without a queue or a clock.

1.  An attempt is answered by any response that shows a live service: a transaction, "not found", a refusal, a 429. It
    fails without a response, or with one that says nothing (5xx, 408, 425, malformed). A refused certificate or tunnel
    is final: every lookup is to have that error itself, which comes at once. It begins no outage, and
    three in a row end one: among other failures it may have the same cause.
2.  The time allowed is 0.8 s, or twice the slowest of the recent responses, if that is longer: a service that takes a
    second is allowed two. An attempt that has no response after it waits in vain; one that is given up then has failed.
    Before the first response, slow is not told from silent: only errors, time-outs and deadlines count.
3.  An outage begins when nothing was answered for the time allowed, and three attempts in a row for two references, or
    ten for one, have failed or wait in vain. A few failures among responses are none, and neither is one lookup that
    fails alone: it has its retries. The first response ends it.
4.  In an outage lookups are refused, except one a second, the probe: a second after the last attempt of anybody, and
    after a pause that the service asked for. Whether the probe before has ended does not matter.
5.  A probe has the time allowed. Every ten seconds one has the whole time-out of an attempt, so that a service that
    comes back slowly, or is asked rarely, is found too.

Sources: "Site Reliability Engineering", chapter "Handling Overload": clients reject requests locally; the circuit
breaker of "Release It!" (Nygard), without a half-open state: the limiter starts slowly.
"""

from __future__ import annotations

import math

from payclient._shared.escape import plural
from payclient.client.policies._concurrency import Ticket
from payclient.client.policies._retry import Signal, classify
from payclient.errors import OutageError, PayClientError, ResponseError, ServiceError, TransportError

_MIN_ALLOWED = 0.8  # seconds; a caller has an error within a second
_SLOWER = 2.0  # times the slowest of the recent responses
_FORGETTING = 0.1  # weight of a faster response; a slower one counts at once
_MIN_ROUND_TRIP = 1e-6  # seconds; in a test a response may take no time
_ATTEMPTS, _REFERENCES, _ATTEMPTS_OF_ONE = 3, 2, 10
_PROBE_GAP = 1.0  # seconds
_LONG_PROBE_GAP = 10.0


def is_answer(error: PayClientError) -> bool:
    """Return whether *error* shows that the service is alive."""
    is_failure = isinstance(error, ServiceError) or classify(error).signal is Signal.OVERLOADED
    return isinstance(error, ResponseError) and not is_failure


def is_final(error: PayClientError) -> bool:
    """Return whether every lookup ends with *error*, although the service has said nothing."""
    return isinstance(error, TransportError) and classify(error).is_fatal


def _are_enough(attempts: int, references: set[str]) -> bool:
    return attempts >= (_ATTEMPTS if len(references) >= _REFERENCES else _ATTEMPTS_OF_ONE)


class Outage:
    """The state of an outage; all times are on the event loop's clock."""

    def __init__(self) -> None:
        self.allowed: float = _MIN_ALLOWED  # seconds that a response may take
        self.refused: int = 0  # lookups, in all outages together
        self._refused_before = 0
        self._slowest = 0.0  # of the recent responses; 0: none yet
        self._in_flight: dict[int, tuple[float, str]] = {}  # start and reference of each attempt, in order
        self._answered_at = self._probe_due_at = self._long_probe_at = -math.inf
        self._forget()

    def _forget(self) -> None:
        self.is_on: bool = False
        self.last_failure: str = ""  # class and text, since the last response
        self._failures = self._finals = 0  # each in a row
        self._references: set[str] = set()  # that failed; two are enough
        self._since = math.inf  # start of the first attempt that failed

    def seconds(self, now: float) -> float:
        return now - self._since if self.is_on else 0.0

    # Attempts

    def sent(self, ticket: Ticket, reference: str) -> None:
        self._in_flight[ticket.number] = ticket.started_at, reference
        self._probe_due_at = max(self._probe_due_at, ticket.started_at + _PROBE_GAP)

    def answered(self, ticket: Ticket, now: float, *, is_accepted: bool, is_final: bool = False) -> bool:
        """Record a response, and return whether it ends an outage in which lookups were refused."""
        del self._in_flight[ticket.number]
        self._finals += is_final
        if is_final and not (self.is_on and self._finals >= _ATTEMPTS):
            return False
        if is_accepted:
            took = now - ticket.started_at
            self._slowest = max(took, self._slowest + _FORGETTING * (took - self._slowest), _MIN_ROUND_TRIP)
            self.allowed = max(_MIN_ALLOWED, _SLOWER * self._slowest)
        self._answered_at = now
        has_refused = self.is_on and self.refused > self._refused_before
        if self._failures or self.is_on:
            self._forget()
        return has_refused

    def failed(self, ticket: Ticket, now: float, failure: str, *, pause: float = 0.0) -> None:
        began, reference = self._in_flight.pop(ticket.number)
        self._failures, self._finals = self._failures + 1, 0
        if len(self._references) < _REFERENCES:
            self._references.add(reference)
        self._since = min(self._since, max(began, self._answered_at))
        self._probe_due_at = max(self._probe_due_at, now + pause)
        self.last_failure = failure
        if _are_enough(self._failures, self._references) and now >= self._since + self.allowed:
            self._begin(now)

    def given_up(self, ticket: Ticket, now: float, *, is_over: bool) -> None:
        """Record an attempt that was cancelled, or, if *is_over*, ended by the deadline of its lookup."""
        took = now - ticket.started_at
        if took >= self.allowed and (is_over or self._slowest):
            self.failed(ticket, now, self.last_failure or f"no answer within {took:.1f} s")
        else:
            del self._in_flight[ticket.number]

    def forget(self, ticket: Ticket) -> None:
        """Drop an attempt whose end could not be recorded; no effect on others."""
        self._in_flight.pop(ticket.number, None)

    # The beginning

    def due_at(self) -> float:
        """Return when an outage begins if nothing is answered until then; infinite if that takes more attempts."""
        attempts, references, since = self._failures, {*self._references}, self._since
        waiting = iter(self._in_flight.values() if self._slowest else ())
        while not _are_enough(attempts, references):
            since, reference = next(waiting, (math.inf, ""))
            if since == math.inf:
                break
            attempts += 1
            references.add(reference)
        return max(since, self._answered_at) + self.allowed

    def check(self, now: float) -> None:
        if not self.is_on and self.due_at() <= now:
            self._begin(now)

    def _begin(self, now: float) -> None:
        if self.is_on:
            return
        self.is_on, self._refused_before, self._long_probe_at = True, self.refused, now
        oldest, _ = next(iter(self._in_flight.values()), (math.inf, ""))
        self._since = min(self._since, max(oldest, self._answered_at))
        self.last_failure = self.last_failure or f"no answer to {plural(len(self._in_flight), 'attempt')} in flight"

    # Lookups in an outage

    def probe_due_in(self, now: float) -> float:
        return max(0.0, self._probe_due_at - now)

    def probe(self, now: float) -> float:
        """Return the seconds that a probe may take that is sent now."""
        if now < self._long_probe_at + _LONG_PROBE_GAP:
            return self.allowed
        self._long_probe_at = now
        return math.inf

    def refuse(self, now: float) -> OutageError:
        self.refused += 1
        return OutageError(
            f"the service does not answer; the last failure was {self.last_failure}",
            sent="no",
            last_failure=self.last_failure,
            outage_seconds=self.seconds(now),
            retry_after=self.probe_due_in(now) or _PROBE_GAP,
            refused=self.refused - self._refused_before,
        )
