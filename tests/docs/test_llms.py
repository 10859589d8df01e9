"""`llms.txt`, which is built with the documentation, leads to the Markdown of every page."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

DOCS = Path(__file__).parents[2] / "docs"
CONF = runpy.run_path(str(DOCS / "conf.py"))
TEXT = CONF["llms_txt"](DOCS)
LINES = re.findall(r"^- \[(.+?)\]\((.+?)\.md\): (.+)$", TEXT, re.MULTILINE)


def test_every_page():
    """Every page but the front page is in the list, once, with its title."""
    pages = {
        page.relative_to(DOCS).with_suffix("").as_posix(): page
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
    }
    del pages["index"]
    assert sorted(entry for _, entry, _ in LINES) == sorted(pages)
    assert [entry for title, entry, _ in LINES if f"# {title}\n" not in pages[entry].read_text(encoding="utf-8")] == []


def test_summary():
    """It begins with the name and what the project is, and has the sections of the front page."""
    first, _, summary, *_ = TEXT.splitlines()
    assert (first, summary.startswith("> A Python client for a payment service")) == ("# payclient", True)
    assert {"## Start", "## Web applications", "## Reconciliation", "## Look up", "## Contributors"} <= {
        *TEXT.splitlines()
    }


def test_descriptions():
    """Each page is described by a sentence of its own, as plain text."""
    described = {entry: words for _, entry, words in LINES}
    assert [entry for entry, words in described.items() if len(words) < 10] == []
    assert [entry for entry, words in described.items() if "](" in words or "```" in words or words[0] == "#"] == []


def test_plain_markdown(tmp_path):
    """Each link leads to the page as Markdown, which the build writes, with the layers in their place."""
    pages = {
        page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md") if "_build" not in page.parts
    }
    for page in pages:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
    html, env = SimpleNamespace(format="html"), SimpleNamespace(found_docs=pages)
    CONF["_write_markdown"](SimpleNamespace(builder=html, env=env, srcdir=DOCS, outdir=tmp_path), None)
    linked = re.findall(r"\]\((.+?)\): ", (tmp_path / "llms.txt").read_text(encoding="utf-8"))
    assert [link for link in linked if not (tmp_path / link).read_text(encoding="utf-8").startswith("# ")] == []
    architecture = (tmp_path / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert ("<!-- the layers" in architecture, "layers = [" in architecture) == (False, True)
