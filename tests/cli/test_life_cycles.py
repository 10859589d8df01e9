"""Life cycles of breaks over three nights are found exactly as planted, and the check would say if they were not."""

from __future__ import annotations

import json

import pytest

from payclient.cli._sandbox import faults_of
from payclient.ledger import Entry
from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.testing import FakeService
from support.life_cycles import CYCLES, MIN_ROWS, NightCheck, plant, run_nights

STATES = {"new", "still_open", "changed", "reopened"} | {
    f"resolved by {what}" for what in ("ledger", "service", "rule", "acceptance")
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
async def test_three_nights(seed, tmp_path):
    """Over real HTTP, with faults, exactly the planted life cycles are found; the nights are a day apart."""
    service = FakeService(faults=faults_of(0.02), seed=seed)
    assert await run_nights(plant(40, seed=seed), tmp_path, service) == [[], [], []]
    last = json.loads((tmp_path / "night-3" / "summary.json").read_text())
    assert (last["tie_out"]["residual"], sum(last["since"]["carried"].values()), len(last["since"]["trend"])) == (
        0,
        1,
        2,
    )
    rows = map(json.loads, (tmp_path / "night-3" / "rows.jsonl").read_text().splitlines())
    assert 2 in {row["history"]["age_days"] for row in rows if row["history"]}


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
