"""The controller of the concurrency, as a table: what attempts showed, and the limit after it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from payclient.client.policies._concurrency import ConcurrencyController, Ticket


class Attempts:
    """A controller, with a clock and a count of attempts moved by hand."""

    def __init__(self, *, initial=4.0, highest=64, workers=1):
        self.controller = ConcurrencyController(max_concurrency=highest, initial=initial, workers=workers)
        self.now = 0.0
        self.granted = self.in_flight = 0

    def take(self, count):
        tickets = [Ticket(self.granted + n, self.now, self.in_flight + n) for n in range(1, count + 1)]
        self.granted += count
        self.in_flight += count
        return tickets

    def give_back(self, ticket, shown):
        """End an attempt: A accepted, T throttled, P throttled with a pause, O overloaded, S silent; - goes on."""
        controller, known = self.controller, {"granted": self.granted}
        self.in_flight -= shown != "-"
        if shown == "A":
            controller.accepted(ticket, self.now)
        elif shown == "O":
            controller.overloaded(ticket, self.now, **known)
        elif shown in "TP":
            controller.throttled(ticket, self.now, is_paused=shown == "P", **known)
        if shown == "P":
            controller.start_slowly()

    def play(self, *events):
        """
        Return the limit after *events*.

        Args:
            events: A text is attempts that start together, and what each of them shows, in this order. An integer is
                that many rounds in which the whole limit is used and accepted, a float seconds that pass.
        """
        for event in events:
            if isinstance(event, float):
                self.now += event
            elif isinstance(event, int):
                for _ in range(event):
                    self.play("A" * max(1, self.controller.whole))
            else:
                for ticket, shown in zip(self.take(len(event)), event, strict=True):
                    self.give_back(ticket, shown)
        return self.controller.limit


def case(name, limit, *events, **options):
    return name, limit, events, options


BURST = "T" * 64
STEEPNESS = 0.02 / 8  # of the growth of one of four workers that have two slots together


LIMITS = [
    # slow start
    case("it begins low", 4.0),
    case("it begins no higher than the highest", 2.0, highest=2),
    case("one more per accepted attempt", 4.0, "AA", initial=2.0),
    case("no more than the highest", 10.0, 5, highest=10),
    case("attempts that used less than half say nothing", 8.0, "AAA", initial=8.0),
    case("silent attempts say nothing", 4.0, "SSSS"),
    case("from below one to one", 1.0, "A", initial=0.5),
    case("after three refusals in a row, with one", 1.0, "TTT", initial=64.0),
    case("after two, it goes on", 32.0, "TT", initial=64.0),
    case("an acceptance between them ends the row", 32.0, "TATATA", initial=64.0),
    case("and it begins again after it", 32.0, "TTATT", initial=64.0),
    case("it grows by one after that too", 11.0, BURST, 4, initial=64.0),
    case("a refusal meanwhile begins it again", 1.0, BURST, 4, "T", initial=64.0),
    case("a refused probe halves it", 0.5, BURST, "T", initial=64.0),
    case("down to a round trip in ten seconds", 0.01, BURST, *["T"] * 12, initial=64.0),
    # cuts
    case("the first cut is deep", 2.0, "T"),
    case("a burst is one cut", 32.0, BURST, 10, initial=64.0),
    case("the next congestion is a shallow cut", 9.0, "T", "T", initial=20.0),
    case("a pause cuts deeper", 14.0, "T", "P", 1.0, 10, initial=40.0),
    case("a refused probe costs a part", 22.4, BURST, "T", 10, initial=64.0),
    case("a refused probe of two costs a part", 1.4, "TTTT", "T", 2),
    # failures
    case("half of the attempts may fail", 21.0, "A" * 10 + "O" * 10, initial=20.0),
    case("more than half may not", 10.0, "A" * 5 + "O" * 6, initial=20.0),
    case("nine say nothing", 20.0, "O" * 9, initial=20.0),
    case("ten do", 10.0, "O" * 10, initial=20.0),
    case("old failures are forgotten", 64.0, *["O"] * 9, *["A"] * 50, *["O"] * 25, initial=64.0),
    case("old acceptances while half is good", 64.0, *["A"] * 100, *["O"] * 25, initial=64.0),
    case("old acceptances are forgotten", 32.0, *["A"] * 100, *["O"] * 26, initial=64.0),
    case(
        "growth after them counts from the cut",
        10 + 0.02 * (3 - 250 ** (1 / 3)) ** 3,
        *(7.0, "O" * 10, 3.0, "-" * 4 + "A"),
        initial=10.0,
    ),
    # cubic growth
    case("to the highest at most", 10.0, "T", 600.0, 5, initial=10.0, highest=10),
    case("to twice as much per acceptance at most", 20.0, "T", 600.0, "-" * 9 + "A", initial=20.0),
    case("flat at nine tenths after a pause", 18.0, "T", "P", 1.0, 10, 200 ** (1 / 3), 1, initial=40.0),
    case("and after a probe", 57.6, BURST, "T", 10, 1760 ** (1 / 3), 2, initial=64.0, highest=128),
    case("of one", 0.8576, "T", 1.0, "A", initial=1.0),
    case("of a half", 0.4288, "T", 1.0, "A", initial=0.5),
    # many workers
    case("they begin with a few together", 0.25, workers=16),
    case("an eighth for two accepted attempts", 1.75, "A", "A", initial=24.0, workers=16),
    case("to no less than that", 0.25, "A", "A", initial=1.0, workers=16),
    case(
        "an eighth as steep",
        0.5 + STEEPNESS * (1 - (0.25 / STEEPNESS) ** (1 / 3)) ** 3,
        *("T", 1.0, "A"),
        initial=2.0,
        workers=4,
    ),
]


def test_limit(subtests):
    """Only the results of attempts change the limit, as the rules say."""
    for name, limit, events, options in LIMITS:
        with subtests.test(name):
            assert Attempts(**options).play(*events) == pytest.approx(limit, abs=0.0001)


def test_old_acceptance_does_not_end_slow_start():
    """An attempt that started before the refused ones does not count."""
    attempts = Attempts(initial=64.0)
    old, *young = attempts.take(64)
    for ticket in young:
        attempts.give_back(ticket, "T")
    attempts.give_back(old, "A")
    assert attempts.controller.limit == 1.0


def test_growth_is_cubic():
    """After a cut the limit soon approaches its old value, and stays there before it grows further."""
    attempts = Attempts(initial=20.0)
    attempts.play("T", "A")
    limits = [attempts.play(1.0, 1) for _ in range(12)]
    steps = [later - earlier for earlier, later in pairwise(limits)]
    assert limits == sorted(limits)
    assert steps.index(min(steps)) == pytest.approx((10 / 0.02) ** (1 / 3) - 1, abs=1)
    assert 19.0 < limits[6] < 21.0


@pytest.mark.parametrize(("seconds", "mean"), [(2.1, 0.3), (0.0, 0.09)], ids=["slow", "quick"])
def test_round_trip(seconds, mean):
    """The mean round trip moves by 10 % towards the newest."""
    attempts = Attempts()
    (ticket,) = attempts.take(1)
    attempts.play(seconds)
    attempts.give_back(ticket, "A")
    assert attempts.controller.round_trip == pytest.approx(mean)
