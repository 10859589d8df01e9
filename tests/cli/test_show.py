"""`payclient show`: a report in a few lines."""

from __future__ import annotations

import pytest


@pytest.fixture
def report(configured, prepared, tmp_path):
    """Give the folder of a report with one break."""
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT1,15000,Paid\nT2,9000,Canceled\n")
    command = ("reconcile", str(tmp_path / "ledger.csv"), "--out", str(tmp_path / "report"), "--quiet")
    prepared("report", lambda: configured(*command))
    return tmp_path / "report"


def test_markdown(command, report):
    """The message begins with the verdict, and ends with the break."""
    (report / "journal.sqlite").unlink()
    result = command("show", str(report), "--markdown")
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert lines[0] == "**BREAKS**: amount and status of 2 ledger rows: 1 matched, 1 break."
    assert lines[-1] == (
        "1. **high** `underpaid` `T2`: `amount is 9000 in the ledger and 7000 at the service, which is 2000 less`"
    )


def test_plain(command, report):
    """Without the option there is no markup."""
    lines = command("show", str(report)).out.splitlines()
    assert lines[0] == "BREAKS: amount and status of 2 ledger rows: 1 matched, 1 break."
    assert lines[-1].startswith("1. high underpaid T2: amount is 9000")


def test_work_list(command, report):
    """A workbook that is being worked on does not matter."""
    (report / "report.xlsx").write_bytes(b"worked on")
    assert command("show", str(report)).status == 0


def test_refused(command, report, tmp_path, subtests):
    """A file that it reads and that was changed is refused, and so is a folder without a report."""
    for name in ("summary.json", "rows.jsonl", "manifest.json"):
        with subtests.test(name=name):
            before = (report / name).read_text()
            (report / name).write_text(f"{before}{{")
            result = command("show", str(report))
            assert (result.status, f"cannot be shown: {name}" in result.err) == (2, True)
            (report / name).write_text(before)
    assert command("show", str(tmp_path)).status == 2


def test_count(command, report):
    """At least one break can be shown."""
    result = command("show", str(report), "--worst", "0")
    assert (result.status, "worst must be" in result.err) == (2, True)


def test_gzip_rows(command, report):
    """Compressed rows are shown as the plain ones are, and refused if they were changed."""
    before = command("show", str(report))
    assert command("report", str(report), "--gzip-rows", "--quiet").status == 1
    assert command("show", str(report)) == before
    with (report / "rows.jsonl.gz").open("ab") as file:
        file.write(b"\0")
    assert "cannot be shown: rows.jsonl.gz: it was changed" in command("show", str(report)).err


def test_both_kinds_of_rows(command, report):
    """Where somebody has put plain rows beside the compressed ones, it is not guessed which count."""
    rows = (report / "rows.jsonl").read_bytes()
    command("report", str(report), "--gzip-rows", "--quiet")
    (report / "rows.jsonl").write_bytes(rows)
    assert "rows.jsonl: the manifest does not list it" in command("show", str(report)).err
