"""The page about the files of a report leaves out no file, key, sheet or column."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from payclient.reconcile import SettlementStep, Step
from payclient.reconcile.report import FORMATS, MANIFEST, ReportFiles
from payclient.reconcile.report._rows import CSV, PARQUET, SIDES
from payclient.reconcile.report._workbook import COLUMNS
from support.planted import about, judged

PAGE_FILE = Path(__file__).parents[2] / "docs" / "reference" / "report.md"
PAGE = PAGE_FILE.read_text(encoding="utf-8")


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
    """The table of each bridge has every step under its label, and no other."""
    pages = PAGE_FILE.parents[1] / "how-to"
    for name, kind in (("read-the-report.md", Step), ("tie-to-a-statement.md", SettlementStep)):
        table = (pages / name).read_text(encoding="utf-8").partition("\n| step |")[2].partition("\n\n")[0]
        named = [label for line in table.splitlines()[2:] for label in line.split("|")[1].strip().split(", ")]
        assert sorted(named) == sorted(step.label for step in kind), name


def test_files():
    """Every file has its line in the first table."""
    assert re.findall(r"^\| `([\w.]+)` \|", PAGE.partition("\n## ")[0], re.MULTILINE) == [*FORMATS, MANIFEST]


@pytest.mark.parametrize("name", ["summary.json", "manifest.json"])
def test_keys(report, name):
    """Every key of a file has its line, in the order of the file, and no other has."""
    assert keys_in(name) == list(json.loads((report / name).read_text()))


def test_keys_of_rows(report):
    """Every key of a row has its line, and the keys inside of it are named there."""
    row = next(row for row in map(json.loads, (report / "rows.jsonl").read_text().splitlines()) if row["findings"])
    assert keys_in("rows.jsonl") == list(row)
    inside = {*row["findings"][0], *row["status"]}
    assert {key for key in inside if f"`{key}`" not in section("rows.jsonl")} == set()


@pytest.mark.parametrize(("file", "columns"), [("breaks.csv", CSV), ("rows.parquet", PARQUET)])
def test_columns(file, columns):
    """Every column of a file has its line, in the order of the file; those of both sides share one."""
    named = [column.name for column in columns if column not in SIDES]
    assert [name for name in keys_in(file) if "…" not in name] == named
    assert {"ledger_…", "service_…"} <= set(keys_in(file))


def test_sheets(subtests):
    """Every sheet has its line, and the line has its columns in their order."""
    for name in COLUMNS:
        with subtests.test(name=name):
            said = next(
                line.split("|")[3] for line in section("report.xlsx").splitlines() if line.startswith(f"| {name} |")
            )
            titles = [column.title for column in COLUMNS[name]]
            sides = [title for title in titles if title.endswith((", ledger", ", service"))]
            times = [title for title in titles if title.endswith("(UTC)") or title == "Changed during run"]
            short = [title for title in titles if title not in {*sides, *times}]
            assert said.strip() == ", ".join(
                [*short, *(["both sides"] if sides else []), *(["times"] if times else [])]
            )
            assert {title for title in times if title not in section("report.xlsx")} == set()
            assert {title for title in sides if f"`{title.partition(',')[0]}`" not in section("report.xlsx")} == set()
