"""Positions of the bars of the bridge chart, in percent of its width."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from attrs import frozen

from payclient.reconcile import Difference, SettlementStep, Step
from payclient.report._wording import BridgeLine

_NARROWEST = 0.5
_ONE_FIFTH = 5
_ONE_QUARTER = 4


@frozen(kw_only=True)
class Bar:
    """One bar of the chart: its edges, and the running total after it."""

    label: str
    kind: str  # `total`, `down`, `up`, or `both` where rows of one step add and others take off
    amount: int
    gross: tuple[int, ...] = ()  # both parts of the amount, for the kind `both`
    start: float
    width: float
    end: float


@frozen(kw_only=True)
class Chart:
    """All bars, from the ledger's total to the service's; the origin is the amount at the left edge."""

    bars: tuple[Bar, ...]
    origin: int
    zero: float


def chart(lines: Iterable[BridgeLine]) -> Chart:
    """Return the chart of a bridge: both totals with the steps between them, and the residual last."""
    first, *between, last, _ = lines  # no residual bar
    steps = [(line.label, line.step) for line in between if line.step and (line.step.added or line.step.taken_off)]
    running = list(accumulate((step.amount for _, step in steps), initial=first.amount))
    reached = [running[place] + part for place, (_, step) in enumerate(steps) for part in (step.added, step.taken_off)]
    origin, top = _axis([*running, *reached])

    def at(amount: int) -> float:
        return round(100 * (amount - origin) / (top - origin), 2)

    def bar(label: str, kind: str, amount: int, edges: tuple[int, int], end: int, gross: tuple[int, ...] = ()) -> Bar:
        start, width = _span(*map(at, edges))
        return Bar(label=label, kind=kind, amount=amount, gross=gross, start=start, width=width, end=at(end))

    def total(line: BridgeLine) -> Bar:
        return bar(line.label, "total", line.amount, (base, line.amount), line.amount)

    def change(label: str, step: Difference[Step] | Difference[SettlementStep], before: int) -> Bar:
        gross = (step.added, step.taken_off) if step.added and step.taken_off else ()
        kind = "both" if gross else "up" if step.added else "down"
        edges = (before + step.added, before + step.taken_off)
        return bar(label, kind, step.amount, edges, before + step.amount, gross)

    base = max(origin, 0)
    changes = (change(*each, before) for each, before in zip(steps, running, strict=False))
    return Chart(bars=(total(first), *changes, total(last)), origin=origin, zero=at(base))


def _span(one: float, other: float) -> tuple[float, float]:
    """Return start and width of a bar between two places."""
    low, high = min(one, other), max(one, other)
    width = max(high - low, _NARROWEST)
    return round(min(low, 100 - width), 2), round(width, 2)


def _axis(running: list[int]) -> tuple[int, int]:
    """Return the amounts at both edges: from zero, unless the steps would be too small to see then."""
    low, high = min(running), max(running)
    reach = high - low
    if low > 0 and 0 < reach < high // _ONE_FIFTH:
        return low - max(1, reach // _ONE_QUARTER), high
    return min(low, 0), max(high, int(low >= 0))
