"""A sheet is valid XML in which every text reads as itself, and none is a formula."""

from __future__ import annotations

import re
from itertools import islice
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient._visible import visible
from payclient.report._sheet import Column, Sheet, Style, column_letters

M = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
HOSTILE = [
    *("=1+1", "@SUM(A1)", "-1", "+1", "<r><t>x</t></r>", "</t></is></c>", "]]>", "&amp;", "&#10;", "\"'", "_x000A_"),
    *("\x1b[31m", "\u202eabc", "a\nb", "\x00", "\ud800", "\ufffe", " x ", "_x005F_", "_x_", "0012", "1E5", "#REF!"),
]


def sheet_of(rows, **options):
    sheet = Sheet([Column("A"), Column("B", 9, Style.PLAIN)], **options)
    return ET.fromstring(b"".join([sheet.start(), *map(sheet.add, rows), sheet.end()]))


def text_of(cell):
    """Return the text of a cell as a spreadsheet reads it; the escapes of ECMA-376 undone."""
    text = "".join(part.text or "" for part in cell.iter(f"{M}t"))
    return re.sub(r"_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), text)


def cells(root):
    return {cell.get("r"): cell for cell in root.iter(f"{M}c")}


def test_header():
    """The first row has the titles, stays in sight, and has filters down to the last row."""
    root = sheet_of([["a", 1], ["b", 2]])
    assert [text_of(cell) for name, cell in cells(root).items() if name.endswith("1")] == ["A", "B"]
    pane = root.find(f".//{M}pane")
    assert (pane.get("ySplit"), pane.get("state")) == ("1", "frozen")
    assert root.find(f"{M}autoFilter").get("ref") == "A1:B3"


def test_without_filter():
    """A sheet that is no table has no filters."""
    assert sheet_of([["a"]], has_filter=False).find(f"{M}autoFilter") is None


def test_numbers():
    """Money has separators of thousands, the number of a line has none, and both are numbers."""
    found = cells(sheet_of([[-15_000, 15_000]]))
    assert [(found[name].get("s"), found[name].get("t"), found[name].find(f"{M}v").text) for name in ("A2", "B2")] == [
        (str(int(Style.MONEY)), None, "-15000"),
        (str(int(Style.PLAIN)), None, "15000"),
    ]


@pytest.mark.parametrize("number", [10**15 - 1, 1 - 10**15])
def test_longest_number(number):
    """The longest numbers that a spreadsheet shows in full are numbers."""
    assert cells(sheet_of([[number]]))["A2"].find(f"{M}v").text == str(number)


@pytest.mark.parametrize("number", [10**15, -(10**15), 2**53, 10**40])
def test_too_long_a_number(number):
    """A number of which a spreadsheet would change the last digits is text."""
    assert text_of(cells(sheet_of([[number]]))["A2"]) == str(number)


def test_nothing():
    """What is not there has no cell, and the cells after it keep their column."""
    assert list(cells(sheet_of([[None, 1], ["", 2], []]))) == ["A1", "B1", "B2", "B3"]


@given(st.text(st.characters()))
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile(text, more):
    """Every text is a cell of text, no formula, that reads as it was, with what cannot be seen made visible."""
    for each in (text, text + more, more + text):
        root = sheet_of([[each]])
        cell = cells(root)["A2"]
        assert (cell.get("t"), cell.get("s")) == ("inlineStr", str(int(Style.TEXT)))
        assert text_of(cell) == visible(each)
        assert {child.tag for child in root.iter()} & {f"{M}f", f"{M}r", f"{M}hyperlink"} == set()


@example("x")
@given(st.text(st.characters(), min_size=1))
def test_long_text(text):
    """No text is longer than a cell can hold, whatever it is made of."""
    found = text_of(cells(sheet_of([[text * 40_000]]))["A2"])
    assert len(found.encode("utf-16-le")) // 2 <= 32_767
    assert found.endswith("…")


def test_spaces_stay():
    """Spaces at both ends of a text are kept."""
    found = cells(sheet_of([[" x"], ["x "], ["x y"]]))
    space = "{http://www.w3.org/XML/1998/namespace}space"
    assert [found[name].find(f".//{M}t").get(space) for name in ("A2", "A3", "A4")] == ["preserve", "preserve", None]


def test_full():
    """A sheet that has room for all rows has all of them, the last one too."""
    root = sheet_of([["a"], ["b"], ["c"]], most_rows=4)
    assert [text_of(cell) for cell in cells(root).values()] == ["A", "B", "a", "b", "c"]


def test_too_many():
    """Where rows do not fit, the last one says how many, and where they are."""
    sheet = Sheet([Column("A")], most_rows=3, rest="breaks.csv")
    text = b"".join([sheet.start(), *(sheet.add([f"row {number}"]) for number in range(5)), sheet.end()])
    assert [text_of(cell) for cell in cells(ET.fromstring(text)).values()] == [
        *("A", "row 0"),
        "the sheet ends here: 4 more rows do not fit in it; breaks.csv has all of them",
    ]
    assert sheet.left_out == 4


def test_too_large():
    """Where bytes do not fit, it is as where rows do not."""
    sheet = Sheet([Column("A")], most_bytes=10_000)
    rows = [sheet.add(["\u5b57" * 1000]) for _ in range(10)]
    assert sum(map(bool, rows)) == 4
    assert sheet.left_out == 6


def test_columns():
    """Columns are named as spreadsheets name them."""
    letters = list(islice(column_letters(), 703))
    assert (letters[0], letters[25], letters[26], letters[51], letters[701], letters[702]) == (
        *("A", "Z", "AA", "AZ", "ZZ", "AAA"),
    )
