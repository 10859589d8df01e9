"""Every block of README and docs does what its page says."""

from __future__ import annotations

import logging
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from docs.blocks import FOR_THE_EYE, RUN, SAVED, Reader, languages

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "docs" / "examples"
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])


def name(page):
    return str(page.relative_to(PROJECT))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """The sandbox that most pages talk to, and that their reader is told to start; yield its variables."""
    with Reader(tmp_path_factory.mktemp("sandbox")) as somebody:
        exported = somebody.adapted(somebody.start_sandbox("payclient sandbox"))
        yield dict(pair.split("=") for pair in exported.removeprefix("export ").split())


@pytest.fixture
def reader(sandbox, tmp_path, monkeypatch):
    """Somebody who has set the three variables, has the examples beside them."""
    for variable, value in sandbox.items():
        monkeypatch.setenv(variable, value)
    for example in EXAMPLES.glob("*.py"):
        shutil.copy(example, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with Reader(tmp_path) as somebody:
        yield somebody


@contextmanager
def logging_unconfigured():
    """Hide what pytest does to logging, and undo what a page does."""
    loggers = [logging.getLogger(name) for name in (None, "payclient", "httpx")]
    kept = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    loggers[0].handlers.clear()
    yield
    for logger, handlers, level in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page(page, reader):
    """Every block of the page runs as it is written, and prints what is shown."""
    with logging_unconfigured():
        for example in reader.parse(page):
            example.evaluate()
    assert reader.finish() is None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_languages(page):
    """No block escapes: its language is one that is run, saved, or known to be for the eye."""
    known = RUN | SAVED | FOR_THE_EYE
    assert [
        found
        for found in languages(page.read_text(encoding="utf-8"))
        if found not in known and not found.startswith("{")
    ] == []
