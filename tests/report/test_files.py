"""The files of a report: complete, deterministic and harmless."""

from __future__ import annotations

import csv
import io
import json
from zoneinfo import ZoneInfo

import attrs
import pytest

from payclient import Transaction, errors
from payclient.ledger import CsvLedger, Entry, LedgerChangedError, RejectedEntry
from payclient.reconcile import COMPLETENESS, reconcile
from payclient.report import ReportFiles

LEDGER = """reference,merchant_reff,amount,status
A,INV-1,100,paid
B,INV-2,100,paid
C,INV-3,100,pending
D,INV-4,1.5,paid
E,INV-5,100,paid
F,INV-6,100,paid
"""
ANSWERS = {
    "A": [Transaction(reference="A", merchant_reff="INV-1", amount=100, status="Paid")],
    "B": [Transaction(reference="B", merchant_reff="=cmd|' /C calc'!A0", amount=-90, status="\x1b[31mPaid\u202e")],
    "C": [Transaction(reference="C", merchant_reff="INV-3", amount=100, status="Pending")],
    "E": [errors.RejectedError("the service declined: \x1b[2J")],
}


@pytest.fixture
def report_in(service_of, clock_from):
    async def report_in(folder, *, text=LEDGER, answers=ANSWERS, **options):
        with CsvLedger(io.BytesIO(text.encode())) as ledger, ReportFiles(folder) as files:
            async for row in reconcile(ledger, service_of(answers), clock=clock_from(), concurrency=1):
                files.add(row)
            return files.finish(ledger=ledger, **options)

    return report_in


def rows_of(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def breaks_of(folder):
    with (folder / "breaks.csv").open(newline="") as file:
        return list(csv.DictReader(file))


async def test_rows(tmp_path, report_in):
    """Every ledger row has its line, in the order of the ledger, with both sides."""
    await report_in(tmp_path)
    rows = rows_of(tmp_path)
    assert [(row["line"], row["bucket"]) for row in rows] == [
        *((2, "matched"), (3, "break"), (4, "open"), (5, "rejected"), (6, "unresolved"), (7, "break")),
    ]
    assert rows[0]["ledger"] == {"reference": "A", "merchant_reff": "INV-1", "amount": 100, "status": "paid"}
    assert rows[0]["service"]["status"] == "Paid"
    assert rows[0]["status"] == {
        "ledger": "paid",
        "ledger_meaning": "paid",
        "service": "Paid",
        "service_meaning": "paid",
    }
    assert (rows[3]["service"], rows[3]["reason"][:13]) == (None, "amount: '1.5'")


async def test_breaks(tmp_path, report_in):
    """Each break has its line, with the leading finding, all sentences and both sides as numbers."""
    await report_in(tmp_path)
    hostile, missing = breaks_of(tmp_path)
    assert (hostile["line"], hostile["code"], hostile["severity"]) == ("3", "merchant_reff_differs", "critical")
    assert (hostile["ledger_amount"], hostile["service_amount"], hostile["difference"]) == ("100", "-90", "-190")
    assert hostile["other_codes"] == "underpaid unknown_status"
    assert (missing["reference"], missing["code"], missing["service_amount"]) == ("F", "missing_at_service", "")


async def test_hostile_content(tmp_path, report_in):
    """Nothing that was written into a ledger or an answer can run in a spreadsheet or act on a terminal."""
    await report_in(tmp_path)
    for name in ("rows.jsonl", "breaks.csv", "summary.json"):
        text = (tmp_path / name).read_text()
        assert text.replace("\n", "").isprintable(), name
    hostile, _ = breaks_of(tmp_path)
    assert hostile["service_merchant_reff"] == "'=cmd|' /C calc'!A0"
    assert hostile["service_status"] == "<U+001B>[31mPaid<U+202E>"


async def test_json_keeps_everything(tmp_path, report_in):
    """In JSON, hostile characters are escaped and none is lost."""
    await report_in(tmp_path)
    assert rows_of(tmp_path)[1]["service"]["status"] == "\x1b[31mPaid\u202e"


async def test_summary(tmp_path, report_in):
    """The summary has its version, the verdict, all buckets, a bridge that ties, and what was read."""
    summary = await report_in(tmp_path, time_zone=ZoneInfo("Asia/Jakarta"))
    written = json.loads((tmp_path / "summary.json").read_text())
    assert (written["schema"], written["version"]) == ("payclient.reconcile.summary", 1)
    assert (written["verdict"], summary.exit_status()) == ("incomplete", 75)
    assert {name: total["rows"] for name, total in written["buckets"].items()} == {
        "matched": 1,
        "open": 1,
        "break": 2,
        "unresolved": 1,
        "rejected": 1,
    }
    assert (written["tie_out"]["ledger_total"], written["tie_out"]["service_total"]) == (500, 100)
    assert written["tie_out"]["residual"] == 0
    assert written["ledger"]["columns"]["merchant_reff"] == "merchant_reff"
    assert "Asia/Jakarta" in written["expiry"]


@pytest.mark.parametrize("text", [LEDGER, "reference\n", ""])
async def test_completeness(tmp_path, report_in, text):
    """Every summary says that payments nobody listed cannot appear."""
    await report_in(tmp_path, text=text)
    assert json.loads((tmp_path / "summary.json").read_text())["completeness"] == COMPLETENESS
    assert "payments nobody listed in it cannot appear" in COMPLETENESS


async def test_same_bytes(tmp_path, report_in):
    """The same rows give the same bytes."""
    for name in ("one", "two"):
        await report_in(tmp_path / name)
    for name in ("rows.jsonl", "breaks.csv", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


async def test_changed_ledger(tmp_path, service_of):
    """A ledger that changed during the run gets no report, and an older report stays."""
    path, out = tmp_path / "ledger.csv", tmp_path / "out"
    path.write_text(LEDGER)
    out.mkdir()
    (out / "summary.json").write_text("old")
    with CsvLedger(path) as ledger, ReportFiles(out) as files:
        async for row in reconcile(ledger, service_of(ANSWERS)):
            files.add(row)
        path.write_text(LEDGER + "G,INV-7,1,paid\n")
        with pytest.raises(LedgerChangedError):
            files.finish(ledger=ledger)
    assert {each.name: each.read_text() for each in out.iterdir()} == {"summary.json": "old"}


def test_without_a_file(tmp_path):
    """A ledger that was no file is reported without one."""
    with ReportFiles(tmp_path) as files:
        files.finish()
    assert json.loads((tmp_path / "summary.json").read_text())["ledger"] is None


async def test_both_sides_in_full(tmp_path, service_of):
    """A row of `breaks.csv` has every compared field of both sides, an absent column empty."""
    entry = Entry(line=1, reference="A", fee=5, payment_code="007")
    transaction = attrs.evolve(ANSWERS["A"][0], fee=6, payment_code="008")
    with ReportFiles(tmp_path) as files:
        async for row in reconcile([entry, RejectedEntry(line=2, reason="x")], service_of({"A": [transaction]})):
            files.add(row)
        files.finish()
    (cells,) = breaks_of(tmp_path)
    assert (cells["ledger_fee"], cells["service_fee"], cells["ledger_amount"]) == ("5", "6", "")
    assert (cells["ledger_payment_code"], cells["service_payment_code"], cells["difference"]) == ("007", "008", "")
