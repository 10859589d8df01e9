"""
Shares that rise: of answers of one method at one time of the day.

A night's share is compared with the nights before it, by their own spread: sampling, and the variance between nights,
which is estimated and shrunk towards 0.1 points. Each night gives evidence for a rise, the mean of three likelihood
ratios, and the evidence of consecutive nights is multiplied. A rise is told when it reaches a bound that chance reaches
less than once in a year of 60 cells: the expected number of nights until it does is at least the bound.

Source: Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection (2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import define, field

from payclient._escape import plural
from payclient.drift._findings import Drift, Severity, percent
from payclient.drift._table import Table

_BOUND = 365 * 60 * 3
_MIN_NIGHTS = 14
_MIN_ANSWERS = 200
_SHIFTS = (1.5, 2.5, 4.0)  # standard deviations
_MAX_SCORE = 6.0
_LEARNT = 2.5  # of the scores: one night teaches no more, or a rise would hide itself on its second
_KEPT = 0.97  # of the weight of a night, for the next one: what changes slowly is learnt
_SPREAD = 0.001
_SPREAD_NIGHTS = 4.0
_HOURS = 6


@define(eq=False)
class _Cell:
    """One share: what the nights before have shown, and the evidence for a rise."""

    min_nights: int = 2  # one does not make a rise; where it fails, nor do two
    nights: float = 0.0
    hits: float = 0.0
    answers: float = 0.0
    squares: float = 0.0
    evidence: float = 0.0

    @property
    def share(self) -> float:
        return self.hits / self.answers if self.answers else 0.0

    def rises(self, hits: int, answers: int) -> bool:
        """Weigh one night, then learn from it; return whether the rise is beyond chance."""
        is_told, most = False, float(hits)
        if self.nights >= _MIN_NIGHTS * 0.8:  # the weights of 14 nights
            deviation = self._deviation(answers)
            score = min(_MAX_SCORE, (hits / answers - self.share) / deviation)
            most = (self.share + _LEARNT * deviation) * answers
            ratio = sum(math.exp(shift * score - shift * shift / 2) for shift in _SHIFTS) / len(_SHIFTS)
            self.evidence = (self.evidence + 1) * min(ratio, _BOUND ** (1 / self.min_nights))
            is_told = self.evidence >= _BOUND
        if is_told:
            # The new level is learnt; the spread stays, and a share that jumps often is soon told no more.
            self.squares = (self.squares + (hits / answers - self.share) ** 2) / self.nights
            self.nights = self.hits = self.answers = self.evidence = 0.0
        self._learn(hits if is_told else min(hits, most), answers)
        return is_told

    def skip(self, answers: int) -> None:
        """Learn from a night without a hit."""
        self._learn(0, answers)

    def _deviation(self, answers: int) -> float:
        likely = (self.hits + 1) / (self.answers + 2)
        between = (self.squares + _SPREAD_NIGHTS * _SPREAD**2) / (self.nights + _SPREAD_NIGHTS)
        sampling = likely * (1 - likely) * (1 / answers + 1 / self.answers)
        return math.sqrt(between * (1 + 1 / self.nights) + sampling)

    def _learn(self, hits: float, answers: int) -> None:
        share = self.share
        excess = (hits / answers - share) ** 2 - share * (1 - share) / answers if self.nights else 0.0
        self.nights = self.nights * _KEPT + 1
        self.hits = self.hits * _KEPT + hits
        self.answers = self.answers * _KEPT + answers
        self.squares = max(0.0, self.squares * _KEPT + excess)


@define(eq=False)
class Shares:
    """All shares of one service, night after night."""

    _cells: dict[tuple[str, ...], _Cell] = field(factory=dict[tuple[str, ...], _Cell])
    _empty: dict[tuple[str, ...], _Cell] = field(factory=dict[tuple[str, ...], _Cell])

    def add(self, table: Table, side: str) -> Iterator[Drift]:
        """Yield the shares that have risen on one more night; those of times are compared on the same *side* only."""
        totals, hits = _night(table)
        for where, answers in totals.items():
            if answers < _MIN_ANSWERS:
                continue
            # A share that was never above 0 has the nights of its method and hours behind it.
            empty = self._empty.setdefault(where, _Cell())
            for key in [(*key, _side(key, side)) for key in hits if key[:2] == where]:
                if key not in self._cells:
                    least = 3 if key[2].startswith("ends with") else 2
                    self._cells[key] = _Cell(least) if key[3] else _Cell(least, empty.nights, 0.0, empty.answers)
            for key, cell in self._cells.items():
                if key[:2] == where and key[3] in ("", side):
                    before, count = cell.share, hits.get(key[:3], 0)
                    if cell.rises(count, answers):
                        yield _drift(key, before, count, answers)
            empty.skip(answers)


def _night(table: Table) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]:
    totals: dict[tuple[str, ...], int] = {}
    hits: dict[tuple[str, ...], int] = {}
    for (hour, method, feature), count, _ in table.of("share"):
        begin = int(hour) // _HOURS * _HOURS
        where = f"{begin:02}:00 to {begin + _HOURS:02}:00 UTC", method
        if feature == "answers":
            totals[where] = totals.get(where, 0) + count
        else:
            hits[*where, feature] = hits.get((*where, feature), 0) + count
    return totals, hits


def _side(key: tuple[str, ...], side: str) -> str:
    return side if key[2].startswith("slower") else ""


def _drift(key: tuple[str, ...], before: float, count: int, answers: int) -> Drift:
    hours, method, feature, _ = key
    return Drift(
        kind="share",
        name=f"share {feature} {method} {hours}",
        sentence=f"{feature} in {percent(count / answers)} of {plural(answers, 'answer')} of {method} from {hours}; "
        f"{percent(before)} in the nights before",
        severity=Severity.MEDIUM,
        count=count,
    )
