"""Rows that matched in earlier runs, and what looking them up again proves."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import attrs

from payclient import Transaction
from payclient.reconcile import STRICT
from payclient.reconcile.nights._since import Rechecked, upper_bound
from payclient.reconcile.values._observation import Matched
from support.reconciling import NOON

PAID = Matched(at=NOON, run="1", status="Paid", amount=15000, amount_received=12500)


def at_most(changed, looked_at, share):
    """Return the probability of so few, in fractions: another way than that of the package."""
    return sum(comb(looked_at, k) * share**k * (1 - share) ** (looked_at - k) for k in range(changed + 1))


def test_bound():
    """At the bound so few are seen with a probability of 5 %: a little above it less often, a little below more."""
    cases = ((0, 1), (0, 59), (0, 300), (1, 300), (3, 60), (29, 30), (150, 300))
    for changed, looked_at in cases:
        bound = Fraction(upper_bound(changed, looked_at))
        above, below = (bound * (1 + Fraction(sign, 10**9)) for sign in (1, -1))
        more, less = at_most(changed, looked_at, min(above, Fraction(1))), at_most(changed, looked_at, below)
        assert more < Fraction(5, 100) < less, (changed, looked_at)
    # It is that of the rule of three, of the auditors' tables, and 1 where all changed.
    assert [round(upper_bound(0, size), 6) for size in (1000, 59, 1)] == [0.002991, 0.049508, 0.95]
    assert round(upper_bound(1, 93), 3) == 0.05
    assert round(upper_bound(10, 1_000_000) * 1e6, 2) == 16.96
    assert upper_bound(7, 7) == 1


def test_sentence():
    """The sentence says how many were looked at, and what that proves; a row without an answer proves nothing."""
    done = ", so at most {} of them have, with 95 % confidence"
    for population, rows, changed, unanswered, sentence in (
        (212_000, 1000, 0, 0, f"1,000 of 212,000 rows {{}}: 0 changed{done.format('0.3 %')}."),
        (212_000, 1000, 1, 0, f"1,000 of 212,000 rows {{}}: 1 changed{done.format('0.48 %')}."),
        (9, 9, 2, 0, "9 of 9 rows {}: 2 changed."),
        (1, 1, 0, 0, "1 of 1 row {}: 0 changed."),
        (0, 0, 0, 0, "0 of 0 rows {}: 0 changed."),
        (9, 5, 0, 5, "0 of 9 rows {}: 0 changed; 5 without an answer."),
        (9, 9, 0, 1, f"8 of 9 rows {{}}: 0 changed{done.format('32 %')}; 1 without an answer."),
    ):
        rechecked = Rechecked(population=population, rows=rows, unanswered=unanswered, changed=changed)
        assert rechecked.sentence == sentence.format("that matched in earlier runs looked up again")


def test_changes():
    """A payment has changed when it is not paid, or another amount is; an unknown word is no change that is known."""
    same = Transaction(reference="T", status="PAID", amount=15000, amount_received=12500)
    for fields, expected in (
        ({}, None),
        ({"status": "Canceled"}, ("Paid", "Canceled")),
        ({"status": "Refunded"}, ("Paid", "Refunded")),
        ({"status": "Pending"}, ("Paid", "Pending")),
        ({"status": "Odd"}, None),
        ({"amount": 14999}, (15000, 14999)),
        ({"amount_received": 0}, (12500, 0)),
        ({"amount_received": None}, None),
    ):
        change = PAID.changes(attrs.evolve(same, **fields), STRICT.read_status)
        assert (change and change[:2]) == expected, fields
    gone = PAID.changes(None, STRICT.read_status)
    assert gone == (
        "Paid",
        None,
        "the service had it as 'Paid' when the row matched on 2026-11-21, and does not know it now",
    )
    assert attrs.evolve(PAID, status="Canceled").changes(None, STRICT.read_status) is None
