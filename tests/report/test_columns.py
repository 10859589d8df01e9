"""The list of columns is the only source of what the files of a report have of a row."""

from __future__ import annotations

import asyncio
import csv

import openpyxl
import pytest

from payclient.ledger import Entry
from payclient.reconcile import BreakState, Bucket, Code, Finding, History, Row
from payclient.report import ReportFiles, _rows
from payclient.report._rows import CSV, PARQUET, RUN, SHEETS, RowColumn
from support.planted import about, judged
from support.reconciling import NOON

RUN_NAME = "20261121T020003Z-3f9a1c2d"


@pytest.fixture(scope="module")
def rows():
    """Give rows of every bucket, and one with an age, a waiver and a reused answer."""
    history = History(state=BreakState.STILL_OPEN, first_seen=NOON, first_run="R1", age_days=3)
    finding = Finding(Code.UNDERPAID, "less", waived="agreed", history=history)
    old = Row(entry=Entry(line=1, reference="A"), bucket=Bucket.BREAK, findings=(finding,), reused_from="R2")
    return [*asyncio.run(judged(300, unresolved=3)), old]


def written(folder, rows, name):
    with ReportFiles(folder, formats=[name]) as files:
        files.name_run(RUN_NAME)
        for row in rows:
            files.add(row)
        files.finish(about(run=RUN_NAME))
    return folder / name


def test_csv(rows, tmp_path):
    """`breaks.csv` has each column that is listed for it, with its value."""
    with written(tmp_path, rows, "breaks.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    breaks = [row for row in rows if row.bucket.value == "break"]
    assert header == [column.name for column in CSV]
    for line, row in zip(lines, breaks, strict=True):
        wanted = [column.in_csv(row) for column in CSV]
        assert [cell.removeprefix("'") for cell in line] == ["" if cell is None else str(cell) for cell in wanted]


def test_parquet(rows, tmp_path):
    """`rows.parquet` has each column that is listed for it, with its value."""
    pq = pytest.importorskip("pyarrow.parquet", reason="the table needs the extra parquet")
    table = pq.read_table(written(tmp_path, rows, "rows.parquet"))
    assert table.column_names == [column.name for column in PARQUET]
    for column in PARQUET:
        wanted = [RUN_NAME if column is RUN else column.value(row) for row in rows]
        assert table.column(column.name).to_pylist() == wanted, column.name


def test_sheets(rows, tmp_path):
    """Each sheet has each column that is listed for it, with its value."""
    book = openpyxl.load_workbook(written(tmp_path, rows, "report.xlsx"))
    for name, (bucket, columns) in SHEETS.items():
        header, *lines = book[name].values
        assert list(header) == [column.title for column in columns], name
        for line, row in zip(lines, (row for row in rows if row.bucket is bucket), strict=True):
            wanted = [column.in_sheet(row) for column in columns]
            assert list(line) == [None if cell == "" else cell for cell in wanted], (name, row.line)


def test_all_used():
    """Every column that is declared is in a file or a sheet, and has a title and a width in a sheet."""
    in_sheets = [column for _, columns in SHEETS.values() for column in columns]
    used = {column.name for column in (*CSV, *PARQUET, *in_sheets)}
    declared = {each.name for each in vars(_rows).values() if isinstance(each, RowColumn)}
    assert declared - used == set()
    assert [column.name for column in in_sheets if not (column.title and column.width)] == []
