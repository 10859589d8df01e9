"""The report in a real browser: read, filtered, printed, by mouse and by keyboard, with script and without."""

import asyncio
import re

import pytest

from payclient.protocol.transaction import read_transaction
from payclient.reconcile import Bucket
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report.model import FORMATS
from support.nights import Nights
from support.planted import judged, page_of
from support.seeded import generate

A4 = 688  # pixels between the margins of the page

pytestmark = pytest.mark.browser

# Of each piece of text: the contrast with what is painted behind it, by WCAG 2.2.
CONTRASTS = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, alpha = 1] = channels(getComputedStyle(element).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = {};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, title")) continue;
    const style = getComputedStyle(element);
    const [high, low] = [luminance(channels(style.color)), luminance(behind(element))].sort((a, b) => b - a);
    found[`${style.color} on ${behind(element)}`] = (high + 0.05) / (low + 0.05);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def example():
    """Give a ledger with every bucket and every finding, judged."""
    return asyncio.run(judged(2412, unresolved=3))


def run_twice(folder, amount, *columns, every, has_statement=False):
    """Write the report of a run that has a previous one, with some payments of another *amount*; return its page."""

    async def nights():
        night, planted, before = Nights(folder, formats=tuple(FORMATS)), generate(600, seed=1), None
        for number in range(2):
            ledger = [entry_of(fields, *columns) for fields in planted.ledger[120 * number : 120 * number + 400]]
            answers = {
                fields["reference"]: read_transaction(
                    dict(fields) | ({"amount": amount} if place % every == 7 + number else {})
                )
                for place, fields in enumerate(planted.transactions)
            }
            statement = [
                Entry(line=place, reference=name, amount=found.amount - place % 7, amount_received=found.amount - 2500)
                for place, (name, found) in enumerate(answers.items(), 2)
                if place % 5
            ]
            statement += [RejectedEntry(line=900 + place, reason="amount: 'x' is not a number") for place in range(9)]
            more = {"statement": statement} if has_statement else {}
            before = await night([each for each in ledger if each], answers, previous=before, **more)
        return before.run.folder / "report.html"

    return asyncio.run(nights())


def entry_of(fields, *more):
    """Return a row of the planted ledger; None for one that no ledger could hold."""
    if not str(fields["amount"]).isdecimal():
        return None
    return Entry(line=1, **{name: fields[name] for name in ("reference", "merchant_reff", "amount", "status", *more)})


@pytest.fixture(scope="module")
def pages(example, tmp_path_factory):
    """Write all pages; return their addresses by name."""
    folder = tmp_path_factory.mktemp("pages")
    for name, rows in (("report", example), ("pictured", asyncio.run(judged(2412)))):
        (folder / f"{name}.html").write_text(page_of(rows), encoding="utf-8", newline="")
    found = {
        "report": folder / "report.html",
        "pictured": folder / "pictured.html",  # of a run that is complete, which most are
        "since": run_twice(folder / "since", 1000, every=90),
        "full": run_twice(folder / "full", 123_456_789_000, "payment_method", every=40, has_statement=True),
    }
    return {name: path.as_uri() for name, path in found.items()}


@pytest.fixture
def open_page(pages, visit):  # they are made first, because the browser's event loop would be in the way
    """Open one of the pages."""
    return lambda of="report", **options: visit(pages[of], offline=True, **options)


def listed(page):
    """Return the references that a reader sees."""
    shown = page.locator(".group .rows tbody tr:visible th")
    return [text.split()[0] for text in shown.all_inner_texts()]


def test_no_complaint(open_page, pages):
    """The page loads without a word in the console, and asks for nothing but itself."""
    page = open_page()
    page.get_by_role("searchbox").fill("x")
    assert (page.complaints, page.requests) == ([], [pages["report"]])


def test_policy_holds(open_page):
    """What a stranger might get into the page does not run, and says so in the console only."""
    page = open_page()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">')")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = 2'}))")
    page.wait_for_function("() => true")
    assert (page.title().startswith("Incomplete: "), bool(page.complaints)) == (True, True)


BEYOND = """() => [...document.querySelectorAll('body :not(.scroll *, .unseen, .skip, .rows thead, .rows thead *)')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML)"""
CLIPPED = """selector => [...document.querySelectorAll(selector)]
  .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""

SPLIT = """() => [...document.querySelectorAll('td.n, .amount')].filter(e => e.checkVisibility()).filter(e => {
  const text = document.createRange();
  text.selectNodeContents(e);
  return new Set([...text.getClientRects()].map(line => Math.round(line.top))).size > 1;
}).map(e => e.textContent)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1024, 1280, A4])
def test_readable(open_page, pages, width, scheme):
    """Each page fits any screen and paper, splits nothing, and stands out by 4.5 to 1; paper is always white."""
    misses, media = [], "print" if width == A4 else "screen"
    for name in ("report", "full"):
        page = open_page(name, width=width, color_scheme=scheme)
        page.emulate_media(media=media, color_scheme=scheme)
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) >= 5
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        found = {
            "scrolls": page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0,
            "beyond": page.evaluate(BEYOND),
            "clipped": page.evaluate(CLIPPED, "td, th, .scroll" if name == "full" else "td, th"),
            "split": page.evaluate(SPLIT),
            "faint": {pair: ratio for pair, ratio in contrasts.items() if ratio < 4.5},
            "paper": (paper == "rgb(255, 255, 255)") != (media == "print"),
            "complaints": page.complaints,
            "requests": set(page.requests) - {pages[name]},
        }
        misses += [(name, what, each) for what, each in found.items() if each]
    assert misses == []


def test_accessible_names(open_page):
    """A screen reader finds the parts of the page by role and name."""
    page = open_page()
    found = [
        page.get_by_role("main").count(),
        page.get_by_role("heading", level=1, name="Incomplete", exact=True).count(),
        page.get_by_role("navigation", name="Sections").count(),
        page.get_by_role("table", name="Bridge", exact=True).count(),
        page.get_by_role("table", name="Breaks by kind").count(),
        page.get_by_role("search").count(),
        page.get_by_role("searchbox", name="Filter rows").count(),
        page.get_by_role("region", name="From the ledger's paid total to the service's").count(),
        page.get_by_role("table", name="Paid twice").count(),
    ]
    assert found == [1] * len(found)


@pytest.mark.parametrize("width", [390, 1280])
def test_tables_stay_tables(open_page, width):
    """For a screen reader a row is a row with a header, even if a narrow screen shows it as a card."""
    rows = open_page(width=width).get_by_role("table", name="Underpaid").get_by_role("row")
    assert rows.get_by_role("rowheader").count() == rows.count() - 1


def test_labels(open_page):
    """On a narrow screen, where a table has no heads, each amount of the worst breaks has its label."""
    script = "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
    said = open_page(width=390).locator(".worst td.n").evaluate_all(script)
    assert set(said) == {'"At stake"'}


def test_filter(open_page, example):
    """The filter leaves the rows that have every word, also of a heading or an amount, and shows their number."""
    page, row = open_page(), next(row for row in example if row.bucket is Bucket.BREAK and row.ledger_amount > 10**6)
    box, status = page.get_by_role("searchbox"), page.get_by_role("status")
    everything = listed(page)
    box.press_sequentially(row.reference.lower())
    assert (set(listed(page)), len(everything) > 40) == ({row.reference}, True)
    assert status.inner_text() == f"{len(listed(page))} of {len(everything)} rows on this page"
    box.press("Escape")
    assert (listed(page), box.input_value()) == (everything, "")
    box.fill("critical late_payment")
    late = {row.reference for row in example if row.primary and row.primary.code == "late_payment"}
    assert (set(listed(page)), page.get_by_role("heading", level=3, name="Underpaid").count()) == (late, 0)
    found = []
    for text in (f"{row.ledger_amount:,}", str(row.ledger_amount)):
        box.fill(text)
        found.append(listed(page))
    assert (row.reference in found[0], found[0] == found[1]) == (True, True)
    box.fill("no such thing")
    assert (listed(page), status.inner_text()[:5], page.locator(".group:visible").count()) == ([], "0 of ", 0)


def test_keyboard(open_page):
    """The first stop of the keyboard skips to the verdict, every stop can be seen, and the filter is one of them."""
    page = open_page()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "verdict"
    stops, is_seen = [], "() => getComputedStyle(document.activeElement).outlineStyle !== 'none'"
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.append((page.evaluate("document.activeElement.outerHTML.slice(0, 80)"), page.evaluate(is_seen)))
        if 'id="filter-text"' in stops[-1][0]:
            break
    assert ([stop for stop, is_seen in stops if not is_seen], 'id="filter-text"' in stops[-1][0]) == ([], True)


def test_without_script(open_page):
    """Without JavaScript everything is there to read, and no box that does nothing."""
    page, other = open_page(java_script_enabled=False), open_page()
    assert (listed(page), page.get_by_role("searchbox").count()) == (listed(other), 0)


def test_print(open_page):
    """In print there is no filter and no list of links, and tables repeat their header on each page."""
    page = open_page()
    page.emulate_media(media="print")
    display = page.locator(".rows thead").first.evaluate("head => getComputedStyle(head).display")
    gone = [page.locator(name).is_visible() for name in (".filter", ".jump", ".skip")]
    assert (display, gone) == ("table-header-group", [False, False, False])


def test_pdf(open_page):
    """The page prints to A4, on as many sheets as it needs and no more."""
    pdf = open_page().pdf(prefer_css_page_size=True)
    sheets = len(re.findall(rb"/Type /Page\b(?!s)", pdf))
    boxes = {tuple(map(round, map(float, box.split()))) for box in re.findall(rb"/MediaBox \[([\d. ]+)\]", pdf)}
    assert (pdf[:5], 5 <= sheets <= 15, boxes) == (b"%PDF-", True, {(0, 0, 595, 842)})


@pytest.mark.parametrize(
    ("name", "options", "height"),
    [
        ("light", {}, 1200),
        ("dark", {"color_scheme": "dark"}, 1200),
        ("breaks", {}, 1080),
        ("since", {}, 1200),
        ("phone", {"width": 390, "device_scale_factor": 2}, 1000),
        ("print", {"width": 794}, 1123),
    ],
)
def test_picture(screenshots, open_page, name, options, height):
    """The pictures in the documentation show the report as it is, each in less than 200 KB."""
    page = open_page(name if name == "since" else "pictured", height=height, **options)
    if name in ("breaks", "since"):
        page.goto(f"{page.url}#{name}")
    if name == "print":
        page.emulate_media(media="print")
        page.evaluate("document.body.style.padding = '16mm 14mm'")  # a picture has no margins of its own
    picture = screenshots / f"report-{name}.png"
    page.screenshot(path=picture)
    assert picture.stat().st_size < 200_000


def test_second_bridge(open_page):
    """The bridge to a statement has a name, its lines, and the lines of the statement that cannot be used."""
    section = open_page("full").get_by_role("region", name="From the service's paid total to the statement")
    assert section.get_by_role("table", name="Bridge to the statement").get_by_role("row").count() > 3
    assert "Cannot be used: line 900" in section.inner_text()
