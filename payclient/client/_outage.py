"""
Detect that the service answers no lookup, and reject the lookups that would wait for it.

| state | what is known | a lookup that arrives or waits | one in flight |
|---|---|---|---|
| quiet | attempts are answered, or too few have failed, or were left, since the last answer | queues | has `timeout` |
| out | no lookup is answered | probes, or is rejected | has twice the time allowed since it began |
| trial | it was out, and nothing was in flight for five seconds | queues; three failures: out | has `timeout` |

A lookup waits in the queue, in back-off, or for an equal lookup that waits. Polls, rows of a stream and lookups that
are to wait (`on_outage`) are never rejected: for them *out* is the same as *quiet*. No probe is sent in a pause.

1.  An attempt is answered by any response that shows a live service: a transaction, "not found", a refusal or a 429,
    even after its caller has left. It fails without a response, or with one that proves nothing (5xx, 408, 425,
    malformed). An untrusted certificate or a refused tunnel is final: each lookup gets that error at once. It never
    starts an outage, and three in a row end one.
2.  It is left when its caller gives it up, or its deadline ends it, after more than a quarter of a second and twice
    the slowest of the recent responses. An attempt that is given up sooner isn't evidence.
3.  An outage begins when three attempts in a row for two references, or ten for one, have failed, were left or are in
    flight, without an answer between them. That takes 0.8 s if all have failed. It takes 1.3 s if some have failed or
    were left, and 1.8 s while all callers still wait, because a service that stalls for a moment can answer them. It
    takes twice the slowest recent response if that is longer. Before the first response, attempts in flight do not
    count.
4.  Failures among answers are load, or references that the service cannot answer (`References`). So it takes twice as
    long as attempts have lately failed between two answers, up to five seconds. A 500 or a malformed response, up to
    twenty in a row among answers, doesn't count for the limiter, until it alternates with answers.
5.  A probe is sent for a new or a queued lookup, at least a second after the last probe. If its
    reference has failed or was rejected before, or is in flight, no attempt may have been sent for a second. So a
    reference that always fails takes no probe from the others.
6.  A probe belongs to the client: it has a new connection and the whole `timeout`. Its caller gets a rejection after
    the time allowed, which is 1.3 s or twice the slowest recent response, or leaves. The response still counts.
7.  Evidence ages: after five seconds with nothing in flight it is void. An outage is then on trial.
8.  After an outage the limiter starts slowly: all rejected lookups may return at once.

Sources: "Site Reliability Engineering", chapter "Handling Overload": clients reject requests locally; the circuit
breaker of "Release It!" (Nygard).
"""

import math
from collections import deque
from collections.abc import Collection
from enum import Enum, auto

from attrs import define, field

from payclient._shared.escape import plural
from payclient._shared.logger import logger
from payclient.client._lookup import Lookup
from payclient.client.policies import Clock, Limiter, Ticket
from payclient.errors import OutageError

_MIN_ALLOWED = 1.3  # seconds for a response, and until silence is an outage if a caller has left
_MIN_STALL = 1.8  # seconds of silence while all callers wait
_MIN_FAILING = 0.8  # seconds of failures, and in flight of the last attempt that counts
_MIN_LEFT = 0.25  # seconds
_SLOWER = 2.0  # times the slowest of the recent responses
_FORGETTING_GAPS = 0.02  # weight of an answer that arrives sooner after the last one
_MAX_GAP = 2.5  # seconds
_ATTEMPTS, _REFERENCES, _ATTEMPTS_OF_ONE = 3, 2, 10
_PROBE_GAP = 1.0  # seconds
_BESIDE = 20  # maximum of failures in a row that count as among answers
_MAX_AGE = 5.0  # seconds
_MAX_FAILING = 1000  # references
_SWITCHES, _ALTERNATING = 3, 30.0  # changes from failures to answers, in these seconds
_LONG_ROW = 7.0  # times the usual one. By chance, one in a thousand is so long
_SOONER = 0.9  # share of the fastest recent answer
_FORGETTING = 0.1  # weight of a new value. A faster, or a slower, answer counts at once
_MIN_ROUND_TRIP = 1e-6  # seconds. In a test a response may take no time
_NEVER = math.inf, 0  # when a reference first failed, and the status of its last failure


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


class Event(Enum):
    """Events that may change the state."""

    ANSWERED, DUE, AGED = auto(), auto(), auto()


def following(state: State, event: Event) -> State:
    match state, event:
        case _, Event.DUE:
            return State.OUT
        case State.OUT | State.TRIAL, Event.AGED:
            return State.TRIAL
        case _:
            return State.QUIET


@define
class References:
    """
    What is known of each reference: whether it always fails, and whether a limit refuses it now and then.

    1.  A reference that has failed counts again, here and for the limiter, once it was answered or refused.
    2.  A status alternates with answers if three times in thirty seconds a reference that failed with it is answered,
        and each began to fail after the one before was answered. References that the service cannot answer never do.
    3.  Then a failure with this status, sooner than any recent answer, is the refusal of a limit, until seven times as
        many follow each other as usual. A later failure is about the load.
    """

    failing: dict[str, tuple[float, int]] = field(factory=dict)  # infinite if it was only rejected. See `_NEVER`
    slowest: float = 0.0  # the slowest recent answer. 0 before the first
    _fastest: float = 1e3  # the fastest recent answer. Longer than any before the first
    _switches: dict[int, deque[float]] = field(factory=dict)  # when references that failed were answered, by status
    _in_a_row: int = 0  # failures since the last answer
    _usual_row: float = 0.5

    def answered(self, reference: str, now: float, took: float) -> None:
        """Record an answer that took as long as answers take."""
        took = took or _MIN_ROUND_TRIP
        self._fastest += (1.0 if took < self._fastest else _FORGETTING) * (took - self._fastest)
        self.slowest += (1.0 if took > self.slowest else _FORGETTING) * (took - self.slowest)
        self._usual_row += _FORGETTING * (self._in_a_row - self._usual_row)
        self._in_a_row = 0
        if reference in self.failing:
            first_at, status = self.failing.pop(reference)
            switches = self._switches.setdefault(status, deque([-math.inf] * _SWITCHES, _SWITCHES))
            if switches[-1] < first_at < math.inf:
                switches.append(now)

    def failed(self, reference: str, now: float, status: int) -> None:
        self._in_a_row += 1
        self.failing[reference] = min(now, self.first_failed(reference)), status
        if len(self.failing) > _MAX_FAILING:
            del self.failing[next(iter(self.failing))]

    def first_failed(self, reference: str) -> float:
        """Return when *reference* first failed since it was answered."""
        return self.failing.get(reference, _NEVER)[0]

    def alternates(self, status: int, now: float) -> bool:
        return self._switches.get(status, (-math.inf,))[0] > now - _ALTERNATING

    def is_limit(self, status: int, took: float, now: float) -> bool:
        """Return whether a failure with *status*, after *took* seconds, is the refusal of a limit."""
        is_usual = self._in_a_row < _LONG_ROW * (self._usual_row + 0.5)
        return is_usual and took < _SOONER * self._fastest and self.alternates(status, now)


@define
class _Row:
    """The attempts in a row that have failed, or were left, since the last answer."""

    length: int = 0
    left: int = 0
    references: set[str] = field(factory=set)  # two are enough
    since: float = math.inf  # start of the first
    lasted: float = math.inf  # seconds to the beginning of the outage


def _is_enough(attempts: int, references: Collection[str]) -> bool:
    return attempts >= (_ATTEMPTS if len(references) >= _REFERENCES else _ATTEMPTS_OF_ONE)


class Outage:
    """The evidence about the service from one client's attempts, and its lookups that may be rejected."""

    _clock: Clock  # the first attempt sets it

    def __init__(self, limiter: Limiter, lookups: Collection[Lookup] = ()) -> None:
        self.rejected: int = 0  # lookups, in all outages together
        self.last_failure: str = ""  # class and text, since the last response
        self.sent_at: float = -math.inf
        self.answered_at: float = -math.inf
        self.state = State.QUIET
        self.references = References()
        self._limiter, self._lookups = limiter, lookups
        self._row = _Row()
        self._longest_gap = 0.0  # seconds of failures between two recent answers
        self._fires_at = math.inf
        self._in_flight: dict[int, tuple[float, str]] = {}  # start and reference of each attempt, in order
        self._ended_at = self._probed_at = -math.inf
        self._rejected_before = 0
        self._finals = self._last_final = 0  # final responses in a row; the number of the last

    @property
    def allowed(self) -> float:
        """The seconds that a response may take."""
        return max(_MIN_ALLOWED, _SLOWER * self.references.slowest)

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
        return (now if self._in_flight else min(now, self._ended_at + _PROBE_GAP)) - self._row.since

    def _age(self, now: float) -> None:
        """Forget the evidence after a long time with nothing in flight."""
        if not self._in_flight and now >= max(self._ended_at, self.sent_at) + _MAX_AGE:
            self._longest_gap = 0.0
            self._turn(Event.AGED)

    def _turn(self, event: Event) -> None:
        self.state = following(self.state, event)
        if event is not Event.DUE:
            self._row, self._finals = _Row(), 0

    # Attempts

    def sent(self, ticket: Ticket, reference: str, clock: Clock) -> None:
        now = ticket.started_at
        if now >= self.sent_at + _MAX_AGE:
            self._age(now)
        self._in_flight[ticket.number] = now, reference
        self.sent_at, self._clock = now, clock
        if self._fires_at == math.inf:
            self._schedule(now + _MIN_FAILING)

    def ended(self, ticket: Ticket, reference: str, now: float, end: End, failure: str = "", status: int = 0) -> None:
        """Record how an attempt ended. An attempt whose caller has left may be answered later."""
        self._in_flight.pop(ticket.number, None)
        self._ended_at, took = now, now - ticket.started_at
        match end:
            case End.ACCEPTED | End.REFUSED | End.LIMITED:
                if end is End.ACCEPTED:
                    self.references.answered(reference, now, took)
                elif end is End.LIMITED:
                    self.references.failed(reference, now, status)
                else:
                    self.references.failing.pop(reference, None)
                self.answered_at = now
                if self.last_failure or self._longest_gap:
                    self._answered(now)
            case End.FINAL:
                self._finals, self._last_final = self._finals + 1, ticket.number
                if self.is_on and self._finals >= _ATTEMPTS:
                    self._answered(now)
            case End.FAILED:
                self._finals *= ticket.number < self._last_final  # an earlier one may be a probe that hangs
                self.last_failure = failure
                self._failed(reference, ticket.started_at, now, status)
            case End.LEFT:
                if took > max(_MIN_LEFT, _SLOWER * self.references.slowest):
                    self.last_failure = self.last_failure or f"no answer within {took:.1f} s"
                    self._failed(reference, ticket.started_at, now, is_left=True)

    def _answered(self, now: float) -> None:
        gap = min(now - self._row.since, _MAX_GAP, self._row.lasted) if self._row.length else 0.0
        self._longest_gap = max(gap, self._longest_gap + _FORGETTING_GAPS * (gap - self._longest_gap))
        if self.rejected > self._rejected_before and self.state in (State.OUT, State.TRIAL):
            logger.info("lookups are sent again")
            self._limiter.capacity.recover()
        self.answered_at, self.last_failure = now, ""
        self._turn(Event.ANSWERED)

    def _failed(self, reference: str, began: float, now: float, status: int = 0, *, is_left: bool = False) -> None:
        self.references.failed(reference, now, status)
        if self.is_on:
            return
        if self._is_evidence(reference):
            row = self._row
            row.length, row.left = row.length + 1, row.left + is_left
            row.since = min(row.since, max(began, self.answered_at))
            if len(row.references) < _REFERENCES:
                row.references.add(reference)
        self._look(now)

    def is_load(self, reference: str, status: int) -> bool:
        """Return whether the failure of *reference* may be about the load, and not about the reference."""
        is_beside = self._row.length <= _BESIDE and self._ended_at < self.answered_at + _MAX_AGE
        is_of_program = status == 500 or status // 100 == 2  # failed, but not as a gateway or a limit does
        is_known = is_of_program and is_beside and not self.references.alternates(status, self._ended_at)
        return not is_known and self._is_evidence(reference)

    def _is_evidence(self, reference: str) -> bool:
        return self.references.first_failed(reference) >= self.answered_at  # other references are answered

    # The beginning

    def due_at(self) -> float:
        """Return when an outage begins if no answer arrives first. Infinite if that takes more attempts."""
        row, slowest = self._row, _SLOWER * self.references.slowest
        gap = max(slowest, _SLOWER * self._longest_gap)
        attempts, references, since = row.length, {*row.references}, row.since
        if _is_enough(attempts, references):
            if row.left:  # silence is observed only while an attempt is in flight
                due_at = since + max(_MIN_ALLOWED, gap)
                return due_at if self._in_flight or self._ended_at >= due_at else math.inf
            return since if self.state is State.TRIAL else since + max(_MIN_FAILING, gap)
        allowed = max(_MIN_ALLOWED if row.length else _MIN_STALL, gap)
        for began, reference in self._in_flight.values() if self.references.slowest else ():
            if self._is_evidence(reference):
                attempts, since = attempts + 1, min(since, began)
                references.add(reference)
                if _is_enough(attempts, references):
                    return max(max(since, self.answered_at) + allowed, began + max(_MIN_FAILING, slowest))
        return math.inf

    def fire(self) -> None:
        """Begin the outage if it is due, and reject the lookups whose time is over."""
        self._fires_at = math.inf
        self._look(self._clock.now())

    def _look(self, now: float) -> None:
        if self.is_on:
            self._reject_due(now)
        elif (due_at := self.due_at()) <= now:
            self._begin(now)
        else:
            self._schedule(due_at)

    def _schedule(self, when: float) -> None:
        if when < self._fires_at:
            self._fires_at = when
            self._clock.schedule(self, when)

    def _begin(self, now: float) -> None:
        self._turn(Event.DUE)
        self._rejected_before = self.rejected
        oldest, _ = next(iter(self._in_flight.values()), _NEVER)
        self._row.since = min(self._row.since, max(oldest, self.answered_at))
        self._row.lasted = now - self._row.since
        self.last_failure = self.last_failure or f"no answer to {plural(len(self._in_flight), 'attempt')} in flight"
        self._reject_due(now)

    # Lookups

    def _reject_due(self, now: float) -> None:
        later = math.inf
        for lookup in tuple(self._lookups):
            if (when := lookup.rejected_at(_SLOWER * self.allowed)) <= now:
                lookup.reject(self.rejection())
            else:
                later = min(later, when)
        self._schedule(later)

    def probe(self, reference: str) -> Ticket | None:
        """Return a ticket if a lookup of *reference* is the probe now."""
        in_flight = (each for _, each in self._in_flight.values())
        now, is_first = self._clock.now(), reference not in self.references.failing and reference not in in_flight
        if now < (self._probed_at if is_first else self.sent_at) + _PROBE_GAP:
            self.references.failing.setdefault(reference, _NEVER)  # if it is repeated, others go first
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

    def count(self, error: OutageError) -> None:
        """Record that a rejection reaches its caller. Until then its lookup may become the probe."""
        self.rejected += 1
        error.refused = self.rejected - self._rejected_before
        if error.is_first:
            message = "no answer for %.1f s: lookups are refused until there is one; the last failure was %s"
            extra = {"seconds": error.outage_seconds, "failure": error.last_failure}
            logger.warning(message, error.outage_seconds, error.last_failure, extra=extra)
