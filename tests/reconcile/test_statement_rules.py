"""Rules for a statement."""

from __future__ import annotations

from datetime import timedelta

import pytest

from payclient.reconcile import Kind, Rules, RulesError, StatementRules, parse_rules, rules_as_json, rules_from_json

TEXT = """
[statement]
settles_within = "3d"
ignore_columns = ["Total"]
new_lines_only = true
[statement.columns]
reference = "Psp Reference"
[statement.reading]
decimal = ","
[statement.kind]
column = "Type"
charge = ["Settled"]
refund = ["Refunded"]
ignore = ["MerchantPayout"]
"""


def test_read():
    """A statement has its own columns, ways of writing, kinds and time."""
    statement = parse_rules(TEXT).statement
    assert statement.settles_within == timedelta(days=3)
    assert statement.columns == {"reference": "Psp Reference"}
    assert statement.reading.decimal == ","
    assert statement.new_lines_only
    assert [statement.kind_of(word) for word in ("settled", "REFUNDED", "x")] == [Kind.CHARGE, Kind.REFUND, None]
    assert StatementRules().kind_of("anything") is Kind.CHARGE


def test_kept():
    """The rules are the same after they were written and read, and have another fingerprint than none."""
    rules = parse_rules(TEXT)
    assert rules_from_json(rules_as_json(rules)) == rules
    assert rules.fingerprint != Rules().fingerprint
    assert "statement" not in rules_as_json(Rules())


def test_refused(subtests):
    """A rule that cannot be used is refused with its line and key."""
    cases = (
        ('[statement]\nsettles_within = "soon"\n', "line 2: statement.settles_within must be a duration"),
        ("[statement.columns]\nfees = 'x'\n", "line 2: statement.columns: there is no field 'fees'"),
        ("[statement.columns]\nfee = ' '\n", "line 2: statement.columns.fee must be the name of a column"),
        ("[statement]\nnew_lines_only = 1\n", "line 2: statement.new_lines_only must be true or false"),
        ('[statement]\nignore_columns = "x"\n', "line 2: statement.ignore_columns must be a list of names"),
        ('[statement.reading]\ndecimal = "x"\n', "line 2: statement.reading.decimal must be one of"),
        ("[statement.kind]\ncharge = ['x']\n", "line 1: statement.kind has no column"),
        ("[statement]\npayout = 3\n", "line 2: statement: there is no key 'payout'"),
    )
    for text, message in cases:
        with subtests.test(text=text, message=message):
            with pytest.raises(RulesError) as caught:
                parse_rules(text, name="rules.toml")
            assert f"rules.toml, {message}" in str(caught.value)
