"""What `rows.jsonl` holds can be read back."""

from __future__ import annotations

import asyncio
import io
import json

import attrs

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Row
from payclient.report import row_as_json
from payclient.report._rows_file import row_from_json, row_lines_of
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


def test_line(subtests):
    """A line has its reference and its bucket, whatever the reference is."""
    cases = ("T1", 'T"1', "T\\1", 'x","bucket":"break"', "Té", "\u202eT", "T\n1", None, "")
    for reference in cases:
        with subtests.test(reference=reference):
            entry = (
                Entry(line=-3, reference=reference)
                if reference
                else RejectedEntry(line=1, reason="x", reference=reference)
            )
            row = Row(entry=entry, bucket=Bucket.UNRESOLVED)
            (line,) = row_lines_of(io.BytesIO(line_of(row) + b"\n"))
            assert (line.reference, line.bucket) == (reference, "unresolved")
