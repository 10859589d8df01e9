"""Where the pictures of the documentation go when somebody asks for new ones."""

from pathlib import Path

import pytest


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
