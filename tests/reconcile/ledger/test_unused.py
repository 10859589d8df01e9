"""A column that should have been compared is never left out in silence."""

from __future__ import annotations

import io

import pytest

from payclient.reconcile.ledger import LedgerError, open_ledger
from payclient.reconcile.ledger._unused import is_money_name


def read(text, **options):
    with open_ledger(io.StringIO(text), **options) as ledger:
        return list(ledger)


@pytest.mark.parametrize(
    "name",
    [
        *("Amount (IDR)", "amount_usd", "Grand Total", "Total Betrag", "Rechnungsbetrag", "Endsumme", "Fee %1"),
        *("Montant TTC", "Importe neto EUR", "Jumlah Uang", "Biaya Lain", "net_payout", "tax amount"),
    ],
)
def test_money_by_name(name):
    """An unused column with a name like money refuses the ledger, with the options that help."""
    with pytest.raises(LedgerError, match=r"looks like money and is not used.*--column amount=.*--ignore-column"):
        read(f"reference,{name}\nT1,5\n")
    assert len(read(f"reference,{name}\nT1,5\n", ignore=[name])) == 1
    assert read(f"reference,{name}\nT1,5\n", columns={"amount": name})[0].amount == 5


def test_other_names(subtests):
    """A name with a word for a time, a code or a count is not money."""
    for name in ["amount_currency", "fee type", "total_items", "net date", "paid_at", "branch", "note"]:
        with subtests.test(name=name):
            assert not is_money_name(name)
            assert len(read(f"reference,amount,{name}\nT1,5,x\n")) == 1


def test_all_are_named():
    """Every such column is named at once."""
    with pytest.raises(LedgerError, match=r"'Total A' looks like money .*\(and so is 'Total B'\)"):
        read("reference,Total A,Total B\nT1,5,6\n")


def test_none_is_chosen():
    """Of several columns with amounts none is suggested, a code that never changes comes last, a name decides."""
    rows = "\n1000;7;T1;150.000,00;IDR\n1000;8;T2;20.000,00;IDR\n"
    for header, expected in (
        ("BUKRS;BELNR;reference;WERT;WAERS", r"'WERT' .*\(and so is 'BUKRS'\); choose the right one with .*=NAME, or"),
        ("BUKRS;BELNR;reference;DMBTR;WAERS", r"'DMBTR' looks like money .*--column amount=DMBTR, .*-column DMBTR"),
    ):
        with pytest.raises(LedgerError, match=expected):
            read(header + rows)
    with pytest.raises(LedgerError, match=r"'#5' has 'DB'.*--column direction='#5'"):
        read("reference,amount,Keterangan,Saldo,\nT1,5,KARTU DEBIT,7,CR\nT2,5,SETORAN,2,DB\n")


@pytest.mark.parametrize(
    ("header", "field"),
    [("reference,status,state", "status"), ("reference,amount,total", "amount")],
)
def test_two_candidates(header, field):
    """Of two columns that could be one field, none is taken by guess."""
    with pytest.raises(LedgerError, match=f"could be {field} as well and is not used"):
        read(f"{header}\nT1,5,5\n")
    assert len(read(f"{header}\nT1,5,5\n", ignore=[header.rpartition(",")[2]])) == 1


def test_money_by_values(subtests):
    """Without an amount column, any column full of amounts is money; codes, years and counts are not."""
    for cells, expected in [
        (["15000", "7000"], True),
        (["150.00", "7.50"], True),
        (["Rp 15.000", "Rp 7.000"], True),
        (["1,341,999", ""], True),
        (["€ 9.50"], True),
        (["15000.0", "9000.0"], True),
        (["1", "2", "3"], False),
        (["1001", "1002", "1003"], False),
        (["2025", "2026"], False),
        (["081234567", "081298765"], False),
        (["8812345678901234"], False),
        (["1.0", "2.0", "3.0"], False),
        (["2026-11-21"], False),
        (["x", "5000"], True),
        (["", " "], False),
    ]:
        with subtests.test(cells=cells):
            text = "reference,wert\n" + "".join(f'T{n},"{cell}"\n' for n, cell in enumerate(cells))
            if expected:
                with pytest.raises(LedgerError, match="'wert' holds what looks like money and is not used"):
                    read(text)
                assert len(read(text, ignore=["wert"])) == len(cells)
            else:
                assert len(read(text)) == len(cells)


def test_values_with_an_amount():
    """With an amount column, numbers under a neutral name are not money."""
    assert len(read("reference,amount,wert\nT1,5,15000\n")) == 1


@pytest.mark.parametrize("field", ["amount", "status"])
def test_require(field):
    """A required field without a column refuses the ledger, and the message says how to choose one."""
    with pytest.raises(LedgerError, match=f"no column was found for {field}, which is required.*--column {field}=NAME"):
        read("reference,x\nT1,y\n", require=["amount", "status"] if field == "amount" else ["status"])
    assert len(read("reference,amount,status\nT1,5,paid\n", require=["amount", "status"])) == 1


def test_require_unknown():
    """A field that does not exist is the caller's mistake."""
    with pytest.raises(ValueError, match="require: there is no field 'betrag'"):
        read("reference\nT1\n", require=["betrag"])


def test_ignore_unknown():
    """A column to ignore that is not there is refused: it may be mistyped."""
    with pytest.raises(LedgerError, match="no column is called 'x', which was to be ignored; there are 'reference'"):
        read("reference\nT1\n", ignore=["x"])


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "the ledger is empty"), ("reference\n", "the ledger has a header and no rows")],
)
def test_empty(text, message):
    """A ledger without a row is refused where that is not allowed, in every format."""
    with pytest.raises(LedgerError, match=f"{message}; --allow-empty accepts that"):
        read(text, allow_empty=False)
    assert read(text) == []
