"""What profiles say about kinds of lines and words for a status becomes rules, and rules have priority."""

from __future__ import annotations

import pytest

from payclient.ledger import Dialect, profiles
from payclient.reconcile import (
    Kind,
    Kinds,
    Lines,
    Rules,
    StatementRules,
    Status,
    parse_rules,
    rules_as_json,
    rules_from_json,
    with_profiles,
)

STRIPE, XENDIT = Dialect.named("stripe-balance"), Dialect.named("xendit")
OWN = Kinds(column="mine", charge=["x"])


def test_ledger():
    """The lines of a ledger with a profile are summed by its kinds."""
    rules = with_profiles(Rules(ledger=STRIPE))
    assert (rules.lines.are_summed, rules.lines.kind.column) == (True, "reporting_category")
    kinds = {
        word: rules.lines.kind_of(word) for word in ("charge", "refund_failure", "dispute", "fee", "payout", "topup")
    }
    assert kinds == {
        "charge": Kind.CHARGE,
        "refund_failure": Kind.CHARGE,
        "dispute": Kind.REFUND,
        "fee": Kind.FEE,
        "payout": Kind.IGNORE,
        "topup": None,
    }
    assert rules.statement == StatementRules()


def test_statement():
    """A statement with a profile has its kinds, and the ledger keeps its own."""
    rules = with_profiles(Rules(statement=StatementRules(reading=XENDIT)))
    assert [rules.statement.kind_of(word) for word in ("PAYMENT", "Withdrawal", "x")] == [
        Kind.CHARGE,
        Kind.IGNORE,
        None,
    ]
    assert rules.lines == Lines()
    assert [rules.read_status(word) for word in ("SUCCESS", "Voided", "reversed")] == [
        Status.PAID,
        Status.CANCELED,
        None,
    ]


@pytest.mark.parametrize(
    "own",
    [
        Rules(ledger=XENDIT, lines=Lines(of_one_reference="sum"), statuses={"success": "pending", "voided": "failed"}),
        Rules(ledger=XENDIT, lines=Lines(of_one_reference="sum", kind=OWN)),
        Rules(statement=StatementRules(reading=XENDIT, kind=OWN)),
        Rules(ledger=Dialect.named("excel-de")),
        Rules(),
    ],
)
def test_priority(own):
    """What the rules say themselves stays, and profiles without kinds and words say nothing."""
    rules = with_profiles(own)
    assert (rules.lines, rules.statement.kind) == (own.lines, own.statement.kind)
    assert {**rules.statuses, **own.statuses} == dict(rules.statuses)
    assert with_profiles(rules) == rules
    assert rules_from_json(rules_as_json(rules)) == rules


@pytest.mark.parametrize("name", [name for name, each in profiles().items() if each.kind or each.statuses])
def test_written(name):
    """The kinds and words of each profile could stand in a rules file."""
    rules = with_profiles(parse_rules(f'[ledger]\nprofile = "{name}"\n[statement.reading]\nprofile = "{name}"\n'))
    assert rules.lines.kind == rules.statement.kind
    assert rules.lines.kind.column == profiles()[name].kind["column"]
