"""The positive controls: each guard stands where it is said to stand, and four of them are removed."""

from contextlib import nullcontext

import pytest

from payclient.client.policies import Ticket
from simulation.controls import CONTROLS, Control, search
from simulation.oracles import ObservedCapacity

DEBT = Control(
    "an attempt without a rate is no debt",
    "client.policies._capacity:Capacity.take",
    "max(0.0, self._tokens - 1)",
    "self._tokens - 1",
)
"""No drawn run has as many attempts before its storm."""


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
            capacity.take(now)
            end = capacity.accepted if number < 1000 else capacity.overloaded
            end(Ticket(number, now, 4), now + 0.005)
        capacity.opens_at(now + 1.0)
    assert (complaints == []) is is_guarded
    assert {name for name, _ in complaints} <= {"recovers"}
