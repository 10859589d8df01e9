"""The table of every row, and one table of many runs."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from payclient import Transaction
from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
from support.planted import about, judged

pq = pytest.importorskip("pyarrow.parquet", reason="the table needs the extra parquet")
ROOT = Path(__file__).parents[3]
RUN = "20261121T020003Z-3f9a1c2d"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def rows():
    return asyncio.run(judged(500, unresolved=3))


def table_of(folder, rows, run=RUN):
    """Write the table of *rows* into *folder*, and read it back as a dict per line."""
    with ReportFiles(folder, formats=["rows.parquet"]) as files:
        files.name_run(run)
        for row in rows:
            files.add(row)
        files.finish(about(run=run))
    return pq.read_table(folder / "rows.parquet").to_pylist()


def test_same_columns(tmp_path, rows):
    """A table has the same columns and types whatever is in it, and says what it is, and in which version."""
    full, empty = tmp_path / "full", tmp_path / "empty"
    table_of(full, rows)
    assert table_of(empty, []) == []
    assert pq.read_schema(full / "rows.parquet") == pq.read_schema(empty / "rows.parquet")
    metadata = pq.read_metadata(full / "rows.parquet").metadata
    assert (metadata[b"payclient.schema"], metadata[b"payclient.version"]) == (b"payclient.report.rows", b"1")


@pytest.mark.slow
def test_many_rows(tmp_path):
    """A large table is written in parts, and has every row once and in order."""
    row = Row(entry=Entry(line=1, reference="A"), bucket=Bucket.MATCHED)
    lines = 70_001
    with ReportFiles(tmp_path, formats=["rows.parquet"]) as files:
        for line in range(lines):
            files.add(attrs.evolve(row, entry=Entry(line=line, reference="A")))
        files.finish(About())
    table = pq.ParquetFile(tmp_path / "rows.parquet")
    assert table.metadata.num_row_groups == 2
    assert table.read(["line"]).column("line").to_pylist() == list(range(lines))


def test_what_no_table_holds(tmp_path):
    """Half a character is shown by number, and a number beyond 64 bits is null; all else of the row is there."""
    entry = Entry(line=1, reference="A", amount=2**63, status="\u202e paid")
    said = Transaction(reference="A", amount=-(2**63), status="\x00", merchant_reff="\U0001f4b6\ud800")
    finding = Finding(Code.UNDERPAID, "less", waived="agreed")
    row = Row(entry=entry, bucket=Bucket.MATCHED, transaction=said, findings=(finding,), observed_at=NOON)
    (line,) = table_of(tmp_path, [row])
    names = ("reference", "ledger_amount", "service_amount", "difference", "ledger_status", "service_status")
    assert [line[name] for name in names] == ["A", None, -(2**63), 0, "\u202e paid", "\x00"]
    assert (line["service_merchant_reff"], line["waived"], line["observed_at"]) == (
        "\U0001f4b6<U+D800>",
        "agreed",
        NOON,
    )


def test_other_columns(tmp_path, rows, monkeypatch):
    """The pages' table of all runs has every row and column, whichever release wrote fewer columns, in any order."""
    duckdb = pytest.importorskip("duckdb", reason="it reads the tables of many reports at once")
    page = (ROOT / "docs" / "how-to" / "ledger-in-a-database.md").read_text(encoding="utf-8")
    said = set(re.findall(r"read_parquet\([^)]*\)", page))
    assert said == {"read_parquet('reports/*/rows.parquet', union_by_name = true, filename = true)"}
    monkeypatch.chdir(tmp_path)
    for place, fewer in enumerate([["line_of"], [], ["created_at", "run"]]):
        folder = tmp_path / "reports" / str(place)
        table_of(folder, rows[:3])
        table = pq.read_table(folder / "rows.parquet").drop_columns(fewer)
        pq.write_table(table, folder / "rows.parquet")
    with duckdb.connect() as database:
        query = f"SELECT count(*), count(line_of), count(run), count(reference) FROM {said.pop()}"
        assert database.execute(query).fetchone() == (9, 6, 6, 9)


def test_created(tmp_path):
    """A time of creation stays as the ledger writes it, with a zone or without: its day is the same in both."""
    written = ("2026-11-20T09:30:00+07:00", "2026-11-20T09:30:00", "2026-11-20T00:10:00-05:00")
    entries = [Entry(line=2, reference="A", created_at=datetime.fromisoformat(each)) for each in written]
    table = table_of(tmp_path, [Row(entry=each, bucket=Bucket.MATCHED) for each in entries])
    assert [f"{line['created_at']:%dT%H:%M}" for line in table] == ["20T09:30", "20T09:30", "20T00:10"]
