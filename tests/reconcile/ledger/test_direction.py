"""A debit is never read as a receipt: what says the sign is used, named or refused."""

import pytest

from payclient.reconcile.ledger import Dialect, LedgerError
from payclient.reconcile.ledger._columns import SIDES, sign_of
from support.ledgers import read
from support.misses import check_refused

FORMS = {
    "D/C": ("C", "D"),
    "S/H": ("H", "S"),
    "sign": ("+", "-"),
    "C/D": ("C", "D"),
    "Debit/Credit": ("RD", "RC"),
    "DB/CR": ("CR", "DB"),
    "D/K": ("K", "D"),
    "Soll/Haben-Kennzeichen": ("Haben", "Soll"),
    "Credit Debit Indicator": ("CRDT", "DBIT"),
    "direction": ("Crédito", "DÉBITO"),
    "Sens": ("crédit", "débit"),
    "Credit/Debit": ("CREDIT TRANSFER", "Debit Transfer"),
    "pos_neg": ("P", "N"),
    "signo": ("Paid in", "Salida"),
    "Af Bij": ("Bij", "Af"),
}


def test_recognised():
    """A column with a known name and known words gives each amount its sign."""
    misread = {}
    for name, (credit, debit) in FORMS.items():
        rows = read(f"reference,amount,net,fee,{name}\nT1,15000,14000,5,{credit}\nT2,20000,19000,5,{debit}\n")
        found = [(row.amount, row.amount_received, row.fee) for row in rows]
        if found != [(15000, 14000, 5), (-20000, -19000, 5)]:
            misread[name] = found
    assert misread == {}


def test_refused_rows():
    """An unknown word, an empty cell and a second sign reject the row, whose amount has no known sign."""
    rows = read("reference,amount,D/C\nT1,5,X\nT2,5,\nT4,-5,C\nT5,0,\nT6,5,D\n")
    (reversal,) = read("reference,amount,D/C\nT1,5,Debit Reversal\n")
    assert reversal.reason == "direction: 'Debit Reversal' is not known to mean credit or debit"
    assert [row.reason.partition(";")[0] for row in rows[:3]] == [
        "direction: 'X' is not known to mean credit or debit",
        "direction: the cell is empty, so the direction of the money is not known",
        "amount: -5 is below zero by its own sign, but not by the column 'D/C'",
    ]
    assert [row.amount for row in rows] == [None, None, -5, 0, -5]
    assert [row.amount for row in read("reference,amount,D/C\nT3,-5,D\n", ignore=["D/C"])] == [-5]


def test_far_below():
    """A debit on any row refuses the ledger, and other words next to it are named with it."""
    text = "reference,amount,x\n" + "".join(f"T{n},5,CREDIT\n" for n in range(500)) + "T501,5,DEBIT\n"
    with pytest.raises(LedgerError, match="'x' has words for credit and debit and is not used"):
        read(text)


def test_one_list():
    """The words beside an amount are those of the column, and each is understood in any case."""
    for word, sign in SIDES.items():
        assert sign_of(word.upper()) == sign
        text = f"reference,amount\nT1,1.500 {word.upper()}\n"
        dialect = Dialect(negative="debit", thousands=".")
        assert [row.amount for row in read(text, dialect=dialect)] == [1500 * sign]


def test_words_and_signs():
    """A dash next to words may stand for an empty cell, so the ledger is refused until that is said."""
    text = "reference,amount,D/C\nT1,5,C\nT2,7,-\n"
    with pytest.raises(LedgerError, match=r"both words and signs, such as '-'; .*--null=-"):
        read(text)
    kept, rejected = read(text, dialect=Dialect(null="-"))
    assert (kept.amount, rejected.amount, rejected.reason[:28]) == (5, None, "direction: the cell is empty")


def test_other_pair():
    """Words for one sign beside a word that is not known, with which they may mean the other one, refuse the ledger."""

    def read_pair(known, unknown, more="T4,7,X\n"):
        text = f"reference,amount,x\nT1,5,{known}\nT2,7,{unknown}\nT3,7,\n{more}"
        return read(text, columns={"direction": "x"})

    pairs = [tuple(pair) for pair in ("CA", "KM", "DW", "DR", "SE")]
    rows = [(*pair, "'{}' and '{}', which may be a pair.*lines.kind".format(*pair)) for pair in pairs]
    check_refused(rows, LedgerError, read_pair)
    assert {len(read_pair(*pair, "T4,7,Credit\nT5,7,Debit\n")) for pair in pairs} == {5}


def test_received_only():
    """A statement's line without a known direction is rejected, whatever other amounts it has."""
    (row,) = read("reference,amount,net,D/C\nT1,5,0,\n", is_statement=True)
    assert row.reason.startswith("direction: the cell is empty")
