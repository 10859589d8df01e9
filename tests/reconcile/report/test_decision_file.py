"""The file of decisions: added to, carried, and verified."""

import json
from datetime import UTC, date, datetime, timedelta

import attrs
import openpyxl
import pytest

from payclient.reconcile import Bucket, Code, Decision, DecisionError, Finding, Resolution, Row, Rules
from payclient.reconcile._atomic import lock
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
from payclient.reconcile.report.integrity import (
    DECISIONS,
    add_decisions,
    carry_log,
    earlier_decisions,
    read_log,
    verify_decisions,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ONE = Decision(run="R", reference="T1", code="underpaid", owner="Ana", by="ana", at=NOON, evidence="ab" * 32)
TWO = attrs.evolve(ONE, reference="T2", resolution=Resolution.CORRECTED)
BREAK = Row(
    entry=Entry(line=2, reference="T2", amount=100), bucket=Bucket.BREAK, findings=(Finding(Code.UNDERPAID, "less"),)
)


def report_of(folder, run="", rows=()):
    with ReportFiles(folder, formats=["summary.json"]) as files:
        files.name_run(run)
        for row in rows:
            files.add(row)
        return files.finish(About(run=run)).summary


def test_add(tmp_path):
    """Decisions are added at the end, and what is known already is not added again."""
    assert add_decisions(tmp_path, [ONE]) == (ONE,)
    assert add_decisions(tmp_path, [ONE, TWO]) == (TWO,)
    changed = attrs.evolve(ONE, comment="asked")
    assert add_decisions(tmp_path, [changed, TWO]) == (changed,)
    assert read_log(tmp_path).decisions == (ONE, TWO, changed)
    assert read_log(tmp_path).latest == {("T1", "underpaid"): changed, ("T2", "underpaid"): TWO}


def test_killed_while_adding(tmp_path):
    """What a killed process did not write to its end was never taken: the next one cuts it off."""
    add_decisions(tmp_path, [ONE, TWO])
    path = tmp_path / DECISIONS
    path.write_bytes(path.read_bytes()[:-9])
    assert [problem.what for problem in verify_decisions(tmp_path)] == ["line 2: it is cut"]
    assert add_decisions(tmp_path, [ONE, TWO]) == (TWO,)
    assert read_log(tmp_path).decisions == (ONE, TWO)


def test_changed(tmp_path):
    """A file that was changed is refused, and stays as it is."""
    add_decisions(tmp_path, [ONE])
    path = tmp_path / DECISIONS
    path.write_bytes(path.read_bytes().replace(b"Ana", b"Eva"))
    before = path.read_bytes()
    for refused in (lambda: add_decisions(tmp_path, [TWO]), lambda: read_log(tmp_path), lambda: ReportFiles(tmp_path)):
        with pytest.raises(DecisionError, match="line 1: it was changed"):
            refused()
    assert path.read_bytes() == before


def test_two_at_once(tmp_path):
    """While one process adds, another is refused."""
    add_decisions(tmp_path, [ONE])
    with (tmp_path / DECISIONS).open("rb") as held:
        assert lock(held)
        with pytest.raises(DecisionError, match="in use by another process"):
            add_decisions(tmp_path, [TWO])
    assert add_decisions(tmp_path, [TWO]) == (TWO,)


def test_carry(tmp_path):
    """A run gets the decisions of the one before once, and keeps its own."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    carry_log([old], new)
    assert not new.exists()
    add_decisions(old, [ONE])
    carry_log([old], new)
    assert (new / DECISIONS).read_bytes() == (old / DECISIONS).read_bytes()
    add_decisions(new, [TWO])
    carry_log([old], new)
    assert read_log(new).decisions == (ONE, TWO)


def test_slow_clock(tmp_path):
    """In one file the later line counts, even if the clock of its computer was slow."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    add_decisions(old, [ONE])
    carry_log([old], new)
    late = attrs.evolve(ONE, comment="taken back", at=NOON - timedelta(minutes=10))
    add_decisions(old, [late, attrs.evolve(TWO, at=NOON - timedelta(hours=1))])
    carry_log([new, old], tmp_path / "next")
    assert read_log(tmp_path / "next").latest[ONE.key] == late
    assert len(read_log(tmp_path / "next").decisions) == 3


def test_accepted_again(tmp_path):
    """What was accepted, and is a break again, can be accepted in the same words: its cells are empty then."""
    accepted = attrs.evolve(TWO, resolution=Resolution.ACCEPTED, until=date(2026, 12, 31), comment="agreed", ledger=1)
    add_decisions(tmp_path, [accepted])
    for run, shown in (("R", "accepted until 2026-12-31"), ("S", None)):
        with ReportFiles(tmp_path, formats=["report.xlsx"]) as files:
            files.name_run(run)
            files.add(BREAK)
            files.finish(About(run=run))
        sheet = openpyxl.load_workbook(tmp_path / "report.xlsx")["Breaks"]
        titles = [cell.value for cell in sheet[1]]
        assert sheet.cell(2, 1 + titles.index("Resolution")).value == shown
    assert add_decisions(tmp_path, [accepted]) == ()
    again = attrs.evolve(accepted, run="S")
    assert (add_decisions(tmp_path, [again]), add_decisions(tmp_path, [again])) == ((again,), ())


def test_earlier(tmp_path):
    """In a run the decisions of other runs count; those about it count in the next one."""
    add_decisions(tmp_path, [ONE, attrs.evolve(TWO, run="S")])
    assert earlier_decisions(tmp_path) == read_log(tmp_path).decisions
    report_of(tmp_path, "S")
    assert earlier_decisions(tmp_path) == (ONE,)


def test_verify(tmp_path):
    """The manifest knows with which decisions the report was written, so a missing end is noticed."""
    add_decisions(tmp_path, [ONE, TWO])
    report_of(tmp_path)
    assert verify_decisions(tmp_path) == ()
    add_decisions(tmp_path, [attrs.evolve(ONE, comment="later")])
    assert verify_decisions(tmp_path) == ()
    path = tmp_path / DECISIONS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    (problem,) = verify_decisions(tmp_path)
    assert problem.what == "it lacks the 2 decisions that the report was written with"
    path.unlink()
    assert len(verify_decisions(tmp_path)) == 1


def test_no_decisions(tmp_path):
    """A folder without decisions has nothing wrong with them, whatever its manifest is."""
    assert verify_decisions(tmp_path) == ()
    (tmp_path / "manifest.json").write_text("[")
    assert verify_decisions(tmp_path) == ()


def test_still_there(tmp_path):
    """A break that was marked as corrected is in the summary of a later run that has it, not of its own run."""
    add_decisions(tmp_path, [TWO])
    assert report_of(tmp_path, "R", [BREAK]).still_there == ()
    assert report_of(tmp_path, "S", [BREAK]).still_there == (TWO,)
    (said,) = json.loads((tmp_path / "summary.json").read_text())["still_there"]
    assert said == {
        "code": "underpaid",
        "reference": "T2",
        "sentence": (
            "underpaid of 'T2' is still there, although Ana marked it on 2026-11-21 as corrected in the ledger"
        ),
    }


def test_settled(tmp_path):
    """An accepted difference that is gone needs no review where a decision accepted it: nobody can remove that."""
    accepted = attrs.evolve(ONE, resolution=Resolution.ACCEPTED, until=date(2026, 12, 31), comment="agreed", ledger=1)
    rules = Rules(accepted=[accepted.acceptance])
    for folder, notices in ((tmp_path / "decided", 0), (tmp_path / "by rule", 1)):
        folder.mkdir()
        if not notices:
            add_decisions(folder, [accepted])
        with ReportFiles(folder, rules=rules, formats=["summary.json"]) as files:
            assert len(files.finish(About(rules=rules)).summary.acceptances) == notices


def test_no_folder(tmp_path):
    """Where there is no folder, or a file in its place, there are no decisions."""
    (tmp_path / "file").touch()
    assert read_log(tmp_path / "file").decisions == read_log(tmp_path / "nowhere").decisions == ()
