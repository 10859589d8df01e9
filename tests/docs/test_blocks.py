"""Every block of README and docs does what its page says."""

import inspect
import logging
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest
from sybil.document import PythonDocStringDocument

from docs.blocks import FOR_THE_EYE, NEEDS, RUN, SAVED, Reader, is_shown, languages
from payclient._shared.logger import logger

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "docs" / "examples"
PAGES = sorted([PROJECT / "README.md", *(p for p in (PROJECT / "docs").rglob("*.md") if "_build" not in p.parts)])
STARTS_MANY_PROCESSES = frozenset(
    {
        "docs/how-to/fastapi.md",
        "docs/how-to/ledger-from-excel.md",
        "docs/how-to/ledger-in-a-database.md",
        "docs/how-to/reconcile-every-night.md",
        "docs/how-to/testing.md",
        "docs/how-to/tie-to-a-statement.md",
        "docs/how-to/wait.md",
        "docs/how-to/work-on-the-breaks.md",
        "docs/reference/cli.md",
        "docs/second-night.md",
        "docs/tutorial.md",
    }
)


def name(file):
    return file.relative_to(PROJECT).as_posix()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """Start the sandbox that most pages tell their reader to start; yield its variables."""
    with Reader(tmp_path_factory.mktemp("sandbox")) as reader:
        exported = reader.adapted(reader.start_sandbox("payclient sandbox"))
        yield dict(pair.split("=") for pair in exported.splitlines()[0].removeprefix("export ").split())


@pytest.fixture
def reader(sandbox, tmp_path, monkeypatch):
    """A reader who has set the three variables and has the examples in the working directory."""
    for variable, value in sandbox.items():
        monkeypatch.setenv(variable, value)
    for example in EXAMPLES.glob("*.py"):
        shutil.copy(example, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with Reader(tmp_path) as reader:
        yield reader


@contextmanager
def logging_unconfigured():
    """Hide what pytest does to logging, and undo what a page does."""
    # Imported already, because undoing also removes a handler that is added while the page runs.
    loggers = [logging.getLogger(), logger, logging.getLogger("httpx")]
    kept = [(each, each.handlers[:], each.level) for each in loggers]
    loggers[0].handlers.clear()
    yield
    for each, handlers, level in kept:
        each.handlers[:] = handlers
        each.setLevel(level)


def with_mark(page):
    return pytest.param(page, marks=pytest.mark.slow) if name(page) in STARTS_MANY_PROCESSES else page


@pytest.mark.parametrize("page", [with_mark(page) for page in PAGES], ids=name)
def test_page(page, reader):
    """Every block of the page runs as it is written, and prints what is shown."""
    if package := NEEDS.get(name(page)):
        pytest.importorskip(package, reason=f"the page is about {package}")
    with logging_unconfigured():
        for example in reader.parse(page):
            example.evaluate()
    assert reader.finish() is None


@pytest.mark.slow
def test_demo(tmp_path):
    """The demo prints what README shows of it."""
    shown = re.search(r"payclient demo\n(.+?)```", (PROJECT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    demo = [sys.executable, "-m", "payclient", "demo", "--out", str(tmp_path)]
    done = subprocess.run(demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True, timeout=300)
    assert is_shown(shown, done.stdout), done.stdout


def in_docstrings(module):
    """Return all docstrings of a module that has a block, one after the other."""
    source = module.read_text(encoding="utf-8")
    found = PythonDocStringDocument.extract_docstrings(source) if "```" in source else ()  # parsing takes a second
    return "\n\n".join(inspect.cleandoc(text) for _, _, text in found)


MODULES = sorted(file for file in (PROJECT / "payclient").rglob("*.py") if "```" in in_docstrings(file))


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_docstrings(module, reader, tmp_path):
    """Every block of a docstring runs as it is written, with the names of its module at hand."""
    (tmp_path / "docstrings.md").write_text(in_docstrings(module), encoding="utf-8")
    page = reader.parse(tmp_path / "docstrings.md")
    page.namespace.update(vars(import_module(name(module).removesuffix(".py").replace("/", "."))))
    for example in page:
        example.evaluate()


def test_languages(subtests):
    """No block escapes: its language is one that is run, saved, or known to be for the eye."""
    for page in PAGES:
        with subtests.test(page=page):
            known = RUN | SAVED | FOR_THE_EYE
            assert [
                found
                for found in languages(page.read_text(encoding="utf-8"))
                if found not in known and not found.startswith("{")
            ] == []


def test_examples_are_shown(subtests):
    """Each example application stands on a page in whole, or a page leads to its file."""
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    for example in sorted(EXAMPLES.glob("*.py")):
        with subtests.test(example=example):
            shown = f"```python\n{example.read_text(encoding='utf-8')}```"
            linked = f"](../examples/{example.name})"
            assert any(shown in text or linked in text for text in pages)


def test_plain_markdown(subtests):
    """A page is plain Markdown, without a role or a directive of Sphinx, and each link leads to a file."""
    for page in [page for page in PAGES if page.name != "index.md" and page.parent.name != "api"]:
        with subtests.test(page=page):
            text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
            links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
            assert ("```{" in page.read_text(encoding="utf-8"), re.findall(r"\{[a-z:]+\}`", text)) == (False, [])
            assert [link for link in links if not (page.parent / link).exists()] == []
            assert "[](" not in text
            assert re.findall(r"^([|-]).*\n\n+\1 .*", text, re.MULTILINE) == []  # a table or a list in two
