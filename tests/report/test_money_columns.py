"""Every column of money adds up to a number that stands elsewhere, also with rows that today's ledger does not have."""

from __future__ import annotations

import csv
import re

import openpyxl
import pytest
from attrs import evolve

from payclient import errors
from payclient.cli._output import Worst, verdict_lines
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import STRICT, Bucket, Code
from payclient.reconcile.values import FindingTotal
from payclient.report import RunDiff
from payclient.report._wording import BUCKETS, open_lines
from support.nights import Nights, paid
from support.pages import Page

pytestmark = pytest.mark.virtual_time
PAGE_AND_BOOK = ("summary.json", "rows.jsonl", "breaks.csv", "report.xlsx", "report.html")
DOWN = errors.ServiceError("no answer")
SHEETS = dict(zip(Bucket, ("", "Open", "Breaks", "Unresolved", "Rejected"), strict=True))


def entry(reference, amount, status="Paid", line=2):
    return Entry(line=line, reference=reference, amount=amount, status=status)


@pytest.fixture
async def folder(tmp_path):
    """Reconcile two nights with every bucket, carried rows in each, and a statement with references of its own."""
    night = Nights(tmp_path, formats=PAGE_AND_BOOK)
    ledger = [entry("M", 9), entry("B", 10), entry("C", 7, "Canceled"), entry("O", 3, "Pending"), entry("U", 4)]
    answers = {"M": paid("M"), "B": paid("B", 12), "C": paid("C", 7), "O": paid("O", 3, "Pending"), "U": DOWN}
    first = await night(ledger, answers)
    today = [
        entry("M", 9),
        entry("N", 100),
        entry("D", 5),
        entry("D", 5, line=3),
        entry("P", 8),
        entry("W", 6, "Pending"),
    ]
    today += [RejectedEntry(line=9, reason="no reference", amount=2), entry("V", 1)]
    answers |= {"N": paid("N", 90), "D": paid("D", 5), "P": paid("P", 8, "Canceled"), "W": paid("W", 6, "Pending")}
    answers |= {"V": DOWN, "S": paid("S", 11)}
    statement = [entry("S", 11), entry("N", 90), entry("M", 9)]
    await night(today, answers, previous=first, statement=statement)
    return tmp_path / "night-2"


def column(sheet, title):
    titles, *rows = sheet.values
    return sum(row[titles.index(title)] or 0 for row in rows)


async def test_workbook(folder):
    """The rows of each sheet add up to the sums of their bucket, and those to *All*, the words and the methods."""
    book = openpyxl.load_workbook(folder / "report.xlsx")
    titles, *rows = book["Summary"].values
    sums = {row[0]: dict(zip(titles, row, strict=True)) for row in rows if row[0]}
    wrong = []
    for bucket, name in SHEETS.items():
        expected, pairs = sums[BUCKETS[bucket].title], {"amount, ledger": "Ledger amount", "Difference": "Difference"}
        assert expected["Rows"], bucket
        pairs |= {"amount, service": "Service amount"}
        pairs = {"Ledger amount": "Ledger amount"} if bucket is Bucket.REJECTED else pairs
        titles = {cell.value for cell in book[name][1]} if name else set()
        found = {title: column(book[name], title) for title in pairs if title in titles}
        wrong += [(name, title, each) for title, each in found.items() if each != expected[pairs[title]]]
    for name in ("By status", "By method"):
        for title in ("Rows", "Ledger amount", "Service amount", "Ledger paid", "Service paid", "Difference"):
            if column(book[name], title) != sums["All"][title]:
                wrong.append((name, title, column(book[name], title), sums["All"][title]))
    assert wrong == []


async def test_breaks_csv(folder):
    """Amounts and difference of `breaks.csv` add up to the sums of the bucket."""
    titles, *rows = openpyxl.load_workbook(folder / "report.xlsx")["Summary"].values
    (total,) = (dict(zip(titles, row, strict=True)) for row in rows if row[0] == "Breaks")
    with (folder / "breaks.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    found = [sum(int(line[name] or 0) for line in lines) for name in ("ledger_amount", "service_amount", "difference")]
    assert found == [total["Ledger amount"], total["Service amount"], total["Difference"]]


KINDS = r" (\d+) (\d+) (\d+) ([-+]?\d+)(?= |$)"


def sums_to_last(table, pattern):
    """Return whether each column of numbers adds up to the one in the last line."""
    *each, total = re.findall(pattern, table.replace("\N{MINUS SIGN}", "-").replace(",", ""))
    assert len(each) > 1
    return [sum(map(int, numbers)) for numbers in zip(*each, strict=True)] == [*map(int, total)]


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


async def test_page(folder):
    """The kinds add up to all breaks, and each group's rows to the sums above them."""
    page = Page((folder / "report.html").read_text())
    (kinds,) = page.all("table", class_="kinds cards")
    assert sums_to_last(kinds, KINDS)
    moved = sum(int(cell.replace("\N{MINUS SIGN}", "-").replace("+", "") or 0) for cell in page.all("td", class_="n d"))
    recorded = page.text.split("Recorded as paid, but not paid recorded_not_paid")[1]
    assert "as paid 8 in the ledger, 0 at the service" in recorded[:400]
    paid_sums = re.findall(r"as paid ([\d,]+) in the ledger, ([\d,]+) at the service", page.text)
    assert moved == sum(int(theirs) - int(ours) for ours, theirs in paid_sums)
