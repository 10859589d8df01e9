"""What the service takes, as tables: the results of attempts, and the number in flight and the rate after them."""

import math
from itertools import pairwise

import pytest

from payclient.client.policies._capacity import Capacity, Ticket


class Attempts:
    """A capacity, with a clock and a count of attempts moved by hand."""

    def __init__(self, *, initial=4.0, highest=64, workers=1, is_awaited=True):
        self.is_awaited = is_awaited
        self.capacity = Capacity(max_concurrency=highest, initial=initial, workers=workers)
        self.now = 0.0
        self.granted = 0

    def take(self, count):
        tickets = [Ticket(self.granted + n, self.now, n, self.is_awaited) for n in range(1, count + 1)]
        self.granted += count
        return tickets

    def end(self, ticket, shown):
        """End an attempt: A accepted, T throttled, O overloaded, S silent."""
        if shown != "S":
            getattr(self.capacity, {"A": "accepted", "T": "throttled", "O": "overloaded"}[shown])(ticket, self.now)

    def play(self, *events):
        """
        Play *events*, and return the number in flight and the rate after them.

        Args:
            events: A text is attempts that start together, and what each of them shows, 0.1 s later. A float is
                seconds that pass, a tuple the number of an attempt in flight and what that one shows, alone.
        """
        for event in events:
            if isinstance(event, float):
                self.now += event
                continue
            load, shown = event if isinstance(event, tuple) else (len(event), event)
            tickets = self.take(load)
            self.now += 0.1
            for ticket, each in zip(tickets[-len(shown) :], shown, strict=True):
                self.end(ticket, each)
        return self.capacity.limit(self.now), self.capacity.rate(self.now)


def busy(seconds, load=2):
    """Return the events of a steady throughput of ten times *load* a second."""
    return ["A" * load] * round(seconds * 10)


LIMITED = [*busy(0.8), "TA", "TA", *busy(1.9), 0.05, "TAA", "T"]
"""A good throughput, 19 a second in the last two seconds, and refusals with few others in flight, the last too many."""


ROWS = {"is_awaited": False}
TENTH = ["AT", *["AA"] * 4]
SIXTH = ["AT", "AA", "AA"]


def case(name, limit, rate, *events, **options):
    return name, limit, rate, events, options


CASES = [
    # slow start
    case("it begins low", 4, math.inf),
    case("no higher than the highest", 2, math.inf, highest=2),
    case("with one of many workers", 1, math.inf, workers=16),
    case("one more per accepted attempt", 4, math.inf, "AA", initial=2.0),
    case("up to the highest", 10, math.inf, *["A" * 10] * 5, highest=10),
    case("attempts that used less than half say nothing", 8, math.inf, "AAA", initial=8.0),
    case("silent attempts say nothing", 4, math.inf, "SSSS"),
    case("refusals are chance while more is answered", 23, math.inf, "AAAT", "TAAAAAAA", "TTTAAAAAAAAAAAAA", **ROWS),
    case("not if most are refused", 4, math.inf, "AAAT", "AATTTTTT", **ROWS),
    case("nor if no more is answered", 7, math.inf, "AAAT", *["AAAAAAAT"] * 6, initial=8.0, **ROWS),
    # the rate
    case("two refusals may be chance", None, math.inf, *LIMITED[:-1]),
    case("three make a rate, a tenth below the throughput", None, 17.1, *LIMITED),
    case("for a row three tenths below", None, 13.3, *LIMITED[:-1], **ROWS),
    case("a burst is one cut", None, 17.1, *LIMITED[:-1], "TTTT", 0.0),
    case("a later one is another", None, 16.2, *LIMITED, *busy(1.0), "T"),
    case("what started before the cut says nothing", None, 17.3, *LIMITED, "A"),
    case("it is back at the throughput after a while", None, 19, *LIMITED, 3.7133),
    case("and doubled after eight seconds more", None, 38, *LIMITED, 11.564),
    case("more refused than accepted: the throughput is what it takes", None, 9.2, *LIMITED, *["TTA"] * 24),
    case("rows of refusals halve it", None, 4.75, *LIMITED, "A", "T", "T", "T"),
    case("down to one in two seconds", None, 0.5, *LIMITED, "A", *["T"] * 20),
    case("as for each of sixteen workers", None, 0.5, *LIMITED, "A", *["T"] * 20, workers=16),
    case("an acceptance restores it", None, 17.1, *LIMITED, 0.1, *["T"] * 20, "A", 0.0),
    case("a closed time is followed by slow start", 2, 17.1, *LIMITED, 0.1, *["T"] * 20, "A"),
    case("closed from the first attempt, nothing was learnt", 2, math.inf, *["T"] * 20, 0.1, "A"),
    # refused at any rate
    case("an awaited one may be refused after many were accepted", None, 28.7, *LIMITED, *busy(10.0), "T"),
    case("a row of a stream after a hundred", None, 19.1, *LIMITED, *busy(10.0), "T", **ROWS),
    case("a share that stays when the rate has fallen is normal", None, 16.8, *LIMITED, *TENTH * 20),
    case("then the rate grows", None, 64.2, *LIMITED, *TENTH * 40),
    case("after a large one it is unlimited again", None, math.inf, *LIMITED, *SIXTH * 20),
    case("for rows of streams it has to fall further", None, 6.11, *LIMITED, *TENTH * 20, **ROWS),
    case("a normal share makes a row of two likely", None, math.inf, *LIMITED, *SIXTH * 20, "T", "T"),
    case("but not one of four", None, 1.875, *LIMITED, *SIXTH * 20, *["T"] * 4),
    # the number in flight
    case("a refusal with more in flight than any accepted one bounds it", 8, math.inf, *["A" * 8] * 8, (11, "TTT")),
    case("two failures bound it as well", 8, math.inf, *["A" * 8] * 8, (9, "O"), (9, "O")),
    case("one failure does not", 17, math.inf, *["A" * 8] * 8, (9, "O")),
    case(
        "with fewer it is about the rate",
        64,
        47.6,
        *["A" * 8] * 7,
        *[(8, "T")] * 2,
        *["A" * 8] * 5,
        (8, "T"),
        initial=64.0,
        **ROWS,
    ),
    case("the bound doubles after eight seconds", 16, math.inf, *["A" * 8] * 8, (11, "TTT"), 8.0),
    case("up to the highest", 10, math.inf, *["A" * 8] * 8, (11, "TTT"), 80.0, highest=10),
    case("others of the same congestion do not lower it", 8, math.inf, *["A" * 8] * 8, (12, "TTTT")),
    # failures
    case("half of the attempts may fail", None, math.inf, "A" * 10 + "O" * 10),
    case("nine say nothing", 20, math.inf, *["O"] * 9, initial=20.0),
    case("ten do", 1, math.inf, *["O"] * 10, initial=20.0),
    case("and then each halves the pace of one at a time", 1, 1.25, *["O"] * 13, initial=20.0),
    case("old failures are forgotten", 64, math.inf, *["O"] * 9, *["A"] * 50, *["O"] * 25, initial=64.0),
    case("half of fifty may fail", 64, math.inf, *["A"] * 100, *["O"] * 25, initial=64.0),
    case("above half, a fifth fewer may be in flight", 51, math.inf, *["A"] * 100, *["O"] * 26, initial=64.0),
    case("some that had more in flight: as many as the accepted had", 2, math.inf, *["AAA"] * 8, *[(3, "O")] * 9),
    case("some that had as many say nothing", 7, math.inf, *["AAA"] * 8, *[(2, "O")] * 9),
    case("nine in ten leave the pace", 1, math.inf, *["A"] * 100, *["O"] * 45, initial=64.0),
    case("above that, each halves it", 1, 5.0, *["A"] * 100, *["O"] * 47, initial=64.0),
]


def test_cases(subtests):
    """Only the results of attempts change what the service takes, as the rules say."""
    for name, limit, rate, events, options in CASES:
        with subtests.test(name):
            found_limit, found_rate = Attempts(**options).play(*events)
            assert found_rate == pytest.approx(rate, rel=0.02)
            assert limit is None or int(found_limit) == limit


@pytest.mark.parametrize(
    ("near", "fallen", "normal"),
    [((40, 10), (16, 4), 0.2), ((10, 30), (16, 4), 0.0), ((40, 10), (18, 2), 0.0), ((10, 30), (8, 12), 0.0)],
)
def test_normal_share(near, fallen, normal):
    """Refusals are normal if few enough are left, not many fewer, and enough to tell, when the rate has fallen."""
    attempts = Attempts()
    attempts.play(*LIMITED)
    capacity = attempts.capacity
    capacity._peak, capacity._near = 2 * capacity.w_max, [*near]
    for ticket, shown in zip(attempts.take(20), "T" * fallen[1] + "A" * fallen[0], strict=True):
        attempts.end(ticket, shown)
    assert capacity._normal == normal


@pytest.mark.parametrize(("near", "fallen"), [((0, 0), (0, 0)), ((970, 30), (90, 0))])
def test_storm_is_not_normal(near, fallen):
    """A time in which everything is refused says nothing about the share that is refused at any rate."""
    attempts = Attempts()
    attempts.play(*LIMITED)
    capacity = attempts.capacity
    capacity._peak, capacity._near, capacity._fallen = 2 * capacity.w_max, [*near], [*fallen]
    attempts.play(*["T", 0.1] * 8, *["A"] * 20)
    assert capacity._normal == 0.0


@pytest.mark.parametrize(("seconds", "normal"), [(0.0, 0.06), (21.0, 0.0)])
def test_old_peak_of_rows(seconds, normal):
    """A row's rate that has fallen since long was lowered by other clients: their refusals aren't normal."""
    attempts = Attempts(is_awaited=False)
    attempts.play(*LIMITED)
    capacity = attempts.capacity
    capacity._peak, capacity._near = 4 * capacity.w_max, [90, 10]
    attempts.now += seconds
    for ticket, shown in zip(attempts.take(50), "TTT" + "A" * 47, strict=True):
        attempts.end(ticket, shown)
    assert capacity._normal == normal


def test_share_of_slow_start():
    """What is refused beside more and more answers, until as many are in flight as may be, is normal."""
    attempts = Attempts(is_awaited=False, highest=16)
    attempts.play("AAAT", "TAAAAAAA", "TTTAAAAAAAAAAAAA")
    assert attempts.capacity._normal == pytest.approx(0.2, abs=0.05)


def test_normal_share_is_forgotten():
    """Refusals stop being normal when there are less than half as many."""
    attempts = Attempts()
    attempts.play(*LIMITED, *TENTH * 20)
    before = attempts.capacity._normal
    attempts.play(*busy(30.0))
    assert (before, attempts.capacity._normal) == (3 / 43, 0.0)


def test_growth_is_cubic():
    """After a cut the rate soon approaches the good throughput, and stays there before it grows further."""
    attempts = Attempts()
    attempts.play(*LIMITED)
    rates = [attempts.play(0.5)[1] for _ in range(20)]
    steps = [later - earlier for earlier, later in pairwise(rates)]
    assert rates == sorted(rates)
    assert steps.index(min(steps)) == pytest.approx(6, abs=1)
    assert 18.9 < rates[6] < 19.1


def test_workers_grow_slowly():
    """One of sixteen workers takes 1.6 times as long to grow."""
    one, many = Attempts(), Attempts(workers=16)
    for each in (one, many):
        each.play(*busy(2.0))
        each.capacity._cut(each.now)
    assert one.play(5.0)[1] == pytest.approx(many.play(5.0 * 16**0.17)[1])


def test_limit_per_minute():
    """When it is closed again and again, the rate becomes the mean over open and closed times, and grows as slowly."""
    attempts = Attempts(initial=64.0)
    for _ in range(2):
        attempts.play(*busy(6.0, load=10), "T" * 4)
        attempts.play(*["T", 1.0] * 49)
    attempts.play("A")
    assert attempts.capacity.rate(attempts.now) == pytest.approx(9, rel=0.15)
    assert attempts.play(30.0)[1] == pytest.approx(10, rel=0.15)


def test_storm_is_no_limit_per_minute():
    """A closed time that is neither regular nor longer than the open one leaves the rate, and its growth."""
    attempts = Attempts(initial=64.0)
    for opened in (3.0, 30.0):
        attempts.play(*busy(opened), *["T"] * 20)
    attempts.play("A")
    assert attempts.play(3.7133)[1] == pytest.approx(19, rel=0.1)
    assert attempts.play(8.0)[1] == pytest.approx(38, rel=0.1)


def test_outage_lifts_the_bound():
    """The failures of an outage say nothing about a limit of concurrency: none is kept when it ends."""
    attempts = Attempts()
    attempts.play(*["A" * 8] * 8, (9, "O"), (9, "O"))
    before = attempts.capacity.concurrency(attempts.now)
    attempts.capacity.recover(attempts.now)
    assert (before, attempts.capacity.limit(attempts.now), attempts.capacity.concurrency(attempts.now)) == (8, 1, 64)


def test_tokens():
    """At most 0.3 s of the rate start at once, and the others evenly spaced."""
    attempts = Attempts(initial=64.0)
    attempts.play(*LIMITED, 3.7)
    capacity, now, started = attempts.capacity, attempts.now, []
    while len(started) < 12:
        now = max(now, capacity.opens_at(now))
        if capacity.opens_at(now) <= now:
            capacity.take(now, 1)
            started.append(now - attempts.now)
    gaps = [later - earlier for earlier, later in pairwise(started)]
    assert gaps == pytest.approx([0.0] * 4 + [0.016] + [1 / 19] * 6, abs=0.002)


@pytest.mark.parametrize(("others", "pace"), [(1, False), (0, True)], ids=["others are in flight", "alone"])
def test_early_refusals(others, pace):
    """A refusal that is told at once is in a row only if no attempt before it may still be accepted."""
    attempts = Attempts()
    attempts.play(*LIMITED)
    attempts.now += 0.01  # since the last acceptance
    for _ in range(5):
        *_, ticket = attempts.take(1 + others)
        attempts.now += 0.001
        attempts.end(ticket, "T")
    assert (attempts.capacity.rate(attempts.now) < 5) is pace


def test_pace_under_a_bound():
    """While the number in flight is bounded, attempts do not start together."""
    attempts = Attempts()
    attempts.play(*["A" * 8] * 8, (11, "TTT"))
    capacity, now = attempts.capacity, attempts.now
    assert capacity.opens_at(now) == now
    capacity.take(now, 1)
    assert capacity.opens_at(now) - now == pytest.approx(0.1 / 8 / 1.25)


@pytest.mark.parametrize(("seconds", "mean"), [(2.0, 0.3), (0.0, 0.1)], ids=["slow", "quick"])
def test_round_trip(seconds, mean):
    """The mean round trip moves by 10 % towards the newest."""
    attempts = Attempts()
    (ticket,) = attempts.take(1)
    attempts.now += 0.1 + seconds
    attempts.end(ticket, "A")
    assert attempts.capacity.round_trip == pytest.approx(mean)
