"""A totals row is recognised in any format, rejected, and kept out of the ledger's total."""

import json

import pytest

from payclient.reconcile.ledger import Dialect, LedgerError, RejectedEntry
from payclient.reconcile.ledger._left_out import is_totals_text
from support import ledgers

HEADER = ("reference", "customer", "amount")
ROWS = [("T1", "Ana", 700_000), ("T2", "Budi", 641_999)]


def read(*rows):
    """Return what the last of these rows becomes, behind two plain ones; alike in CSV and in JSON Lines."""
    rows = [*ROWS, *rows]
    lines = [",".join("" if cell is None else f'"{cell}"' for cell in row) for row in (HEADER, *rows)]
    text = "\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in rows)
    from_csv, from_json = (ledgers.read(each)[-1] for each in ("\n".join(lines), text))
    assert (type(from_csv), from_csv.amount) == (type(from_json), from_json.amount)
    return from_csv


def test_totals_row(subtests):
    """A row that says total, or has no reference and the sum of those above, is rejected without an amount."""
    for row in [
        ("TOTAL", None, 1_341_999),
        ("TOTAL", None, "1,341,999"),
        ("Total", None, 5),
        ("Total:", None, 1_341_999),
        ("Grand Total", None, 1_341_999),
        ("Total (2 rows)", None, 1_341_999),
        ("Jumlah", None, 1_341_999),
        ("Summe", None, 1_341_999),
        ("Gesamt", None, 1_341_999),
        ("Montant total", None, 1_341_999),
        (None, "Total", 1_341_999),
        (None, "JUMLAH KESELURUHAN", 7),
        (None, None, 1_341_999),
        ("-", None, 1_341_999),
        ("Total (IDR)", None, 1_341_999),
        ("Saldo", None, 1_341_999),
        ("\u5408\u8a08", None, 1_341_999),
    ]:
        with subtests.test(row=row):
            found = read(row)
            assert isinstance(found, RejectedEntry)
            assert (found.reason.startswith("is a totals row"), found.amount) == (True, None)


def test_no_totals_row(subtests):
    """A reference that only begins like it, a customer of that name and a row that lost its reference are none."""
    for row, amount in [
        (("TOTAL-1", None, 1), 1),
        (("TOTAL7", None, 1), 1),
        (("T3", "Total", 1), 1),
        (("T3", "Total", 1_341_999), 1_341_999),
        (("TOTALENERGIES", None, 1), 1),
        (("T3", None, 1_341_999), 1_341_999),
        (("Saldo", None, 1), 1),
        ((None, "Ana", 5), 5),
        ((None, "Total Energies", 5), 5),
        ((None, None, 641_999), 641_999),
    ]:
        with subtests.test(row=row):
            found = read(row)
            assert ("totals row" in getattr(found, "reason", ""), found.amount) == (False, amount)


def test_subtotals():
    """A sum of the rows since the last totals row is one, too."""
    rows = [(None, None, 1_341_999), ("T3", None, 1), ("T4", None, 2), (None, None, 3), (None, None, 1_342_002)]
    for end in (1, 4, 5):
        assert "totals row" in read(*rows[:end]).reason


def test_ledger_of_words():
    """Where references are words, one whose amount is the sum of those above is a reference."""
    assert [row.amount for row in ledgers.read("reference,amount\nEins,1\nT2,2\nSaldo,3\n")] == [1, 2, 3]


def test_one_row_is_no_sum():
    """A row that repeats the amount of the only row above is not a totals row."""
    assert [row.amount for row in ledgers.read("reference,amount\nT1,5\n,5\n")] == [5, 5]


def test_other_text(subtests):
    """A text without such a word, or with any other word, is not the label of a total."""
    for text in ["", "-", "of", "grand", "T1", "total 1", "sum total x"]:
        with subtests.test(text=text):
            assert not is_totals_text(text)


GROUPS = "Bank,300\nBCA (2),300\nT1,100\nT2,200\nBRI (1),{}\nT3,50\n"


def test_groups():
    """Headings of groups with their number of rows aren't payments; left out, their rows must add up to them."""

    def read(amount, **declared):
        return ledgers.read(f"reference,amount\n{GROUPS.format(amount)}", dialect=Dialect(**declared))

    rejected = [row for row in read(50) if isinstance(row, RejectedEntry)]
    assert [row.reference for row in rejected] == ["BCA (2)", "BRI (1)"]
    assert "'BCA (2)' is the heading of 2 rows" in rejected[0].reason
    assert [row.reference for row in read(50, skip_totals=True)] == ["Bank", "T1", "T2", "T3"]
    with pytest.raises(LedgerError, match=r"the rows below 'BRI \(1\)' do not add up to its amount, by 9"):
        read(59, skip_totals=True)
