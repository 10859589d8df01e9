"""Quiet nights tell nothing; each planted change is told on its first night, a small rise of a share within three."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from random import Random

import pytest
from attrs import evolve

from payclient.reconcile.drift import Contract, compare, contract_from_json
from payclient.reconcile.drift._compare import MIN_NIGHTS, Acceptance, Severity, Shares
from support.drifting import BEGAN, drawn, golden, night, nights

QUIET = 30


@pytest.fixture(scope="module")
def quiet():
    """Return quiet nights, as many as every detector needs."""
    return nights(QUIET, Random(3))


def adding(cells):
    """Return what adds *cells* to the counts of a night."""

    def plant(counts, _):
        counts.update(cells)

    return plant


def rising(feature, rise, methods=("QRIS",)):
    """Return what adds *rise* to the share of *feature*."""

    def plant(counts, random):
        for method in methods:
            key = "share", "2", method, feature
            counts[key] = counts.get(key, 0) + drawn(random, counts["share", "2", method, "answers"], rise)

    return plant


FACTS = {
    "first word status Reversed": {("word", "status", "Reversed"): 12},
    "first transition Paid Pending": {("transition", "Paid", "Pending"): 3},
    "first transition Paid (not found)": {("transition", "Paid", "(not found)"): 1},
    "first field amount text": {("field", "amount", "text"): 1},
    "first field fee null": {("field", "fee", "null"): 1},
    "first field expdate 99/99/9999": {("field", "expdate", "99/99/9999"): 40},
    "first field reference <digits:12>": {("field", "reference", "<digits:12>"): 40},
    "first name refunded_at text": {("name", "refunded_at", "text"): 9},
    "first header via": {("header", "via"): 9},
    "first envelope 200 success boolean, data list text/html no charset identity": {
        ("envelope", "200", "success boolean, data list", "text/html", "no charset", "identity"): 2
    },
    "first failure UnexpectedResponseError 200": {("failure", "UnexpectedResponseError", "200"): 4},
    "first text 422 limit reached": {("text", "422", "limit", "reached"): 4},
    "first deviation body": {("deviation", "body"): 4},
    "relation amount = fee + amount_received": {
        ("relation", "amount = fee + amount_received", "any state", "broken"): 12,
        ("relation", "amount = fee + amount_received", "Paid", "broken"): 12,
    },
    "relation amount = fee + amount_received of Expired": {
        ("relation", "amount = fee + amount_received", "Expired", "broken"): 1
    },
}
GOLDEN = {
    "golden type of amount integer text": {"type of amount": "text"},
    "golden status code 200 203": {"status code": "203"},
    "golden status": {"status": "other", "body": "other"},
    "golden found": {"found": "no", "status code": "404"},
    "golden body": {"body": "other"},
}
SHARES = ("amount is text", "fee is decimal", "slower than 2 s", "payment_code is absent")


@pytest.mark.parametrize("name", FACTS)
def test_planted_fact(quiet, name):
    """A first or a broken relation is told on its night, and not again."""
    planted = night(QUIET, Random(1), goldens=golden(), plant=adding(FACTS[name]))
    found = compare([*quiet, planted])
    assert [drift.name for drift in found.news] == [name]
    assert found.news[0].since == BEGAN + timedelta(days=QUIET, minutes=14)
    again = night(QUIET + 1, Random(1), goldens=golden(), plant=adding(FACTS[name]))
    assert compare([*quiet, planted, again]).news == ()


@pytest.mark.parametrize("name", GOLDEN)
def test_planted_golden_change(quiet, name):
    """A part of the golden answers that was the same on two nights, and is not, is told once for all of them."""
    planted = night(QUIET, Random(1), goldens=golden(**GOLDEN[name]))
    (found,) = compare([*quiet, planted]).news
    assert (found.name, found.count) == (name, 3)
    again = night(QUIET + 1, Random(1), goldens=golden(**GOLDEN[name]))
    assert compare([*quiet, planted, again]).news == ()


@pytest.mark.parametrize("feature", SHARES)
def test_planted_rise(feature):
    """A share that rises by a point is told within three nights, and once."""
    random = Random(8)
    runs = nights(QUIET, random)
    runs += [night(QUIET + day, random, plant=rising(feature, 0.01)) for day in range(5)]
    found = [drift for drift in compare(runs).drifts if drift.kind == "share"]
    assert [drift.name for drift in found] == [f"share {feature} QRIS 00:00 to 06:00 UTC"]
    assert found[0].night in [f"night-{QUIET + day:03}" for day in range(3)]


def test_small_rise():
    """Half a point more of what nearly never occurs is told within three nights."""
    random = Random(2)
    runs = nights(QUIET, random)
    runs += [night(QUIET + day, random, plant=rising("amount is text", 0.005)) for day in range(3)]
    assert [drift.name for drift in compare(runs).drifts] == ["share amount is text QRIS 00:00 to 06:00 UTC"]


def test_quiet_year():
    """A year with weekends, holidays, a growing method, failures and two versions tells at most one rise."""
    found = compare(nights(365, Random(1)))
    assert [drift for drift in found.drifts if drift.kind != "share"] == []
    assert len(found.drifts) <= 1
    assert found.sides == ("night-150: payclient 1.0 → 1.1",)


@pytest.mark.slow
def test_quiet_years():
    """In 40 years there is on average at most one false rise in a year, and nothing else."""
    found = [drift for seed in range(40) for drift in compare(nights(365, Random(seed))).drifts]
    assert {drift.kind for drift in found} <= {"share"}
    assert len(found) <= 40


def test_single_night():
    """One night with many failures, or slow ones, is no change of the service."""
    random = Random(4)
    runs = nights(QUIET, random)
    runs.append(night(QUIET, random, plant=rising("slower than 2 s", 0.3)))
    runs += [night(QUIET + 1 + day, random, goldens=golden()) for day in range(3)]
    assert compare(runs).drifts == ()


def test_times_are_compared_on_one_side():
    """A version that is slower has its own nights; other shares go on."""
    random, shares = Random(5), Shares()
    found = []
    for day in range(60):
        plant = None if day < 30 else rising("slower than 2 s", 0.2)
        found += shares.add(night(day, random, plant=plant)[1].profile, "1.0" if day < 30 else "1.1")
    assert found == []


def test_few_nights(quiet):
    """Nothing is new before there are enough answers and nights to say so, and the basis says it."""
    name = "first word status Reversed"
    planted = night(QUIET, Random(1), plant=adding(FACTS[name]))
    assert compare([*quiet[:MIN_NIGHTS], planted]).news != ()
    assert compare([*quiet[: MIN_NIGHTS - 1], planted]).news == ()
    alone = compare([planted])
    assert alone.news == ()
    assert "too few to say what is new" in alone.basis[1]


def test_restless_kind(quiet):
    """A kind of fact that has firsts all the time is not told; a first of another kind is."""
    runs = [night(day, Random(day), plant=adding({("header", "x" * (day + 1)): 9})) for day in range(QUIET)]
    planted = night(QUIET, Random(1), plant=adding({("header", "via"): 9, ("word", "status", "Held"): 9}))
    assert [drift.name for drift in compare([*runs, planted]).news] == ["first word status Held"]


def test_rare_word():
    """A word that two references have is a shape, and is not told for that on a night when a third has it."""
    random = Random(1)
    runs = [night(day, random, plant=adding({("word", "status", "<letters:4>"): 2})) for day in range(QUIET)]
    runs.append(night(QUIET, random, plant=adding({("word", "status", "Held"): 4})))
    runs.append(night(QUIET + 1, random, plant=adding({("word", "status", "<letters:7>"): 2})))
    found = compare(runs)
    assert found.drifts == ()


def test_order_and_environment(quiet):
    """The order of the runs does not matter, and those of another environment are left out."""
    planted = night(QUIET, Random(1), plant=adding(FACTS["first header via"]))
    other = [(f"sandbox-{name}", evolve(run, side=evolve(run.side, environment="sandbox"))) for name, run in quiet[:3]]
    found = compare([planted, *other, *reversed(quiet)])
    assert found.nights == compare([*quiet, planted]).nights
    assert found.basis[-1] == "Left out, because they are of another environment: 3 runs."


def test_change_of_our_side(quiet):
    """A sentence says what changed on our side since the night before."""
    planted = night(QUIET, Random(1), version="2.0", goldens=golden(), plant=adding(FACTS["first header via"]))
    (found,) = compare([*quiet, planted]).news
    assert found.sentence.endswith("; our side changed too: payclient 1.0 → 2.0")


def test_acceptance(quiet):
    """An accepted change is not new; after its last day it is told again, with who had accepted it."""
    planted = night(QUIET, Random(1), goldens=golden(), plant=adding(FACTS["first header via"]))
    day = planted[1].at.date()
    by = Acceptance(drift="first header via", reason="new gateway", owner="Ana", expires=day)
    found = compare([*quiet, planted], [by])
    assert (found.news, [known for _, known in found.accepted]) == ((), [by])
    ended = evolve(by, expires=day - timedelta(days=1))
    (again,) = compare([*quiet, planted], [ended]).news
    assert again.sentence.endswith(f"; Ana had accepted it until {ended.expires}: new gateway")
    assert compare([*quiet, planted], [evolve(by, drift="first header date")]).news != ()


def test_acceptance_ends_with_its_day():
    """The last day of an acceptance counts in UTC."""
    by, zone = Acceptance(drift="x", reason="y", owner="z", expires=date(2026, 1, 1)), timezone(timedelta(hours=7))
    assert [by.is_valid(datetime(2026, 1, 2, hour, tzinfo=zone)) for hour in (6, 7)] == [True, False]


def test_sentences(quiet):
    """The most severe come first; a first has its bound, a relation its count."""
    both = {**FACTS["first header via"], **FACTS["relation amount = fee + amount_received"]}
    found = compare([*quiet, night(QUIET, Random(1), goldens=golden(), plant=adding(both))])
    relation, header = found.news
    assert (relation.severity, header.severity) == (Severity.HIGH, Severity.LOW)
    assert relation.sentence.startswith("“amount = fee + amount_received” held in all of 2")
    assert relation.sentence.endswith(" answers, and was broken 12 times since 02:14 UTC")
    assert header.sentence.startswith("First: the header via, 9 times; never in 2")
    assert ", which bounds it to at most 0.0013 %, with 95 %; " in header.sentence


def test_state_machine(quiet):
    """The states and transitions of all runs, with how long they took."""
    found = compare(quiet)
    assert [state for state, _ in found.states] == ["Paid", "Pending", "Expired", "Canceled"]
    first = found.transitions[0]
    assert (first.before, first.after, first.median) == ("Pending", "Paid", "under a day")
    assert first.count > first.today > 0


def test_json(quiet):
    """A contract is the same after JSON, and so a comparison of contracts that were read."""
    read = [(name, contract_from_json(json.loads(json.dumps(run.as_json())))) for name, run in quiet]
    assert read == quiet
    text = json.dumps(compare(read).as_json())
    assert json.loads(text)["nights"] == [name for name, _ in quiet]


def test_no_run():
    """There must be a run to compare."""
    with pytest.raises(ValueError, match="at least one run"):
        compare([])


def test_empty_run(quiet):
    """A run that asked nothing has nothing new, and says so."""
    found = compare([*quiet, ("empty", Contract(at=BEGAN + timedelta(days=99), side=quiet[0][1].side))])
    assert found.news == ()
    assert "Nothing was asked in the last run, so nothing can be new in it." in found.basis
