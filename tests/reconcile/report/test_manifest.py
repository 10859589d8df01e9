"""A report is verified by its manifest."""

import asyncio
import hashlib
import json
import shutil

import pytest

from payclient.reconcile.report import ReportFiles, verify
from payclient.reconcile.report.integrity import MANIFEST, Problem
from payclient.reconcile.report.model import FORMATS
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


def test_changed_files(report):
    """A file that is missing, longer, or has one other byte is named; an unchanged report verifies."""
    assert verify(report) == ()
    for name in FORMATS:
        path = report / name
        content = path.read_bytes()
        path.unlink()
        assert verify(report) == (Problem(name, "it is missing"),)
        place = len(content) // 2
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert verify(report) == (Problem(name, "it was changed: it has as many bytes as were written, but others"),)
        path.write_bytes(content + b"x" * 2000)
        sizes = f"it has {len(content) + 2000:,} bytes, and had {len(content):,}"
        assert verify(report) == (Problem(name, f"it was changed: {sizes}"),)
        path.write_bytes(content)


def test_unreadable_file(report):
    """An unreadable file is reported, and the others are still checked."""
    (report / "rows.jsonl").unlink()
    (report / "rows.jsonl").mkdir()
    (report / "report.html").unlink()
    first, second = verify(report)
    assert (first.file, first.what.partition(":")[0]) == ("rows.jsonl", "it cannot be read")
    assert second == Problem("report.html", "it is missing")


def test_not_listed(report):
    """A report file that is not in the manifest is reported; other files are ignored."""
    with ReportFiles(report, formats=["summary.json"]) as files:
        files.finish(about())
    (report / "notes.txt").touch()
    assert ["summary.json", *(problem.file for problem in verify(report))] == list(FORMATS)


def test_no_manifest(tmp_path):
    """Without a manifest there is no finished report; one that cannot be read is reported, and nothing is raised."""
    assert verify(tmp_path) == (Problem(MANIFEST, "it is missing, so no run has ended here"),)
    (tmp_path / MANIFEST).mkdir()
    (problem,) = verify(tmp_path)
    assert problem.what.startswith("it cannot be read: ")


def test_damaged(report):
    """A forged manifest, or one with a flipped bit, is reported, and none of its files is opened."""
    whole_one = (report / MANIFEST).read_bytes()
    forged = [
        *(b"", b"{", b"[]", b"null", b"\xff", b'{"files": 1}', b'{"files": [{}], "schema": ""}', b"[" * 100_000),
        whole("payclient.report.manifest"),
        whole("payclient.report.manifest", "../x"),
        whole("other", "rows.jsonl"),
    ]
    for place in range(0, len(whole_one), 100):
        flipped = bytearray(whole_one)
        flipped[place] ^= 1 << place // 100 % 7
        forged.append(bytes(flipped))
    misses = []
    for content in forged:
        (report / MANIFEST).write_bytes(content)
        misses += [] if verify(report) == (DAMAGED,) else [content[:200]]
    assert misses == []


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
        "service": known.service,
        "rules": {"fingerprint": known.rules.fingerprint, "assume_status": "paid", "ledger": {}},
        "compared": json.loads((report / "summary.json").read_text())["compared"],
        "reused": None,
        "ledger": {"name": known.ledger.name, "size_bytes": known.ledger.size_bytes, "sha256": known.ledger.sha256},
        "statement": None,
        "decisions": None,
        "files": [
            {"name": name, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in ((name, (report / name).read_bytes()) for name in FORMATS)
        ],
        "sha256": written["sha256"],
    }
