"""A tolerance bounds each side by itself, absolutely and in percent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import RulesError, Tolerance

MONEY = st.integers(-(10**18), 10**18)
PERCENT = st.decimals(0, 100, places=6)


@pytest.mark.parametrize(
    ("bounds", "theirs", "expected"),
    [
        ({"below": 500}, 9_500, "within the tolerance of 500 below"),
        ({"below": 500}, 9_499, ""),
        ({"below": 500}, 10_001, ""),
        ({"above": 500}, 10_500, "within the tolerance of 500 above"),
        ({"above": 500}, 10_501, ""),
        ({"above": 500}, 9_999, ""),
        ({"above": 0}, 10_001, ""),
        ({"below_percent": "0.50"}, 9_950, "within the tolerance of 0.5 % below"),
        ({"below_percent": "0.50"}, 9_949, ""),
        ({"above_percent": 1}, 10_100, "within the tolerance of 1 % above"),
        ({"above_percent": 1}, 10_101, ""),
        ({"below": 60, "below_percent": "0.5"}, 9_950, "within the tolerance of 60 and 0.5 % below"),
        ({"below": 60, "below_percent": "0.5"}, 9_945, ""),
        ({"below": 40, "below_percent": "0.5"}, 9_955, ""),
        ({}, 9_999, ""),
    ],
)
def test_bounds(bounds, theirs, expected):
    """A difference is within when every bound of its own side holds, and there is one."""
    assert Tolerance(**bounds).waiver(10_000, theirs) == expected


def test_negative():
    """A percentage is one of the ledger's number without its sign."""
    assert Tolerance(below_percent=1).waiver(-100, -101) == "within the tolerance of 1 % below"


@given(ours=MONEY, theirs=MONEY, percent=PERCENT)
def test_exact(ours, theirs, percent):
    """However large the numbers, the percentage is compared exactly."""
    is_within = bool(Tolerance(above_percent=percent, below_percent=percent).waiver(ours, theirs))
    millionths = int(percent.scaleb(6))
    assert is_within == (abs(theirs - ours) * 100 * 10**6 <= abs(ours) * millionths)


@given(ours=MONEY, theirs=MONEY, bound=st.integers(0, 10**18))
def test_sides(ours, theirs, bound):
    """What one side allows says nothing of the other."""
    assert not (Tolerance(above=bound).waiver(ours, theirs) and theirs < ours)
    assert not (Tolerance(below=bound).waiver(ours, theirs) and theirs > ours)


@pytest.mark.parametrize("value", [-1, 1.0, "5", True, 10**18 + 1])
def test_not_a_number(value):
    """A bound is a whole number that is not negative."""
    with pytest.raises(RulesError, match=r"^below must be a whole number that is not negative, got "):
        Tolerance(below=value)


@pytest.mark.parametrize(
    "value", [-1, 101, 0.5, "half", " 5", "1_0", "1e1", "", "0.0000001", Decimal("NaN"), Decimal("Infinity"), True, []]
)
def test_not_a_percentage(value):
    """A percentage is exact: from 0 to 100, with few places, and never a float."""
    with pytest.raises(RulesError, match=r"^above_percent must be a percentage from 0 to 100"):
        Tolerance(above_percent=value)
