"""Facts that were never seen before: firsts, relations that are broken, and shares that rise.

A share is that of answers of one method at one time of the day. A night's share is compared with the nights before it,
by their own spread: sampling, and the variance between nights, which is estimated and shrunk towards 0.1 points. Each
night gives evidence for a rise, the mean of three likelihood ratios, and the evidence of consecutive nights is
multiplied. A rise is told when it reaches a bound that chance reaches less than once in a year of 60 cells: the
expected number of nights until it does is at least the bound.
Source: Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection (2023).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from attrs import define, field

from payclient._escape import plural
from payclient.drift._findings import Drift, Severity, at_minute, at_most, percent
from payclient.drift._profile import shape_of
from payclient.drift._table import Key, Table

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


MIN_ANSWERS = 1_000
"""Earlier answers from which the absence of a fact, or that a relation held in all of them, means something."""

MIN_NIGHTS = 5
"""Earlier nights from which a first is told: by then it shows which kinds have firsts all the time."""

_TOLD = {
    "field": ("{0} is {1}", Severity.HIGH),
    "word": ("the {0} {1}", Severity.HIGH),
    "envelope": ("a response {0} with {1}, of type {2}, {3}, coding {4}", Severity.HIGH),
    "transition": ("{0} becomes {1}", Severity.HIGH),
    "name": ("the unknown field {0}, {1}", Severity.MEDIUM),
    "failure": ("{0} with status {1}", Severity.MEDIUM),
    "deviation": ("the {0} of a response deviates", Severity.MEDIUM),
    "text": ("status {0} with the message “{1}”", Severity.LOW),
    "header": ("the header {0}", Severity.LOW),
}
"""Facts whose first sight is told, how they are said, and how urgent they are."""

_RESTLESS = 5
"""A kind of fact with a first in more than every fifth night has them all the time."""


@define(eq=False)
class Facts:
    answers: int = 0
    nights: int = 0
    _seen: Counter[Key] = field(factory=Counter[Key])
    _shapes: set[Key] = field(factory=set[Key])
    _once: Counter[Key] = field(factory=Counter[Key])
    _new_nights: Counter[Key] = field(factory=Counter[Key])
    _relations: Counter[Key] = field(factory=Counter[Key])

    def add(self, table: Table) -> None:
        slots: set[Key] = set()
        for key, (count, _) in table.cells.items():
            if key[0] == "relation":
                self._relations[key[1:]] += count
            elif _is_told(key):
                slot, before = _slot(key), self._seen[key]
                if not before and not self._is_known(key):
                    slots.add(slot)
                self._once[slot] += (before + count == 1) - (before == 1)
                self._seen[key] += count
                self._shapes.add(_shaped(key))
        if self.nights:
            self._new_nights.update(slots)
        self.answers += table.answers
        self.nights += 1

    def firsts(self, table: Table) -> Iterator[Drift]:
        """Yield what *table* has and no night before had."""
        if self.answers < MIN_ANSWERS or self.nights < MIN_NIGHTS:
            return
        for key, (count, first) in table.cells.items():
            if not _is_told(key) or self._is_known(key) or self._is_restless(_slot(key)):
                continue
            expected = self._once[_slot(key)] / self.answers * table.answers
            if expected >= 0.5:  # Good and Turing: as many firsts are to be expected among these answers
                continue
            text, severity = _TOLD[key[0]]
            parts = (key[1], " ".join(key[2:])) if key[0] == "text" else key[1:]
            yield Drift(
                kind="first",
                name=f"first {' '.join(key)}",
                sentence=f"First: {text.format(*parts)}, {times(count)}; never in "
                f"{plural(self.answers, 'answer')} before, "
                f"which bounds it to {at_most(self.answers)}; {_surprise(expected)}",
                severity=severity,
                since=at_minute(first),
                count=count,
            )

    def broken(self, table: Table) -> Iterator[Drift]:
        """Yield the relations that held in all answers before, and not in those of *table*."""
        everywhere = {relation for relation, state, held, _ in self._broken_in(table) if state == _ANY_STATE and held}
        for relation, state, held, (count, first) in self._broken_in(table):
            if state != _ANY_STATE and relation in everywhere:
                continue
            where = "" if state == _ANY_STATE else f" of {state}"
            since = at_minute(first)
            yield Drift(
                kind="relation",
                name=f"relation {relation}{where}",
                sentence=f"“{relation}” held in all of {plural(held, 'answer')}{where}, and was broken {times(count)} "
                f"since {since:%H:%M} UTC",
                severity=Severity.HIGH,
                since=since,
                count=count,
            )

    def _broken_in(self, table: Table) -> Iterator[tuple[str, str, int, tuple[int, int]]]:
        for key, cell in table.cells.items():
            if key[0] == "relation" and key[3] == "broken":
                _, relation, state, _ = key
                held = self._relations[relation, state, "held"]
                if held >= MIN_ANSWERS and not self._relations[relation, state, "broken"]:
                    yield relation, state, held, cell

    def _is_known(self, key: Key) -> bool:
        # A word that two references have is a shape, and perhaps in the clear on other nights.
        shaped = _shaped(key)
        return key in self._seen or shaped in self._seen or (key == shaped and shaped in self._shapes)

    def _is_restless(self, slot: Key) -> bool:
        return self._new_nights[slot] * _RESTLESS > self.nights


_ANY_STATE = "any state"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _is_told(key: Key) -> bool:
    if key[0] == "failure":
        return key[2] != "none"  # no response: the network on either side
    return key[0] in _TOLD and (key[0] != "deviation" or key[1] == "body")


def _slot(key: Key) -> Key:
    return key[:2] if key[0] in ("field", "word", "text") else key[:1]


def _shaped(key: Key) -> Key:
    begin = {"field": 3, "word": 2, "text": 2, "envelope": 3, "failure": 3, "deviation": 2}.get(key[0], 1)
    return key[:begin] + tuple(map(shape_of, key[begin:]))


def _surprise(expected: float) -> str:
    return f"{expected:.2g} firsts of this kind were to be expected in these answers"
