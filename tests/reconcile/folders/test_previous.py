"""A report with a previous run shows what changed since, on the page and in the workbook."""

import re

import openpyxl
import pytest

from payclient.reconcile.ledger import Entry
from payclient.reconcile.report.model import FORMATS
from support.nights import Nights, paid

HOSTILE = "<script>alert(1)</script>"


def entry(reference, amount=9, line=2, **fields):
    return Entry(line=line, reference=reference, amount=amount, status="Paid", **fields)


@pytest.fixture
async def second(tmp_path):
    """Give the second of two runs: a break that is new, one that was carried over, and one that is gone."""
    night = Nights(tmp_path, formats=tuple(FORMATS))
    ledger = [entry(reference) for reference in ("A", "B", "C")]
    first = await night(ledger, {"A": paid("A", 5), "B": paid("B", 5), "C": paid("C")})
    later = [entry("A"), entry("C"), entry("D", merchant_reff=HOSTILE)]
    answers = {"A": paid("A"), "B": paid("B", 5), "C": paid("C"), "D": paid("D", 1, merchant_reff="N")}
    return await night(later, answers, previous=first)


def text_of(html):
    return " ".join(re.sub(r"<(style|script|title|desc).*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL).split())


async def test_page(second):
    """The page has the moves of the breaks, the last runs, the age of each break, and what is new and resolved."""
    html = (second.run.folder / "report.html").read_text()
    text = text_of(html)
    assert "2 breaks; 2 new, 1 resolved since 21 November; " in text
    assert "Since 21 November Open findings: 2 + 2 new + 0 reopened - 1 resolved = 3. 1 row of the previous run" in text
    assert "Breaks of the last 2 runs: 2, 2." in text
    news, kinds = (text.index(f"{each} {each} ") for each in ("New, changed or reopened", "Breaks by kind"))
    assert re.findall(r"D (?:critical|high)", text[news:kinds]) == ["D critical", "D high"]
    assert "A resolved by the service amount is 9 in the ledger and 5 at the service, which is 4 less" in text
    assert "still open 1 day carried over" in text
    assert HOSTILE not in html


async def test_without(tmp_path):
    """Without a previous run, none of it is there."""
    night = Nights(tmp_path, formats=tuple(FORMATS))
    only = await night([entry("A")], {"A": paid("A", 5)})
    html = (only.run.folder / "report.html").read_text()
    assert ("Since" in text_of(html), 'class="delta"' in html, ">Age<" in html) == (False, False, False)
    assert "Resolved" not in openpyxl.load_workbook(only.run.folder / "report.xlsx").sheetnames
    assert not (only.run.folder / "history.jsonl").exists()
