"""Every column of money adds up to a number that stands elsewhere, also with rows that today's ledger does not have."""

from __future__ import annotations

import csv
import re

import openpyxl
import pytest

from payclient import errors
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket
from payclient.report._wording import BUCKETS
from support.nights import Nights, paid
from support.pages import Page

pytestmark = pytest.mark.virtual_time
DOWN = errors.ServiceError("no answer")
SHEETS = dict(zip(Bucket, ("", "Open", "Breaks", "Unresolved", "Rejected"), strict=True))


def entry(reference, amount, status="Paid", line=2):
    return Entry(line=line, reference=reference, amount=amount, status=status)


@pytest.fixture
async def folder(tmp_path):
    """Reconcile two nights with every bucket, carried rows in each, and a statement with references of its own."""
    night = Nights(tmp_path, formats=("summary.json", "rows.jsonl", "breaks.csv", "report.xlsx", "report.html"))
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


async def test_page(folder):
    """The kinds add up to all breaks, and each group's rows to the sums above them."""
    page = Page((folder / "report.html").read_text())
    (kinds,) = page.all("table", class_="kinds")
    *each, total = re.findall(r" ([\d,]+) ([\d,]+) ([\d,]+)(?= |$)", kinds)
    assert [sum(map(int, numbers)) for numbers in zip(*each, strict=True)] == [*map(int, total)]
    moved = sum(int(cell.replace("\N{MINUS SIGN}", "-").replace("+", "") or 0) for cell in page.all("td", class_="n d"))
    recorded = page.text.split("Recorded as paid, but not paid recorded_not_paid")[1]
    assert "as paid 8 in the ledger, 0 at the service" in recorded[:400]
    paid_sums = re.findall(r"as paid ([\d,]+) in the ledger, ([\d,]+) at the service", page.text)
    assert moved == sum(int(theirs) - int(ours) for ours, theirs in paid_sums)
