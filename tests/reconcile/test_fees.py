"""A fee schedule is exact arithmetic."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import FeeSchedule, Rounding, RulesError


@pytest.mark.parametrize(
    ("schedule", "amount", "fee"),
    [
        ({}, 15_000, 0),
        ({"flat": 4_000}, 15_000, 4_000),
        ({"percent": "0.7"}, 15_000, 105),
        ({"flat": 1_000, "percent": "0.7"}, 15_000, 1_105),
        ({"percent": "0.7", "minimum": 200}, 15_000, 200),
        ({"percent": "0.7", "minimum": 105}, 15_000, 105),
        ({"percent": "0.7", "maximum": 100}, 15_000, 100),
        ({"flat": 50, "maximum": 0}, 15_000, 0),
        ({"percent": 1}, 150, 2),
        ({"percent": 1}, 149, 1),
        ({"percent": 1, "rounding": "up"}, 101, 2),
        ({"percent": 1, "rounding": "up"}, 100, 1),
        ({"percent": 1, "rounding": "down"}, 199, 1),
        ({"percent": 1}, -150, 0),
        ({"flat": 10, "percent": 1}, -150, 9),
    ],
)
def test_fee(schedule, amount, fee):
    """Flat and percentage are added, rounded as the schedule says, and then bounded."""
    assert FeeSchedule(**schedule).fee_of(amount) == fee


@given(amount=st.integers(0, 10**18), millionths=st.integers(0, 10**8), rounding=st.sampled_from(list(Rounding)))
def test_exact(amount, millionths, rounding):
    """However large the amount, the percentage is rounded once, from its exact value."""
    fee = FeeSchedule(percent=Decimal(millionths).scaleb(-6), rounding=rounding).fee_of(amount)
    down, rest = divmod(amount * millionths, 10**8)
    expected = {"down": down, "up": down + bool(rest), "half_up": down + (2 * rest >= 10**8)}[rounding]
    assert fee == expected


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("flat", -1, "a whole number"),
        ("flat", Decimal(1), "a whole number"),
        ("minimum", None, "a whole number"),
        ("maximum", 5.0, "a whole number"),
        ("percent", None, "a percentage"),
        ("percent", "101", "a percentage"),
        ("rounding", "half_even", "one of half_up, up, down"),
        ("rounding", ["up"], "one of half_up, up, down"),
    ],
)
def test_refused(field, value, wanted):
    """What is no schedule is refused by the name of its field."""
    with pytest.raises(RulesError, match=f"^{field} must be {wanted}") as caught:
        FeeSchedule(**{field: value})
    assert caught.value.key == (field,)


def test_empty_range():
    """A highest fee below the least one is refused."""
    with pytest.raises(RulesError, match=r"^maximum must be at least the minimum 5, got 4$"):
        FeeSchedule(minimum=5, maximum=4)
