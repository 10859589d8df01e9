"""The page about the files of a report leaves out no file, key, sheet or column."""

import asyncio
import json
import re
import runpy
from pathlib import Path

import pytest

from payclient.reconcile import SettlementStep, Step
from payclient.reconcile.report import ReportFiles
from payclient.reconcile.report.integrity import MANIFEST
from payclient.reconcile.report.model import FORMATS
from payclient.reconcile.report.rows import CSV, PARQUET, SIDES
from payclient.reconcile.report.wording import in_words
from payclient.reconcile.report.workbook import COLUMNS
from support.planted import about, judged

DOCS = Path(__file__).parents[2] / "docs"
CONF = runpy.run_path(str(DOCS / "conf.py"))
PAGE = CONF["_with_generated"]((DOCS / "reference" / "report.md").read_text(encoding="utf-8"))


def section(name):
    return re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def keys_in(name):
    """Return what stands in backticks in the first column of the table of a section."""
    lines = [line for line in section(name).splitlines() if line.startswith("| `")]
    return [key for line in lines for key in re.findall(r"`([^`]+)`", line.split("|")[1])]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with ReportFiles(folder, formats=["summary.json", "rows.jsonl"]) as files:
        for row in asyncio.run(judged(1000)):
            files.add(row)
        files.finish(about())
    return folder


def test_steps():
    """Both bridges have every step under its label, in its order, and no other."""
    named = re.findall(r"^\| ([a-z ]+) \| ", section("Bridges"), re.MULTILINE)
    assert [name for name in named if name != "step"] == [in_words(step) for step in (*Step, *SettlementStep)]


def test_files():
    """Every file has its line in the first table."""
    assert re.findall(r"^\| `([\w.]+)` \|", PAGE.partition("\n## ")[0], re.MULTILINE) == [*FORMATS, MANIFEST]


@pytest.mark.parametrize("name", ["summary.json", "manifest.json"])
def test_keys(report, name):
    """Every key of a file has its line, and no other has."""
    assert sorted(keys_in(name)) == sorted(json.loads((report / name).read_text()))


def names_in(file):
    """Return the names of the table of rows that are in a file, and the text of their lines."""
    lines = [line.strip("|").split("|") for line in section("Rows").splitlines() if line.startswith("| `")]
    found = [(first, text) for first, text, files in lines if files.strip() == "all" or file in files]
    return {name for first, _ in found for name in re.findall(r"`([^`]+)`", first)}, " ".join(text for _, text in found)


def test_keys_of_rows(report):
    """Every key of a row has its line, no other has, and the keys inside of it are named there."""
    row = next(row for row in map(json.loads, (report / "rows.jsonl").read_text().splitlines()) if row["findings"])
    names, text = names_in("jsonl")
    assert names == {*row}
    assert {key for key in {*row["findings"][0], *row["status"]} if f"`{key}`" not in text} == set()


@pytest.mark.parametrize(("file", "columns"), [("csv", CSV), ("parquet", PARQUET)])
def test_columns(file, columns):
    """Every column of a file has its line, and no other has; those of both sides share one."""
    names, _ = names_in(file)
    assert names == {*(column.name for column in columns if column not in SIDES), "ledger_…", "service_…"}


def test_sheets():
    """Every sheet has its line, with its columns in their order."""
    table = dict(re.findall(r"^\| ([\w -]+) \| (.+) \|$", section("report.xlsx"), re.MULTILINE))
    for name, columns in COLUMNS.items():
        titles = [each.title for each in columns if not each.title.endswith((", ledger", ", service"))]
        assert [title for title in table[name].split(", ") if "both sides" not in title] == titles, name
