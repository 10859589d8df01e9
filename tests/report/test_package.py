"""Sheets become one file that is the same wherever and whenever it is written."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import zipfile
from xml.etree import ElementTree as ET

import openpyxl
import pytest

from payclient.report._package import Package
from payclient.report._sheet import Column, Sheet

PROGRAM = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from payclient.report._package import Package
from payclient.report._sheet import Column, Sheet
folder = Path(sys.argv[1])
with (folder / "x.xlsx").open("w+b") as file, Package(file, folder) as package:
    for name in ("One", "Two"):
        package.begin(name, Sheet([Column("A")]))
        package.add(name, ["text"])
    package.finish(["Two", "One"])
"""


def written(folder, rows):
    """Return the bytes of a workbook of two sheets, whose rows come in turns."""
    file = io.BytesIO()
    with Package(file, folder) as package:
        for name in ("Long", "Short"):
            package.begin(name, Sheet([Column("A"), Column("B")]))
        for name, values in rows:
            package.add(name, values)
        package.finish(["Short", "Long"])
    return file.getvalue()


ROWS = [("Long", ["a", 1]), ("Short", ["b", 2]), ("Long", ["c", 3])]


def test_read_by_others(tmp_path):
    """Another library reads the sheets in their order, each with its rows in theirs."""
    workbook = openpyxl.load_workbook(io.BytesIO(written(tmp_path, ROWS)))
    assert {sheet.title: list(sheet.values) for sheet in workbook} == {
        "Short": [("A", "B"), ("b", 2)],
        "Long": [("A", "B"), ("a", 1), ("c", 3)],
    }
    assert workbook.sheetnames == ["Short", "Long"]
    assert (workbook["Long"].auto_filter.ref, workbook["Long"].print_title_rows) == ("A1:B3", "$1:$1")


def test_every_part_is_xml(tmp_path):
    """Every part is well-formed, has its content type, and is reached from the root."""
    with zipfile.ZipFile(io.BytesIO(written(tmp_path, ROWS))) as archive:
        parts = {name: ET.fromstring(archive.read(name)) for name in archive.namelist()}
    types = {each.get("PartName", "").lstrip("/") for each in parts["[Content_Types].xml"]}
    relations = {f"xl/{each.get('Target')}" for each in parts["xl/_rels/workbook.xml.rels"]}
    assert types - {""} == {name for name in parts if name.startswith("xl/") and not name.endswith(".rels")}
    assert relations | {"xl/workbook.xml"} == types - {""}


def test_nothing_runs(tmp_path):
    """There is no part for macros, links, connections or objects; no kind but sheets and styles."""
    with zipfile.ZipFile(io.BytesIO(written(tmp_path, ROWS))) as archive:
        types = ET.fromstring(archive.read("[Content_Types].xml"))
    kinds = {each.get("ContentType").rpartition(".")[2] for each in types if each.get("PartName")}
    assert kinds == {"main+xml", "styles+xml", "worksheet+xml"}


def test_same_bytes_everywhere(tmp_path):
    """Time zone, rights of new files and process make no difference."""
    found = set()
    for zone, umask in (("Pacific/Kiritimati", "077"), ("America/Los_Angeles", "000")):
        folder = tmp_path / umask
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder), umask],
            env={**os.environ, "TZ": zone, "PYTHONHASHSEED": umask.lstrip("0") or "0"},
            check=True,
        )
        found.add((folder / "x.xlsx").read_bytes())
    assert len(found) == 1
    with zipfile.ZipFile(io.BytesIO(found.pop())) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_nothing_left_behind(tmp_path):
    """The folder is empty after it, also when it ended in the middle."""
    written(tmp_path, ROWS)
    with pytest.raises(ZeroDivisionError), Package(io.BytesIO(), tmp_path) as package:
        for name in ("Long", "Short"):
            package.begin(name, Sheet([Column("A")]))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_disk_full(tmp_path, full_after):
    """A full disk is an error of the operating system, and none comes after it."""
    with (tmp_path / "x.xlsx").open("w+b") as file, full_after(1000), Package(file, tmp_path) as package:
        package.begin("Long", Sheet([Column("A")]))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            for number in range(10_000):
                package.add("Long", [hash(str(number))])
            package.finish(["Long"])
        file.truncate(0)
