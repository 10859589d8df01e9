"""`payclient show`: a report in a few lines."""

import json
import re
from pathlib import Path

import pytest

from payclient import Transaction
from payclient.cli._report import _about
from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import ReportFiles
from support.planted import about

HOSTILE = ["```", "~~~", "``` \n```\n", "~~~~~~~~", "a\n\n# b", "\r\n", "\u2028", "\x1b[31m", "\u202eabc", "<b>x</b>"]
OURS = re.compile(r"[A-Z]+: |- [A-Z]|\d+\. [a-z]|(The worst of )?\d+ breaks?:|Next: payclient |$")


@pytest.fixture
def report(night, prepared, tmp_path):
    """Give the folder of a report with two breaks."""
    prepared("report", lambda: night("report", "--quiet", lines=["T1,15000,Paid", "T3,1,Paid", "T2,9000,Canceled"]))
    return tmp_path / "report"


def test_shown(command, report):
    """It begins with the verdict, ends with the worst breaks, and needs no journal and workbook."""
    (report / "journal.sqlite").unlink()
    (report / "report.xlsx").write_bytes(b"worked on")
    result = command("show", "report")
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert lines[0] == "BREAKS: amount and status of 3 ledger rows: 1 matched, 2 breaks."
    assert lines[2] == "- Paid: 15,001 in the ledger, 15,000 at the service; residual 0"
    assert lines[-6:] == [
        *("", "2 breaks:", ""),
        "1. high underpaid T2: amount is 9,000 in the ledger and 7,000 at the service, which is 2,000 less",
        "2. high missing_at_service T3: the service knows no transaction 'T3', but the ledger has an amount of 1",
        "Next: payclient explain report T2",
    ]


def test_order(command, tmp_path):
    """The worst breaks are the most severe ones, and of these the ones with most at stake."""
    with ReportFiles(tmp_path, formats=["summary.json", "rows.jsonl"]) as files:
        for place, code in enumerate([Code.UNDERPAID, Code.FEE_DIFFERS] * 6):
            finding = Finding(code, "x", ledger=9 + place, service=0).weighed()
            files.add(Row(entry=Entry(line=2, reference=f"R{place}"), bucket=Bucket.BREAK, findings=(finding,)))
        files.finish(about())
    lines = command("show", str(tmp_path)).out.splitlines()
    assert lines[-13] == "The worst of 12 breaks:"
    assert [line.split()[3] for line in lines[-11:-1]] == [f"R{place}:" for place in (10, 8, 6, 4, 2, 0, 11, 9, 7, 5)]


def test_hostile(command, tmp_path):
    """Each line begins with a fixed word, whatever stands in a ledger: none can end a block of Markdown."""
    for place, text in enumerate(HOSTILE):
        said = Transaction(reference="T1", amount=1, merchant_reff=text, status=text)
        finding = Finding(Code.UNDERPAID, text, ledger=text, service=text)
        folder = tmp_path / str(place)
        with ReportFiles(folder, formats=["summary.json", "rows.jsonl"]) as files:
            row = Row(entry=Entry(line=1, reference=text), bucket=Bucket.BREAK, transaction=said, findings=(finding,))
            files.add(row)
            files.finish(about(canary=text, base_url=text, environment=text, ended_by=text))
        lines = command("show", str(folder)).out.split("\n")
        assert [line for line in lines if not OURS.match(line)] == [], text
        assert all(map(str.isprintable, lines)), text


def test_about(report):
    """What is known about the run has a line, and what is not known has none."""
    summary = json.loads((report / "summary.json").read_text())
    cases = (
        ("ended_by", "no route", "- Ended early: no route"),
        ("judged_again", {"folder": "20"}, "- Answers of the run in: 20"),
        ("compared", {"remark": "Not compared: fee."}, "- Not compared: fee."),
        ("run", "20261121T020000Z-3f9a1c2d", "- Run: 20261121T020000Z-3f9a1c2d"),
        ("last_observed_at", "2026-11-21T02:00:03.123456+00:00", "- Last answer: 2026-11-21 02:00:03"),
        ("ledger", {"name": ""}, "- Ledger: standard input"),
        *(
            ("since", {"buckets": buckets, "folder": "20"}, f"- Breaks: 2 ({change} since the previous run, 20)")
            for buckets, change in (({"break": 5}, "-3"), ({"break": 2}, "\N{PLUS-MINUS SIGN}0"), ({}, "+2"))
        ),
    )
    for key, value, line in cases:
        known = list(_about({**summary, key: value}))
        known.remove(line)
        assert known == list(_about({**summary, key: {"remark": ""} if key == "compared" else None})), key


def test_refused(command, report, tmp_path):
    """A file that it reads and that was changed is refused, and a folder without a report."""
    for name in ("summary.json", "rows.jsonl", "manifest.json"):
        before = (report / name).read_text()
        (report / name).write_text(f"{before}{{")
        result = command("show", "report")
        assert (result.status, f"cannot be shown: {name}" in result.err) == (2, True), name
        (report / name).write_text(before)
    assert command("show", str(tmp_path)).status == 2


def test_of_an_earlier_version(command):
    """A report of an earlier version is shown, and verified."""
    before = str(Path(__file__).parents[1] / "reconcile" / "folders" / "before")
    assert command("show", before).out.startswith("BREAKS: amount and status of 7 ledger rows: 5 matched, 2 breaks")
    assert command("verify", before).status == 0
