"""A Chromium, and where the pictures of the documentation go when somebody asks for new ones."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
BUSY = 120_000
"""Milliseconds until a browser on a busy machine is believed to hang."""


def pytest_addoption(parser):
    parser.addoption("--screenshots", type=Path, metavar="FOLDER", help="write pictures of the report there")


@pytest.fixture
def screenshots(request):
    """Give the folder for pictures; without one there is nothing to do."""
    folder = request.config.getoption("--screenshots", default=None)
    if folder is None:
        pytest.skip("no folder for pictures was given (--screenshots)")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only the browser session installs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=BUSY)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open addresses, in a window of a size; each page keeps what it asked for and what it complained of."""
    contexts = []

    def visit(url, *, width=1280, height=844, **options):
        contexts.append(chromium.new_context(viewport={"width": width, "height": height}, **options))
        contexts[-1].set_default_timeout(BUSY)
        page = contexts[-1].new_page()
        page.requests, page.complaints = [], []
        page.on("request", lambda sent: page.requests.append(sent.url))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda line: page.complaints.append(line.text))
        page.goto(url)
        return page

    yield visit
    for context in contexts:
        context.close()
