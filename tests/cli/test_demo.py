"""`payclient demo`: its dataset has every kind of finding, and it finds exactly those."""

import json

import pytest

from payclient.cli._demo import MIN_ROWS, check, generate
from payclient.reconcile import Bucket, Code, Row
from payclient.reconcile.ledger import RejectedEntry

REJECTED = Row(entry=RejectedEntry(line=2, reason="x"), bucket=Bucket.REJECTED)


def test_demo(command, tmp_path):
    """Over real HTTP, with a limited rate and faults, exactly the planted breaks are found, and money ties."""
    result = command("demo", "--rows", "150", "--seed", "3", "--out", str(tmp_path))
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert (result.status, result.out.splitlines()[-2:], summary["tie_out"]["residual"], summary["rows"]) == (
        0,
        [
            "CHECKED: planted 18 findings, found exactly these, and no other.",
            "CHECKED: the report was written again from its journal, and every file has the same bytes.",
        ],
        0,
        150,
    )


def test_altered(command, tmp_path, monkeypatch):
    """A break that was planted and cannot be found makes the demo fail."""
    planted = generate(MIN_ROWS, seed=1)
    wrong = [(row, answer, codes ^ {Code.EXPIRY_DIFFERS}) for row, answer, codes in planted[:1]]
    monkeypatch.setattr("payclient.cli._demo.generate", lambda *_, **__: [*wrong, *planted[1:]])
    result = command("demo", "--rows", str(MIN_ROWS), "--out", str(tmp_path))
    assert (result.status, "CHECK FAILED: 1 row not as planted" in result.out) == (1, True)


@pytest.mark.slow
def test_temporary_folder(command, monkeypatch, tmp_path):
    """Without a folder a new one is made, kept, and named."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = command("demo", "--rows", "30")
    (folder,) = tmp_path.iterdir()
    rows = folder / "report" / "rows.jsonl"
    assert (str(rows) in result.out, rows.exists()) == (True, True)


def test_check():
    """A finding that is not there, or a row that is not, fails, and is listed."""
    assert check([({}, {}, set())], [REJECTED])[0]
    assert not check([({}, {}, set())] * 2, [REJECTED])[0]
    assert check([({}, {}, {Code.UNDERPAID})], [REJECTED])[1] == [
        "CHECK FAILED: 1 row not as planted, 0 rows missing",
        "  line 2: nothing, planted underpaid",
    ]
