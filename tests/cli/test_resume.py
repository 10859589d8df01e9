"""The same command again: what it resumes, what it refuses, and the report from the journal alone."""

import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from payclient.reconcile import Journal
from payclient.testing import Reply
from support.misses import check_each
from support.reports import contents, summary_of

LINES = ("T1,15000,Paid", "T2,9000,Canceled", "T3,1,Paid")
REFUSED = Reply(status=401)


@pytest.fixture
def reconcile(night):
    """Reconcile the ledger, one reference after the other."""

    def reconcile(*arguments, lines=LINES):
        return night("report", "--max-concurrency", "1", *arguments, lines=lines)

    return reconcile


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report"


@pytest.fixture
def finished(reconcile, prepared):
    """Make a finished run."""
    return prepared("finished", reconcile)


def test_refused_midway(reconcile, report, command, service):
    """A run that was refused midway has an incomplete report, is resumed by its command, and asks nothing twice."""
    service.script("T2", REFUSED, REFUSED)
    assert (reconcile().status, contents(report), asked := service.total) == (3, {}, 3)
    incomplete = command("report", "report")
    assert (incomplete.status, incomplete.out.partition(":")[0]) == (75, "INCOMPLETE")
    second = reconcile()
    assert (second.status, service.total) == (1, asked + 5)
    told = "resuming report/journal.sqlite: answered already: 1 of 3 references; for new answers, choose another folder"
    assert told in second.err.splitlines()
    before = contents(report)
    assert (reconcile("--quiet").err, contents(report) == before, service.total) == ("", True, asked + 5)


ANOTHER = "payclient: the journal JOURNAL belongs to another run: "
BEGAN = "payclient: the journal JOURNAL began with another ledger: "
REFUSALS = {
    ("T1,15000,Paid T2,9001,Canceled T3,1,Paid", ""): f"{BEGAN}on line 3, amount was different",
    ("T1,15000,Paid T2,9000,Canceled", ""): f"{BEGAN}it has 3 rows, and this one 2",
    (" ".join((*LINES, "T4,1,Paid")), ""): f"{BEGAN}it has 3 rows, and this one has more",
    (" ".join(LINES), "--time-zone Asia/Jakarta"): f"{ANOTHER}its rules: time_zone",
    (" ".join(LINES), "--not-found-message gone"): f"{ANOTHER}its rules: not_found_messages",
    (" ".join(LINES), "--environment live"): f"{ANOTHER}service",
    (" ".join(LINES), "--base-url http://127.0.0.1:9"): f"{ANOTHER}service",
}


def test_another_run(finished, reconcile, report, service):
    """Another ledger, rules or service is refused with the difference; nothing is asked, and the report is intact."""
    before, asked = contents(report), service.total

    def refused(case):
        lines, options = case
        result = reconcile(*options.split(), lines=lines.split())
        told = result.said.splitlines()[-1].replace("report/journal.sqlite", "JOURNAL")
        return result.status, told.startswith(REFUSALS[case]), service.total == asked, contents(report) == before

    check_each(dict.fromkeys(REFUSALS, (2, True, True, True)), refused)


def test_other_rules(finished, reconcile, command):
    """The command that the refusal of other rules ends with judges the answers of the run by them."""
    refused = reconcile("--time-zone=+07:00", "--assume-status", "none")
    (judged,) = refused.following
    assert command(*judged, "--quiet").status == 1
    assert summary_of(Path("report-rejudged"))["judged_again"]["changed_rules"] == ["time_zone", "assume_status"]


def test_journal(finished, reconcile, report, command):
    """A journal in use or damaged is refused and never replaced; `verify` names its table, and does without it."""
    journal = report / "journal.sqlite"
    with ExitStack() as stack:
        stack.enter_context(Journal(journal))
        result = reconcile()
    assert (result.status, "journal.sqlite is in use by another process" in result.err) == (2, True)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:5000])
    result = reconcile()
    assert (result.status, "damaged" in result.err, len(journal.read_bytes())) == (2, True, 5000)
    journal.write_bytes(whole)
    with closing(sqlite3.connect(journal)) as database, database:
        database.execute("UPDATE entries SET amount = 7 WHERE position = 2")
    result = command("verify", "report")
    assert (result.status, "is damaged (a row of entries is not what was written)" in result.out) == (1, True)
    journal.unlink()
    assert command("verify", "report").status == 0
    result = command("report", "nowhere")
    assert (result.status, result.said) == (2, "payclient: no report found at nowhere\n")
    assert not (report.parent / "nowhere").exists()


def test_full_disk(finished, report, reconcile, command, full_after):
    """Files that cannot be written to their end are told in one line, with status 75; an older report is intact."""
    before = contents(report)
    with full_after(3_000):
        result = command("report", "report")
    assert (result.status, result.said.count("\n"), contents(report) == before) == (75, 1, True)
    (report / "journal.sqlite").unlink()
    with full_after(3_000):
        assert reconcile("--quiet").status == 75


def test_report(finished, report, command, monkeypatch):
    """A report is written again without service and key, byte for byte, with its status, or names a missing extra."""
    before = contents(report)
    for name in before:
        (report / name).unlink()
    for name in ("API_KEY", "BASE_URL", "ENVIRONMENT"):
        monkeypatch.delenv(f"PAYCLIENT_{name}")
    again = command("report", "report")
    assert (again.status, contents(report)) == (finished.status, before)
    assert again.out.splitlines()[:-3] == finished.out.splitlines()[:-3]
    assert command("verify", "report").status == 0
    monkeypatch.setitem(sys.modules, "payclient.reconcile.report._html", None)  # as if its extra were not installed
    result = command("report", "report")
    assert (result.status, "pip install 'payclient[report]'" in result.err, contents(report)) == (2, True, before)
