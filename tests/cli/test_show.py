"""`payclient show`: a report in a few lines."""

import pytest


@pytest.fixture
def report(night, prepared, tmp_path):
    """Give the folder of a report with two breaks."""
    prepared("report", lambda: night("report", "--quiet", lines=["T1,15000,Paid", "T3,1,Paid", "T2,9000,Canceled"]))
    return tmp_path / "report"


def test_shown(command, report):
    """It begins with the verdict, ends with the worst breaks, has markup or none, and needs no journal and workbook."""
    (report / "journal.sqlite").unlink()
    (report / "report.xlsx").write_bytes(b"worked on")
    result = command("show", "report", "--markdown")
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert lines[0] == "**BREAKS**: amount and status of 3 ledger rows: 1 matched, 2 breaks."
    assert lines[-2] == (
        "1. **high** `underpaid` `T2`: `amount is 9,000 in the ledger and 7,000 at the service, which is 2,000 less`"
    )
    lines = command("show", "report").out.splitlines()
    assert lines[0] == "BREAKS: amount and status of 3 ledger rows: 1 matched, 2 breaks."
    assert lines[-1] == "Next: payclient explain report T2"
    assert lines[-3].startswith("1. high underpaid T2: amount is 9,000")


def test_refused(command, report, tmp_path):
    """A file that it reads and that was changed is refused, and a folder without a report."""
    for name in ("summary.json", "rows.jsonl", "manifest.json"):
        before = (report / name).read_text()
        (report / name).write_text(f"{before}{{")
        result = command("show", "report")
        assert (result.status, f"cannot be shown: {name}" in result.err) == (2, True), name
        (report / name).write_text(before)
    assert command("show", str(tmp_path)).status == 2
