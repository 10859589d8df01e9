"""The steps of a bridge."""

from __future__ import annotations

from payclient.reconcile import Difference, SettlementStep, Step
from payclient.reconcile.values._difference import Differences


def test_every_step():
    """Every step is there, in the bridge's order, also when no row is in it."""
    assert [each.step for each in Differences(Step).steps()] == list(Step)


def test_both_directions():
    """What is added and what is taken off are two sums, so that they cannot hide each other."""
    differences = Differences(SettlementStep)
    differences.add(SettlementStep.FEES, -300)
    differences.add(SettlementStep.FEES, 300)
    differences.add(SettlementStep.REJECTED, 50, rows=2)
    found = {each.step: each for each in differences.steps() if each.rows}
    assert found == {
        SettlementStep.FEES: Difference(step=SettlementStep.FEES, rows=2, added=300, taken_off=-300),
        SettlementStep.REJECTED: Difference(step=SettlementStep.REJECTED, rows=2, added=50),
    }
    assert (found[SettlementStep.FEES].amount, found[SettlementStep.REJECTED].amount) == (0, 50)
