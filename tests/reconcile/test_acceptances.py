"""An acceptance that meets nothing, has ended or is about to end is listed."""

from __future__ import annotations

from datetime import UTC, timedelta

import attrs
import pytest

from payclient import Transaction, errors
from payclient.ledger import Entry
from payclient.reconcile import Accepted, Answer, Case, Observation, Rules, Tally, judge
from payclient.reconcile.values._observation import observe
from support.reconciling import NOON

ENTRY = Entry(line=2, reference="T1", amount=100, status="paid")
ANA = Accepted(
    code="underpaid",
    reference="T1",
    ledger=100,
    service=90,
    reason="agreed",
    owner="Ana",
    expires="2026-12-31",
)


def seen(amount=90, at=NOON):
    transaction = Transaction(reference="T1", amount=amount, status="paid")
    return Observation(answer=Answer.FOUND, at=at, transaction=transaction)


def notices(accepted, *cases):
    rules = Rules(accepted=[accepted], time_zone=UTC)
    tally = Tally(rules)
    for case in cases:
        tally.add(judge(case, rules=rules))
    return [(each.state.value, each.accepted) for each in tally.summary().acceptances]


def case(entry=ENTRY, first=None, second=None, **more):
    return Case(entry=entry, first=first or seen(), second=second or first or seen(), other_found=1, **more)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(40, []), (8, []), (7, ["ends_soon"]), (0, ["ends_soon"]), (-1, ["ended"])],
)
def test_last_days(days, expected):
    """It is listed in its last seven days, and after them, by the day of the answer."""
    accepted = attrs.evolve(ANA, expires=NOON.date() + timedelta(days=days))
    assert [state for state, _ in notices(accepted, case())] == expected


def test_listed(subtests):
    """An acceptance without a row or with another difference is listed, but not if its row is unresolved."""
    table = {
        "no row": ([], ["met_no_row"]),
        "other row": ([case(attrs.evolve(ENTRY, reference="T2"))], ["met_no_row"]),
        "settled": ([case(first=seen(100))], ["met_no_row"]),
        "other service": ([case(first=seen(89))], ["changed"]),
        "other ledger": ([case(attrs.evolve(ENTRY, amount=101))], ["changed"]),
        "twice": ([case(), case(is_repeat=True)], []),
        "failed": ([case(first=observe(errors.AttemptTimeoutError("slow"), at=NOON))], []),
        "seen once": ([Case(entry=ENTRY, first=seen(), other_found=1)], []),
        "not asked": ([Case(entry=ENTRY)], []),
    }
    for label, (cases, expected) in table.items():
        with subtests.test(label):
            assert [state for state, _ in notices(ANA, *cases)] == expected


def test_later_clock():
    """A report that is made again later says the same, because the time of the answer counts."""
    accepted = attrs.evolve(ANA, expires="2026-12-01")
    early, late = case(first=seen(at=NOON)), case(first=seen(at=NOON + timedelta(days=30)))
    assert (notices(accepted, early), [state for state, _ in notices(accepted, late)]) == ([], ["ended"])


def test_sentence():
    """Its sentence names what was accepted, by whom and until when, and cannot act on a terminal."""
    accepted = attrs.evolve(ANA, owner="A\x1b[2Jna")
    tally = Tally(Rules(accepted=[accepted]))
    (notice,) = tally.summary().acceptances
    assert notice.sentence == (
        "underpaid of 'T1', accepted by A<U+001B>[2Jna until 2026-12-31, matches no row; remove it"
    )
