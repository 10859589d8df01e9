"""The geometry of the bridge chart."""

from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile import Difference, Step, TieOut
from payclient.reconcile.report._html import chart
from payclient.reconcile.report._wording import bridge_lines
from support.misses import check_table


def tie_out(ledger_total, *amounts):
    steps = tuple(
        Difference(step=step, rows=1, added=max(amount, 0), taken_off=min(amount, 0))
        for step, amount in zip(Step, amounts, strict=False)
    )
    return tied(ledger_total, *steps)


def tied(ledger_total, *steps):
    total = ledger_total + sum(step.amount for step in steps)
    return TieOut(
        ledger_paid_total=ledger_total, steps=steps, service_paid_total=total, rows_without_amount=0, states={}
    )


def chart_of(tie_out):
    return chart(bridge_lines(tie_out))


def edges(bar):
    return bar.start, round(bar.start + bar.width, 2)


def test_bars():
    """A bar goes from where the running total was to where it is; totals go from zero."""
    drawn = chart_of(tie_out(1000, -200, 100, -500))
    assert [(bar.kind, bar.amount, *edges(bar), bar.end) for bar in drawn.bars] == [
        ("total", 1000, 0, 100, 100),
        ("down", -200, 80, 100, 80),
        ("up", 100, 80, 90, 90),
        ("down", -500, 40, 90, 40),
        ("total", 400, 0, 40, 40),
    ]


def test_steps_of_nothing():
    """A step that changes nothing has no bar."""
    assert [bar.label for bar in chart_of(tie_out(100, 0, -50)).bars] == [
        *("Ledger, paid", "Tolerated", "Service, paid")
    ]


def test_gross():
    """A step whose rows add as much as they take off has a bar, as wide as both, and says both."""
    drawn = chart_of(tied(1000, Difference(step=Step.OPEN, rows=2, added=400, taken_off=-400)))
    assert [(bar.kind, bar.amount, bar.gross, *edges(bar)) for bar in drawn.bars] == [
        ("total", 1000, (), 0, 71.43),
        ("both", 0, (400, -400), 42.86, 100),
        ("total", 1000, (), 0, 71.43),
    ]


def test_origin():
    """The bars start at zero, unless the steps are less than a fifth of the totals and could not be seen then."""
    cases = (
        (1000, -199, 752),
        (1000, -200, 0),
        (1000, -1, 998),
        (1000, 0, 0),
        (-1000, 1, -1000),
        (0, 0, 0),
        (100, -200, -100),
    )
    check_table(cases, lambda total, step: chart_of(tie_out(total, step)).origin)


amounts = st.integers(-(10**30), 10**30)


@given(amounts, st.lists(amounts, max_size=len(Step)))
def test_inside(total, steps):
    """For any amounts, every bar is inside the chart and visible."""
    bars = chart_of(tie_out(total, *steps)).bars
    assert all(0 <= bar.start < edges(bar)[1] <= 100 and bar.width >= 0.5 and 0 <= bar.end <= 100 for bar in bars)


@given(amounts, st.lists(amounts, max_size=len(Step)))
def test_ends(total, steps):
    """The last bar but one ends where the service's total does."""
    bars = chart_of(tie_out(total, *steps)).bars
    assert bars[-2].end == bars[-1].end
