"""The files of a report: complete, deterministic and harmless."""

import csv
import errno
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime
from importlib.resources import files
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.reconcile import Bucket, Code, Finding, Row, Rules, Status, TieOutError, reconcile
from payclient.reconcile._judgement.decisions import Decision, Resolution
from payclient.reconcile.ledger import Entry, RejectedEntry, open_ledger, read_cells
from payclient.reconcile.report import About, ReportFiles, verify
from payclient.reconcile.report._html import FILES
from payclient.reconcile.report.integrity import MANIFEST, add_decisions
from payclient.reconcile.report.model import FORMATS, OUTPUTS
from support import planted
from support.chance import examples
from support.nights import Nights, entry, paid
from support.reconciling import Clock, Service

LEDGER = """reference,merchant_reff,amount,status
A,INV-1,100,paid
B,INV-2,100,paid
C,INV-3,100,pending
D,INV-4,1.5,paid
E,INV-5,100,paid
F,INV-6,100,paid
"""
ANSWERS = {
    "A": [Transaction(reference="A", merchant_reff="INV-1", amount=100, status="Paid")],
    "B": [Transaction(reference="B", merchant_reff="=cmd|' /C calc'!A0", amount=-90, status="\x1b[31mPaid\u202e")],
    "C": [Transaction(reference="C", merchant_reff="INV-3", amount=100, status="Pending")],
    "E": [errors.PermissionDeniedError("the service declined: \x1b[2J")],
}
ABOUT = About()
PROGRAM = """
import asyncio, sys
from payclient.reconcile.report import ReportFiles
from support.planted import about, judged
from support.nights import Nights, entry, paid
from support.reconciling import Clock, Service
with ReportFiles(sys.argv[1]) as files:
    for row in asyncio.run(judged(1000)):
        files.add(row)
    files.finish(about())
"""
ALL = (*FORMATS, MANIFEST)
BINARY = {"report.xlsx", "rows.parquet"}
OLD = dict.fromkeys(ALL, b"old")


async def report_in(folder, *, text=LEDGER, answers=ANSWERS, about=ABOUT, **options):
    with open_ledger(io.BytesIO(text.encode())) as ledger:
        with ReportFiles(folder, rules=about.rules, **options) as files:
            found = reconcile(ledger, Service(answers), clock=Clock(), concurrency=1, rules=about.rules)
            async for row in found:
                files.add(row)
            return files.finish(about, ledger=ledger).summary


def rows_of(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def breaks_of(folder):
    with (folder / "breaks.csv").open(newline="") as file:
        return list(csv.DictReader(file))


async def test_rows(tmp_path):
    """Every ledger row has its line, in the order of the ledger, with both sides."""
    await report_in(tmp_path)
    rows = rows_of(tmp_path)
    assert [(row["line"], row["bucket"]) for row in rows] == [
        *((2, "matched"), (3, "break"), (4, "open"), (5, "rejected"), (6, "unresolved"), (7, "break"))
    ]
    assert rows[0]["ledger"] == {"reference": "A", "merchant_reff": "INV-1", "amount": 100, "status": "paid"}
    assert rows[0]["service"]["status"] == "Paid"
    assert rows[0]["status"] == {
        "ledger": "paid",
        "ledger_meaning": "paid",
        "is_assumed": False,
        "service": "Paid",
        "service_meaning": "paid",
    }
    assert (rows[3]["service"], rows[3]["reason"][:13]) == (None, "amount: '1.5'")


async def test_breaks(tmp_path):
    """Each break has its line, with the leading finding, all sentences and both sides as numbers."""
    await report_in(tmp_path)
    hostile, missing = breaks_of(tmp_path)
    assert (hostile["line"], hostile["code"], hostile["severity"]) == ("3", "merchant_reff_differs", "critical")
    assert (hostile["ledger_amount"], hostile["service_amount"], hostile["difference"]) == ("100", "-90", "-100")
    assert hostile["other_codes"] == "underpaid unknown_status"
    assert (missing["reference"], missing["code"], missing["service_amount"]) == ("F", "missing_at_service", "")


async def test_hostile_content(tmp_path):
    """Nothing that was written into a ledger or an answer can run in a spreadsheet or act on a terminal."""
    await report_in(tmp_path)
    for name in sorted(set(ALL) - BINARY):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.replace("\n", "").isprintable(), name
    hostile, _ = breaks_of(tmp_path)
    assert hostile["service_merchant_reff"] == "'=cmd|' /C calc'!A0"
    assert hostile["service_status"] == "<U+001B>[31mPaid<U+202E>"
    assert rows_of(tmp_path)[1]["service"]["status"] == "\x1b[31mPaid\u202e"


@examples(25)
@given(st.text(st.characters(), min_size=1))
def test_no_text_gets_through(text):
    """For any text of ledger and service, no text file has an unprintable character."""
    entry = Entry(line=1, reference=text, merchant_reff=text, status=text, payment_method=text)
    said = Transaction(reference=text, amount=1, merchant_reff=text, status=text, deviations=(text,))
    finding = Finding(Code.UNKNOWN_STATUS, "x", ledger=text, service=text)
    rejected = RejectedEntry(line=2, reference=text, reason="x")
    about = planted.about(canary=text, base_url=text, ended_by=text)
    with tempfile.TemporaryDirectory() as name:
        with ReportFiles(name) as files:
            files.add(Row(entry=entry, bucket=Bucket.BREAK, transaction=said, findings=(finding,)))
            files.add(Row(entry=entry, bucket=Bucket.UNRESOLVED, reason=text, error=text))
            files.add(Row(entry=rejected, bucket=Bucket.REJECTED, reason="x"))
            files.finish(about)
        for kind in sorted(set(ALL) - BINARY):
            written = (Path(name) / kind).read_bytes().decode()
            assert written.replace("\n", "").isprintable(), kind
        assert json.loads((Path(name) / "rows.jsonl").read_text().splitlines()[0])["service"]["status"] == text
        with zipfile.ZipFile(Path(name) / "report.xlsx") as archive:
            assert all(archive.read(part).decode().replace("\n", "").isprintable() for part in archive.namelist())


async def test_same_bytes(tmp_path):
    """The same rows give the same bytes."""
    for name in ("one", "two"):
        await report_in(tmp_path / name)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert content(tmp_path / "one").keys() == set(ALL)


@pytest.mark.slow
def test_same_bytes_everywhere(tmp_path):
    """Another process, in another time zone, with other hashes and rights of new files, writes the same bytes."""
    tests = Path(__file__).parents[2]
    for seed, zone, umask in (("1", "Pacific/Kiritimati", 0o077), ("2", "America/Los_Angeles", 0o000)):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / seed)],
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tests)},
            umask=umask,
            check=True,
        )
    assert content(tmp_path / "1") == content(tmp_path / "2")


@pytest.fixture
def out(tmp_path):
    """Return a folder with an older report in it."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_bytes(text)
    return folder


@pytest.mark.parametrize("size", [0, 100, 3_000, 20_000])
async def test_disk_full(out, full_after, size):
    """A disk that is full, early or late, is an error of the operating system, and an older report stays."""
    said = f"{os.strerror(errno.EFBIG)}|temporary tables of the report cannot be written"
    with full_after(size), pytest.raises(OSError, match=said):
        await report_in(out)
    assert content(out) == OLD


def test_manifest_comes_last(out):
    """If not all files can be replaced, the manifest is still the old one, so `verify` detects it."""
    with ReportFiles(out) as files:
        (out / "report.html").unlink()
        (out / "report.html").mkdir()
        with pytest.raises(IsADirectoryError):
            files.finish(ABOUT)
    assert (out / MANIFEST).read_bytes() == b"old"
    assert not list(out.glob(".*"))


def test_tables_are_closed(out, databases):
    """The tables are closed before their folder is removed, because Windows removes no open file."""
    with ReportFiles(out) as files:
        files.finish(ABOUT)
    for database in databases:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")
    assert databases


async def test_left_in_the_middle(out):
    """A report that is not finished leaves the older one as it is, and nothing behind."""
    row = Row(entry=Entry(line=1, reference="A"), bucket=Bucket.MATCHED)
    with pytest.raises(ZeroDivisionError), ReportFiles(out) as files:
        files.add(row)
        raise ZeroDivisionError
    assert content(out) == OLD


def test_does_not_tie(out):
    """Sums that do not tie write no report."""
    states = {"ledger_status": Status.PAID, "service_status": Status.PAID}
    with ReportFiles(out) as files:
        files.add(Row(entry=entry("A", 4), bucket=Bucket.MATCHED, transaction=paid("A", 5), **states))
        with pytest.raises(TieOutError):
            files.finish(ABOUT)
    assert content(out) == OLD


def test_waived(tmp_path):
    """A finding that does not count says why, in every file that has its row."""
    findings = (Finding(Code.OVERPAID, "1 more"), Finding(Code.FEE_DIFFERS, "other fee", waived="accepted by Ani"))
    row = Row(entry=Entry(line=1, reference="A"), bucket=Bucket.BREAK, findings=findings)
    with ReportFiles(tmp_path) as files:
        files.add(row)
        files.finish(ABOUT)
    assert [finding["waived"] for finding in rows_of(tmp_path)[0]["findings"]] == ["", "accepted by Ani"]
    assert breaks_of(tmp_path)[0]["sentence"] == "1 more. other fee (accepted by Ani)"


@pytest.mark.parametrize("name", FORMATS)
async def test_one_format(tmp_path, name):
    """Each file can be had alone; the manifest comes with it."""
    await report_in(tmp_path, formats=[name])
    assert content(tmp_path).keys() == {name, MANIFEST}
    assert verify(tmp_path) == ()


def test_without_the_extra(tmp_path):
    """Without an extra, a report says at once what to install, and all files but one can be had."""
    extras = {"report": ("jinja2", "report.html"), "xlsx": ("xlsxwriter", "report.xlsx")}
    extras["parquet"] = "pyarrow", "rows.parquet"
    for extra, (package, file) in extras.items():
        program = (
            f"import sys; sys.modules['{package}'] = None\n"
            "from payclient.reconcile.report import About, ReportFiles\n"
            "from payclient.reconcile.report.model import FORMATS\n"
            f"formats = None if '{extra}' == 'parquet' else set(FORMATS) - {{'{file}'}}\n"
            "with ReportFiles(sys.argv[1], formats=formats) as files: files.finish(About())\n"
            f"try: ReportFiles(sys.argv[1], formats=['{file}'])\n"
            "except ModuleNotFoundError as error: print(error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / extra)], stdout=subprocess.PIPE, check=True, text=True
        )
        told = f"{file} needs {package}: pip install 'payclient[{extra}]', or choose other files"
        assert done.stdout == f"{told} with formats=…\n"
        assert content(tmp_path / extra).keys() == set(ALL) - {file}


def test_outputs():
    """A row of the table is all that an output needs besides its module: the page lists each, and none twice."""
    assert [each.position for each in sorted(OUTPUTS, key=attrgetter("position"))] == list(range(len(OUTPUTS)))
    written = {each.name for each in OUTPUTS if each.position}
    assert written == {*FILES} - {MANIFEST, "journal.sqlite", "decisions.jsonl"}
    assert all(each.holds for each in OUTPUTS if each.position)
    assert {each.needs for each in OUTPUTS} == {"", "previous", "statement"}
    modules = {
        each: files("payclient.reconcile.report").joinpath(f"{each.begin.partition(':')[0]}.py") for each in OUTPUTS
    }
    for output, module in modules.items():
        imported = set(re.findall(r"^(?:from|import) (\w+)", module.read_text(encoding="utf-8"), re.MULTILINE))
        others = imported - sys.stdlib_module_names - {"attrs", "payclient"}
        assert (output.name, bool(output.extra)) == (output.name, bool(others)), others


async def test_every_output_is_fed(tmp_path):
    """Each output has what is its own: what was resolved, the name of the run, links to the files, and decisions."""
    nights = Nights(tmp_path, formats=FORMATS)
    first = await nights([entry("GONE"), entry("OPEN")], {each: paid(each, 8) for each in ("GONE", "OPEN")})
    (tmp_path / "night-2").mkdir()
    at = datetime(2026, 11, 22, tzinfo=UTC)
    told = {"by": "ana", "at": at, "evidence": "0" * 64, "owner": "Budi", "resolution": Resolution.RAISED}
    add_decisions(tmp_path / "night-2", [Decision(run="night-1", reference="OPEN", code="underpaid", **told)])
    await nights([entry("GONE"), entry("OPEN")], {"GONE": paid("GONE"), "OPEN": paid("OPEN", 8)}, previous=first)
    folder = tmp_path / "night-2"
    page = (folder / "report.html").read_text(encoding="utf-8")
    with (folder / "report.xlsx").open("rb") as file:
        resolved, breaks = (str([*read_cells(file, name)]) for name in ("Resolved", "Breaks"))
    history = (folder / "history.jsonl").read_text(encoding="utf-8")
    assert ["GONE" in text for text in (page, resolved, history)] == [True, True, True]
    assert "Budi" in breaks
    assert {path.name for path in folder.iterdir()} - {"report.html"} == set(re.findall(r'href="([^"#]+)"', page))
    assert set(pq.read_table(folder / "rows.parquet")["run"].to_pylist()) == {"night-2"}
    written = [[(tmp_path / night / name).read_bytes() for name in FORMATS] for night in ("night-1", "night-2")]
    assert [name for name, *both in zip(FORMATS, *written, strict=True) if len({*both}) == 1] == []


def test_refused(out):
    """A report cannot be made to name other rules or another run than its rows are of, nor a format that is none."""
    rules = Rules(statuses={"lunas": "paid"})
    for options, run, message in (({"rules": rules}, "", "other rules"), ({}, "R1", "and the rows are of 'R1'")):
        with ReportFiles(out, **options) as files:
            files.name_run(run)
            with pytest.raises(ValueError, match=message):
                files.finish(ABOUT)
    with pytest.raises(ValueError, match=r"formats must be some of summary\.json, .*, got 'rows\.csv'"):
        ReportFiles(out, formats=["rows.csv"])
    assert content(out) == OLD
