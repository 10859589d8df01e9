"""The header is the first row, or the one that is declared; another row that looks like one is named."""

import io

import pytest

from payclient.reconcile.ledger import Dialect, Entry, LedgerError, open_ledger
from support.workbooks import by_openpyxl

TITLE = ("Laporan November", None)
ROWS = (TITLE, ("PT Contoh", "2026"), ("Reference", "Amount"), ("T1", 15000))
FILES = {
    "csv": "\n".join(",".join(str(cell or "") for cell in row) for row in ROWS).encode(),
    "xlsx": by_openpyxl(*ROWS),
}


def read(data, **declared):
    with open_ledger(io.BytesIO(data), dialect=Dialect(**declared)) as ledger:
        return ledger.header_row, list(ledger), ledger.warnings


@pytest.mark.parametrize("kind", FILES)
def test_declared(kind):
    """The declared row is the header, and the rows above it are said to be left out."""
    warning = "2 rows above the header (row 3) are not read"
    assert read(FILES[kind], header_row=3) == (3, [Entry(line=4, reference="T1", amount=15000)], (warning,))


@pytest.mark.parametrize("kind", FILES)
def test_hint(kind):
    """Without a declaration, the ledger is refused, and the only row that has such columns is named."""
    with pytest.raises(LedgerError, match="and row 3 has such columns; --header-row 3 makes it the header"):
        read(FILES[kind])


@pytest.mark.parametrize("kind", FILES)
def test_several(kind):
    """A header that is repeated is named once, and two different ones both; none if the declared row is not one."""
    for more, wanted in (
        (("Reference", "Amount"), "and row 3 has such columns; --header-row 3 makes it the header"),
        (("Reference", "Fee"), "and row 3 or 5 has such columns; --header-row 3 or --header-row 5 makes it the header"),
    ):
        data = {"csv": FILES["csv"] + f"\n{','.join(more)}".encode(), "xlsx": by_openpyxl(*ROWS, more)}
        with pytest.raises(LedgerError, match=f"^row 1 cannot be used as the header, {wanted}$"):
            read(data[kind])
    with pytest.raises(LedgerError, match="no column is called reference") as caught:
        read(FILES[kind], header_row=2)
    assert "makes it the header" not in str(caught.value)


def test_empty_row():
    """A declared row without cells is refused."""
    with pytest.raises(LedgerError, match="row 2 is empty, so it cannot be the header"):
        read(b"title\n\nreference,amount\nT1,1\n", header_row=2)


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
def test_separator_line(first):
    """A first line that tells Excel the delimiter declares it, and is not the header."""
    text = f"{first}\nreference;total, gross\nT1;1\n"
    with open_ledger(io.StringIO(text), columns={"amount": "total, gross"}) as ledger:
        assert (ledger.delimiter, ledger.header_row, list(ledger)) == (
            ";",
            2,
            [Entry(line=3, reference="T1", amount=1)],
        )


def test_separator_line_above_a_declared_header():
    """The line that declares the delimiter also counts as a line, so that the header is where an editor shows it."""
    assert read(b"sep=|\ntitle\nreference|amount\nT1|1\n", header_row=3)[:2] == (
        3,
        [Entry(line=4, reference="T1", amount=1)],
    )


def test_shape(subtests):
    """Without a name that is known, the first row of words that is as wide as the table is named."""
    table = "Buchungstag;Verwendungszweck;;Betrag\n2.11.;T1;x;15,00\n3.11.;T2;x;7,00\n"
    for above, line in (
        ("Kontoauszug\n\n", 3),
        ("Konto;DE12 3456\nInhaber;Muster GmbH\nZeitraum;1.11. bis 30.11.;;\n\n", 5),
        ("Report generated 2026-11-27, 10:00\n", 2),
        ("Kontoauszug;;;\n", 2),
        ("", None),
    ):
        with subtests.test(above), pytest.raises(LedgerError) as caught:
            read(f"{above}{table}".encode())
        wanted = f"row 1 cannot be used as the header, and row {line} looks like it; "
        assert (f"{wanted}--header-row {line} makes it the header" in str(caught.value)) is (line is not None)
        assert ("--column reference=" in str(caught.value)) is (line is None)
    with pytest.raises(LedgerError, match="and row 2 looks like it; "):
        read(b"Filter;Status;Bezahlt\nBuchungstag;Vorgang;Art;Betrag\n2.11.;T1;x;15,00\n")
