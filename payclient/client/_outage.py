"""
Detect that the service answers no lookup, and reject the lookups that would wait for it.

| state | what is known | a lookup that arrives or waits | one in flight |
|---|---|---|---|
| quiet | attempts are answered, or too few have failed since the last answer | queues | has `timeout` |
| out | no lookup is answered | probes, or is rejected | has twice the time allowed since it began |
| trial | it was out, and nothing was in flight for five seconds | queues; three failures: out | has `timeout` |

A lookup waits in the queue, in back-off, or for an equal lookup that waits. Polls, rows of a stream and lookups that
are to wait (`on_outage`) are never rejected: for them *out* is the same as *quiet*. No probe is sent in a pause. The
time allowed is 1.3 s, or twice the slowest of the recent responses.

1.  An attempt is answered by any response that shows a live service: a transaction, "not found", a refusal or a 429,
    even after its caller has left. It fails without a response, or with one that proves nothing (5xx, 408, 425,
    malformed). An untrusted certificate or a refused tunnel is final: each lookup gets that error at once. It never
    starts an outage, and three in a row end one.
2.  An outage begins when three attempts in a row for two references, or ten for one, have failed, were left or are in
    flight, without an answer between them. It takes 0.8 s if all have failed and 1.3 s if some were left, after more
    than a quarter of a second and twice the slowest recent response. It takes 1.8 s with some in flight, because a
    service that stalls for a moment can answer them, and twice the slowest recent response if that is longer. Before
    the first response, attempts in flight do not count.
3.  A failure is about its reference, and counts neither here nor for the limiter, if that has failed since before the
    last answer. So is a 500 or a malformed response within the time allowed after the answer to another reference, up
    to twenty in a row.
4.  A status alternates with answers if twice in thirty seconds a reference that failed with it is answered, and the
    second began to fail after the first was answered. References that the service cannot answer never do. Then a
    failure with this status is about the load. Within five seconds after an answer, it is the refusal of a limit if it
    took less than half the time of the slowest recent answer: others may get everything for some seconds.
5.  A probe is sent for a new or a queued lookup, at least a second after the last probe. If its reference has failed,
    was rejected or was the probe before, no attempt may have been sent for a second. So a reference that always fails
    takes no probe from the others.
6.  A probe belongs to the client: it has a new connection and the whole `timeout`. Its caller gets a rejection after
    the time allowed, or leaves. The response still counts.
7.  Evidence ages: after five seconds with nothing in flight it is void. An outage is then on trial.
8.  After an outage the limiter starts slowly: all rejected lookups may return at once.

Sources: "Site Reliability Engineering", chapter "Handling Overload": clients reject requests locally; the circuit
breaker of "Release It!" (Nygard).
"""

import math
from collections import defaultdict, deque
from collections.abc import Collection
from enum import Enum, auto
from itertools import chain
from typing import TypeAlias

from payclient._shared.escape import plural
from payclient._shared.logger import logger
from payclient.client._lookup import Lookup
from payclient.client.policies import Clock, Limiter, Ticket
from payclient.errors import CouldNotAskError, OutageError

_FAILED, _LEFT, _SILENT = 0.8, 1.3, 1.8  # seconds without an answer, by how the attempts have ended
_MIN_LEFT = 0.25  # seconds
_SLOWER = 2.0  # times the slowest of the recent responses
_FORGETTING = 0.1  # weight of a faster response. A slower one counts at once
_MIN_ROUND_TRIP = 1e-6  # seconds. In a test a response may take no time
_ATTEMPTS, _ATTEMPTS_OF_ONE = 3, 10
_PROBE_GAP = 1.0  # seconds
_BESIDE = 20  # maximum of failures in a row that are about their references
_MAX_AGE = 5.0  # seconds
_MAX_FAILING = 1000  # references
_SWITCHES, _ALTERNATING = 2, 30.0  # changes from failures to answers, in these seconds
_NEVER = math.inf, 0  # when a reference first failed, and the status of its last failure


_Evidence: TypeAlias = tuple[float, str, float]
"""Start and reference of an attempt, and the seconds until it is an outage."""


class End(Enum):
    """How an attempt ended, as evidence of whether the service answers."""

    ACCEPTED = auto()  # after the time that an answer takes
    REFUSED = auto()  # a live service may refuse sooner
    LIMITED = auto()  # refused at once, among answers
    FAILED = auto()
    FINAL = auto()  # failed, as every other will
    LEFT = auto()  # its caller left, or it was ended by this client


class State(Enum):
    """The evidence about the service."""

    QUIET, OUT, TRIAL = auto(), auto(), auto()


class Outage:
    """The evidence about the service from one client's attempts, and its lookups that may be rejected."""

    _clock: Clock  # the first attempt sets it

    def __init__(self, limiter: Limiter, lookups: Collection[Lookup] = ()) -> None:
        self.state = State.QUIET
        self.rejected: int = 0  # lookups, in all outages together
        self.last_failure: str = ""  # class and text, since the last response
        self.sent_at: float = -math.inf
        self.answered_at: float = -math.inf
        self._limiter, self._lookups = limiter, lookups
        self._slowest = 0.0  # of the recent responses. 0 before the first
        self._in_flight: dict[int, _Evidence] = {}  # by the number of the attempt, in order
        self._row: list[_Evidence] = []  # since the last answer
        self._told: dict[str, float] = {}  # references whose callers have had an error, with the last answer before it
        self._failing: dict[str, tuple[float, int]] = {}  # references, until they are answered. See `_NEVER`
        self._switches: dict[int, deque[float]] = defaultdict(lambda: deque([-math.inf] * _SWITCHES, _SWITCHES))
        self._fires_at = math.inf
        self._since = self._ended_at = self._accepted_at = self._probed_at = -math.inf
        self._rejected_before = 0
        self._failures = 0  # since the last transaction
        self._finals = self._last_final = 0  # final failures in a row; the number of the last

    @property
    def allowed(self) -> float:
        """The seconds that a response may take."""
        return max(_LEFT, _SLOWER * self._slowest)

    @property
    def is_on(self) -> bool:
        if self.state is State.OUT:
            self._age(self._clock.now())
        return self.state is State.OUT

    def seconds(self) -> float:
        """Return for how long no lookup was answered, as far as that was observed."""
        if not self.is_on:
            return 0.0
        now = self._clock.now()
        return (now if self._in_flight else min(now, self._ended_at + _PROBE_GAP)) - self._since

    def _age(self, now: float) -> None:
        """Forget the evidence after a long time with nothing in flight."""
        if not self._in_flight and now >= self._ended_at + _MAX_AGE:
            self._turn(State.QUIET if self.state is State.QUIET else State.TRIAL)

    def _turn(self, state: State) -> None:
        self.state, self._row, self._finals = state, [], 0

    # Attempts

    def sent(self, ticket: Ticket, reference: str, clock: Clock) -> None:
        now = ticket.started_at
        if now >= self.sent_at + _MAX_AGE:
            self._age(now)
        self._in_flight[ticket.number] = now, reference, _SILENT
        self.sent_at, self._clock = now, clock
        if self._fires_at == math.inf:
            self._schedule(now + _FAILED)

    def ended(self, ticket: Ticket, reference: str, now: float, end: End, failure: str = "", status: int = 0) -> None:
        """Record how an attempt ended. An attempt whose caller has left may be answered later."""
        self._in_flight.pop(ticket.number, None)
        self._ended_at, took = now, now - ticket.started_at
        if end in (End.ACCEPTED, End.REFUSED, End.LIMITED):
            self.answered_at = now
            if end is End.LIMITED:
                self._note(reference, now, status)
            elif reference in self._failing:
                self._switch(reference, now)
            if end is End.ACCEPTED:
                self._accepted_at, self._failures, took = now, 0, took or _MIN_ROUND_TRIP
                self._slowest += (1.0 if took > self._slowest else _FORGETTING) * (took - self._slowest)
            if self.last_failure:
                self._answered(now)
        elif end is End.FINAL:
            self._finals, self._last_final = self._finals + 1, ticket.number
            if self._finals >= _ATTEMPTS and self.is_on:
                self.answered_at = now
                self._answered(now)
        elif end is End.FAILED:
            self._finals *= ticket.number < self._last_final  # an earlier one may be a probe that hangs
            self._failed(ticket, reference, now, failure, status, _FAILED)
        elif took > max(_MIN_LEFT, _SLOWER * self._slowest):
            self._failed(ticket, reference, now, self.last_failure or f"no answer within {took:.1f} s", 0, _LEFT)

    def _answered(self, now: float) -> None:
        if self.rejected > self._rejected_before and self.state is not State.QUIET:
            logger.info("lookups are sent again")
            self._limiter.capacity.recover(now)
        self.last_failure = ""
        self._turn(State.QUIET)

    def _failed(self, ticket: Ticket, reference: str, now: float, failure: str, status: int, least: float) -> None:
        self._note(reference, now, status)
        self.last_failure, self._failures = failure, self._failures + 1
        if not self.is_on:
            if len(self._row) < _ATTEMPTS_OF_ONE and self.is_evidence(reference, status, now):
                self._row.append((ticket.started_at, reference, 0.0 if self.state is State.TRIAL else least))
            self._look(now)

    def _switch(self, reference: str, now: float) -> None:
        first_at, status = self._failing.pop(reference)
        if self._switches[status][-1] < first_at < math.inf:
            self._switches[status].append(now)

    def _note(self, reference: str, failed_at: float, status: int) -> None:
        self._failing[reference] = min(failed_at, self._failing.get(reference, _NEVER)[0]), status
        if len(self._failing) > _MAX_FAILING:
            del self._failing[next(iter(self._failing))]

    def is_evidence(self, reference: str, status: int, now: float) -> bool:
        """Return whether a failure with *status* is about the service, and not about *reference*."""
        is_of_program = status == 500 or status // 100 == 2  # failed, but not as a gateway or a limit does
        is_beside = is_of_program and now < self._accepted_at + self.allowed and not self._alternates(status, now)
        is_beside &= self._failures <= _BESIDE
        return self._failing.get(reference, _NEVER)[0] >= self.answered_at and not is_beside

    def _alternates(self, status: int, now: float) -> bool:
        return self._switches[status][0] > now - _ALTERNATING

    def is_limit(self, status: int, took: float, now: float) -> bool:
        """Return whether a failure with *status*, after *took* seconds, is the refusal of a limit."""
        is_sooner = _SLOWER * took < self._slowest and now < self._accepted_at + max(self.allowed, _MAX_AGE)
        return is_sooner and self._alternates(status, now)

    # The beginning

    def due_at(self) -> float:
        """Return when an outage begins if no answer arrives first. Infinite if that takes more attempts."""
        slowest, references, since, longest = _SLOWER * self._slowest, set[str](), math.inf, 0.0
        silent = (each for each in self._in_flight.values() if self._slowest and self.is_evidence(each[1], 0, 0.0))
        for number, (began, reference, least) in enumerate(chain(self._row, silent), 1):
            references.add(reference)
            since, longest = min(since, began), max(longest, least)
            if number >= (_ATTEMPTS if len(references) > 1 else _ATTEMPTS_OF_ONE):
                due_at = max(since, self.answered_at) + max(longest, slowest)
                return due_at if number <= len(self._row) else max(due_at, began + max(_FAILED, slowest))
        return math.inf

    def fire(self) -> None:
        """Begin the outage if it is due, and reject the lookups whose time is over."""
        self._fires_at = math.inf
        self._look(self._clock.now())

    def _look(self, now: float) -> None:
        if not self.is_on:
            if (due_at := self.due_at()) > now:
                self._schedule(due_at)
                return
            oldest, *_ = min(chain(self._row, self._in_flight.values()))
            self.state, self._since = State.OUT, max(oldest, self.answered_at)
            self._rejected_before = self.rejected
            self.last_failure = self.last_failure or f"no answer to {plural(len(self._in_flight), 'attempt')} in flight"
        later = math.inf
        for lookup in tuple(self._lookups):
            if (when := lookup.rejected_at(_SLOWER * self.allowed)) <= now:
                lookup.reject(self.rejection())
            else:
                later = min(later, when)
        self._schedule(later)

    def _schedule(self, when: float) -> None:
        if when < self._fires_at:
            self._fires_at = when
            self._clock.schedule(self, when)

    # Lookups

    def probe(self, reference: str) -> Ticket | None:
        """Return a ticket if a lookup of *reference* is the probe now."""
        now, is_first = self._clock.now(), reference not in self._failing
        if is_first:
            self._note(reference, *_NEVER)  # if it is repeated, others go first
        if now < (self._probed_at if is_first else self.sent_at) + _PROBE_GAP:
            return None
        if (ticket := self._limiter.probe()) is not None:
            self.sent_at = now  # another may ask before this one is sent
            self._probed_at = now if is_first else self._probed_at
        return ticket

    def rejection(self) -> OutageError:
        probe_due_in = max(0.0, self._probed_at + _PROBE_GAP - self._clock.now())
        return OutageError(
            f"the service doesn't answer: the last failure was {self.last_failure}",
            sent="no",
            last_failure=self.last_failure,
            outage_seconds=self.seconds(),
            retry_after=max(probe_due_in or _PROBE_GAP, self._limiter.paused_seconds()),
        )

    def count(self, error: CouldNotAskError, reference: str) -> None:
        """Record that *error* reaches its caller. Until then a rejected lookup may become the probe."""
        if not isinstance(error, OutageError):
            is_known = self.rejected > self._rejected_before and self.is_on
            error.is_first = not is_known and self._told.pop(reference, None) != self.answered_at
            self._told[reference] = self.answered_at
            if len(self._told) > _MAX_FAILING:
                del self._told[next(iter(self._told))]
            return
        self.rejected += 1
        error.refused = self.rejected - self._rejected_before
        error.is_first = error.refused == 1
        if error.is_first:
            message = "no answer for %.1f s: lookups are refused until there is one; the last failure was %s"
            extra = {"seconds": error.outage_seconds, "failure": error.last_failure}
            logger.warning(message, error.outage_seconds, error.last_failure, extra=extra)
