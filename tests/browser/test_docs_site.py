"""The built documentation in a real browser, without a network."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def front_page(tmp_path_factory):
    """Build the documentation; return the address of its first page."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", DOCS, site], check=True)
    return (site / "index.html").as_uri()


@pytest.fixture(params=[390, 1280], ids=lambda width: f"{width}px")
def page(request, front_page, visit):
    """Give the first page in a window of one width."""
    return visit(front_page, width=request.param, offline=True)


def test_quiet(page):
    """The page loads without a word in the console, and nothing from another host."""
    assert (page.complaints, [url for url in page.requests if not url.startswith("file://")]) == ([], [])


def test_fits(page):
    """The page needs no horizontal scrolling."""
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
