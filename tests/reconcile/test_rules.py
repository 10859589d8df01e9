"""Rules are plain values that say how differences are judged."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, date, timedelta, timezone
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given

from payclient.reconcile import (
    STRICT,
    Accepted,
    Code,
    FeeSchedule,
    Rules,
    RulesError,
    Status,
    Tolerance,
    rules_as_json,
    rules_from_json,
)
from ruling import DAYS, rules_of

ACCEPTED = Accepted(code="underpaid", reference="T1", reason="agreed", owner="Ana", expires=date(2026, 12, 31))
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


def test_strict():
    """Without rules, every difference counts."""
    assert Rules() == STRICT
    assert rules_as_json(STRICT) == {
        "time_zone": None,
        "grace": "0s",
        "columns": {},
        "tolerances": {},
        "statuses": {},
        "fees": {},
        "accepted": [],
    }


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("SETTLED", Status.PAID),
        ("_settled ", Status.PAID),
        ("partially-paid", Status.PENDING),
        ("Paid", Status.PAID),
        ("cancelled", Status.CANCELED),
        ("other", None),
        ("1", None),
        (None, None),
    ],
)
def test_read_status(word, status):
    """Words of the rules are read like those that are known, whatever their letters."""
    rules = Rules(statuses={"Settled": "paid", "Partially  Paid": Status.PENDING})
    assert rules.read_status(word) is status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"Paid": "failed"}, "statuses.Paid must not be failed: everybody reads 'Paid' as paid"),
        ({"CANCELLED": "expired"}, "statuses.CANCELLED must not be expired: everybody reads 'CANCELLED' as canceled"),
        ({"done": "paidd"}, "statuses.done must be one of paid, pending, "),
        ({"done": ["paid"]}, "statuses.done must be one of paid, pending, "),
        ({"Done": "paid", "done ": "failed"}, "statuses.done  must be paid, as the same word in other letters is"),
        ({"1": "paid"}, "statuses: '1' is no word; a number is never given a meaning"),
        ({"-0.0": "paid"}, "statuses: '-0.0' is no word"),
        ({"\uff11": "paid"}, "statuses: '\uff11' is no word"),
        ({"": "paid"}, "statuses: '' is no word"),
    ],
)
def test_words(words, message):
    """A word that is known keeps its meaning, a word has one meaning, and a number has none."""
    with pytest.raises(RulesError) as caught:
        Rules(statuses=words)
    assert str(caught.value).startswith(message)
    assert caught.value.key == ("statuses", list(words)[-1])


def test_same_meaning():
    """A word may be given the meaning that it has, and twice the same one."""
    assert Rules(statuses={"Paid": "paid", "Done": "paid", "DONE": "paid"}).statuses == {"paid": "paid", "done": "paid"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": {"payee": "x"}}, "columns: there is no field 'payee'; the fields are reference, merchant_reff, "),
        ({"columns": {"amount": " "}}, "columns.amount must be the name of a column, got ' '"),
        ({"columns": {"amount": 1}}, "columns.amount must be the name of a column, got 1"),
        (
            {"tolerances": {"expdate": Tolerance()}},
            "tolerances: there is no field 'expdate'; the fields are amount, fee, ",
        ),
        ({"grace": timedelta(seconds=-1)}, "grace must be a duration in whole seconds that is not negative"),
        ({"grace": timedelta(milliseconds=1)}, "grace must be a duration in whole seconds that is not negative"),
        ({"grace": 3600}, "grace must be a duration in whole seconds that is not negative, got 3600"),
        ({"time_zone": timezone(timedelta(seconds=1))}, "time_zone must be a ZoneInfo with a name, or a timezone of "),
        ({"time_zone": "UTC"}, "time_zone must be a ZoneInfo with a name, or a timezone of whole minutes, got 'UTC'"),
        ({"accepted": [ACCEPTED, OTHER, ACCEPTED]}, "accepted: underpaid of 'T1' is there twice"),
    ],
)
def test_refused(fields, message):
    """What cannot be a rule is refused when the rules are made."""
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
        "columns": {"amount": "Betrag"},
        "tolerances": {"amount": {"below": 500, "above_percent": "0.5"}},
        "statuses": {"settled": "paid"},
        "fees": {"VA": {"flat": 4000, "percent": "0.7", "minimum": 0, "maximum": 9000, "rounding": "up"}},
        "accepted": [
            {"code": "underpaid", "reference": name, "reason": "agreed", "owner": "Ana", "expires": "2026-12-31"}
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
    """A time zone is written so that it can be read again, whatever it calls itself."""
    rules = Rules(time_zone=zone)
    assert rules_as_json(rules)["time_zone"] == text
    assert rules_from_json(rules_as_json(rules)) == rules


@given(rules=rules_of(days=DAYS))
def test_round_trip(rules):
    """Rules that went through JSON are the same, and have the same fingerprint."""
    again = rules_from_json(json.loads(json.dumps(rules_as_json(rules))))
    assert (again, again.fingerprint) == (rules, rules.fingerprint)


@pytest.mark.parametrize(
    "change",
    [
        {"tolerances": {}},
        {"statuses": {"settled": "failed"}},
        {"grace": timedelta(hours=1)},
        {"time_zone": UTC},
        {"time_zone": None},
        {"fees": {"VA": FeeSchedule(flat=4001)}},
        {"accepted": [ACCEPTED]},
    ],
)
def test_fingerprint_changes(change):
    """Whatever changes a judgement changes the fingerprint."""
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
    assert FULL.fingerprint == "b21e12c2f161b8a45dd7d9d772c8fa2eb1bdcae31b6daa5170a6c32f6ca3f98c"


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_error(again):
    """The error keeps its key and its line when it is copied, and is one of configuration."""
    error = again(RulesError("no", key=("accepted", 0), line=3))
    assert (str(error), error.key, error.line, isinstance(error, ValueError)) == ("no", ("accepted", 0), 3, True)
