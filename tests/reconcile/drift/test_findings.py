"""Accepted changes are read from TOML, whole or not at all; shares are said with their bounds."""

from __future__ import annotations

from datetime import date

import pytest

from payclient.reconcile.drift import Acceptance, AcceptanceError, read_acceptances
from payclient.reconcile.drift._compare import at_most, percent

ONE = '[[accepted]]\ndrift = "first header via"\nreason = "new gateway"\nowner = "Ana"\nexpires = 2027-01-31\n'


def test_acceptance():
    """Each has a drift, a reason, an owner and a last day."""
    expected = Acceptance(drift="first header via", reason="new gateway", owner="Ana", expires=date(2027, 1, 31))
    assert read_acceptances(ONE + ONE) == (expected, expected)
    assert read_acceptances("") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("accepted = 3", "it must have nothing but [[accepted]] tables"),
        (f"other = 1\n{ONE}", "it must have nothing but [[accepted]] tables"),
        (ONE.replace("owner", "person"), "accepted change 1 must have drift, reason, owner, expires, and nothing else"),
        (ONE + ONE.replace("Ana", " "), "accepted change 2 must have a text for drift, reason and owner"),
        (ONE.replace("2027-01-31", '"2027-01-31"'), "accepted change 1 must have a date for expires, such as"),
        (ONE.replace("2027-01-31", "2027-01-31T00:00:00Z"), "accepted change 1 must have a date for expires"),
        ("[[accepted", "not TOML: "),
    ],
)
def test_refused(text, problem):
    """Anything else is refused, with its place."""
    with pytest.raises(AcceptanceError) as caught:
        read_acceptances(text)
    assert str(caught.value).startswith(problem)


def test_shares():
    """A share has two digits where it is small, and an absence its bound of 95 %."""
    assert [percent(share) for share in (0, 0.5, 0.031, 0.0034, 0.000_31)] == [
        "0.0 %",
        "50.0 %",
        "3.1 %",
        "0.34 %",
        "0.031 %",
    ]
    assert at_most(10_000) == "at most 0.03 %, with 95 %"
