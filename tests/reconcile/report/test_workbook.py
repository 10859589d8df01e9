"""The workbook has every row in its sheet, and room to work on the breaks."""

import asyncio
from contextlib import ExitStack

import attrs
import openpyxl
import pytest

from payclient import Transaction
from payclient.reconcile import BreakState, Bucket, Code, Finding, History, ResolvedBy, Row, Status
from payclient.reconcile._atomic import AtomicFiles
from payclient.reconcile._judgement.records import BreakChange, breaks_of
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report import Report
from payclient.reconcile.report.model import Opening
from payclient.reconcile.report.workbook import COLUMNS, ReportWorkbook
from support.planted import about, judged, tally_of

BUCKETS = {"Breaks": Bucket.BREAK, "Unresolved": Bucket.UNRESOLVED, "Rejected": Bucket.REJECTED}


def written(rows, folder, *, changes=(), names=(), **options):
    """Return the workbook of *rows* and *changes* as another library reads it: tuples of values by sheet."""
    tally = tally_of(rows)
    with AtomicFiles(folder, ["report.xlsx"]) as new, ExitStack() as resources:
        opening = Opening(new=new, names=names, decisions={}, resources=resources)
        workbook = resources.enter_context(ReportWorkbook(opening, **options))
        for row in rows:
            workbook.add(row)
        for change in changes:
            workbook.add_gone(change)
        workbook.write(Report(tally.summary(), about()))
        new.commit()
    return openpyxl.load_workbook(folder / "report.xlsx")


def values(sheet):
    return list(sheet.values)[1:]


@pytest.fixture(scope="module")
def rows():
    rejected = Row(
        entry=RejectedEntry(line=9, reason="no amount", amount=5), bucket=Bucket.REJECTED, reason="no amount"
    )
    return [*asyncio.run(judged(1000, unresolved=3)), rejected]


def test_sheets(rows, tmp_path):
    """The sheets are those that the page promises, in that order, each with its header."""
    workbook = written(rows, tmp_path)
    assert workbook.sheetnames == ["Summary", "Breaks", "Unresolved", "Rejected", "Tie-out", "To sign"]
    for sheet in workbook:
        assert [cell.value for cell in sheet[1]] == [column.title for column in COLUMNS[sheet.title]]
        assert sheet.freeze_panes == "A2"
    no_tables = {sheet.title for sheet in workbook if sheet.auto_filter.ref is None}
    assert no_tables == {"Summary", "Tie-out", "To sign"}


def test_types(tmp_path):
    """References and codes are text, with their zeros; money is a whole number with separators of thousands."""
    entry = Entry(line=1, reference="0012", amount=1_500_000, payment_code="007", merchant_reff="1E5", fee=None)
    said = Transaction(reference="0012", amount=1_500_001, payment_code="007", merchant_reff="1E5", status="Paid")
    row = Row(entry=entry, bucket=Bucket.BREAK, transaction=said, findings=(Finding(Code.OVERPAID, "1 more"),))
    row = attrs.evolve(row, ledger_status=Status.PAID, service_status=Status.PAID)
    sheet = written([row], tmp_path)["Breaks"]
    cells = {title.value: cell for title, cell in zip(sheet[1], sheet[2], strict=True)}
    assert [cells[name].value for name in ("Reference", "payment_code, ledger", "merchant_reff, service")] == [
        *("0012", "007", "1E5")
    ]
    amounts = [cells[name] for name in ("amount, ledger", "amount, service", "Difference")]
    assert [(cell.value, cell.data_type, cell.number_format) for cell in amounts] == [
        (1_500_000, "n", "#,##0"),
        (1_500_001, "n", "#,##0"),
        (1, "n", "#,##0"),
    ]
    assert (cells["fee, ledger"].value, cells["Reference"].number_format) == (None, "@")


def test_gone(tmp_path):
    """A break that is gone says by what, or why that is not known; one that was gone before is not listed again."""
    finding = Finding(Code.UNDERPAID, "less", ledger=9, service=5)
    row = Row(entry=Entry(line=1, reference="T1"), bucket=Bucket.BREAK, findings=(finding,))
    known = breaks_of([row], run="R1")[Code.UNDERPAID]
    history = History(state=BreakState.NOT_KNOWN, first_seen=None, first_run="R1", age_days=2)
    lost = BreakChange(reference="T1", was=known, now=known, history=history, why="timed out")
    history = attrs.evolve(history, state=BreakState.RESOLVED)
    gone = BreakChange(reference="T2", was=known, now=attrs.evolve(known, by=ResolvedBy.SERVICE), history=history)
    changes = (lost, gone, attrs.evolve(gone, is_old=True))
    workbook = written([], tmp_path, changes=changes, names=["history.jsonl"])
    what = ("high", "underpaid", "less")
    assert values(workbook["Resolved"]) == [
        ("T1", *what, "not known", None, "timed out", None, 2),
        ("T2", *what, "resolved", "the service", None, None, 2),
    ]


def test_where_a_sheet_ends(rows, tmp_path):
    """Where a sheet cannot hold all rows, its last row and the summary say how many are missing, and where they are."""
    workbook = written(rows, tmp_path, max_rows=20)
    assert workbook["Breaks"].max_row == 20
    breaks = sum(row.bucket is Bucket.BREAK for row in rows) - 18
    assert values(workbook["Breaks"])[-1][0] == (
        f"the sheet ends here, without room for {breaks:,} more rows; breaks.csv has all of them"
    )
    said = [row[1] for row in values(workbook["Summary"])]
    place = said.index("Matched and open rows are not listed here: rows.jsonl has every row.")
    end = f"The sheet Breaks can't take {breaks:,} rows more. Its last row names the file with all of them."
    assert said[place + 1 : place + 3] == [end, None]
