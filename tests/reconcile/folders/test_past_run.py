"""The report of an earlier run is used as it was written, or refused."""

import json
import shutil

import pytest

from payclient.reconcile import STRICT, Bucket, Journal, PastRunError, Row, Rules
from payclient.reconcile.folders import JOURNAL, open_past_run
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
from payclient.reconcile.report.model import FORMATS


def write(folder, *, formats=FORMATS, rules=STRICT, **about):
    """Write the report of one row, with the journal of a run that has ended."""
    with Journal(folder / JOURNAL) as journal:
        journal.finish_ledger()
    with ReportFiles(folder, formats=formats, rules=rules) as files:
        files.name_run(about.get("run", ""))
        files.add(Row(entry=Entry(line=1, reference="T1"), bucket=Bucket.OPEN))
        files.finish(
            About(
                **{"base_url": "https://pay.example", "environment": "live", "key_fingerprint": "k", "rules": rules}
                | about
            )
        )
    return folder


@pytest.fixture
def report(tmp_path):
    """Give the folder of a report."""
    return write(tmp_path / "2026-11-20")


def test_opened(report):
    """A report is known by the name of its folder, and by the checksum of its manifest."""
    run = open_past_run(report)
    manifest = json.loads((report / "manifest.json").read_text())
    assert (run.note.run, run.note.manifest_sha256, run.rows, run.first_observed_at) == (
        "2026-11-20",
        manifest["sha256"],
        1,
        None,
    )
    assert [(row["reference"], row["bucket"]) for row, _ in run.lines()] == [("T1", "open")]


def test_name_of_a_relative_folder(report, monkeypatch):
    """A folder that is given as `.` still has its name."""
    monkeypatch.chdir(report)
    assert open_past_run(report.relative_to(report)).note.run == "2026-11-20"


def test_without_journal(report):
    """A report that is kept without its journal is good enough."""
    (report / JOURNAL).unlink()
    assert open_past_run(report).rows == 1


def cut_journal(report):
    (report / JOURNAL).write_bytes((report / JOURNAL).read_bytes()[:3000])


def change_rows(report):
    (report / "rows.jsonl").write_bytes((report / "rows.jsonl").read_bytes().replace(b"T1", b"T2"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda report: (report / "manifest.json").unlink(), "no run has ended here"),
        (lambda report: (report / "breaks.csv").unlink(), "breaks.csv: it is missing"),
        (change_rows, "rows.jsonl: it was changed"),
        (cut_journal, "journal.sqlite"),
        (lambda report: (report / f"{JOURNAL}-wal").touch(), "its run is under way or was killed"),
        (shutil.rmtree, "no report found at"),
    ],
    ids=["no manifest", "no file", "changed", "journal", "log", "no folder"],
)
def test_refused(report, spoil, message):
    """A report that was changed, is damaged or has not ended is refused, with the reason."""
    spoil(report)
    with pytest.raises(PastRunError, match=message):
        open_past_run(report)


def test_without_rows(tmp_path):
    """A report without its rows cannot be compared."""
    folder = write(tmp_path / "report", formats=["summary.json", "breaks.csv"])
    with pytest.raises(PastRunError, match=r"it was written without rows\.jsonl"):
        open_past_run(folder)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"base_url": "https://other.example"}, "its address is 'https://other.example'"),
        ({"environment": "sandbox"}, "its environment is 'sandbox', but tonight has 'live'"),
        ({"key_fingerprint": ""}, "its key fingerprint is 'not recorded', but tonight has 'k'"),
    ],
)
def test_another_service(report, tmp_path, about, message):
    """A run of another service, environment or key is refused, with both values."""
    other = open_past_run(write(tmp_path / "other", **about))
    with pytest.raises(PastRunError, match=message):
        other.check_same_service(open_past_run(report), "tonight")


def test_run_and_rules(tmp_path):
    """A run has the name that it was given when it began, and its rules are read back."""
    rules = Rules(require=["amount"], time_zone="Asia/Jakarta")
    run = open_past_run(write(tmp_path / "report", run="20261120T020000Z-1", rules=rules))
    assert (run.note.run, run.note.rules) == ("20261120T020000Z-1", rules)
