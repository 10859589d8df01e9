"""The positive controls: each guard stands where it is said to stand, and some of them are removed."""

from contextlib import nullcontext

import pytest

from bench import served
from payclient.client.policies import Ticket
from simulation.controls import CONTROLS, Control, search
from simulation.oracles import ObservedCapacity
from support.served import Situation

DEBT = Control(
    "an attempt without a rate is no debt",
    "client.policies._capacity:Capacity.take",
    "max(0.0, self._tokens - 1)",
    "self._tokens - 1",
)
"""No drawn run has as many attempts before its storm."""


_CAPACITY = "client.policies._capacity:Capacity"
LAWS = (
    # Guard, situation, seeds, and the figure with at least this mean; without the guard it falls by a quarter
    (Control("awaited lookups go before rows", "client.policies._limiter:Limiter._next",
             "min(waiting, default=None)", "max(waiting, default=None)"),
     Situation("bucket 20/s", 1, 0.7, 2.0, "each"), (1, 2), "answered", 0.98),
    (Control("a stream gives way to visitors of others", f"{_CAPACITY}._tally", "else _BULK", "else _AWAITED"),
     Situation("bucket 20/s", 4, 0.5, 5.0, "apart"), (1, 2, 3, 4), "answered", 0.85),
    (Control("rows pay for some refusals", f"{_CAPACITY}.throttled", "self._saved >= 1 and", "False and"),
     Situation("1 % refused", 1, 0.0, 0.0, "each"), tuple(range(1, 9)), "rows", 0.75),
    (Control("refusals beside answers are chance", f"{_CAPACITY}._grow_on", "newest > _GROWING", "0 > _GROWING"),
     Situation("5 % refused", 1, 0.0, 0.0, "each"), (1, 2, 3, 4), "rows", 0.9),
    (Control("a cut keeps the throughput", f"{_CAPACITY}._cut", "min(rate, throughput)", "min(rate, throughput) / 2"),
     Situation("20 a second", 1, 0.0, 0.0, "each"), (1, 2), "rows", 0.9),
    (Control("refusals cut the rate", f"{_CAPACITY}.throttled", "elif may_cut:", "elif False:"),
     Situation("bucket 20/s", 4, 0.0, 0.0, "each"), (1, 2, 3), "jain", 0.85),
)  # fmt: skip
"""The guards of three laws: visitors come first, rows take what is left, and alike clients are treated alike."""


@pytest.mark.parametrize(("control", "situation", "seeds", "figure", "least"), LAWS, ids=[law[0].name for law in LAWS])
def test_guard_of_law(monkeypatch, control, situation, seeds, figure, least):
    """Without a guard, fewer visitors are answered, a stream is slower, or clients have unequal shares."""
    monkeypatch.setattr(served, "SECONDS", 40.0)
    _, _, guarded = served.measure((situation, "client", seeds))
    with control.removed():
        _, _, unguarded = served.measure((situation, "client", seeds))
    assert guarded[figure] >= least
    assert unguarded[figure] < 0.75 * guarded[figure]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_guard_is_there(control):
    """A guard that has moved is noticed here, and not by a table that has lost a row."""
    with control.removed():
        pass


@pytest.mark.parametrize(
    "name",
    [
        "a transaction is compared with its reference",
        "refusals are believed from fresh connections only",
        "slots are bounded by the limit",
    ],
)
def test_removed(name):
    """Without a guard, one of the first seeds fails; with it, the same seed is content."""
    (control,) = [control for control in CONTROLS if control.name == name]
    _, seeds, oracles = search(control, seeds=200)
    assert (seeds is not None, oracles != []) == (True, True)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_debt(is_guarded):
    """A thousand attempts before a storm don't delay the first one after it, or the oracle complains."""
    capacity, complaints = ObservedCapacity(max_concurrency=16, initial=4, workers=1), []
    capacity.fail = lambda *complaint: complaints.append(complaint)
    with nullcontext() if is_guarded else DEBT.removed():
        for number in range(1060):
            now = number / 100
            capacity.take(now, 1)
            end = capacity.accepted if number < 1000 else capacity.overloaded
            end(Ticket(number, now, 4), now + 0.005)
        capacity.opens_at(now + 1.0)
    assert (complaints == []) is is_guarded
    assert {name for name, _ in complaints} <= {"recovers"}
