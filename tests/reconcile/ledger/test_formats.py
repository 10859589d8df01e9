"""A number is read as its format shows it, or refused with both."""

import io

import pytest
import xlsxwriter

from payclient.reconcile.ledger import RejectedEntry
from support import ledgers
from support.workbooks import by_openpyxl

SAME = [
    *("General", "0", "#,##0", "#,##0.00", "00000", "[Red]0", "[Color10]General", "0.00E+00", "# ?/?", "@", r"0\.000"),
    *("#,##0;-#,##0", "#,##0_);(#,##0)", "#,##0;[Red]-#,##0", "#,##0 ;[Red](#,##0)", "+#,##0;-#,##0;0", "[<0](0);0"),
    *(r'_(* #,##0_);_(* \(#,##0\);_(* "-"??_);_(@_)', '_-"Rp"* #,##0_-;-"Rp"* #,##0_-;_-"Rp"* "-"_-;_-@_-'),
    *('"Rp"#,##0",-"', '#,##0".-"', '#,##0".00"', "[$Rp-421]#,##0", "[$€-407] #,##0.00", "[$-409]#,##0", "$#,##0"),
    *('#,##0 "Fr.";-#,##0 "Fr."', '#,##0;"▲"#,##0', "#,##0_-;\u2212#,##0_-", '#,##0 "USD"', r"#,##0\ [$kr.-406]"),
    r"[>=10000000]##\,##\,##\,##0;[>=100000]##\,##\,##0;##,##0",
]
"""Formats that show any number with its own sign."""

POSITIVE = [
    *(
        '"-"#,##0',
        r"\(#,##0\)",
        '#,##0"-"',
        "-#,##0",
        "(#,##0)",
        "#,##0-",
        '"\u2212"0',
        "\u20130",
        '"(" #,##0 ")"',
        r"\-0",
        "▲0",
    ),
    *("0%", "0.00%", "#,##0,", "0.0,,", "[>999]0,;0", '0"00"', r"0\0", '0"000"', "00-00-0000", r"0\.00"),
    *('"Storno "#,##0', '#,##0 "refund"', "[$Void]0", '0 "rb"', ";;;", '"paid"', "-0;0", "[>0]-0;0"),
]
"""Formats that show something else for a number above zero."""

NEGATIVE = [
    "#,##0;#,##0",
    "#,##0;[Red]#,##0",
    "#,##0;+#,##0",
    '"-"#,##0',
    "(#,##0)",
    "[Blue]0;[Red]0;0",
    "[<0]0;0",
    "0;",
]
"""Formats that show something else for a number below zero."""


def read(number, code):
    """Read a number with this format, in a column in which the other rows have none."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ("reference", "amount"))
        sheet.write_row(1, 0, ("T1", 15000))
        sheet.write_row(2, 0, ("T2",))
        sheet.write(2, 1, number, book.add_format({"num_format": code}))
    _, row = ledgers.read(file.getvalue())
    return row.reason if isinstance(row, RejectedEntry) else row.amount


@pytest.mark.parametrize("code", SAME)
def test_same(code):
    """A format that shows the number with its sign, a currency or marks between thousands reads what is stored."""
    assert [read(number, code) for number in (1234567, -15000, 0)] == [1234567, -15000, 0]


@pytest.mark.parametrize(("code", "number"), [(c, 15000) for c in POSITIVE] + [(c, -15000) for c in NEGATIVE])
def test_refused(code, number):
    """Another sign, a word, another number or none refuses the row, with what the cell contains and what it shows."""
    reason = read(number, code)
    assert f"the cell contains {number:,} and shows " in str(reason)
    assert f"by its number format '{code}'" in reason


def test_text():
    """Text is refused, too, if its format shows more than it."""

    def shown(book):
        book.active["A2"].number_format = '"INV-"@'
        book.active["B3"].number_format = '0;-0;0;"-"@'
        book.active["B4"].number_format = "0;-0;0;@"

    data = by_openpyxl(("reference", "amount"), ("T1", 5), ("T2", "5"), ("T3", "5"), change=shown)
    reasons = [getattr(row, "reason", "").partition(",")[0] for row in ledgers.read(data)]
    assert reasons == [
        "reference: the cell contains 'T1' and shows 'INV-T1'",
        "amount: the cell contains '5' and shows '-5'",
        "",
    ]
