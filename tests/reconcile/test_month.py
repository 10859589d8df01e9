"""A month of nights against an oracle of its own: rows, findings, ages, both bridges, roll-forward and exit status."""

from datetime import timedelta

import attrs
import pytest

from payclient.reconcile import Accepted, Kinds, Rules, StatementRules, Tolerance
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.month import MONTHLY_FEE, Controller, shop
from support.nights import FIRST, paid
from support.reconciling import DOWN, Clock

KINDS = Kinds(column="Type", charge=["sale"], refund=["refund", "chargeback"], fee=["fee"])
RULES = Rules(statement=StatementRules(kind=KINDS, new_lines_only=True), time_zone="UTC")


@attrs.frozen(kw_only=True)
class Course:
    """
    What happens in a month apart from its payments; each number is a night.

    Attributes:
        lost: There is no run; its statement comes with the one of the next night.
        down: The service answers nothing.
        rolled: The ledger begins with a later day from then on.
        tolerant: The rules tolerate a small shortfall from then on.
        decided: Some open findings are accepted, for four nights.
    """

    nights: int
    payments: int
    lost: int
    down: int
    rolled: int
    tolerant: int
    decided: int


SHORT = Course(nights=9, payments=40, lost=4, down=6, rolled=7, tolerant=5, decided=3)
LONG = Course(nights=22, payments=160, lost=9, down=13, rolled=15, tolerant=11, decided=7)
ACCEPTABLE = ("left_the_ledger", "underpaid")


def day(night):
    return FIRST.replace(tzinfo=None) + timedelta(days=night)


def accepted(controller, night):
    """Accept up to four open findings for four nights; return the rules' entries."""
    found = sorted(
        (reference, code) for reference, known in controller.noted.items() for code in known.stake if code in ACCEPTABLE
    )
    last = night + 3
    controller.accepted |= dict.fromkeys(found[:4], last)
    return [
        Accepted(
            code=code,
            reference=reference,
            largest_difference=10**9,
            reason="agreed",
            owner="Ana",
            expires=day(last).date(),
        )
        for reference, code in found[:4]
    ]


def both_sides(payments, night, start):
    """Return the ledger, and the answers of the service."""
    listed = [(each, row) for each in payments for row in each.rows(night, start)]
    entries = [
        Entry(line=line, reference=each.reference, amount=amount, status=word, created_at=day(each.created))
        for line, (each, (amount, word)) in enumerate(listed, 2)
    ]
    answers = {
        each.reference: paid(
            each.reference, each.amount, each.status(night), fee=each.fee, amount_received=each.amount - each.fee
        )
        for each in payments
    }
    return entries, answers


def statement_of(stated):
    """Return the statement with a monthly fee, which belongs to no payment."""
    lines = [
        Entry(line=9, reference=reference, kind=kind, amount=amount, amount_received=money)
        for reference, found in stated.items()
        for kind, amount, money in found
    ]
    return [*lines, RejectedEntry(line=8, reason="no reference", amount=MONTHLY_FEE, kind="fee")]


@pytest.mark.parametrize(
    ("seed", "course"),
    [
        *((seed, SHORT) for seed in range(3)),
        *(pytest.param(seed, LONG, marks=pytest.mark.slow) for seed in range(3, 7)),
    ],
)
async def test_month(night, seed, course):
    """Each night, all that a report says is what the oracle expects."""
    payments = list(shop(seed, course.nights, course.payments))
    controller, rules, before, waiting = Controller(payments), RULES, None, {}
    for number in range(1, course.nights + 1):
        for each in payments:
            waiting.setdefault(each.reference, []).extend(each.lines(number))
        if number == course.lost:
            continue
        if number == course.decided:
            rules = attrs.evolve(rules, accepted=accepted(controller, number))
        if number == course.tolerant:
            rules = attrs.evolve(rules, tolerances={"amount": Tolerance(below=500)})
            controller.tolerance = 500
        start, is_down = (4 if number >= course.rolled else 1), number == course.down
        entries, answers = both_sides(payments, number, start)
        stated, waiting = {name: found for name, found in waiting.items() if found}, {}
        expected = controller.night(number, start, stated, is_down=is_down)
        done = await night(
            entries,
            dict.fromkeys(answers, DOWN) if is_down else answers,
            previous=before,
            rules=rules,
            statement=statement_of(stated),
            clock=Clock(FIRST + timedelta(days=number)),
            **({"stall_timeout": 0.01} if is_down else {}),
        )
        check(done, expected, before is None)
        before = done


def check(done, expected, is_first):
    """Compare a report with what the oracle expects."""
    rows = {}
    for row in done.rows:
        codes = frozenset(each.code.value for each in row.findings if each.is_decisive)
        rows.setdefault(row.reference, []).append((row.bucket.value, codes))
    assert {name: sorted({bucket for bucket, _ in found}) for name, found in rows.items()} == {
        name: sorted({bucket for bucket, _ in found}) for name, found in expected.rows.items()
    }
    assert {name: frozenset().union(*(codes for _, codes in found)) for name, found in rows.items()} == {
        name: found[0][1] for name, found in expected.rows.items()
    }
    assert {name: len(found) for name, found in rows.items()} == {
        name: len(found) for name, found in expected.rows.items()
    }
    bridge, settlement = done.summary.tie_out, done.summary.settlement
    totals = bridge.ledger_paid_total, bridge.service_paid_total, settlement.statement.total
    assert totals == (expected.ledger_paid, expected.service_paid, expected.statement)
    assert {each.step.value: each.amount for each in bridge.steps if each.amount} == expected.tie_steps
    assert {each.step.value: each.amount for each in settlement.steps if each.amount} == expected.steps
    statuses = done.summary.exit_status(), done.summary.exit_status(only_news=not is_first)
    assert statuses == (expected.status(), expected.status(only_news=not is_first))
    check_findings(done, expected, is_first)


def check_findings(done, expected, is_first):
    """Compare the state and age of each finding, and the roll-forward."""
    found = done.summary.open_findings
    assert {code.value: each.amount for code, each in found.by_code.items()} == dict(expected.closing)
    if is_first:
        return
    assert done.states == {key: state for key, (state, *_) in expected.states.items()}
    ages = {
        (row.reference, each.code.value): each.history.age_days
        for row in done.rows
        for each in row.findings
        if each.history is not None
    }
    assert ages == {key: age for key, (_, _, age) in expected.states.items() if key in ages}
    assert found.opening.amount == sum(expected.opening.values())
    by_state = expected.counts
    sums = [found.new.count, found.reopened.count, found.resolved.count, found.changed.count]
    assert sums == [by_state[each] for each in ("new", "reopened", "resolved", "changed")]
    assert found.closing == FindingTotal(
        sum(state != "resolved" for state, *_ in expected.states.values()), sum(expected.closing.values())
    )
