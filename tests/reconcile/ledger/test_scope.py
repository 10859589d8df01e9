"""Rows outside of a currency or the payments themselves are left out, counted and listed."""

import io
import json

import pytest

from payclient.reconcile.ledger import ABSENT, Dialect, LedgerError, RejectedEntry, open_ledger
from payclient.reconcile.ledger._left_out import _Outside
from support.misses import check_each


def read(text, **declared):
    with open_ledger(io.StringIO(text), dialect=Dialect(**declared)) as ledger:
        return list(ledger), ledger


CURRENCIES = "reference,amount,currency\nT1,1,IDR\nT2,20,usd\nT3,300,idr\nT4,4000,\nT5,5,USD\nT6,6,USD\n"


def test_several_currencies():
    """Amounts in two currencies are never added up: the ledger is refused, and both lines are named."""
    with pytest.raises(LedgerError, match=r"'IDR' \(line 2\) and 'USD' \(line 3\).*--only-currency IDR") as caught:
        read(CURRENCIES)
    assert caught.value.line == 3


def test_one_currency():
    """A column with one currency, in any letters, is fine; it may be empty in some rows."""
    rows, ledger = read("reference,amount,Währung\nT1,1,IDR\nT2,2,idr\nT3,3,\n")
    assert ([row.reference for row in rows], ledger.warnings) == (["T1", "T2", "T3"], ())


def test_only_currency():
    """The rows of other currencies are left out with their lines; one without a currency is rejected."""
    rows, ledger = read(CURRENCIES, only_currency="IDR")
    assert [row.reference for row in rows if not isinstance(row, RejectedEntry)] == ["T1", "T3"]
    assert [row.reason for row in rows if isinstance(row, RejectedEntry)] == [
        "currency: the cell is empty, and only the rows of one currency are read"
    ]
    (excluded,) = ledger.excluded
    assert (excluded.why, excluded.rows, excluded.amount, excluded.lines) == ("in USD", 3, 31, "3, 6-7")
    assert ledger.warnings == ("skipped 3 rows in USD: lines 3, 6-7; amount 31",)


def test_nothing_is_left():
    """If all rows are left out, the ledger is as empty as one without rows, and that is said with the reason."""
    message = "no other rows than these: skipped 5 rows in .*; --allow-empty accepts that"
    text = CURRENCIES.replace("T4,4000,\n", "").replace("idr", "usd").replace("IDR", "usd")
    with open_ledger(io.StringIO(text), dialect=Dialect(only_currency="EUR"), allow_empty=False) as ledger:
        with pytest.raises(LedgerError, match=message):
            list(ledger)
    rows, ledger = read(text, only_currency="EUR")
    assert (rows, len(ledger.warnings)) == ([], 1)


def test_unusable():
    """A declaration that cannot be used is refused, and a ledger without the column that it needs."""
    with pytest.raises(ValueError, match="skip_totals must be true or false, got 1"):
        Dialect(skip_totals=1)
    with pytest.raises(
        LedgerError, match="only the rows of one currency are to be read, and no column is called currency"
    ):
        read("reference\nT1\n", only_currency="IDR")


def test_totals():
    """Totals rows are left out on request, with their amounts; the sum of the rows is not doubled."""
    text = "reference,amount\nT1,1000\nT2,2000\nTOTAL,3000\n"
    rows, ledger = read(text, skip_totals=True)
    assert [row.amount for row in rows] == [1000, 2000]
    assert ledger.warnings == ("skipped 1 row of totals: line 4; amount 3,000",)
    assert isinstance(read(text)[0][-1], RejectedEntry)


UNTIED = "is a totals row with 9,999, but the rows above it add up to 3,000: rows may be missing"
CONTROL = {
    "T1,1000,\nT2,2000,\nTotal,9999,\n": UNTIED,
    "T1,1000,\nT2,2000,\nTotal,,\n": "",
    "T1,1000,\nTotal,1000,\nT2,2000,\nTotal,2000,\nTotal,3000,\n": "",
    "T1,1000,\nTotal,1000,\nT2,2000,\nTotal,9999,\n": UNTIED,
    "Total,9999,\nT1,1000,\nT2,2000,\n": "",
    "T1,1000,\nx2,2000,\nTotal,9999,\n": "",
    "T1,1000,\nT2,,\nTotal,9999,\n": "amount: the cell is empty",
    "T1,1000,\nT2,2000,,,\nTotal,9999,\n": "has 5 cells where the header has 3",
    "T1,1000,\n,2000,\nTotal,9999,\n": "reference: the cell is empty",
}
"""Rows, and the reason why one is rejected."""


def test_control_totals():
    """A totals row is left out only if it is the sum of the rows above, as far as that is known."""

    def rejected(lines):
        rows, _ = read(f"reference,amount,note\n{lines}", skip_totals=True, skip_rows_like=["x"])
        return "; ".join(row.reason for row in rows if isinstance(row, RejectedEntry))

    check_each(CONTROL, rejected)


def test_many_lines():
    """Of very many lines the first are listed, and all are counted."""
    rows = "".join(f"T{n},{n},{('USD', 'IDR')[n % 2]}\n" for n in range(1000))
    _, ledger = read(f"reference,amount,currency\n{rows}", only_currency="IDR")
    (excluded,) = ledger.excluded
    assert (excluded.rows, excluded.lines[:5], excluded.lines[-2:]) == (500, "2, 4,", " …")
    group = _Outside()
    for line in range(0, 1000, 2):
        group.add(line, 1)
    assert (group.rows, group.amount, len(group.ranges)) == (500, 500, 201)  # memory does not grow with the rows


def test_rejected_inside():
    """A row that is outside is left out even if it could not be used."""
    rows, ledger = read("reference,amount,currency\n,x,USD\n,x,IDR\n", only_currency="IDR")
    assert ([row.line for row in rows], ledger.excluded[0].rows) == ([3], 1)


def test_currency():
    """The currency of a ledger is known when it was read, or declared; without a column there is none."""
    assert read("reference,currency\nT1,idr\n")[1].currency == "IDR"
    assert read(CURRENCIES, only_currency="usd")[1].currency == "USD"
    assert read("reference\nT1\n")[1].currency == ""


def test_currency_of_a_name():
    """A currency in the name of a column is the one of its amounts: another in a cell or a name is refused."""
    for header, cells, problem in (
        ("Amount USD,note", "5,x", ""),
        ("Amount (USD),currency", "5,USD", ""),
        ("Amount (USD),currency", "5,IDR", "there are amounts in 'USD' (line 1) and 'IDR' (line 2)"),
        ("Amount (USD),Fee [IDR]", "5,1", "the columns 'Amount (USD)', 'Fee [IDR]' have different currencies"),
    ):
        names = {name.split()[0].lower(): name for name in header.split(",") if " " in name}
        problems = ""
        try:
            with open_ledger(io.StringIO(f"reference,{header}\nT1,{cells}\n"), columns=names) as ledger:
                assert len(list(ledger)) == 1
                assert ledger.currency == "USD"
        except LedgerError as error:
            problems = str(error)
        assert problems.startswith(problem)
        assert bool(problems) is bool(problem)


def test_currency_in_some_cells():
    """A declared currency that only some amounts of a column have is named, but for amounts of 0."""
    said = "some cells of the column 'amount' have a currency, others lack one, and all are added"
    for cells, warnings in ((("Rp 5", "7"), (said,)), (("Rp 5", "0"), ()), (("Rp 5", "Rp7"), ()), (("5", "7"), ())):
        text = "reference,amount\n" + "".join(f"T{cell},{cell}\n" for cell in cells)
        assert read(text, currency_prefix="Rp")[1].warnings == warnings


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_statement(form):
    """A row of a statement that states what was received needs no amount; what is rejected keeps both."""
    rows = [("T1", "", "97"), ("T2", "", ""), ("", "", "-5"), ("", "9", "8")]
    text = "reference,amount,net\n" + "".join(f"{','.join(row)}\n" for row in rows)
    if form == "jsonl":
        objects = [dict(zip(("reference", "amount", "net"), row, strict=True)) for row in rows]
        text = "".join(f"{json.dumps(each)}\n" for each in objects)
    with open_ledger(io.StringIO(text), format=form, is_statement=True) as statement:
        good, *bad = statement
    assert (good.amount, good.amount_received) == (ABSENT, 97)
    assert [(row.reason, row.amount, row.amount_received) for row in bad] == [
        ("amount: the cell is empty", None, None),
        ("reference: the cell is empty", None, -5),
        ("reference: the cell is empty", 9, 8),
    ]
    with open_ledger(io.StringIO(text), format=form) as ledger:
        assert [row.reason.partition(":")[0] for row in ledger] == ["amount", "amount", "reference", "reference"]


def test_rows_like():
    """Rows that begin as declared are left out whatever their number of cells, counted, and summed."""
    text = "reference,amount,note\nT1,5,\n-----\nSALDO AWAL,7,,x\nsaldo akhir,9,\n,Saldo,\nT2,6,Saldo\n*****,,\n"
    rows, ledger = read(text, skip_rows_like=["Saldo", "---", "*"])
    assert [row.reference for row in rows] == ["T1", "T2"]
    assert ledger.warnings == (
        "skipped 1 row like '---': line 3; amount 0",
        "skipped 3 rows like 'Saldo': lines 4-6; amount 16",
        "skipped 1 row like '*': line 8; amount 0",
    )
    rows, _ = read(text)
    assert [row.line for row in rows if isinstance(row, RejectedEntry)] == [3, 4, 6, 8]
