"""Where the bars of a bridge chart stand, in percent of its width."""

from __future__ import annotations

from itertools import accumulate

from attrs import frozen

from payclient.reconcile import TieOut
from payclient.report._wording import STEPS

_NARROWEST = 0.5
_ONE_FIFTH = 5
_ONE_QUARTER = 4


@frozen(kw_only=True)
class Bar:
    """
    One bar.

    Attributes:
        label: What it stands for.
        kind: `total`, `down` or `up`.
        amount: A total, or what the step adds.
        start: Left edge.
        width: From there; never so narrow that nobody sees it.
        end: Where the running total stands after it.
    """

    label: str
    kind: str
    amount: int
    start: float
    width: float
    end: float


@frozen(kw_only=True)
class Chart:
    """
    All bars, from the ledger's total to the service's.

    Attributes:
        bars: In order; steps of nothing are left out.
        origin: The amount at the left edge; not zero when the steps would be too small to see.
        zero: Where zero is.
    """

    bars: tuple[Bar, ...]
    origin: int
    zero: float


def bridge_chart(tie_out: TieOut) -> Chart:
    """Return the chart of *tie_out*."""
    steps = [step for step in tie_out.steps if step.amount]
    running = list(accumulate((step.amount for step in steps), initial=tie_out.ledger_total))
    origin, top = _axis(running)

    def at(amount: int) -> float:
        return round(100 * (amount - origin) / (top - origin), 2)

    def bar(label: str, kind: str, amount: int, ends: tuple[int, int]) -> Bar:
        low, high = at(min(ends)), at(max(ends))
        width = max(high - low, _NARROWEST)
        start = min(low, 100 - width)
        return Bar(label=label, kind=kind, amount=amount, start=round(start, 2), width=round(width, 2), end=at(ends[1]))

    base = max(origin, 0)
    bars = [bar("Ledger total", "total", tie_out.ledger_total, (base, tie_out.ledger_total))]
    for step, before, after in zip(steps, running, running[1:], strict=False):
        bars.append(bar(STEPS[step.step].title, "up" if after > before else "down", step.amount, (before, after)))
    bars.append(bar("Service total", "total", tie_out.service_total, (base, tie_out.service_total)))
    return Chart(bars=tuple(bars), origin=origin, zero=at(base))


def _axis(running: list[int]) -> tuple[int, int]:
    """Return the amounts at both edges: from zero, unless the steps would be too small to see then."""
    low, high = min(running), max(running)
    reach = high - low
    if low > 0 and 0 < reach < high // _ONE_FIFTH:
        return low - max(1, reach // _ONE_QUARTER), high
    return min(low, 0), max(high, int(low >= 0))
