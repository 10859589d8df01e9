"""
How much the service takes, learnt from the results of attempts: a number in flight and a rate.

1.  The rate is unlimited until three attempts were accepted, and three of the last fifty refused for load: the
    throughput of the first moments says little. Refusals are chance until then, and while most are accepted and more
    and more is answered.
    Then a token bucket is filled at a rate that begins a tenth below the good throughput (`w_max`), approaches it,
    stays near it and grows again: a cubic in time, so a raised limit is found. A cut lowers `w_max` by half of that
    tenth. A high rate takes longer to grow, so that clients on one limit converge. Rows and polls yield to awaited
    lookups of other processes: a refused one cuts by three tenths, and the rate grows more slowly after it.
2.  One cut per congestion event: only a refusal a second and two round trips after the last cut may cut again, and
    only if an attempt was accepted since. An attempt that started before the last cut isn't evidence.
3.  Each refusal in a row halves the rate, down to one attempt in two seconds. The first acceptance restores it. After
    closed times that are regular, or longer than the open ones, as of a limit per minute, it is the mean over both;
    closed is a pause, or after four refusals in a row. A refusal often arrives sooner than an acceptance. Then it is in
    a row only if no attempt was accepted for two round trips, or no other is in flight: the attempts before it may
    still be accepted.
4.  If an attempt is refused with more others in flight than any accepted attempt had, that is a limit of concurrency:
    it bounds the number in flight and does not change the rate. The bound grows by the same cubic, in eight round trips
    at least. Attempts under a bound start at least four fifths of their even spacing apart: if two start together and
    one is refused, it may have met a limit of the rate that allows no burst. Once there is a rate, an early refusal is
    about it.
5.  Slow start: at the start, after a pause, an outage and a closed time, few may be in flight, and one more for each
    accepted attempt. If more in flight bring no more answers, it has led too far: as many as were answered in a round
    trip may be. If it comes to its end although some were refused, that share is normal (rule 7). At the start and
    after an outage they double after each half second until any of them is heard: a slow service would answer one
    after the other, each too late for the next.
6.  Some failures of the service are normal. Two of them are worth a refusal in rule 4. If, of the last 50, requests
    exceed twice the accepted ones, a fifth fewer may be in flight. If ten times, failures count as refusals. A seventh
    more is enough if the failed ones had more in flight: others share that limit. Then as many as the accepted had may
    be in flight. If three answers in a row arrive after their callers have left, and took four times as long as the
    fastest, the attempts queue at the service: half as many may be in flight. Nothing else counts: neither latency,
    because the service has other users, nor cancellation.
7.  Some services refuse a share of the requests at any rate: one of several nodes does, or other clients use up a
    limit that allows no burst. If the share refused does not fall to less than half although cuts have lowered the
    rate, the remaining refusals are normal. Then each accepted attempt pays for twice as many, and only a refusal
    that is not paid for may cut. If they are a large share, the cuts were wrong: slow start begins again, without a
    rate. An awaited lookup has little time: for it, 3 % are normal from the start, and a rate lower by 15 % is enough
    to decide. For a row or a poll it is 1 % and 60 %, and the rate of before is void after twenty seconds, because
    most limits are not of this kind: a rate also falls when other clients grow.
    A closed time shows no such share, and what was counted before it is dropped.
8.  Workers that share a key grow more slowly, because each sees only its own refusals. The numbers of rules 1 and 7
    are for all of them together.
9.  Half a minute without an attempt resets everything. Pauses that the service asked for are not counted.

Sources: rule 1, CUBIC (RFC 9438), and the adaptive mode of botocore; rule 6, "Site Reliability Engineering", chapter
"Handling Overload".
"""

import math
from collections import deque

from attrs import frozen

_KEEP = 0.7, 0.9  # a cut multiplies the rate by it: for a row or a poll, and for an awaited lookup
_DOUBLING = 12.0, 8.0  # seconds until a cubic doubles from its flat part: the same
_SLOWED = 0.25  # by this power of a rate, in multiples of 20/s, its cubic is slower
_SHARED = 0.17  # each of many workers takes longer, by this power of their number
_PACE = 1.25  # the highest rate under a bound in flight, in multiples of its throughput
_BURST = 0.3  # seconds of the rate that may be used at once
_MIN_CUT_GAP = 1.0  # seconds
_MIN_RATE = 0.5  # per second: the longest delay after the end of a storm is two seconds
_WINDOW = 2.0  # the throughput is measured over these seconds
_ROUND_TRIP = 0.1  # seconds. A guess, only for the pace of refusals
_SILENCE = 0.5  # seconds until slow start doubles if nothing is heard
_FORGET = 30.0  # seconds without an attempt that reset everything
_SMOOTHING = 0.1  # weight of the newest round trip in their mean
_MAX_ANSWERS = 4000  # within `_WINDOW`
_RECENT = 50
_MIN_RECENT = 10
_REQUESTS_OF_A_CROWD = 1.15  # requests per accepted one
_MORE_IN_FLIGHT = 1.2  # the mean load of failures, in multiples of the mean load of the accepted
_REQUESTS_PER_ACCEPTED = 2
_REQUESTS_OF_A_STORM = 10
_KEEP_IN_FLIGHT = 0.8
_ROUNDED = 0.25  # a bound between two numbers is the higher one from three quarters
_QUEUED = 4.0  # times the fastest response
_TRIPS = 8.0  # round trips in which a bound doubles at least
_FAILURES = 2  # failures count as one refusal: some are normal
_GROWING = 0.6  # part of the answers of four round trips in the last two: more than before
_ENOUGH = 3  # refusals, of all workers together, and answers. Fewer may be chance
# Share of the peak below which a rate has fallen, attempts there, refusals paid for, and seconds until a peak is old.
_AWAITED = 0.85, 20, 0.03, math.inf
_BULK = 0.4, 50, 0.01, 20.0
_MARGIN = 2.0  # normal refusals that each accepted attempt pays for besides
_KEPT = 0.5  # remaining part of the refused share after a cut, and of the number in flight after late answers
_LARGE, _MAX_NORMAL = 0.12, 0.5  # normal shares
_MANY = 10.0  # refusals: can be saved, tell a share. Fewer than half of ten expected ones: it is no longer normal
_UNLIKELY = 0.02  # a row of refusals less likely than this is not chance
_SAME_PERIOD = 1.25  # ratio of two times from opening to opening that are regular
_LONG = 1.0  # seconds without an acceptance that mean it was closed
_LONG_ROW = 4  # refusals without a pause. Fewer are chance


@frozen
class Ticket:
    number: int
    started_at: float
    load: int  # attempts in flight, this one included
    is_awaited: bool = False
    is_probe: bool = False  # above the limit, in an outage


class Capacity:
    """The number in flight and the rate that the service takes."""

    def __init__(self, *, max_concurrency: int, initial: float, workers: int) -> None:
        self._max = float(max_concurrency)
        self._slow_start = self._initial = min(max(1.0, initial / workers), self._max)  # infinite: over
        self._forget_all()
        self.share(workers)

    def _forget_all(self) -> None:
        self._slow_start = min(self._slow_start, self._initial)
        self._sent_at = 0.0  # the last attempt, or the end of a pause
        self._grown_at = 0.0  # when slow start last grew, or an attempt started alone. Infinite: one has ended
        self._fastest = math.inf  # seconds to a transaction: a bad reference may be declined sooner
        self._late = 0  # late answers in a row
        self.round_trip: float = _ROUND_TRIP  # mean seconds from a grant to an accepted response
        self._bound = math.inf  # number in flight. Its time stands below
        self._bound_at = 0.0
        self.w_max: float = math.inf  # good throughput per second; infinite: no limit has been met
        self._cut_at = -math.inf
        self._was_awaited, self._doubling = True, _DOUBLING[True]  # who was refused at the last cut
        self._accepted_since_cut = self._refused_since_cut = 0
        self._begin_tallies(0.0)
        self._normal = 0.0  # the share that is refused at any rate
        self._saved = 0.0  # refusals that are paid for
        self._in_a_row = 0  # refusals, without an acceptance between them
        self._closed_at = math.inf  # when they began, or a pause
        self._was_paused = False  # since then
        self._period = math.inf  # from the opening before last to the last
        self._opened_at = -math.inf  # when an attempt was accepted after the last long row, or pause
        self._tokens = self._filled_at = 0.0
        self._answered_at: deque[float] = deque(maxlen=_MAX_ANSWERS)
        self._recent: deque[tuple[Ticket, bool]] = deque(maxlen=_RECENT)  # and whether it was accepted

    def share(self, workers: int) -> None:
        """Grow as one of *workers* from now on."""
        self._shared: float = workers**_SHARED
        self._workers = workers

    def recover(self, now: float) -> None:
        """Begin slow start again after an outage: its failures were not evidence of a bound."""
        self._bound, self._slow_start = math.inf, 1.0
        self._bound_at = self._grown_at = now

    def pause(self, now: float, until: float) -> None:
        """Begin slow start again after a pause that begins now."""
        self._sent_at = until
        self._closed_at, self._was_paused = min(self._closed_at, now), True
        self._slow_start, self._grown_at = 1.0, math.inf

    def limit(self, now: float) -> float:
        return min(self._slow_start, self._max if self._bound == math.inf else self.concurrency(now) + _ROUNDED) // 1

    def grows_at(self, now: float, in_flight: int) -> float:
        """Return when slow start allows one more than *in_flight* attempts of which nothing is heard."""
        if in_flight >= min(self._max, self.concurrency(now)) // 1:
            return math.inf
        return self._grown_at + _SILENCE * math.log2((in_flight + 1) / self._slow_start)

    def concurrency(self, now: float) -> float:
        """Return the number of attempts in flight that ends slow start."""
        doubling = max(_DOUBLING[True], _TRIPS * self.round_trip) * self._shared
        return min(self._max, self._bound * (1 + ((now - self._bound_at) / doubling) ** 3))

    def rate(self, now: float) -> float:
        """Return the attempts per second that may start. Infinite if no limit was met."""
        if self._is_row():
            base = 1 / _ROUND_TRIP if self.w_max == math.inf else self.w_max
            return max(_MIN_RATE, base * 0.5 ** (self._in_a_row - 1))
        return self._cubic(now)

    def _cubic(self, now: float) -> float:
        if self.w_max == math.inf:
            return math.inf
        growth = (now - self._cut_at) / (self._doubling * self._shared) - math.cbrt(1 - _KEEP[self._was_awaited])
        return max(_MIN_RATE, self.w_max * (1 + growth**3))

    def needed(self, now: float, place: int = 0) -> float:
        """Return the seconds to the answer of a caller with *place* others before it, as far as they were measured."""
        if not self._answered_at:
            return 0.0
        # A row of refusals may end with the next attempt, so its rate does not predict the later ones.
        return self.round_trip + place * max(1 / self._cubic(now), self.round_trip / self.concurrency(now))

    def opens_at(self, now: float) -> float:
        """Return when the rate allows the next attempt."""
        if now > self._sent_at + _FORGET:
            self._forget_all()
        if self._bound == math.inf and self.w_max == math.inf and self._in_a_row < 2:
            return now  # the limit was not met
        paced_at = now
        if self._bound < math.inf:
            paced_at = max(now, self._sent_at + self.round_trip / (_PACE * self.concurrency(now)))
        if (rate := self.rate(now)) == math.inf:
            return paced_at
        most = max(1.0, rate * _BURST)
        self._tokens, self._filled_at = min(most, self._tokens + (now - self._filled_at) * rate), now
        return paced_at if self._tokens >= 1 - 1e-6 else max(paced_at, now + (1 - self._tokens) / rate)

    def take(self, now: float, in_flight: int) -> None:
        """Record that an attempt starts now. Without a rate it costs no token, or it would be a debt later."""
        self._sent_at = now
        if in_flight > self._slow_start:
            self._slow_start, self._grown_at = float(in_flight), now
        elif in_flight == 1 and self._grown_at < math.inf:
            self._grown_at = now
        self._tokens = max(0.0, self._tokens - 1)

    def accepted(self, ticket: Ticket, now: float, *, is_late: bool = False, is_found: bool = True) -> None:
        self._recent.append((ticket, True))
        took = now - ticket.started_at
        self.round_trip += _SMOOTHING * (took - self.round_trip)
        if is_found and took < self._fastest:
            self._fastest, self._late = took, 0
        else:
            self._late = self._late + 1 if is_late and took > _QUEUED * self._fastest else 0
        if ticket.started_at >= self._bound_at:
            self._grown_at = math.inf
            if self._late >= _ENOUGH:
                self._bound, self._bound_at = max(1.0, self.limit(now) * _KEPT), now
        self._answered_at.append(now)
        if ticket.started_at < self._cut_at:
            return  # sent before the last cut, so out of date
        self._accepted_since_cut += 1
        row, self._in_a_row = self._in_a_row, 0
        if self._closed_at < math.inf:
            self._open(now, row)
        if self.w_max < math.inf or self._normal:
            self._tally(ticket, now, is_refused=False)
        else:
            self._near[False] += 1
            if self._saved < _MANY:
                self._saved += (_AWAITED if ticket.is_awaited else _BULK)[2] / self._workers
        if ticket.load * 2 >= self._slow_start:
            self._slow_start += 1
            if self._slow_start >= self.concurrency(now):
                self._end_slow_start()

    def throttled(self, ticket: Ticket, now: float) -> None:
        self._recent.append((ticket, False))
        self._grown_at = math.inf
        is_limited, is_late = self.w_max < math.inf, self._is_late(ticket, now)
        is_growing = self._grow_on(ticket, now)
        is_crowded = not is_growing and (is_late or not is_limited) and self._is_crowded(ticket, now)
        if is_crowded or ticket.started_at < self._cut_at:
            return
        self._tally(ticket, now, is_refused=True)
        if is_growing:
            return
        self._note_refusal(ticket, now)
        if self._slow_start < math.inf and is_limited and (is_late or self._is_row()):
            self._slow_start = 1.0
        refused = sum(not is_accepted for _, is_accepted in self._recent)
        may_cut = now >= self._cut_at + max(_MIN_CUT_GAP, 2 * self.round_trip)
        may_cut &= is_limited or (refused * self._workers >= _ENOUGH <= len(self._answered_at))
        may_cut &= self._accepted_since_cut > 0
        if may_cut and self._saved >= 1 and not self._is_row():
            self._saved -= 1
        elif may_cut:
            self._was_awaited = ticket.is_awaited
            self._cut(now)

    def _grow_on(self, ticket: Ticket, now: float) -> bool:
        """Return whether refusals are chance: few, or beside more and more answers. Otherwise end the growth."""
        newest, both = (self._answers(now, trips * self.round_trip) for trips in (2, 4))
        if self._normal or self.w_max < math.inf or self._bound < math.inf or not newest:
            return False
        accepted = sum(is_accepted for _, is_accepted in self._recent)
        refused = len(self._recent) - accepted
        if refused * self._workers < _ENOUGH or (refused < accepted and newest > _GROWING * both):
            return True
        if ticket.load * 2 >= self._slow_start:  # it has led too far
            self._bound, self._bound_at = max(self._initial, newest / 2), now
        return False

    def _end_slow_start(self) -> None:
        """Take the share that was refused on its way for normal, if no limit was met."""
        self._slow_start = math.inf
        if self.w_max == self._bound == math.inf and self._near[True] >= _ENOUGH:
            self._normal, self._saved = self._near[True] / sum(self._near), _MANY

    def overloaded(self, ticket: Ticket, now: float) -> None:
        """Record that the service, or the network, failed."""
        self._recent.append((ticket, False))
        self._grown_at = math.inf
        failed = [each.load for each, is_accepted in self._recent if not is_accepted]
        loads = [each.load for each, is_accepted in self._recent if is_accepted]
        requests, accepted = len(self._recent), len(loads)
        needed = sum(loads) / accepted if requests <= _REQUESTS_PER_ACCEPTED * accepted else 0.0
        is_crowd = sum(failed) > _MORE_IN_FLIGHT * needed * len(failed)
        if requests < _MIN_RECENT or requests <= _REQUESTS_OF_A_CROWD * accepted or not is_crowd:
            self._is_crowded(ticket, now, evidence=_FAILURES)
        elif requests > _REQUESTS_OF_A_STORM * accepted:
            self._note_refusal(ticket, now)
            self._slow_start = 1.0
        elif ticket.started_at >= self._bound_at:
            self._bound, self._bound_at = max(1.0, needed, self.limit(now) * _KEEP_IN_FLIGHT), now

    def _is_crowded(self, ticket: Ticket, now: float, evidence: int = 1) -> bool:
        """Return whether the refusal of *ticket* shows a limit of concurrency, and bound the number in flight then."""
        if ticket.started_at < self._bound_at and ticket.load > self._bound:
            return True
        earlier = (each.load for each, is_accepted in self._recent if is_accepted and each.number < ticket.number)
        most = max(earlier, default=math.inf)
        beyond = sum(each.load > most for each, is_accepted in self._recent if not is_accepted)
        if ticket.load <= most or beyond < evidence or self._normal**beyond > _UNLIKELY:
            return False
        self._bound, self._bound_at = max(1.0, ticket.load - 1.0), now
        return True

    def _is_late(self, ticket: Ticket, now: float) -> bool:
        """Return whether attempts that started before *ticket* would have been answered by now."""
        return ticket.load == 1 or now >= ticket.started_at + self.round_trip / 2

    def _note_refusal(self, ticket: Ticket, now: float) -> None:
        self._refused_since_cut += 1
        is_silent = not self._answered_at or now > self._answered_at[-1] + 2 * self.round_trip
        if ticket.started_at >= self._cut_at and (is_silent or self._is_late(ticket, now)):
            self._in_a_row += 1
            self._closed_at = min(self._closed_at, now)

    def _tally(self, ticket: Ticket, now: float, *, is_refused: bool) -> None:
        """Learn the share that is refused at any rate."""
        of_peak, enough, paid, old = _AWAITED if ticket.is_awaited else _BULK
        if not is_refused:
            self._saved = min(_MANY, self._saved + paid / self._workers + _MARGIN * self._normal / (1 - self._normal))
        is_old = now > self._began_at + old and sum(self._near) > enough
        if self.w_max < math.inf and (self.w_max > self._peak or is_old):
            self._begin_tallies(now)
        tally = self._fallen if self._cubic(now) < self._peak * of_peak else self._near
        tally[is_refused] += 1
        if is_refused:
            return  # it may be the first of a closed time
        near, fallen = (each[True] / max(_AWAITED[1], sum(each)) for each in (self._near, self._fallen))
        if sum(self._fallen) >= enough and self._fallen[True] >= _ENOUGH:
            if _KEPT * near <= fallen <= _MAX_NORMAL:
                if not self._normal and fallen >= _LARGE:
                    self.w_max, self._cut_at, self._bound = math.inf, now, math.inf
                    self._slow_start = min(self._slow_start, self._initial)
                self._normal, self._saved = max(self._normal, fallen), _MANY
        elif sum(self._near) * self._normal > _MANY and near < _KEPT * self._normal:
            self._normal = near
        else:
            return
        self._begin_tallies(now)

    def _begin_tallies(self, now: float) -> None:
        self._began_at = now
        self._peak = self.w_max if self.w_max < math.inf else 0.0  # the highest good throughput since then
        self._near, self._fallen = [0, 0], [0, 0]  # accepted and refused at about that rate, and at a lower one

    def _is_row(self) -> bool:
        return self._in_a_row > 1 and self._normal**self._in_a_row < _UNLIKELY

    def _cut(self, now: float) -> None:
        self._saved, keep = 0.0, _KEEP[self._was_awaited]
        throughput = self._answers(now) / min(_WINDOW, max(0.5, now - next(iter(self._answered_at), now)))
        rate = self._cubic(now)
        if self.w_max < math.inf and self._accepted_since_cut >= self._refused_since_cut:
            throughput = max(throughput, min(rate, self.w_max) * (1 + keep) / 2)
        self.w_max = max(_MIN_RATE, min(rate, throughput))
        self._doubling = _DOUBLING[self._was_awaited] * (self.w_max / 20) ** _SLOWED
        self._cut_at, self._tokens, self._filled_at = now, 0.0, now
        self._accepted_since_cut = self._refused_since_cut = 0

    def _open(self, now: float, row: int) -> None:
        closed_at, self._closed_at = self._closed_at, math.inf
        is_by_chance, self._was_paused = row < _LONG_ROW and not self._was_paused, False
        if now - closed_at < _LONG or is_by_chance:
            return
        self._begin_tallies(now)
        if self._opened_at > -math.inf:
            before, self._period = self._period, now - self._opened_at
            share = (closed_at - self._opened_at) / self._period
            if share < 0.5 or 1 / _SAME_PERIOD < self._period / before < _SAME_PERIOD:  # otherwise it was a storm
                self.w_max = max(_MIN_RATE, self.w_max * share)
                self._doubling = max(self._doubling, self._period)
        self._cut_at = self._opened_at = now
        self._slow_start = 1.0

    def _answers(self, now: float, seconds: float = _WINDOW) -> int:
        return sum(at >= now - seconds for at in self._answered_at)
