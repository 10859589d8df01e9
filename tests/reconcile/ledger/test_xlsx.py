"""An XLSX ledger is read strictly, lazily and without losing a row."""

import io
import random
import re
import zipfile
from contextlib import suppress
from datetime import date, datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.chart import BarChart
from openpyxl.comments import Comment
from openpyxl.styles import Font

from payclient.reconcile.ledger import Entry, LedgerError, RejectedEntry
from support import ledgers
from support.misses import check_refused
from support.workbooks import by_openpyxl, by_xlsxwriter, changed, with_rows

TIME = datetime.fromisoformat("2026-11-21 10:00:05")
HEADER = ("reference", "amount", "expdate")


opened, read = (partial(each, format="xlsx") for each in (ledgers.opened, ledgers.read))


@pytest.mark.parametrize(
    "data",
    [
        by_openpyxl(HEADER, ("T1", 15000, TIME), ("T2", "15000", None)),
        by_xlsxwriter(HEADER, ("T1", 15000, TIME), ("T2", "15000", None)),
        by_xlsxwriter(HEADER, ("T1", 15000, TIME), ("T2", "15000", None), constant_memory=True),
        by_xlsxwriter(HEADER, ("T1", 15000, TIME), ("T2", "15000", None), date_1904=True),
    ],
    ids=["openpyxl", "xlsxwriter", "texts in the cells", "dates from 1904"],
)
def test_entries(data):
    """Texts, whole numbers and times of all programs are read; the header is row 1."""
    assert read(data) == [
        Entry(line=2, reference="T1", amount=15000, expdate=TIME),
        Entry(line=3, reference="T2", amount=15000, expdate=None),
    ]


def test_row_numbers():
    """Rows have the numbers that a spreadsheet shows; the first that is not empty is the header."""
    data = by_openpyxl((), (None, " "), ("reference",), (), ("T1",), (" ",), ("T2",))
    assert [row.line for row in read(data)] == [5, 7]


def test_rejected(subtests):
    """A row that cannot be used is rejected with its number and why; the rows around it are read."""
    for row, reason in [
        ((12, 1, None), "reference: 12 is a number, so leading zeros or digits may be lost"),
        ((1234567890123456, 1, None), "is a number, so leading zeros or digits may be lost"),
        ((True, 1, None), "reference: True is not text"),
        ((TIME, 1, None), "reference: 2026-11-21 10:00:05 is not text"),
        (("T1", 1.5, None), "amount: '1.5' is not a whole number"),
        (("T1", 1e15, None), "is not a whole number of at most 15 digits"),
        (("T1", 123456789012345678, None), "is not a whole number of at most 15 digits"),
        (("T1", 1, 46347.41), "expdate: 46347.41 is not a time"),
        (("=A1", 1, None), "reference: is a formula without a stored result"),
        (("T1", "=1+1", None), "amount: is a formula without a stored result"),
        (("T1", "#N/A", None), "amount: '#N/A' is an error of the spreadsheet"),
        (("T1", 1, None, "note"), "has a value to the right of the header"),
    ]:
        with subtests.test(row=row):
            before, rejected, after = read(by_openpyxl(HEADER, ("T0", 1, None), row, ("T9", 9, None)))
            assert (before.reference, after.reference) == ("T0", "T9")
            assert (type(rejected), rejected.line, reason in rejected.reason) == (RejectedEntry, 3, True), (
                rejected.reason
            )


def test_odd_cells_beside():
    """A formula without a result, or an error value, in an unused column has no effect."""
    assert read(by_openpyxl(("reference", "note"), ("T1", "=1+1"), ("T2", "#N/A")))[1].reference == "T2"


def test_formula():
    """A formula has the result that was stored with it, unless that is a 0 to be calculated on opening."""
    file = by_xlsxwriter(("reference", "amount"), ("T1", "=1+1"))
    stored = changed(file, sheet=lambda xml: xml.replace(b"1+1</f><v>0", b"1+1</f><v>2"))
    assert read(stored) == [Entry(line=2, reference="T1", amount=2)]
    assert "is a formula without a stored result" in read(file)[0].reason
    calculated = changed(file, book=lambda xml: xml.replace(b' fullCalcOnLoad="1"', b""))
    assert read(calculated) == [Entry(line=2, reference="T1", amount=0)]


def in_format(code, value):
    """Return the row whose expiry is this value in a cell of this format."""

    def change(book):
        book.active["C2"].number_format = code

    (row,) = read(by_openpyxl(HEADER, ("T1", 1, value), change=change))
    return row


def test_date_formats():
    """A number is a time when its format shows one; a letter in quotes or a colour's name shows none."""
    codes = {"dd/mm/yy": True, "[$-409]h:mm AM/PM": True, '0 "days"': False, "[Red]0": False, "General": False}
    rows = {code: in_format(code, 46347.5) for code in codes}
    assert {code: isinstance(row, Entry) for code, row in rows.items()} == codes
    assert {row.expdate for row in rows.values() if isinstance(row, Entry)} == {
        datetime.fromisoformat("2026-11-21 12:00")
    }


def test_date_alone():
    """A date whose format shows no time of day is refused, as in CSV; where it shows one, it is midnight."""
    codes = {"yyyy-mm-dd": False, "yyyy-mm-dd hh:mm": True, "mm-dd-yy": False, "m/d/yy h:mm": True}
    rows = {code: in_format(code, date(2026, 11, 21)) for code in codes}
    assert {code: isinstance(row, Entry) for code, row in rows.items()} == codes
    reason = "expdate: 2026-11-21 is a date without a time of day"
    assert [row for row in rows.values() if not isinstance(row, Entry) and reason not in row.reason] == []


def test_day_that_is_none():
    """A number beyond the last day is rejected."""
    data = by_openpyxl(HEADER, ("T1", 1, TIME))
    assert (
        "is not the number of a day"
        in read(changed(data, sheet=lambda xml: xml.replace(b"<v>46347.", b"<v>9e9")))[0].reason
    )


def hidden(sheet):
    sheet.row_dimensions[3].hidden = sheet.row_dimensions[4].hidden = True


def struck_through(sheet):
    sheet["A3"].font, sheet["A2"].font = Font(strike=True), Font(strike=False)


def commented(sheet):
    sheet["A3"].comment = Comment("refunded", "Ana")


def hidden_column(sheet):
    sheet.column_dimensions["B"].hidden = True


def some_dollars(sheet):
    sheet["B3"].number_format, sheet["B4"].value = "[$$-409]0", 0


def all_of_them(sheet):
    for mark in (struck_through, commented, hidden):
        mark(sheet)


HIDDEN = "2 rows that are hidden or filtered out, but read: the first is row 3"
STRUCK, COMMENTED = (f"1 row that is {what}, but read: row 3" for what in ("struck through", "commented on"))


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (hidden, (HIDDEN,)),
        (struck_through, (STRUCK,)),
        (commented, (COMMENTED,)),
        (hidden_column, ("the column 'amount' is hidden, but read",)),
        (some_dollars, ("some cells of the column 'amount' have a currency, others lack one, and all are added",)),
        (all_of_them, (HIDDEN, COMMENTED, STRUCK)),
    ],
)
def test_marks(mark, said):
    """A row that is hidden, struck through or commented on is read, and counted in a warning; a column is named."""
    with opened(by_openpyxl(HEADER, *((f"T{n}", 5, None) for n in (1, 2, 3)), change=lambda b: mark(b.active))) as rows:
        assert ([row.reference for row in rows], rows.warnings) == (["T1", "T2", "T3"], said)


def two_sheets(book):
    book.active.title = "First"
    book.create_sheet("Empty")
    book.create_sheet("Second").append(["reference"])
    book["Second"].append(["T2"])


def test_other_sheets():
    """The first sheet is read; others are named with their rows, a header left out, until a sheet is chosen."""

    def more_sheets(book):
        two_sheets(book)
        book.create_sheet("Note").append(["2 were refunded"])
        book["Note"].sheet_state = "hidden"
        book.create_sheet("Template").append(["reference", "amount"])

    data = by_openpyxl(("reference",), ("T1",), change=more_sheets)
    said = "only the sheet 'First' was read: there are rows in 'Second' (1 row), 'Note' (1 row) too"
    for sheet, unread in [(None, {"Second": 1, "Note": 1}), ("First", {})]:
        with opened(data, sheet=sheet) as ledger:
            assert [row.reference for row in ledger] == ["T1"]
            assert (ledger.warnings, {each.name: each.rows for each in ledger.unread_sheets}) == ((said,), unread)


def test_hidden_sheet():
    """A hidden sheet is not the first, and neither is a sheet with a chart."""

    def hide(book):
        two_sheets(book)
        book["First"].sheet_state = "hidden"
        book.remove(book["Empty"])
        book.create_chartsheet("Chart", 0).add_chart(BarChart())

    assert read(by_openpyxl(("reference",), ("T1",), change=hide))[0].reference == "T2"


def test_sheet_chosen():
    """A sheet that was chosen is read; one that is not there is refused, and those that are there are named."""
    data = by_openpyxl(("reference",), ("T1",), change=two_sheets)
    assert read(data, sheet="Second")[0].reference == "T2"
    with pytest.raises(LedgerError, match="a sheet called 'Third': its sheets are 'First', 'Empty', 'Second'"):
        opened(data, sheet="Third")


def test_escapes():
    """Escaped characters are restored, and pronunciation guides are left out."""
    sheet = (
        '<row r="1"><c t="inlineStr"><is><t>reference</t></is></c></row><row r="2"><c r="A2" t="inlineStr"><is>'
        "<r><t>T_x005F_</t></r><r><t>1</t></r><rPh><t>tee</t></rPh></is></c></row>"
    )
    assert read(with_rows(sheet))[0].reference == "T_1"


def test_implied_places():
    """Rows and cells without a position follow the previous ones."""
    cell = "<c t='inlineStr'><is><t>{}</t></is></c>"
    rows = [(cell.format("reference"), cell.format("status")), (cell.format("T1"), cell.format("Paid"))]
    xml = "".join(f"<row>{''.join(cells)}</row>" for cells in rows)
    assert read(with_rows(xml)) == [Entry(line=2, reference="T1", status="Paid")]


def test_uncertain_rows():
    """Rows or cells out of order, of which one would hide another, and damaged ones refuse the file."""
    rows = [
        ('<row r="2"/><row r="2"/>', "row 2 follows row 2"),
        ('<row r="5"/><row r="2"/>', "row 2 follows row 5"),
        ('<row r="1048577"/>', "row 1048577"),
        ('<row r="99999999999999"/>', "row 99999999999999"),
        ('<row r="1"><c r="B1"/><c r="A1"/></row>', "the cells are not in order"),
        ('<row r="1"><c r="XFE1"/></row>', "the cells are not in order"),
        ('<row r="x"/>', "damaged"),
        ('<row r="1"><c t="s"><v>0</v></c></row>', "damaged"),
        ('<row r="1"><c t="s"><v>-1</v></c></row>', "damaged"),
        ('<row r="1"><c><v>one</v></c></row>', "damaged"),
        ('<row r="1"><c><v>1</v><v>2</v></c></row>', "a cell has a part twice"),
        ("<row>", "damaged"),
        (f'<row r="1"><c t="inlineStr"><is><t>{"x" * (1 << 20)}y</t></is></c></row>', "more than 1048576 characters"),
    ]
    check_refused(rows, LedgerError, lambda xml: read(with_rows(xml)))


FILE = by_openpyxl(HEADER, *(("T1", 1, None),) * 50)
PARTS = (b"xl/worksheets/sheet1.xml", b"xl/_rels/workbook.xml.rels", b"xl/workbook.xml")


def test_damaged(subtests):
    """A file that was cut, lacks a part, or has a cell that points to no text is refused; -1 is none from the end."""
    texts = by_xlsxwriter(("reference", "T1"))
    files = {
        **{f"cut {share}": FILE[: int(len(FILE) * share)] for share in (0.1, 0.5, 0.9, 0.99)},
        **{f"without {name}": FILE.replace(name, b"x" * len(name)) for name in PARTS},
        **{
            f"text {number}": changed(texts, sheet=lambda xml, n=number: xml.replace(b"<v>1</v>", b"<v>%s</v>" % n))
            for number in (b"-1", b"2", b"1.0")
        },
    }
    for name, data in files.items():
        with subtests.test(name), pytest.raises(LedgerError, match=r"is damaged|not a workbook|not in the XLSX file"):
            read(data)


LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>'


@pytest.mark.parametrize("part", ["sheet", "texts"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_document_type(part, encoding):
    """A document type is refused in any encoding."""
    with pytest.raises(LedgerError, match="document type"):
        read(changed(by_xlsxwriter(HEADER), **{part: lambda _: LAUGHS.decode().encode(encoding)}))


@pytest.mark.parametrize("part", ["sheet", "texts"])
def test_bomb(part):
    """A part that unpacks to far more than any ledger is refused before the rest of it is unpacked."""
    with pytest.raises(LedgerError, match="200 times its size"):
        read(changed(by_xlsxwriter(HEADER), **{part: lambda xml: xml + b" " * (80 << 20)}))


def test_one_sheet_many_times():
    """A part that is named as each of many sheets is paid for each time."""

    def repeated(book):
        sheet = re.search(rb"<sheet [^>]*/>", book)[0]
        return book.replace(sheet, b"".join(sheet.replace(b'"Sheet"', b'"S%d"' % number) for number in range(50)))

    with pytest.raises(LedgerError, match="unpacks to more than 200 times its size"):
        read(changed(with_rows(" " * (1 << 20)), book=repeated))


def test_format_of_brackets():
    """A format that no program writes takes no time that grows with its square."""
    formats = b'<numFmts><numFmt numFmtId="164" formatCode="%s"/></numFmts><fonts' % (b"[" * 900_000)
    data = by_openpyxl(HEADER, ("T1", 1, None))
    assert len(read(changed(data, styles=lambda xml: xml.replace(b"<fonts", formats, 1)))) == 1


def test_too_many_texts():
    """Texts that would not fit into memory are refused by the size that the file states."""
    data = by_xlsxwriter(HEADER)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        place = archive.getinfo("xl/sharedStrings.xml").file_size.to_bytes(4, "little")
    start = data.index(place, data.index(b"PK\x01\x02"))
    with pytest.raises(LedgerError, match="larger than 256 MiB"):
        read(data[:start] + (1 << 30).to_bytes(4, "little") + data[start + 4 :])


def test_password_inside():
    """A part with a password is refused."""
    data = bytearray(by_xlsxwriter(HEADER))
    place = -1
    while (place := data.find(b"PK\x01\x02", place + 1)) >= 0:
        data[place + 8] |= 1
    with pytest.raises(LedgerError, match="is encrypted"):
        read(bytes(data))


def test_other_zip():
    """A zip file of something else is refused."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ledger.csv", "reference\nT1\n")
    with pytest.raises(LedgerError, match="this zip file is not a workbook"):
        read(file.getvalue())


GOOD = by_openpyxl(HEADER, ("T1", 1, TIME), ("T2", 2, None))
ROWS = b"".join(
    [b'<row r="1"><c r="A1" t="inlineStr"><is><t>reference</t></is></c></row><row><c s="1"><v>5</v></c></row>']
)


@given(st.integers(0, len(GOOD)), st.binary(max_size=8), st.integers(0, 8))
def test_any_bytes(place, data, lost):
    """A file with any damage gives entries or a `LedgerError`."""
    with suppress(LedgerError):
        read(b"PK\x03\x04" + (GOOD[:place] + data + GOOD[place + lost :])[4:])


@given(
    st.integers(0, len(ROWS)), st.binary(max_size=8) | st.sampled_from([b"<f>", b' t="s"', b"<v>"]), st.integers(0, 8)
)
def test_any_sheet(place, data, lost):
    """A sheet with any damage inside the zip file gives entries or a `LedgerError`."""
    damaged = ROWS[:place] + data + ROWS[place + lost :]
    with suppress(LedgerError):
        read(changed(with_rows(""), sheet=lambda xml: xml.replace(b"<sheetData>", b"<sheetData>" + damaged)))


def test_elements_in_text():
    """A value with elements in it refuses the file, because a part would be lost; spaces are an indentation."""
    row = '<row r="1"><c t="inlineStr"><is><t>reference</t></is></c></row>'
    for cell in ("<v>1<x/>5</v>", "<v><x>1</x>5</v>", "<is><t>1<x/></t></is>"):
        kind = "inlineStr" if "is" in cell else "str"
        with pytest.raises(LedgerError, match="where only text may be"):
            read(with_rows(f'{row}<row r="2"><c t="{kind}">{cell}</c></row>'))
    assert len(read(with_rows(f'{row}\n <row r="2">\n  <c t="str">\n <v>T1</v>\n </c> </row>'))) == 1


def test_endless_row():
    """A row of more elements than any has is refused before it is held, in a file of any size."""
    numbers = random.Random(1)
    cells = "".join(f"<c><v>{numbers.getrandbits(64)}</v></c>" for _ in range(150_000))
    with pytest.raises(LedgerError, match="more elements in a row than any ledger"):
        read(with_rows(f'<row r="1">{cells}</row>'))


def test_row_in_row():
    """The cells of a row that has another row in it are not lost."""
    cells = '<c t="inlineStr"><is><t>{}</t></is></c>'
    header, row = (cells.format(text) for text in ("reference", "T1"))
    rows = read(with_rows(f'<row r="1">{header}</row><row r="2">{row}<row r="3"/></row>'))
    assert [each.reference for each in rows] == ["T1"]
