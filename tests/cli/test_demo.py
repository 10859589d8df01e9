"""`payclient demo`: it finds exactly what it planted, and would say so if it did not."""

from __future__ import annotations

import json

import attrs
import pytest

from payclient.cli._demo import Check, Expected, generate
from payclient.ledger import RejectedEntry
from payclient.reconcile import Bucket, Code, Row, Severity

REJECTED = Row(entry=RejectedEntry(line=2, reason="x"), bucket=Bucket.REJECTED)


def check(*expected, rows=(REJECTED,)):
    checked = Check(expected)
    for row in rows:
        checked.add(row)
    return checked


def test_demo(command, tmp_path):
    """Over real HTTP, with a limited rate and faults, exactly the planted breaks are found, and money ties."""
    result = command("demo", "--rows", "150", "--seed", "3", "--out", str(tmp_path))
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert (result.status, result.out.splitlines()[-2:], summary["tie_out"]["residual"], summary["rows"]) == (
        0,
        [
            "CHECKED: 30 findings were planted; exactly these were found, and no other.",
            "CHECKED: the report was written again from its journal, and every file has the same bytes.",
        ],
        0,
        150,
    )


@pytest.mark.slow
def test_temporary_folder(command, monkeypatch, tmp_path):
    """Without a folder a new one is made, kept, and named."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = command("demo", "--rows", "30")
    (folder,) = tmp_path.iterdir()
    rows = folder / "report" / "rows.jsonl"
    assert (str(rows) in result.out, rows.exists()) == (True, True)


def test_check_passed():
    """Rows that are as planted pass."""
    assert check(Expected(Bucket.REJECTED)).is_passed


@pytest.mark.parametrize(
    "checked",
    [
        check(Expected(Bucket.MATCHED)),
        check(Expected(Bucket.REJECTED, frozenset({(Code.UNDERPAID, Severity.HIGH)}))),
        check(Expected(Bucket.REJECTED), Expected(Bucket.REJECTED)),
    ],
    ids=["bucket", "finding", "missing row"],
)
def test_check_failed(checked):
    """A row in another bucket, a finding that is not there, or a row that is not, fails."""
    assert not checked.is_passed


def test_difference_is_listed():
    """What is not as planted is listed with both sides."""
    checked = check(Expected(Bucket.BREAK, frozenset({(Code.UNDERPAID, Severity.HIGH)})))
    assert checked.lines() == [
        "CHECK FAILED: 1 row not as planted, 0 rows missing",
        "  line 2: rejected, planted break underpaid (high)",
    ]


@pytest.mark.slow
def test_altered(command, tmp_path, monkeypatch):
    """A break that was planted and cannot be found makes the demo fail."""

    def altered(rows, *, seed):
        dataset = generate(rows, seed=seed)
        line = next(place for place, verdict in enumerate(dataset.expected) if verdict.bucket is Bucket.MATCHED)
        wrong = Expected(Bucket.BREAK, frozenset({(Code.UNDERPAID, Severity.HIGH)}))
        return attrs.evolve(dataset, expected=(*dataset.expected[:line], wrong, *dataset.expected[line + 1 :]))

    monkeypatch.setattr("payclient.cli._demo.generate", altered)
    result = command("demo", "--rows", "30", "--out", str(tmp_path))
    assert (result.status, "CHECK FAILED: 1 row not as planted" in result.out) == (1, True)
