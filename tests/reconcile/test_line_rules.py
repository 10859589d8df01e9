"""Rules for several ledger rows of one payment."""

from __future__ import annotations

import pytest

from payclient.ledger import ABSENT
from payclient.reconcile import Invoices, Kind, Kinds, Lines, OfOneReference, Rules, RulesError, parse_rules
from payclient.reconcile.rules._line_rules import IgnoredCount, InvoiceTotals, invoice_of

SUM = '[lines]\nof_one_reference = "sum"\n'
KINDS = f'{SUM}[lines.kind]\ncolumn = "Type"\n'


def test_default():
    """Without a rule, rows with one reference are duplicates, and every line is a charge."""
    lines = Rules().lines
    assert lines.of_one_reference is OfOneReference.DUPLICATE
    assert not lines.are_summed
    assert lines.kind_of("anything") is Kind.CHARGE


def test_words():
    """A word means its kind whatever its case, spaces and dashes; another word, or none, means nothing."""
    rules = parse_rules(f'{KINDS}charge = ["Charge"]\nrefund = ["Payment-Refund"]\nignore = ["payout"]\n')
    kinds = [rules.lines.kind_of(word) for word in ("CHARGE", "payment refund", "Payout ", "other", None)]
    assert kinds == [Kind.CHARGE, Kind.REFUND, Kind.IGNORE, None, None]


def test_fingerprint():
    """The fingerprint tells a rule about lines, and is as before without one."""
    summed = Rules(lines=Lines(of_one_reference="sum"))
    assert summed.fingerprint != Rules().fingerprint
    assert Rules(lines=Lines()).fingerprint == Rules().fingerprint


def test_refused(subtests):
    """A rule that cannot be used is refused with its line and key."""
    cases = (
        ('[lines]\nof_one_reference = "add"\n', 2, "one of duplicate, sum, got 'add'"),
        (f'{SUM}of_one_invoice = "sum"\n', 3, "there is no key 'of_one_invoice'"),
        ('[lines.kind]\ncolumn = "Type"\n', 1, "kind needs of_one_reference = 'sum'"),
        (f'{SUM}[lines.kind]\ncharge = ["x"]\n', 3, "lines.kind has no column"),
        (f'{KINDS}charge = "x"\n', 5, "lines.kind.charge must be a list of words, got 'x'"),
        (f'{KINDS}fee = [" "]\n', 5, "lines.kind.fee must be a list of words"),
        (f'{KINDS}charge = ["x"]\nfee = ["X"]\n', 6, "lines.kind.fee: 'X' is listed under charge already"),
        ("[invoices]\nsum = 1\n", 2, "invoices.sum must be true or false, got 1"),
        ('[invoices]\namount = "half"\n', 2, "invoices.amount must be one of either, whole, part"),
        ("lines = 3\n", 1, "lines must be a table"),
    )
    for text, line, message in cases:
        with subtests.test(text=text, line=line):
            with pytest.raises(RulesError) as caught:
                parse_rules(text, name="rules.toml")
            assert f"rules.toml, line {line}: " in str(caught.value)
            assert message in str(caught.value)


def test_ignored():
    """Lines that are left out are counted by word, with what they state."""
    kinds = Kinds(column="Type", charge=["charge"], ignore=["payout", "top up"])
    count = IgnoredCount(Lines(of_one_reference="sum", kind=kinds).kind_of)
    taken = [count.takes(*line) for line in (("Payout", -5), ("charge", 7), ("payout", None), ("TOP-UP", 3), (None, 1))]
    assert taken == [True, False, True, True, False]
    assert [(each.word, each.lines, each.amount) for each in count.counted()] == [("payout", 2, -5), ("top up", 1, 3)]


def test_due(subtests):
    """The amount of an invoice follows from what its rows state; rows that state two whole amounts do not tell."""
    cases = (
        ((5, 2, 3), "whole", None),
        ((6, 3, 3), "whole", 3),
        ((5, 2, 3), "part", 5),
        ((6, 3, 3), "part", 6),
        ((5, 2, 3), "either", 5),
        ((6, 3, 3), "either", 3),
        (None, "either", None),
    )
    for amounts, amount, due in cases:
        with subtests.test(amounts=amounts, amount=amount):
            totals = InvoiceTotals(paid=5, amounts=amounts)
            assert totals.due(Invoices(sum=True, amount=amount)) == due
            assert totals.due(Invoices(amount=amount)) is None


@pytest.mark.parametrize(
    ("payments", "paid", "amounts"),
    [
        ([(5, 3)], 5, (3, 3, 3)),
        ([(5, 3), (4, 8), (1, 6)], 10, (17, 3, 8)),
        ([(5, 3), (4, ABSENT), (1, 6)], 10, None),
        ([], 0, None),
    ],
)
def test_invoice(payments, paid, amounts):
    """What is paid adds up, and the ledger's amounts are known only if every row states one."""
    assert invoice_of(iter(payments)) == InvoiceTotals(paid=paid, amounts=amounts)
