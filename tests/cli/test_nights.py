"""`payclient demo --nights`: life cycles are planted, found exactly, and the check would say if they were not."""

from __future__ import annotations

import json

import pytest

from payclient.cli._nights import CYCLES, MIN_ROWS, NightCheck, plant
from payclient.ledger import Entry
from payclient.reconcile import Bucket, Code, Finding, Row

STATES = {"new", "still_open", "changed", "reopened"} | {
    f"resolved by {what}" for what in ("ledger", "service", "rule", "acceptance")
}


def test_demo(command, tmp_path):
    """Over real HTTP, with faults, exactly the planted life cycles are found; the nights are a day apart."""
    result = command("demo", "--nights", "3", "--rows", "40", "--seed", "2", "--out", str(tmp_path))
    last = json.loads((tmp_path / "night-3" / "summary.json").read_text())
    assert (result.status, result.out.splitlines()[-1]) == (
        0,
        "CHECKED: 10 kinds of life cycles were planted; exactly these were found.",
    )
    assert (last["tie_out"]["residual"], sum(last["since"]["carried"].values()), len(last["since"]["trend"])) == (
        0,
        1,
        2,
    )
    rows = map(json.loads, (tmp_path / "night-3" / "rows.jsonl").read_text().splitlines())
    assert 2 in {row["history"]["age_days"] for row in rows if row["history"]}


def test_two_nights(command, tmp_path):
    """Fewer nights are the first ones."""
    result = command("demo", "--nights", "2", "--rows", "30", "--out", str(tmp_path))
    assert (result.status, (tmp_path / "night-3").exists()) == (0, False)


def test_smallest():
    """There is a row for each life cycle."""
    assert len(plant(MIN_ROWS, seed=1)[0].transactions) == MIN_ROWS


def test_every_state():
    """Every state that a break can have is planted, and a reversal, and a row that is carried over."""
    found = {state for night in plant(MIN_ROWS, seed=1) for _, _, state in night.expected}
    codes = {code for night in plant(MIN_ROWS, seed=1) for _, code, _ in night.expected}
    assert (found - {""}, Code.REVERSED.value in codes) == (STATES, True)
    assert None in CYCLES["carried over"].ledger


def test_seed():
    """The same seed gives the same nights, and another seed different ones."""
    assert (plant(50, seed=1) == plant(50, seed=1), plant(50, seed=1) == plant(50, seed=2)) == (True, False)


def test_check_fails():
    """A break that is missing, and one that was not planted, are both said."""
    check = NightCheck(frozenset({("T1", "underpaid", "still_open")}))
    check.add(Row(entry=Entry(line=1, reference="T2"), bucket=Bucket.BREAK, findings=(Finding(Code.OVERPAID, "x"),)))
    assert list(check.lines()) == ["  missing: T1: underpaid, still open", "  not planted: T2: overpaid, no state"]


@pytest.mark.parametrize("nights", ["0", "4"])
def test_nights(command, nights):
    """Only so many nights are planted."""
    assert command("demo", "--nights", nights).status == 2
