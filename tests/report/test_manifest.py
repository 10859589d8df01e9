"""A report is verified by its manifest."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil

import pytest

from payclient.report import FORMATS, MANIFEST, Problem, ReportFiles, verify
from support.planted import about, judged

DAMAGED = Problem(MANIFEST, "it is damaged: it is not what payclient writes")


def whole(schema, *names):
    """Return a manifest with the SHA-256 that it should have."""
    files = [{"name": name, "size_bytes": 0, "sha256": ""} for name in names]
    content = {"schema": schema, "files": files}
    return json.dumps({**content, "sha256": hashlib.sha256(json.dumps(content).encode()).hexdigest()}).encode()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    with ReportFiles(folder) as files:
        for row in asyncio.run(judged(1000)):
            files.add(row)
        files.finish(about())
    return folder


@pytest.fixture
def report(tmp_path, written):
    """Give a copy of the report, to be damaged."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def test_unchanged(report):
    """An unchanged report verifies."""
    assert verify(report) == ()


@pytest.mark.parametrize("name", FORMATS)
def test_missing(report, name):
    """Each file is missed."""
    (report / name).unlink()
    assert verify(report) == (Problem(name, "it is missing"),)


@pytest.mark.parametrize("name", FORMATS)
def test_one_byte(report, name):
    """One other byte is seen, in each file."""
    content = bytearray((report / name).read_bytes())
    content[len(content) // 2] ^= 1
    (report / name).write_bytes(content)
    assert verify(report) == (Problem(name, "it was changed: it has as many bytes as were written, but others"),)


def test_longer(report):
    """A file that is longer says by how much."""
    with (report / "breaks.csv").open("ab") as file:
        file.write(b"x" * 2000)
    size = (report / "breaks.csv").stat().st_size
    assert verify(report) == (Problem("breaks.csv", f"it was changed: it has {size:,} bytes, and had {size - 2000:,}"),)


def test_not_listed(report):
    """A report file that is not in the manifest is reported; other files are ignored."""
    with ReportFiles(report, formats=["summary.json"]) as files:
        files.finish(about())
    (report / "notes.txt").touch()
    assert [problem.file for problem in verify(report)] == [
        "rows.jsonl",
        "rows.parquet",
        "breaks.csv",
        "report.xlsx",
        "report.html",
    ]


def test_no_manifest(tmp_path):
    """A folder without a manifest has no finished report."""
    assert verify(tmp_path) == (Problem(MANIFEST, "there is none, so the report was never finished"),)


def test_folder_for_manifest(tmp_path):
    """An unreadable manifest is reported, and nothing is raised."""
    (tmp_path / MANIFEST).mkdir()
    (problem,) = verify(tmp_path)
    assert problem.what.startswith("it cannot be read: ")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"\xff", b'{"files": 1}', b'{"files": [{}], "schema": ""}', b"[" * 100_000),
        whole("payclient.report.manifest"),
        whole("payclient.report.manifest", "../x"),
        whole("other", "rows.jsonl"),
    ],
    ids=range(11),
)
def test_damaged(tmp_path, content):
    """A forged manifest is reported, and none of its files is opened."""
    (tmp_path / MANIFEST).write_bytes(content)
    assert verify(tmp_path) == (DAMAGED,)


def test_file_cannot_be_read(report):
    """An unreadable file is reported, and the others are still checked."""
    (report / "rows.jsonl").unlink()
    (report / "rows.jsonl").mkdir()
    (report / "report.html").unlink()
    first, second = verify(report)
    assert (first.file, first.what.partition(":")[0]) == ("rows.jsonl", "it cannot be read")
    assert second == Problem("report.html", "it is missing")


def test_content(report):
    """It names what was read, by which rules and from which service, and each file with size and SHA-256."""
    written = json.loads((report / MANIFEST).read_text())
    known = about()
    assert written == {
        "schema": "payclient.report.manifest",
        "version": 1,
        "payclient_version": known.payclient_version,
        "run": known.run,
        "judged_again": None,
        "service": {
            "base_url": known.base_url,
            "environment": known.environment,
            "key_fingerprint": known.key_fingerprint,
        },
        "rules": {"fingerprint": known.rules.fingerprint, "assume_status": "paid", "ledger": {}},
        "compared": json.loads((report / "summary.json").read_text())["compared"],
        "reused": None,
        "ledger": {
            "name": known.ledger.name,
            "size_bytes": known.ledger.size_bytes,
            "sha256": known.ledger.sha256,
        },
        "statement": None,
        "decisions": None,
        "files": [
            {
                "name": name,
                "size_bytes": (report / name).stat().st_size,
                "sha256": hashlib.sha256((report / name).read_bytes()).hexdigest(),
            }
            for name in FORMATS
        ],
        "sha256": written["sha256"],
    }


@pytest.mark.parametrize("place", range(0, 1200, 100))
def test_flipped_bit(report, place):
    """A flipped bit of the manifest is seen, wherever it is."""
    content = bytearray((report / MANIFEST).read_bytes())
    content[place % len(content)] ^= 1 << place // 100 % 7
    (report / MANIFEST).write_bytes(content)
    assert verify(report) == (DAMAGED,)
