"""A sign is said once: said twice it is refused, or taken as one where all debits of the column agree."""

import io
import json

import attrs
import pytest

from payclient.reconcile import Kinds, Lines, Rules, StatementRules, reconcile
from payclient.reconcile.ledger import Dialect, Entry, LedgerError, RejectedEntry, open_ledger
from support.ledgers import opened
from support.workbooks import by_openpyxl

DEBITS = Dialect(debit_columns={"amount": "debit"})
NOTATIONS = {"leading": "-75000", "trailing": "75000-", "parentheses": "(75000)", "debit": "75000 DB"}


COLUMNS = "reference,credit,debit\nT1,15,\nT2,,7\nT3,15,0\nT4,1,2\nT5,,\nT6,,x\n"


def test_debits():
    """A debit counts as below zero; a row with both, neither, or a debit that cannot be read is rejected."""
    with opened(COLUMNS, columns={"amount": "credit"}, dialect=DEBITS) as ledger:
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
        opened(COLUMNS, columns={"amount": "credit"}, dialect=Dialect(debit_columns=debits))


def amounts(ledger, **options):
    """Return the amounts, or why a row or the ledger is refused."""
    try:
        with open_ledger(ledger, **options) as opened:
            return [row.reason if isinstance(row, RejectedEntry) else row.amount for row in opened]
    except LedgerError as error:
        return error.message


def files(debit, credit="15000"):
    """Yield a debit as CSV, JSON Lines and XLSX have it, each with the options that read it."""
    columns = {"amount": "credit"}
    yield io.StringIO(f"reference,debit,credit\nT1,,{credit}\nT2,{debit},\n"), {"columns": columns}
    rows = {"reference": "T1", "debit": None, "credit": credit}, {"reference": "T2", "debit": debit, "credit": None}
    yield io.StringIO("\n".join(map(json.dumps, rows))), {"columns": columns, "format": "jsonl"}
    yield (
        io.BytesIO(by_openpyxl(("reference", "debit", "credit"), ("T1", None, credit), ("T2", debit, None))),
        {"columns": columns},
    )


@pytest.mark.parametrize("negative", NOTATIONS)
@pytest.mark.parametrize("is_statement", [False, True])
def test_debit_column(negative, is_statement):
    """A debit that also has a sign of its own is a debit, in every notation and format, and of a statement."""
    dialect = Dialect(debit_columns={"amount": "debit"}, negative=negative)
    for ledger, options in files(NOTATIONS[negative]):
        assert amounts(ledger, dialect=dialect, is_statement=is_statement, **options) == [15000, -75000]


def test_numbers():
    """Numbers of JSON have signs as texts do."""
    text = '{"reference":"T1","debit":null,"credit":15}\n{"reference":"T2","debit":-75,"credit":null}'
    assert amounts(io.StringIO(text), format="jsonl", columns={"amount": "credit"}, dialect=DEBITS) == [15, -75]


def test_not_agreed():
    """Debits with and without a sign refuse the ledger; a sign that says the opposite rejects its row."""
    header, options = "reference,debit,credit\n", {"columns": {"amount": "credit"}, "dialect": DEBITS}
    assert "a minus (-5) and none (7), so one of them is not a debit" in amounts(
        io.StringIO(f"{header}T1,-5,\nT2,7,\n"), **options
    )
    (reason,) = amounts(io.StringIO(f"{header}T1,,-5\n"), **options)
    assert reason == "amount: -5 is below zero by its own sign, but not by the column 'debit'"
    words = {"columns": {"amount": "credit"}, "dialect": attrs.evolve(DEBITS, negative="debit")}
    (reason,) = amounts(io.StringIO(f"{header}T1,5 CR,\n"), **words)
    assert reason == "amount: 5 is above zero by its own sign, but not by the column 'debit'"


def test_direction():
    """A minus beside a debit is taken as one if all debits have it; beside a credit it rejects the row."""
    text = "reference,amount,D/C\nT1,15,C\nT2,-5,D\n"
    assert amounts(io.StringIO(text)) == [15, -5]
    assert "a minus (-5) and none (7)" in amounts(io.StringIO(f"{text}T3,7,D\n"))
    (_, _, reason) = amounts(io.StringIO(f"{text}T3,-7,C\n"))
    assert "but not by the column 'D/C'; --ignore-column NAME leaves a column out" in reason


async def test_kinds():
    """Refunds with one word, and fees, are written with a minus, or all without, unless columns say their sign."""
    kinds = Kinds(column="Type", charge=("payment",), refund=("refund", "chargeback"), fee=("fee",))
    lines = (2, -5, "Refund"), (3, 5, "chargeback"), (4, 5, "refund")
    refunds = [Entry(line=line, reference="T1", amount=amount, kind=kind) for line, amount, kind in lines]
    fees = [RejectedEntry(line=line, reason="no reference", amount=amount, kind="fee") for line, amount, _ in lines[:2]]

    async def read(ledger, statement, reading=Dialect()):  # noqa: B008
        of_statement = StatementRules(kind=kinds, reading=reading)
        rules = Rules(lines=Lines(of_one_reference="sum", kind=kinds), statement=of_statement)
        return [row async for row in reconcile(ledger, None, rules=rules, statement=statement)]

    for ledger, statement, kind in ((refunds, None, "Refund"), ([], refunds, "Refund"), ([], fees, "fee")):
        with pytest.raises(LedgerError, match=f"amounts that the kind '{kind}' makes debits have a minus"):
            await read(ledger, statement)
    assert await read([], fees, DEBITS) == []


def in_formats(*cells, **options):
    def change(book):
        for row, (_, code) in enumerate(cells, 2):
            book.active[f"B{row}"].number_format = code

    rows = ((f"T{number}", value) for number, (value, _) in enumerate(cells))
    return amounts(io.BytesIO(by_openpyxl(("reference", "amount"), *rows, change=change)), **options)


def test_formats():
    """A spreadsheet's format that says credit or debit is part of the cell, and its currency as well."""
    debit, negative = '#,##0 "DB"', {"dialect": Dialect(negative="debit")}
    cells = (5000, debit), (7000, '#,##0 "CR"')
    assert (
        "'5000 DB' is not a number as declared; --negative debit reads letters for credit and debit"
        in in_formats(*cells)[0]
    )
    assert in_formats(*cells, **negative) == [-5000, 7000]
    assert in_formats((5000, '0 "CR";0 "DB"'), (-7000, '0 "CR";0 "DB"'), **negative) == [5000, -7000]
    assert in_formats((-5000, debit), **negative) == ["amount: '-5000 DB' has two signs"]
    for code in (r"[$Rp-421]\ #,##0", '"Rp"#,##0;[Red]-"Rp"#,##0', r"\R\p#,##0"):
        assert in_formats((5, code), (-7, r"[$rp-409]#,##0;[Red]\(#,##0\)"), (8, "0")) == [5, -7, 8]
        assert "show 'Rp' and '$', which cannot be added" in in_formats((5, code), (7, "[$$-409]#,##0"))


def test_fees_below_zero():
    """Fees that are all below zero are named with the option that reads them as fees, and it turns the sign of each."""
    rows = "reference,amount,fee\nT1,100000,-2500\nT2,50000,{}\nT3,7000,0\n"

    def fees(second, **declared):
        with open_ledger(io.StringIO(rows.format(second)), dialect=Dialect(**declared)) as ledger:
            return [row.fee for row in ledger], ["--fees-below-zero" in warning for warning in ledger.warnings]

    assert fees("-1250") == ([-2500, -1250, 0], [True])
    assert fees("1250") == ([-2500, 1250, 0], [])
    assert fees("1250", fees_below_zero=True) == ([2500, -1250, 0], [])
