"""A workbook has the same bytes wherever it is written, and each text in it reads as itself; none is a formula."""

import errno
import io
import os
import re
import zipfile
from xml.etree import ElementTree as ET

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient._shared.escape import escape_unprintable
from payclient.reconcile.report.rows import Kind, RowColumn
from payclient.reconcile.report.workbook import BookWriter
from support.chance import examples

M = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
HOSTILE = [
    *("=1+1", "@SUM(A1)", "-1", "+1", "<r><t>x</t></r>", "</t></is></c>", "]]>", "&amp;", "&#10;", "\"'", "_x000A_"),
    *("\x1b[31m", "\u202eabc", "a\nb", "\x00", "\ud800", "\ufffe", " x ", "_x005F_", "_x_", "0012", "1E5", "#REF!"),
    *("{=1+1}", "http://example.org", "mailto:a@example.org", "internal:A1", "<r>&</r>", "<r></r>", "TRUE", "1/2"),
]
COLUMNS = [RowColumn("a", Kind.NUMBER, "A"), RowColumn("b", Kind.LINE, "B", 9)]


@pytest.fixture(scope="module")
def sheet_of(tmp_path_factory):
    """Return a function that writes rows into the one sheet of a workbook, and parses that sheet."""
    folder = tmp_path_factory.mktemp("sheets")

    def sheet_of(rows, *, name="Breaks", columns=COLUMNS, **options):
        file = io.BytesIO()
        with BookWriter(file, folder, {name: columns}, **options) as book:
            for row in rows:
                book.sheets[name].add(row)
            book.finish()
        with zipfile.ZipFile(file) as archive:
            return ET.fromstring(archive.read("xl/worksheets/sheet1.xml"))

    return sheet_of


def text_of(cell):
    """Return the text of a cell as a spreadsheet reads it; the escapes of ECMA-376 undone."""
    text = "".join(part.text or "" for part in cell.iter(f"{M}t"))
    return re.sub(r"_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), text)


def cells(root):
    return {cell.get("r"): cell for cell in root.iter(f"{M}c")}


def written(folder, rows):
    """Return the bytes of a workbook of two sheets, whose rows come in turns."""
    file = io.BytesIO()
    with BookWriter(file, folder, dict.fromkeys(("Short", "Long"), COLUMNS)) as book:
        for name, values in rows:
            book.sheets[name].add(values)
        book.finish()
    return file.getvalue()


ROWS = [("Long", ["a", 1]), ("Short", ["b", 2]), ("Long", ["c", 3])]


def test_header(sheet_of):
    """The first row has the titles, stays in sight, and has filters down to the last row, unless it is no table."""
    root = sheet_of([["a", 1], ["b", 2]])
    assert [text_of(cell) for name, cell in cells(root).items() if name.endswith("1")] == ["A", "B"]
    pane = root.find(f".//{M}pane")
    assert (pane.get("ySplit"), pane.get("state")) == ("1", "frozen")
    assert root.find(f"{M}autoFilter").get("ref") == "A1:B3"
    assert sheet_of([["a"]], name="To sign").find(f"{M}autoFilter") is None


def test_numbers(sheet_of, tmp_path):
    """Money has thousands separators, a line number has none; a number that a spreadsheet would change is text."""
    book = openpyxl.load_workbook(io.BytesIO(written(tmp_path, [("Long", [-15_000, 15_000])])))
    assert [(cell.value, cell.number_format) for cell in book["Long"][2]] == [(-15_000, "#,##0"), (15_000, "0")]
    for number in (10**15 - 1, 1 - 10**15):
        assert cells(sheet_of([[number]]))["A2"].find(f"{M}v").text == str(number)
    for number in (10**15, -(10**15), 2**53, 10**40):
        assert text_of(cells(sheet_of([[number]]))["A2"]) == str(number)


def test_nothing(sheet_of):
    """An absent value has no cell, and the cells after it keep their column."""
    assert list(cells(sheet_of([[None, 1], ["", 2], []]))) == ["A1", "B1", "B2", "B3"]


@examples(15)
@given(more=st.text(st.characters()))
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile(sheet_of, text, more):
    """Every text is a cell of text, no formula, that reads as it was, with what does not print made visible."""
    texts = [text, text + more, more + text, text + more + text]
    found = sheet_of([[each] for each in texts])
    assert {child.tag for child in found.iter()} & {f"{M}f", f"{M}hyperlink"} == set()
    for place, each in enumerate(texts, 2):
        cell = cells(found)[f"A{place}"]
        assert cell.get("t") == "inlineStr"
        assert text_of(cell).replace("<U+005F>", "_") == escape_unprintable(each).replace("<U+005F>", "_")


def test_special_texts(sheet_of):
    """Markup of XlsxWriter is text, two escapes that share an underscore are no character, and spaces are kept."""
    for text in ("<r>&amp;</r>", "<r><t>x</t></r>", "<r></r>"):
        cell = cells(sheet_of([[text]]))["A2"]
        assert ([child.tag[len(M) :] for child in cell.iter()], text_of(cell)) == (["c", "is", "r", "t"], text)
    assert text_of(cells(sheet_of([["_x0041_x0042_x0043_"]]))["A2"]) == "_x0041<U+005F>x0042<U+005F>x0043_"
    found = cells(sheet_of([[" x"], ["x "], ["x y"]]))
    space = "{http://www.w3.org/XML/1998/namespace}space"
    assert [found[name].find(f".//{M}t").get(space) for name in ("A2", "A3", "A4")] == ["preserve", "preserve", None]


@examples(25)
@example(text="x")
@example(text="&")
@given(text=st.text(st.characters(), min_size=1))
def test_long_text(sheet_of, text):
    """No text is longer than a cell can hold, whatever it is made of."""
    found = text_of(cells(sheet_of([[text * 40_000]]))["A2"])
    assert len(found.encode("utf-16-le")) // 2 <= 32_767
    assert found.endswith("…")


def test_room(sheet_of):
    """A sheet has all rows if there is room; else the last one says how many do not fit, and where they are."""
    rows = [[name] for name in "abcde"]
    end = "the sheet ends here, without room for 4 more rows; breaks.csv has all of them"
    for count, room, shown in ((3, 5, ["a", "b", "c"]), (5, 3, ["a", end])):
        root = sheet_of(rows[:count], columns=COLUMNS[:1], max_rows=room)
        assert [text_of(cell) for cell in cells(root).values()] == ["A", *shown]


def test_read_by_others(tmp_path):
    """Another library reads the sheets in their order, each with its rows in theirs, and no other file is left."""
    workbook = openpyxl.load_workbook(io.BytesIO(written(tmp_path, ROWS)))
    assert list(tmp_path.iterdir()) == []
    assert {sheet.title: list(sheet.values) for sheet in workbook} == {
        "Short": [("A", "B"), ("b", 2)],
        "Long": [("A", "B"), ("a", 1), ("c", 3)],
    }
    assert workbook.sheetnames == ["Short", "Long"]
    assert (workbook["Long"].auto_filter.ref, workbook["Long"].print_title_rows) == ("A1:B3", "$1:$1")


def test_nothing_runs(tmp_path):
    """There is no part for macros, links, connections or objects."""
    with zipfile.ZipFile(io.BytesIO(written(tmp_path, ROWS))) as archive:
        types = ET.fromstring(archive.read("[Content_Types].xml"))
    kinds = {each.get("ContentType").rpartition(".")[2] for each in types if each.get("PartName")}
    assert kinds - {"core-properties+xml", "extended-properties+xml"} == {
        *("main+xml", "styles+xml", "theme+xml", "worksheet+xml")
    }


@pytest.mark.parametrize(
    ("size", "sheets", "rows"), [*((size, 1, 2_000) for size in (1_000, 20_000, 60_000)), (20_000, 20, 100)]
)
def test_disk_full(tmp_path, full_after, size, sheets, rows):
    """A full disk, early or when the sheets are put into one file, is its own error, and no other error follows."""
    columns = dict.fromkeys(map(str, range(sheets)), COLUMNS[:1])
    with (
        (tmp_path / "x.xlsx").open("w+b", buffering=0) as file,
        full_after(size),
        BookWriter(file, tmp_path, columns) as book,
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            for name, sheet in book.sheets.items():
                for number in range(rows):
                    sheet.add([str(hash((name, number)))])
            book.finish()
        file.truncate(0)
