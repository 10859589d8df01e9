"""The positive controls: each guard stands where it is said to stand, and three of them are removed."""

import pytest

from simulation.controls import CONTROLS, search


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
