"""The same command again: what is gone on with, what is refused, and the report from the journal alone."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing

import pytest

from payclient.reconcile import Journal
from payclient.testing import Reply

LEDGER = "reference,amount,status\nT1,15000,Paid\nT2,9000,Canceled\nT3,1,Paid\n"
REFUSED = Reply(status=401)


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_text(LEDGER)
    return path


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report"


@pytest.fixture
def reconcile(configured, ledger, report):
    """Reconcile the ledger, one reference after the other."""

    def reconcile(*arguments):
        return configured("reconcile", str(ledger), "--out", str(report), "--max-concurrency", "1", *arguments)

    return reconcile


def files(folder):
    """Return every file of a report, the journal not among them."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("journal")}


def test_goes_on(reconcile, report, service):
    """A run that was refused midway goes on with the same command, says so, and asks for nothing twice."""
    service.script("T2", REFUSED, REFUSED)
    first = reconcile()
    before = service.total
    second = reconcile()
    assert (first.status, second.status, (before, service.total)) == (3, 1, (3, 8))
    assert (
        f"resuming {report / 'journal.sqlite'}: answered already: 1 of 3 references; for new answers, "
        "choose another folder"
    ) in second.err.splitlines()


def test_quiet(reconcile, service):
    """With `--quiet`, a run that is resumed says nothing about it."""
    service.script("T2", REFUSED, REFUSED)
    reconcile("--quiet")
    second = reconcile("--quiet")
    assert (second.status, second.err) == (1, "")


def test_finished(reconcile, report, service):
    """A run that is finished asks nothing when it is repeated, and changes not a byte of its report."""
    assert reconcile().status == 1
    before, asked = files(report), service.total
    assert (reconcile().status, files(report) == before, service.total) == (1, True, asked)


def test_asks_again(reconcile, service):
    """What could not be answered is asked again, and only this."""
    service.script("T3", Reply(status=403), Reply(status=403))
    first = reconcile()
    before = service.total
    second = reconcile()
    assert (first.status, second.status, "1 unresolved" in first.out) == (1, 1, True)
    assert [request.reference for request in service.requests[before:]] == ["T3", "T3"]
    assert "answered already: 2 of 3 references" in second.err
    assert first.out.splitlines()[-2].endswith(", which asks again for what is unresolved")


@pytest.fixture
def finished(reconcile, prepared):
    """Make a finished run."""
    prepared("finished", reconcile)


@pytest.fixture
def refusal(reconcile, finished, report, service):
    """Change something about a finished run, and reconcile again; return how that was refused."""

    def refusal(*arguments, change=None):
        before, asked = files(report), service.total
        if change is not None:
            change()
        result = reconcile(*arguments)
        assert (files(report) == before, service.total) == (True, asked)
        return result.status, result.err.splitlines()[-1].replace(str(report / "journal.sqlite"), "JOURNAL")

    return refusal


def test_other_ledger(refusal, ledger):
    """Another ledger is refused with the first difference; nothing is asked, and the old report is intact."""
    changes = {
        ("9000", "9001"): "on line 3, amount was different",
        ("T3,1,Paid\n", ""): "it has 3 rows, and this one 2",
        ("T3,1,Paid\n", "T3,1,Paid\nT4,1,Paid\n"): "it has 3 rows, and this one has more",
    }
    told = {each: refusal(change=lambda each=each: ledger.write_text(LEDGER.replace(*each))) for each in changes}
    began = "payclient: the journal JOURNAL began with another ledger: "
    assert told == {each: (2, began + found) for each, found in changes.items()}


def test_another_run(refusal):
    """Other rules, another service, or its other path, are refused; nothing is asked, and the old report is intact."""
    told = {
        option: refusal(*option.split())
        for option in ("--time-zone Asia/Jakarta", "--environment live", "--base-url http://127.0.0.1:9")
    }
    another = "payclient: the journal JOURNAL belongs to another run:"
    assert [status for status, _ in told.values()] == [2, 2, 2]
    assert [line.partition(" was ")[0] for _, line in told.values()] == [
        f"{another} {name}" for name in ("rules", "service", "service")
    ]


def test_damaged(refusal, report):
    """A damaged journal is refused, and never replaced."""
    journal = report / "journal.sqlite"
    status, told = refusal(change=lambda: journal.write_bytes(journal.read_bytes()[:5000]))
    assert (status, "damaged" in told) == (2, True)
    assert len(journal.read_bytes()) == 5000


def test_in_use(refusal, report):
    """While one run holds the journal, another is refused."""
    with ExitStack() as stack:
        status, told = refusal(change=lambda: stack.enter_context(Journal(report / "journal.sqlite")))
    assert (status, told.startswith("payclient: JOURNAL is in use by process ")) == (2, True)


def test_report(reconcile, report, command, monkeypatch):
    """The report is written again without a service and without a key, byte for byte, with the same status."""
    first = reconcile()
    before = files(report)
    for name in before:
        (report / name).unlink()
    for name in ("API_KEY", "BASE_URL", "ENVIRONMENT"):
        monkeypatch.delenv(f"PAYCLIENT_{name}")
    again = command("report", str(report))
    assert (again.status, files(report)) == (first.status, before)
    assert again.out.splitlines()[:-2] == first.out.splitlines()[:-3]
    assert command("verify", str(report)).status == 0


def test_report_of_interrupted(reconcile, report, command, service):
    """The report of a run that was refused midway is incomplete and says why; the next run is not hindered by it."""
    service.script("T2", REFUSED, REFUSED)
    assert (reconcile().status, files(report)) == (3, {})
    result = command("report", str(report))
    assert (result.status, result.out.splitlines()[0].partition(":")[0]) == (75, "INCOMPLETE")
    assert reconcile().status == 1


def test_report_of_nothing(command, report):
    """Where there is no journal, no report is made, and no folder."""
    result = command("report", str(report))
    assert (result.status, result.err) == (2, f"payclient: there is no journal at {report / 'journal.sqlite'}\n")
    assert not report.exists()


def test_verify_reads_the_journal(finished, report, command):
    """`verify` names the damaged row of the journal; a report without its journal is verified alone."""
    journal = report / "journal.sqlite"
    with closing(sqlite3.connect(journal)) as database, database:
        database.execute("UPDATE entries SET amount = 7 WHERE position = 2")
    result = command("verify", str(report))
    assert (result.status, "is damaged (row 2 of entries is not what was written)" in result.out) == (1, True)
    journal.unlink()
    assert command("verify", str(report)).status == 0
