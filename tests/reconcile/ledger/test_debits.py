"""Amounts below zero may have a column by themselves."""

import io

import pytest

from payclient.reconcile.ledger import Dialect, open_ledger

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
