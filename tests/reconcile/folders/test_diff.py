"""Two reports are compared break by break, at any size."""

import json
import sqlite3
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from payclient.reconcile import BreakState, Bucket, Code, Finding, Row, Severity
from payclient.reconcile._judgement.findings import as_list
from payclient.reconcile.folders import RunDiff
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report.rows import row_from_json
from payclient.reconcile.report.wording import moves
from support.json_schema import problems
from support.nights import FIRST
from support.reports import row, run_of

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "diff.schema.json").read_text())


@pytest.fixture
def run(tmp_path):
    """Give what writes the report of some rows, and opens it."""
    return partial(run_of, tmp_path)


@pytest.fixture
def nights(run):
    """Give two runs with a break in each state that two runs can tell."""
    first = [
        row("T2", Code.UNDERPAID, service=5),
        row("T1", Code.UNDERPAID, service=5),
        row("T3", Code.UNDERPAID, Code.FEE_DIFFERS, service=5),
        row("T4", Code.UNDERPAID, service=5),
        row("T5", Code.MISSING_AT_SERVICE, service=None),
        row("T6"),
    ]
    second = [
        row("T6", Code.CLOSED_DIFFERENTLY, night=1),
        row("T1", Code.UNDERPAID, service=5, night=1),
        row("T2", Code.UNDERPAID, service=6, night=1),
        row("T3", Code.UNDERPAID, service=5, night=1),
        row("T4", night=1),
        row("T5", service=None, bucket=Bucket.UNRESOLVED, reason="timed out", night=1),
    ]
    return run("20", first), run("21", second)


def found(diff):
    return {
        state.value: [(change["reference"], change["code"]) for change in diff.changes(state)] for state in BreakState
    }


def test_states(nights):
    """Each break of either run is in one list, the most severe first and then by reference."""
    with RunDiff(*nights) as diff:
        assert found(diff) == {
            "new": [("T6", "closed_differently")],
            "still_open": [("T1", "underpaid"), ("T3", "underpaid")],
            "changed": [("T2", "underpaid")],
            "reopened": [],
            "resolved": [("T4", "underpaid"), ("T3", "fee_differs")],
            "not_known": [("T5", "missing_at_service")],
        }
        assert (
            moves(diff.counts, diff.earlier.note.folder)
            == "1 new, 2 still open, 1 changed; 2 resolved, 1 not known since 20."
        )


def test_values(nights):
    """A change has what both sides said then and now, its age, and the reason for what is not known."""
    with RunDiff(*nights) as diff:
        (changed,) = diff.changes(BreakState.CHANGED)
        (lost,) = diff.changes(BreakState.NOT_KNOWN)
        (gone, _) = diff.changes(BreakState.RESOLVED)
    assert (changed["ledger"], changed["service"], changed["was"]) == (9, 6, {"ledger": 9, "service": 5, "at_stake": 0})
    assert (changed["first_seen"], changed["first_run"], changed["age_days"]) == (FIRST.isoformat(), "20", 1)
    assert (lost["reason"], gone["resolved_by"]) == ("unresolved: timed out", "service")


def test_exit_status(nights, run):
    """What is new or changed counts from a severity on; what is not known comes after it, and the rest is 0."""
    rows = [[row_from_json(data) for data, _ in each.lines()] for each in nights]
    for number, (references, fail_on, status) in enumerate(
        (("16", "LOW", 1), ("16", "MEDIUM", 0), ("2", "MEDIUM", 1), ("56", "MEDIUM", 75), ("4", "INFO", 0))
    ):
        kept = [[each for each in side if each.reference[1] in references] for side in rows]
        with RunDiff(run(f"a{number}", kept[0]), run(f"b{number}", kept[1])) as diff:
            assert diff.exit_status(Severity[fail_on]) == status


def test_json(nights):
    """The object has the breaks in a list for each state, and is what its published schema says."""
    with RunDiff(*nights) as diff:
        value = json.loads("\n".join(diff.as_json()))
        lists = {state.value: value[state.value] for state in BreakState}
        assert lists == {state.value: list(diff.changes(state)) for state in BreakState}
    assert list(problems(value, SCHEMA, SCHEMA)) == []
    assert [value[name]["folder"] for name in ("earlier", "later")] == ["20", "21"]
    assert value["counts"] == {state: len(changes) for state, changes in lists.items()}
    assert set(SCHEMA["required"]) == set(value)


@pytest.mark.parametrize(("is_listed", "state"), [(True, "resolved"), (False, "not_known")])
@pytest.mark.parametrize("second", ["T2", "INV 7, part 2", '"x", y'])
def test_paid_twice(run, is_listed, state, second):
    """One of two payments is settled only when the later run has judged the other one, whatever its reference is."""
    one = Finding(Code.PAID_TWICE, "twice", ledger=as_list([second]), service="N")
    other = Finding(Code.PAID_TWICE, "twice", ledger="T1", service="N")
    rows = [
        Row(entry=Entry(line=1, reference=ref), bucket=Bucket.BREAK, findings=(each,))
        for ref, each in (("T1", one), (second, other))
    ]
    later = [row("T1"), *([row(second)] if is_listed else [])]
    with RunDiff(run("a", rows), run("b", later)) as diff:
        assert ("T1", "paid_twice") in found(diff)[state]


def test_unreadable(nights, databases):
    """Its database is closed when a report cannot be read."""
    (nights[1].folder / "rows.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        RunDiff(*nights)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        databases[0].execute("SELECT 1")


@pytest.mark.slow
def test_flat_memory(run):
    """Memory does not grow with the breaks: it stays far below the rows that have to be read in full."""
    breaks = [[row(f"T{n}", Code.UNDERPAID, service=n, night=night) for n in range(1_500)] for night in (0, 1)]
    runs = [run(str(night), rows) for night, rows in enumerate(breaks)]
    size_bytes = sum((each.folder / "rows.jsonl").stat().st_size for each in runs)
    tracemalloc.start()
    with RunDiff(*runs) as diff:
        lines = sum(1 for _ in diff.as_json())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines > 1_500
    assert most < size_bytes / 2
