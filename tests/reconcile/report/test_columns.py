"""The list of columns is the only source of what the files of a report have of a row."""

import csv
from datetime import timedelta

import openpyxl
import pytest

from payclient import Transaction
from payclient.reconcile import BreakState, Bucket, Code, Finding, History, Row, Status
from payclient.reconcile._judgement.records import PreviousRun
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import ReportFiles
from payclient.reconcile.report import rows as _rows
from payclient.reconcile.report.rows import CSV, PARQUET, SHEETS, RowColumn
from support.planted import about
from support.reconciling import NOON

RUN_NAME = "20261121T020003Z-3f9a1c2d"


def written(folder, rows, name, **options):
    with ReportFiles(folder, formats=[name], **options) as files:
        files.name_run(RUN_NAME)
        for row in rows:
            files.add(row)
        files.finish(about(run=RUN_NAME))
    return folder / name


def test_values(tmp_path):
    """What a column says of a row, in each file: a list cannot tell that one of its columns has another's value."""
    history = History(state=BreakState.STILL_OPEN, first_seen=NOON, first_run="R1", age_days=3)
    broken = Row(
        entry=Entry(line=1, reference="A", fee=5, payment_code="007", status="Lunas"),
        bucket=Bucket.BREAK,
        findings=(Finding(Code.FEE_DIFFERS, "fee", history=history), Finding(Code.NET_DIFFERS, "net", waived="agreed")),
        transaction=Transaction(reference="A", amount=1, fee=6, payment_code="008", status="Expired"),
        ledger_status=Status.PAID,
        service_status=Status.EXPIRED,
        is_changed_during_run=True,
        observed_at=NOON,
        confirmed_at=NOON + timedelta(hours=1),
        carried_from="R2",
        reused_from="R3",
    )
    lost = Row(entry=Entry(line=2, reference="B"), bucket=Bucket.UNRESOLVED, reason="timed out", error="Slow")
    previous = PreviousRun(run="R2", folder="20", last_observed_at=None)
    in_csv, in_book, in_table = (
        written(tmp_path, [broken, lost], name, previous=previous)
        for name in ("breaks.csv", "report.xlsx", "rows.parquet")
    )
    with in_csv.open(newline="") as file:
        (line,) = csv.DictReader(file)
    sides = {"ledger_fee": "5", "service_fee": "6", "ledger_payment_code": "007", "service_payment_code": "008"}
    times = {"observed_at": "2026-11-21T12:00:00+00:00", "confirmed_at": "2026-11-21T13:00:00+00:00"}
    more = {"ledger_amount": "", "is_changed_during_run": "yes", "state": "still_open", "carried_from": "R2"}
    assert line == line | sides | times | more
    book = openpyxl.load_workbook(in_book)
    found = [dict(zip(*book[name].values, strict=True)) for name in ("Breaks", "Unresolved")]
    times = {"Observed at (UTC)": "2026-11-21 12:00:00", "Confirmed at (UTC)": "2026-11-21 13:00:00"}
    more = {"What": "fee. net (agreed)", "Other findings": "net_differs", "Changed during run": "yes", "Owner": None}
    assert found[0] == found[0] | times | more
    assert (found[1]["Error"], found[1]["Why"]) == ("Slow", "timed out")
    pq = pytest.importorskip("pyarrow.parquet", reason="the table needs the extra parquet")
    row, other = pq.read_table(in_table).to_pylist()
    assert (row["run"], row["line"], row["reference"], row["bucket"]) == (RUN_NAME, 1, "A", "break")
    ages = {"state": "still_open", "first_seen": NOON, "first_run": "R1", "age_days": 3}
    runs = {"carried_from": "R2", "reused_from": "R3", "ledger_meaning": "paid", "service_meaning": "expired"}
    assert row == row | ages | runs
    assert (other["error"], other["reason"], other["state"], other["carried_from"]) == ("Slow", "timed out", None, None)


def test_all_used():
    """Every column that is declared is in a file or a sheet, and has a title and a width in a sheet."""
    in_sheets = [column for _, columns in SHEETS.values() for column in columns]
    used = {column.name for column in (*CSV, *PARQUET, *in_sheets)}
    declared = {each.name for each in vars(_rows).values() if isinstance(each, RowColumn)}
    assert declared - used == set()
    assert [column.name for column in in_sheets if not (column.title and column.width)] == []
