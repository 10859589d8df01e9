"""A row is written as JSON and read back, plain or compressed; in a spreadsheet, nothing that a stranger wrote runs."""

import asyncio
import csv
import io
import json

import attrs
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report.rows import row_as_json, row_from_json, rows_of, spreadsheet_cell
from support.planted import judged


def line_of(row):
    return json.dumps(row_as_json(row), separators=(",", ":")).encode()


def test_round_trip():
    """Every kind of row, also an unresolved and a rejected one, is read back as it was, deviations included."""
    rows = asyncio.run(judged(400, unresolved=2))
    assert {row.bucket for row in rows} == set(Bucket)
    for row in rows:
        again = row_from_json(json.loads(line_of(row)))
        findings = tuple(attrs.evolve(finding, leakage=0) for finding in row.findings)  # not kept
        assert again == attrs.evolve(row, lacks_probe=False, findings=findings)
        assert (again.transaction and again.transaction.deviations) == (row.transaction and row.transaction.deviations)
        assert line_of(again) == line_of(row)


def test_accepted():
    """An accepted finding is read back as accepted, whatever its words, and from the words of an earlier report."""
    for waived, is_accepted in (
        ("accepted by Ana until 2026-12-31: agreed", True),
        ("agreed", True),
        ("agreed", False),
    ):
        finding = Finding(Code.UNDERPAID, "less", ledger=9, service=5, waived=waived, is_accepted=is_accepted)
        row = Row(entry=Entry(line=1, reference="T1"), bucket=Bucket.MATCHED, findings=(finding,))
        data = json.loads(line_of(row))
        assert row_from_json(data).findings == (finding,)
        del data["findings"][0]["is_accepted"]
        assert row_from_json(data).findings[0].is_accepted == waived.startswith("accepted by ")


def test_line(tmp_path):
    """A line has its reference and its bucket, whatever the reference is."""
    for reference in ("T1", 'T"1', "T\\1", 'x","bucket":"break"', "Té", "\u202eT", "T\n1", None, ""):
        rejected = RejectedEntry(line=1, reason="x", reference=reference)
        row = Row(entry=Entry(line=-3, reference=reference) if reference else rejected, bucket=Bucket.UNRESOLVED)
        (tmp_path / "rows.jsonl").write_bytes(line_of(row) + b"\n")
        ((row, line),) = rows_of(tmp_path / "rows.jsonl")
        assert (row.reference, row.bucket, line) == (reference, "unresolved", (tmp_path / "rows.jsonl").read_bytes())


def test_formula():
    """A formula begins with an apostrophe, or the number of a character that hides it; numbers and text stay."""
    formulas = ("=1+1", "+1", "-1", "@SUM(A1)", " =1", "\uff1d1", "-5000")
    assert [text for text in formulas if spreadsheet_cell(text) != f"'{text}"] == []
    hidden = ("\t=1+1", "\r=1+1", "\n=1", "\u00a0=1", "\x00=1")
    assert [text for text in hidden if not str(spreadsheet_cell(text)).startswith("<U+00")] == []
    assert [spreadsheet_cell(value) for value in (-5000, 0, "T1", None)] == [-5000, 0, "T1", ""]


@given(st.text(st.characters(codec="utf-8")))
def test_cell_law(text):
    """No text becomes a cell that starts like a formula, or that spans two lines."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow([spreadsheet_cell(text), "x"])
    ((cell, _),) = csv.reader([file.getvalue()[:-1]])
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))
