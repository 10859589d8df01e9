"""A statement every night against what was planted: the fate of each payment is written down before the first night."""

from random import Random

import attrs
import pytest

from payclient.reconcile import Kinds, Rules, StatementRules
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.nights import paid

NEVER = 99
SHORT, MONTH = (6, 40), (22, 300)
"""The number of nights, and of payments."""


@attrs.frozen(kw_only=True)
class Sale:
    """A payment and its lines of statements: settled on one night less a fee, and perhaps taken back on a later one."""

    reference: str
    amount: int
    fee: int
    settled: int = NEVER
    short_by: int = 0  # the statement has less
    taken: int = NEVER

    def lines(self, night):
        """Return kind, amount and money paid out of its lines in the statement of a night."""
        if night == self.settled:
            return [("sale", self.amount - self.short_by, self.amount - self.short_by - self.fee)]
        return [("refund", self.amount, self.amount)] if self.settled < night == self.taken else []

    def money(self, night):
        """Return what the statement of a night adds to the payout for it."""
        return sum(received if kind == "sale" else -received for kind, _, received in self.lines(night))

    def findings(self, night):
        if night >= self.taken:
            return {}
        if night < self.settled:
            return {"not_settled": self.amount}
        return {"settled_differently": self.short_by} if self.short_by else {}

    def steps(self, night):
        """Return its part in the bridge from the service's total to the statement's."""
        before, listed = sum(map(self.money, range(night))), night >= self.settled
        steps = {"settled_before": -before}
        if night >= self.taken:
            return steps | ({"fees": -self.fee} if listed else {})
        return steps | (
            {"fees": -self.fee, "settled_differently": -self.short_by} if listed else {"not_settled": -self.amount}
        )


def sold(seed, nights, count):
    random = Random(seed)
    for number in range(count):
        settled = random.choice([NEVER, *range(1, nights + 1)])
        few, later = random.randint(1, 90), random.randint(2, nights)
        fate = random.choice([{}, {}, {"short_by": few}, {"taken": later if settled == NEVER else settled + later}])
        yield Sale(reference=f"S{number:03}", amount=random.randint(1_000, 9_000), fee=few, settled=settled, **fate)


@pytest.mark.parametrize(
    ("seed", "length"),
    [*((seed, SHORT) for seed in range(3)), *(pytest.param(seed, MONTH, marks=pytest.mark.slow) for seed in (3, 4))],
)
async def test_statements(night, seed, length):
    """With a statement every night, refunds and fees included, bridge, payouts and findings are as planted."""
    sales, before, monthly = list(sold(seed, *length)), None, 700
    kinds = Kinds(column="Type", charge=["sale"], refund=["refund"], fee=["fee"])
    rules = Rules(statement=StatementRules(kind=kinds, new_lines_only=True))
    for day in range(1, length[0] + 1):
        states = {each.reference: "Refunded" if day >= each.taken else "Paid" for each in sales}
        entries = [
            Entry(line=line, reference=each.reference, amount=each.amount, status=states[each.reference])
            for line, each in enumerate(sales, 2)
        ]
        answers = {each.reference: paid(each.reference, each.amount, status=states[each.reference]) for each in sales}
        lines = [
            Entry(line=9, reference=each.reference, amount=amount, amount_received=money, kind=kind, payout="P")
            for each in sales
            for kind, amount, money in each.lines(day)
        ]
        alone = RejectedEntry(line=8, reason="no reference", amount=monthly, kind="fee", payout="P")
        done = await night(entries, answers, previous=before, rules=rules, statement=[*lines, alone])
        check_statement(sales, day, done.summary.settlement, monthly)
        found = [each.findings(day) for each in sales]
        stakes = [stake for each in found for stake in each.values()]
        assert done.summary.open_findings.closing == FindingTotal(len(stakes), sum(stakes))
        assert {row.reference: {each.code.value for each in row.findings} for row in done.rows} == {
            each.reference: set(codes) for each, codes in zip(sales, found, strict=True)
        }
        before = done


def check_statement(sales, night, settlement, monthly):
    """Compare the total of the statement, its payout and the steps of the bridge to it."""
    steps = {"fees": -monthly}
    for each in sales:
        for step, amount in each.steps(night).items():
            steps[step] = steps.get(step, 0) + amount
    assert {each.step.value: each.amount for each in settlement.steps if each.amount} == {
        step: amount for step, amount in steps.items() if amount
    }
    assert settlement.service_paid_total == sum(each.amount for each in sales if night < each.taken)
    assert settlement.statement.total == sum(each.money(night) for each in sales) - monthly
    lines = [line for each in sales for line in each.lines(night)]
    gross = sum(amount for kind, amount, _ in lines if kind == "sale")
    refunds = -sum(amount for kind, amount, _ in lines if kind == "refund")
    fees = -monthly - sum(amount - money for _, amount, money in lines)
    (payout,) = settlement.statement.payouts
    assert (payout.gross, payout.refunds, payout.fees, payout.net) == (gross, refunds, fees, settlement.statement.total)
