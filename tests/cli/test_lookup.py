"""`payclient lookup`: Parquet files in, Parquet files out, and one exit status for all."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient.testing import Reply


@pytest.fixture
def part(tmp_path):
    """Write a file of references, and return its path."""

    def part(*references, name="part-0.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"trx": pa.array(references, pa.string()), "order": range(len(references))}), path)
        return path

    return part


def test_found(configured, part, tmp_path):
    """The results are in the folder, the totals on standard output, and each file is reported."""
    paths = [part("T1", "T2"), part("T1", name="part-1.parquet")]
    out = tmp_path / "out"
    options = ["--reference", "trx", "--keep", "order", "--prefix", "pay_", "--processes", "2", "--out", out]
    result = configured("lookup", *map(str, [*paths, *options]))
    assert (result.status, result.out) == (0, "2 files: 3 rows, 3 ok\n")
    assert sorted(result.err.splitlines()) == [
        f"{out / 'part-0.parquet'}: 2 rows, 2 ok",
        f"{out / 'part-1.parquet'}: 1 row, 1 ok",
    ]
    table = pq.read_table(out / "part-0.parquet", columns=["order", "pay_reference", "pay_amount"])
    assert table.to_pylist() == [
        {"order": 0, "pay_reference": "T1", "pay_amount": 15000},
        {"order": 1, "pay_reference": "T2", "pay_amount": 7000},
    ]


def test_not_found(configured, part, tmp_path):
    """What the service does not have shows in the status, and in the totals for a program; also the second time."""
    arguments = ["lookup", str(part("T1", "NOPE")), "--reference", "trx", "--out", str(tmp_path / "out"), "--json"]
    first, second = configured(*arguments), configured(*arguments)
    assert json.loads(first.out) == {"files": 1, "rows": 2, "ok": 1, "not_found": 1, "rejected": 0, "unresolved": 0}
    assert (first.status, second.status, second.out) == (1, 1, first.out)
    assert second.err == f"{tmp_path / 'out' / 'part-0.parquet'}: 2 rows, 1 ok, 1 not_found (skipped: already done)\n"


def test_unresolved(configured, service, part, tmp_path):
    """An unresolved row gives status 75, and the message says how to ask again."""
    service.script("T2", *[Reply(status=400, body="<html>")] * 2)  # asked again over a fresh connection
    out = tmp_path / "out"
    result = configured("lookup", str(part("T1", "T2")), "--reference", "trx", "--out", str(out))
    assert (result.status, result.out) == (75, "1 file: 2 rows, 1 ok, 1 unresolved\n")
    hint = f"to ask again for what is unresolved, delete {out / 'part-0.parquet'} and run the same command"
    assert result.err.splitlines()[-1] == f"payclient: {hint}"


def test_refused_key(configured, part, tmp_path, monkeypatch):
    """A refused key is reported once."""
    monkeypatch.setenv("PAYCLIENT_API_KEY", "another-key-0123456789")
    result = configured("lookup", str(part("T1")), "--reference", "trx", "--out", str(tmp_path / "out"))
    assert (result.status, result.err) == (
        3,
        "payclient: the service refuses the API key: Invalid API key (HTTP 401)\n",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no column is called 'reference'"),
        (["--reference", "order"], "the column 'order' must be text"),
        (["--reference", "trx", "--keep", "none"], "no column is called 'none'"),
        (["--processes", "0"], "processes must be at least 1"),
        (["--processes", "65"], "--max-concurrency 64 is too few for 65 processes"),
        (["--max-rate", "0"], "--max-rate must be a number of attempts per second above 0"),
        (["--api-key-file", "-"], "cannot read the key from standard input"),
    ],
)
def test_usage(configured, part, tmp_path, options, message):
    """What cannot be done is refused with status 2, and leaves no result."""
    result = configured("lookup", str(part("T1")), "--out", str(tmp_path / "out"), *options)
    assert (result.status, message in result.err, result.out) == (2, True, "")
    assert not (tmp_path / "out" / "part-0.parquet").exists()


def test_no_files(configured, tmp_path):
    """Without a file there is nothing to do, which is a mistake."""
    result = configured("lookup", "--out", str(tmp_path))
    assert (result.status, result.err) == (2, "payclient: lookup needs at least one Parquet file\n")


def test_no_service(command, part, tmp_path):
    """Without an address or a key, nothing is begun."""
    result = command("lookup", str(part("T1")), "--out", str(tmp_path / "out"))
    assert (result.status, "no service address" in result.err) == (2, True)
    result = command("lookup", str(part("T1")), "--out", str(tmp_path / "out"), "--base-url", "http://127.0.0.1:1")
    assert (result.status, "no API key" in result.err) == (2, True)
