"""The geometry of the bridge chart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import Difference, Step, TieOut
from payclient.report._chart import bridge_chart


def tie_out(ledger_total, *amounts):
    steps = tuple(Difference(step=step, rows=1, amount=amount) for step, amount in zip(Step, amounts, strict=False))
    total = ledger_total + sum(amounts)
    return TieOut(ledger_total=ledger_total, steps=steps, service_total=total, rows_without_amount=0)


def edges(bar):
    return bar.start, round(bar.start + bar.width, 2)


def test_bars():
    """A bar goes from where the running total was to where it is; totals go from zero."""
    chart = bridge_chart(tie_out(1000, -200, 100, -500))
    assert [(bar.kind, bar.amount, *edges(bar), bar.end) for bar in chart.bars] == [
        ("total", 1000, 0, 100, 100),
        ("down", -200, 80, 100, 80),
        ("up", 100, 80, 90, 90),
        ("down", -500, 40, 90, 40),
        ("total", 400, 0, 40, 40),
    ]


def test_steps_of_nothing():
    """A step that changes nothing has no bar."""
    assert [bar.label for bar in bridge_chart(tie_out(100, 0, -50)).bars] == [
        *("Ledger total", "Missing at the service", "Service total"),
    ]


@pytest.mark.parametrize(
    ("total", "step", "origin"),
    [
        (1000, -199, 752),
        (1000, -200, 0),
        (1000, -1, 998),
        (1000, 0, 0),
        (-1000, 1, -1000),
        (0, 0, 0),
        (100, -200, -100),
    ],
)
def test_origin(total, step, origin):
    """The bars start at zero, unless the steps are less than a fifth of the totals and could not be seen then."""
    assert bridge_chart(tie_out(total, step)).origin == origin


amounts = st.integers(-(10**30), 10**30)


@given(amounts, st.lists(amounts, max_size=len(Step)))
def test_inside(total, steps):
    """Every bar lies in the chart and can be seen, whatever the amounts."""
    bars = bridge_chart(tie_out(total, *steps)).bars
    assert all(0 <= bar.start < edges(bar)[1] <= 100 and bar.width >= 0.5 and 0 <= bar.end <= 100 for bar in bars)


@given(amounts, st.lists(amounts, max_size=len(Step)))
def test_ends(total, steps):
    """The last bar but one ends where the service's total does."""
    bars = bridge_chart(tie_out(total, *steps)).bars
    assert bars[-2].end == bars[-1].end
