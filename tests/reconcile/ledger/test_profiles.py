"""Each profile that comes with the package reads a file of its kind."""

import io
from datetime import datetime

import pytest

from payclient.reconcile.ledger import Dialect, Entry, open_ledger, profiles

NAIVE = datetime.fromisoformat
GERMAN = "Referenz;Betrag;Gebühren;Datum\nT1;15.000,00 €;2.500,00;20.11.2026 14:05\nT2;7.000;0;01.02.2026\n"
FRENCH = "Référence;Montant;Date de création\nT1;15\u00a0000,00 €;20/11/2026\n"
INDONESIAN = b"Kode Referensi;Jumlah;Tanggal\nT1;Rp15.000,00;20/11/2026 14.05\n"
FILES = {
    "excel-de": (
        GERMAN.encode("cp1252"),
        ("reference", "amount", "fee", "created_at"),
        [("T1", 15000, 2500, NAIVE("2026-11-20 14:05")), ("T2", 7000, 0, NAIVE("2026-02-01"))],
    ),
    "excel-fr": (FRENCH.encode("cp1252"), ("reference", "amount", "created_at"), [("T1", 15000, NAIVE("2026-11-20"))]),
    "excel-id": (INDONESIAN, ("reference", "amount", "created_at"), [("T1", 15000, NAIVE("2026-11-20 14:05"))]),
}
"""A file of each profile, the fields that it has, and their values."""


@pytest.mark.parametrize("name", profiles())
def test_profile(name):
    """The file is read as it is meant, without a warning."""
    data, fields, rows = FILES[name]
    entries = [Entry(line=line, **dict(zip(fields, row, strict=True))) for line, row in enumerate(rows, 2)]
    with open_ledger(io.BytesIO(data), dialect=Dialect.named(name)) as ledger:
        assert (list(ledger), ledger.warnings) == (entries, ())
    assert Dialect.named(name).profile == name


def test_byte_order_mark():
    """A byte order mark says that the file is UTF-8, so a profile reads what the program saves as UTF-8 too."""
    data = "\ufeffReferenz;Gebühren\nT1;2.500,00\n".encode()
    with open_ledger(io.BytesIO(data), dialect=Dialect.named("excel-de")) as ledger:
        assert [row.fee for row in ledger] == [2500]


DEBITS = "reference,credit,debit\nT1,15,\nT2,,7\nT3,15,0\nT4,1,2\nT5,,\nT6,,x\n"


def test_debits():
    """A debit counts as below zero; a row with both, neither, or a debit that cannot be read is rejected."""
    dialect = Dialect(debit_columns={"amount": "debit"})
    with open_ledger(io.StringIO(DEBITS), columns={"amount": "credit"}, dialect=dialect) as ledger:
        rows = list(ledger)
    assert ledger.columns.ignored == ()
    assert [row.amount for row in rows[:3]] == [15, -7, 15]
    assert [row.reason.partition(";")[0] for row in rows[3:]] == [
        "amount: there is an amount here and in 'debit' too",
        "amount: the cell is empty",
        "amount: 'x' is not a number",
    ]


@pytest.mark.parametrize(
    ("debits", "message"),
    [
        ({"amount": "soll"}, "no column is called 'soll', which was chosen for the debits of amount"),
        ({"status": "debit"}, "debit_columns must be a table with a column for amount, fee, amount_received"),
        ("amount", "debit_columns must be a table with a column for amount, fee, amount_received"),
        (["amount"], "debit_columns must be a table with a column for amount, fee, amount_received"),
    ],
)
def test_unusable_debits(debits, message):
    """A column of debits that is not there, or for a field that is not money, is refused."""
    with pytest.raises(ValueError, match=message):
        open_ledger(io.StringIO(DEBITS), columns={"amount": "credit"}, dialect=Dialect(debit_columns=debits))


def test_unknown_profile():
    """A profile that does not exist is refused, and those that do are named."""
    with pytest.raises(ValueError, match="profile must be one of excel-de, "):
        Dialect.named("excel-xx")
