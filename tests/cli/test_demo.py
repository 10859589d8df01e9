"""`payclient demo`: its dataset has every kind of finding, and it finds exactly those."""

import json

import pytest
from attrs import evolve

from payclient.cli._demo import COLUMNS, MIN_ROWS, Expected, check, generate
from payclient.reconcile import Bucket, Code, Row, Severity
from payclient.reconcile.ledger import RejectedEntry
from payclient.testing import transaction

REJECTED = Row(entry=RejectedEntry(line=2, reason="x"), bucket=Bucket.REJECTED)


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


def test_altered(command, tmp_path, monkeypatch):
    """A break that was planted and cannot be found makes the demo fail."""
    planted = generate(MIN_ROWS, seed=1)
    wrong = (*planted.expected[:-1], Expected(Bucket.UNRESOLVED))
    monkeypatch.setattr("payclient.cli._demo.generate", lambda *_, **__: evolve(planted, expected=wrong))
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
    """A row in another bucket, a finding that is not there, or a row that is not, fails, and is listed."""
    rejected = Expected(Bucket.REJECTED)
    assert check([rejected], [REJECTED])[0]
    assert not check([Expected(Bucket.MATCHED)], [REJECTED])[0]
    assert not check([rejected, rejected], [REJECTED])[0]
    underpaid = frozenset({(Code.UNDERPAID, Severity.HIGH)})
    assert check([Expected(Bucket.BREAK, underpaid)], [REJECTED])[1] == [
        "CHECK FAILED: 1 row not as planted, 0 rows missing",
        "  line 2: rejected, planted break underpaid (high)",
    ]


def test_dataset():
    """The ledger has as many rows as wanted, each with its result, and the service holds each reference once."""
    for rows in (MIN_ROWS, 1999, 2000):
        dataset = generate(rows, seed=1)
        assert (len(dataset.ledger), len(dataset.expected)) == (rows, rows)
        assert all(set(COLUMNS) <= row.keys() for row in dataset.ledger)
        references = [transaction(**fields)["reference"] for fields in dataset.transactions]
        assert len(set(references)) == len(references)
    assert (generate(200, seed=7) == generate(200, seed=7), generate(200, seed=7) == generate(200, seed=8)) == (1, 0)
    with pytest.raises(ValueError, match=f"rows must be at least {MIN_ROWS}, got {MIN_ROWS - 1}"):
        generate(MIN_ROWS - 1, seed=1)


def test_every_kind():
    """Every code is planted, or says why not, and every bucket but the one that a service in order does not fill."""
    expected = generate(MIN_ROWS, seed=1).expected
    planted = {code for verdict in expected for code, _ in verdict.findings}
    assert planted == {code for code in Code if not code.unplanted}
    assert {verdict.bucket for verdict in expected} == set(Bucket) - {Bucket.UNRESOLVED}
