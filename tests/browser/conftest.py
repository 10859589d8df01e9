"""A Chromium, and where the pictures of the documentation go when somebody asks for new ones."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only the browser session installs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
