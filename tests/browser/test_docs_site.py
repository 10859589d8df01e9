"""The built documentation in a real browser, without a network."""

import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)"),
]


@pytest.fixture(scope="module")
def front_page(tmp_path_factory):
    """Build the documentation; return the address of its first page."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", DOCS, site], check=True)
    return (site / "index.html").as_uri()


@pytest.fixture(params=[390, 1280], ids=lambda width: f"{width}px")
def page(request, chromium):
    """Give a page of one width that keeps what it asked for and what it complained of."""
    context = chromium.new_context(viewport={"width": request.param, "height": 844}, offline=True)
    page = context.new_page()
    page.requests, page.complaints = [], []
    page.on("request", lambda sent: page.requests.append(sent.url))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    yield page
    context.close()


def test_no_complaint(page, front_page):
    """The page loads without an error in the console."""
    page.goto(front_page)
    assert page.complaints == []


def test_no_network(page, front_page):
    """A page loads nothing from another host."""
    page.goto(front_page)
    assert [url for url in page.requests if not url.startswith("file://")] == []


def test_fits(page, front_page):
    """The page needs no horizontal scrolling."""
    page.goto(front_page)
    # Each block's edge, for the document has no overflow: on a narrow screen the theme scrolls a part of the page.
    blocks = page.locator("article section > *")
    assert (
        blocks.evaluate_all("blocks => Math.max(...blocks.map(b => b.getBoundingClientRect().right)) - innerWidth") <= 0
    )


def test_tables_fit(page, front_page):
    """No table of any page leaves the screen."""
    leaving = """() => [...document.querySelectorAll('article table')]
        .filter(table => table.getBoundingClientRect().right > innerWidth + 0.5)
        .map(table => location.pathname + ' ' + table.textContent.slice(0, 60))"""
    found = []
    for file in sorted(Path(url2pathname(urlsplit(front_page).path)).parent.rglob("*.html")):
        page.goto(file.as_uri())
        found += page.evaluate(leaving)
    assert found == []


def test_text_is_large_enough(page, front_page):
    """Body text is at least 14 px high."""
    page.goto(front_page)
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('article p')).fontSize)") >= 14


def test_heading_names_the_project(page, front_page):
    """The first heading says what this is."""
    page.goto(front_page)
    assert page.locator("h1").first.inner_text().rstrip("#").strip() == "payclient"
