"""Facts that were never seen before: firsts, and relations that are broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import define, field

from payclient._escape import plural
from payclient.drift._findings import Drift, Severity, at_minute, at_most
from payclient.drift._table import Key, Table
from payclient.drift._words import shape_of

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
    """What the nights up to now have shown."""

    answers: int = 0
    nights: int = 0
    _seen: Counter[Key] = field(factory=Counter[Key])
    _shapes: set[Key] = field(factory=set[Key])
    _once: Counter[Key] = field(factory=Counter[Key])
    _new_nights: Counter[Key] = field(factory=Counter[Key])
    _relations: Counter[Key] = field(factory=Counter[Key])

    def add(self, table: Table) -> None:
        """Take the facts of one more night."""
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
    """Return *count* as people say it."""
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
