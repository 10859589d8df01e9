"""Rules are plain values that say how differences are judged."""

from __future__ import annotations

import copy
import json
import pickle
import re
from datetime import UTC, date, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import (
    STRICT,
    Accepted,
    Code,
    FeeSchedule,
    Rounding,
    Rules,
    RulesError,
    Status,
    Tolerance,
    rules_as_json,
    rules_from_json,
)
from support.ruling import DAYS, rules_of

ROOT = Path(__file__).parents[2]
ACCEPTED = Accepted(
    code="underpaid",
    reference="T1",
    reason="agreed",
    owner="Ana",
    expires=date(2026, 12, 31),
    largest_difference=500,
)
OTHER = attrs.evolve(ACCEPTED, reference="T2")
FULL = Rules(
    columns={"amount": "Betrag"},
    tolerances={"amount": Tolerance(below=500, above_percent="0.5")},
    statuses={"Settled": "paid"},
    grace=timedelta(hours=36),
    time_zone=ZoneInfo("Asia/Jakarta"),
    fees={"VA": FeeSchedule(flat=4000, percent="0.70", maximum=9000, rounding="up")},
    accepted=[OTHER, ACCEPTED],
)


def test_used():
    """Each rule is read by a module other than that of the rules, and by a test."""
    for folder in ("payclient", "tests"):
        modules = [each for each in (ROOT / folder).rglob("*.py") if each.name != "_rules.py"]
        text = "\n".join(module.read_text(encoding="utf-8") for module in modules)
        names = [each.name for each in attrs.fields(Rules) if each.init]
        assert [name for name in names if not re.search(rf"\.{name}\b|\b{name}=", text)] == [], folder


def test_strict():
    """Without rules, every difference counts."""
    assert Rules() == STRICT
    assert rules_as_json(STRICT) == {
        "time_zone": None,
        "grace": "0s",
        "assume_status": "paid",
        "columns": {},
        "tolerances": {},
        "statuses": {},
        "fees": {},
        "accepted": [],
    }


def test_read_status(subtests):
    """Words of the rules are read like those that are known, whatever their letters."""
    cases = (
        ("SETTLED", Status.PAID),
        ("_settled ", Status.PAID),
        ("partially-paid", Status.PENDING),
        ("Paid", Status.PAID),
        ("cancelled", Status.CANCELED),
        ("other", None),
        ("1", None),
        (None, None),
    )
    for word, status in cases:
        with subtests.test(word=word, status=status):
            rules = Rules(statuses={"Settled": "paid", "Partially  Paid": Status.PENDING})
            assert rules.read_status(word) is status


def test_words(subtests):
    """A word that is known keeps its meaning, a word has one meaning, and a number has none."""
    cases = (
        ({"Paid": "failed"}, "statuses.Paid must not be failed: 'Paid' always means paid"),
        ({"CANCELLED": "expired"}, "statuses.CANCELLED must not be expired: 'CANCELLED' always means canceled"),
        ({"done": "paidd"}, "statuses.done must be one of paid, pending, "),
        ({"done": ["paid"]}, "statuses.done must be one of paid, pending, "),
        ({"Done": "paid", "done ": "failed"}, "statuses.done  must be paid, as the same word in other letters is"),
        ({"1": "paid"}, "statuses: '1' is not a word; a number cannot have a meaning"),
        ({"-0.0": "paid"}, "statuses: '-0.0' is not a word"),
        ({"\uff11": "paid"}, "statuses: '\uff11' is not a word"),
        ({"": "paid"}, "statuses: '' is not a word"),
    )
    for words, message in cases:
        with subtests.test(words=words, message=message):
            with pytest.raises(RulesError) as caught:
                Rules(statuses=words)
            assert str(caught.value).startswith(message)
            assert caught.value.key == ("statuses", list(words)[-1])


def test_same_meaning():
    """A word may be given the meaning that it has, and twice the same one."""
    assert Rules(statuses={"Paid": "paid", "Done": "paid", "DONE": "paid"}).statuses == {"paid": "paid", "done": "paid"}


def test_refused(subtests):
    """What cannot be a rule is refused when the rules are made."""
    cases = (
        ({"columns": {"payee": "x"}}, "columns: there is no field 'payee'; the fields are reference, merchant_reff, "),
        ({"columns": {"amount": " "}}, "columns.amount must be the name of a column, got ' '"),
        ({"columns": {"amount": 1}}, "columns.amount must be the name of a column, got 1"),
        (
            {"tolerances": {"expdate": Tolerance()}},
            "tolerances: there is no field 'expdate'; the fields are amount, fee, ",
        ),
        ({"grace": timedelta(seconds=-1)}, "grace must be a duration such as "),
        ({"grace": timedelta(milliseconds=1)}, "grace must be a duration such as "),
        ({"grace": 3600}, "grace must be a duration such as '90m', '12h' or '1d 12h', or '2 business days', got 3600"),
        ({"time_zone": timezone(timedelta(seconds=1))}, "time_zone must be a name such as Asia/Jakarta, or an offset "),
        ({"time_zone": 7}, "time_zone must be a name such as Asia/Jakarta, or an offset such as +07:00, got 7"),
        ({"accepted": [ACCEPTED, OTHER, ACCEPTED]}, "accepted: underpaid of 'T1' is listed twice"),
    )
    for fields, message in cases:
        with subtests.test(fields=fields, message=message):
            with pytest.raises(RulesError) as caught:
                Rules(**fields)
            assert str(caught.value).startswith(message)


def test_created_at():
    """A column can be chosen for the age of a row, too."""
    assert Rules(columns={"created_at": "Tanggal"}).columns == {"created_at": "Tanggal"}


def test_acceptance():
    """An accepted difference is found by its code and its reference together."""
    assert FULL.acceptance(Code.UNDERPAID, "T1") is ACCEPTED
    assert (FULL.acceptance(Code.OVERPAID, "T1"), FULL.acceptance(Code.UNDERPAID, "T3")) == (None, None)


def test_unchangeable():
    """A table that was given can be changed without the rules."""
    given_to = {"settled": "paid"}
    rules = Rules(statuses=given_to)
    given_to["done"] = "paid"
    assert rules.read_status("done") is None
    with pytest.raises(TypeError):
        rules.statuses["done"] = Status.PAID


def test_as_json():
    """In plain values, rules have the shape of a rules file."""
    assert rules_as_json(FULL) == {
        "time_zone": "Asia/Jakarta",
        "grace": "1d 12h",
        "assume_status": "paid",
        "columns": {"amount": "Betrag"},
        "tolerances": {"amount": {"below": 500, "above_percent": "0.5"}},
        "statuses": {"settled": "paid"},
        "fees": {"VA": {"flat": 4000, "percent": "0.7", "minimum": 0, "maximum": 9000, "rounding": "up"}},
        "accepted": [
            {
                "code": "underpaid",
                "reference": name,
                "largest_difference": 500,
                "reason": "agreed",
                "owner": "Ana",
                "expires": "2026-12-31",
            }
            for name in ("T1", "T2")
        ],
    }


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        (UTC, "UTC"),
        (ZoneInfo("UTC"), "UTC"),
        (timezone(timedelta(hours=7), "WIB"), "+07:00"),
        (timezone(timedelta(hours=-3, minutes=-30)), "-03:30"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
    ],
)
def test_zone(zone, text):
    """Any time zone survives a round trip."""
    rules = Rules(time_zone=zone)
    assert rules_as_json(rules)["time_zone"] == text
    assert rules_from_json(rules_as_json(rules)) == rules


@given(rules=rules_of(days=DAYS))
def test_round_trip(rules):
    """Rules that went through JSON are the same, and have the same fingerprint."""
    again = rules_from_json(json.loads(json.dumps(rules_as_json(rules))))
    assert (again, again.fingerprint) == (rules, rules.fingerprint)


def test_fingerprint_changes(subtests):
    """Every change of the rules that changes a judgement changes the fingerprint."""
    cases = (
        {"tolerances": {}},
        {"statuses": {"settled": "failed"}},
        {"grace": timedelta(hours=1)},
        {"time_zone": UTC},
        {"time_zone": None},
        {"fees": {"VA": FeeSchedule(flat=4001)}},
        {"accepted": [ACCEPTED]},
    )
    for change in cases:
        with subtests.test(change=change):
            assert attrs.evolve(FULL, **change).fingerprint != FULL.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"columns": {}},
        {"accepted": [ACCEPTED, OTHER]},
        {"tolerances": {"amount": Tolerance(below=500, above_percent="0.500")}},
        {"statuses": {"SETTLED": "paid"}},
    ],
)
def test_fingerprint_stays(change):
    """How the same judgement is written does not change the fingerprint, and neither do columns."""
    assert attrs.evolve(FULL, **change).fingerprint == FULL.fingerprint


def test_fingerprint_is_stable():
    """A journal of an earlier version knows the same rules again."""
    assert FULL.fingerprint == "2ac3db5ab966f638120ced1a4566a861ef77ec507b47729e26c20433631d92dc"


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_error(again):
    """The error keeps its key and its line when it is copied, and is one of configuration."""
    error = again(RulesError("no", key=("accepted", 0), line=3))
    assert (str(error), error.key, error.line, isinstance(error, ValueError)) == ("no", ("accepted", 0), 3, True)


def test_fee(subtests):
    """Flat and percentage are added, rounded as the schedule says, and then bounded."""
    cases = (
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
    )
    for schedule, amount, fee in cases:
        with subtests.test(schedule=schedule, amount=amount):
            assert FeeSchedule(**schedule).fee_of(amount) == fee


@given(amount=st.integers(0, 10**18), millionths=st.integers(0, 10**8), rounding=st.sampled_from(list(Rounding)))
def test_exact(amount, millionths, rounding):
    """For any amount, the percentage is rounded once, from its exact value."""
    fee = FeeSchedule(percent=Decimal(millionths).scaleb(-6), rounding=rounding).fee_of(amount)
    down, rest = divmod(amount * millionths, 10**8)
    expected = {"down": down, "up": down + bool(rest), "half_up": down + (2 * rest >= 10**8)}[rounding]
    assert fee == expected


def test_refused_of_fees(subtests):
    """What is no schedule is refused by the name of its field."""
    cases = (
        ("flat", -1, "a whole number"),
        ("flat", Decimal(1), "a whole number"),
        ("minimum", None, "a whole number"),
        ("maximum", 5.0, "a whole number"),
        ("percent", None, "a percentage"),
        ("percent", "101", "a percentage"),
        ("rounding", "half_even", "one of half_up, up, down"),
        ("rounding", ["up"], "one of half_up, up, down"),
    )
    for field, value, wanted in cases:
        with subtests.test(field=field, value=value):
            with pytest.raises(RulesError, match=f"^{field} must be {wanted}") as caught:
                FeeSchedule(**{field: value})
            assert caught.value.key == (field,)


def test_empty_range():
    """A highest fee below the least one is refused."""
    with pytest.raises(RulesError, match=r"^maximum must be at least the minimum 5, got 4$"):
        FeeSchedule(minimum=5, maximum=4)


MONEY = st.integers(-(10**18), 10**18)
PERCENT = st.decimals(0, 100, places=6)


def test_bounds(subtests):
    """A difference is within when every bound of its own side holds, and there is one."""
    cases = (
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
    )
    for bounds, theirs, expected in cases:
        with subtests.test(bounds=bounds, theirs=theirs):
            assert Tolerance(**bounds).waiver(10_000, theirs) == expected


def test_negative():
    """A percentage is one of the ledger's number without its sign."""
    assert Tolerance(below_percent=1).waiver(-100, -101) == "within the tolerance of 1 % below"


@given(ours=MONEY, theirs=MONEY, percent=PERCENT)
def test_exact_of_tolerance(ours, theirs, percent):
    """For any numbers, the percentage is compared exactly."""
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


def test_not_a_percentage(subtests):
    """A percentage is exact: from 0 to 100, with few places, and never a float."""
    cases = (-1, 101, 0.5, "half", " 5", "1_0", "1e1", "", "0.0000001", Decimal("NaN"), Decimal("Infinity"), True, [])
    for value in cases:
        with subtests.test(value=value):
            with pytest.raises(RulesError, match=r"^above_percent must be a percentage from 0 to 100"):
                Tolerance(above_percent=value)
