"""The rules that come with a profile: its kinds of lines, and its words for a status."""

from __future__ import annotations

from attrs import evolve

from payclient.ledger import Dialect, Profile, profiles
from payclient.reconcile._line_rules import Kinds, Lines, OfOneReference
from payclient.reconcile._rules import Rules


def with_profiles(rules: Rules) -> Rules:
    """
    Return *rules* with what the profiles of ledger and statement say about kinds of lines and words for a status.

    Note:
        What the rules say themselves stays: any `lines`, a `kind` of the statement, and the meaning of a word.
    """
    ledger, statement = _profile(rules.ledger), _profile(rules.statement.reading)
    statuses = {**(statement.statuses if statement else {}), **(ledger.statuses if ledger else {})}
    if statuses:
        rules = evolve(rules, statuses={**statuses, **rules.statuses})
    if ledger is not None and ledger.kind and rules.lines == Lines():
        rules = evolve(rules, lines=Lines(of_one_reference=OfOneReference.SUM, kind=Kinds(**ledger.kind)))
    if statement is not None and statement.kind and rules.statement.kind is None:
        rules = evolve(rules, statement=evolve(rules.statement, kind=Kinds(**statement.kind)))
    return rules


def _profile(dialect: Dialect) -> Profile | None:
    return profiles()[dialect.profile] if dialect.profile else None
