"""A kind of break has the money of both sides, and money at stake is counted once for a payment."""

from __future__ import annotations

import openpyxl
import pytest
from attrs import evolve

from payclient.cli._output import Worst, verdict_lines
from payclient.ledger import Entry
from payclient.reconcile import STRICT, Code
from payclient.reconcile.values import FindingTotal
from payclient.report import RunDiff
from payclient.report._wording import open_lines
from support.nights import Nights, paid
from support.pages import Page

pytestmark = pytest.mark.virtual_time
PAGE_AND_BOOK = ("summary.json", "rows.jsonl", "breaks.csv", "report.xlsx", "report.html")


def entry(reference, amount, status="Paid", line=2):
    return Entry(line=line, reference=reference, amount=amount, status=status)


@pytest.mark.parametrize(
    ("ours", "theirs", "paid_sums"),
    [
        pytest.param("Paid", "Canceled", "8 0 -8", id="recorded as paid"),
        pytest.param("Canceled", "Paid", "0 8 +8", id="paid after it was closed"),
        pytest.param("Paid", None, "8 0 -8", id="missing"),
        pytest.param("Canceled", None, "0 0 0", id="canceled and missing"),
        pytest.param(None, "Paid", "0 8 +8", id="in the statement alone"),
        pytest.param("Paid", "Refunded", "8 0 -8", id="refunded"),
    ],
)
async def test_kind(tmp_path, ours, theirs, paid_sums):
    """A kind of break has the money that each side has as paid, on the page and on the terminal."""
    known = {"T": paid("T", 8, theirs)} if theirs else {}
    more = {} if ours else {"statement": [entry("T", 8), entry("M", 9)]}
    ledger = [entry("M", 9), *([entry("T", 8, ours)] if ours else [])]
    done = await Nights(tmp_path, formats=("report.html", "rows.jsonl", "summary.json"))(
        ledger, {"M": paid("M"), **known}, **more
    )
    (kinds,) = Page((tmp_path / "night-1" / "report.html").read_text()).all("table", class_="kinds cards")
    assert kinds.replace("\N{MINUS SIGN}", "-").endswith(f" 1 {paid_sums} All breaks 1 {paid_sums}")
    lines = [" ".join(line.split()) for line in verdict_lines(done.summary, Worst(), rules=STRICT)]
    (code,) = done.summary.codes
    assert [line for line in lines if line.startswith((f"{code} ", "break "))] == [
        f"break 1 {paid_sums}",
        f"{code} 1 {paid_sums}",
    ]


async def test_at_stake(tmp_path):
    """The kinds add up to all of them, and what is the same money of one payment again is a line of its own."""
    ledger = [evolve(entry("N", 100), fee=1), entry("D", 5), entry("D", 5, line=3), entry("W", 6)]
    answers = {"N": evolve(paid("N", 90), fee=2), "D": paid("D", 7), "W": paid("W", 6, "Pending")}
    done = await Nights(tmp_path, formats=PAGE_AND_BOOK)(ledger, answers)
    found = {label: (count, amount) for label, count, amount in open_lines(done.summary.open_findings)}
    kinds = [total for label, total in found.items() if label in {code.label for code in Code}]
    assert (sum(count for count, _ in kinds), sum(amount for _, amount in kinds)) == found["All kinds"] == (5, 26)
    assert found["Further findings of the same payments"] == (-2, -5)
    assert found["Payments, each once"] == (3, 21)
    said = "5 open, with 26 at stake; 21 in 3 payments, each counted once, by its largest finding"
    assert done.summary.open_findings.at_stake_sentence == said
    page = Page((tmp_path / "night-1" / "report.html").read_text())
    assert "All kinds 5 26 Further findings of the same payments \N{MINUS SIGN}2 \N{MINUS SIGN}5" in page.text
    assert "the lines below the kinds take that back" in page.text
    book = openpyxl.load_workbook(tmp_path / "night-1" / "report.xlsx")
    assert ("Payments, each once", None, 3, 21) in [row[:4] for row in book["Summary"].values]


async def test_at_stake_of_what_is_not_known(tmp_path):
    """A finding of which it is not known what became of it does not count its payment twice."""
    nights = Nights(tmp_path)
    first = await nights([entry("T", 8)], {"T": paid("T", 6)}, statement=[entry("T", 5)])
    assert first.summary.open_findings.payments == FindingTotal(1, 2)
    done = await nights([entry("T", 8)], {"T": paid("T", 6)}, previous=first)
    assert done.states["T", "settled_differently"] == "not_known"
    assert (done.summary.open_findings.closing, done.summary.open_findings.payments) == (
        FindingTotal(2, 3),
        FindingTotal(1, 2),
    )
    with RunDiff(first.run, done.run) as diff:
        assert diff.open_findings.payments == FindingTotal(1, 2)
