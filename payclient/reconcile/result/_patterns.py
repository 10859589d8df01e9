"""
Patterns: what many breaks have in common.

Design rules:

- A pattern is a fact about rows, with the rule or option that would treat it. It never says who is to blame.
- Only what explains at least a twentieth of the breaks, and at least twenty rows, is a pattern.
- What is common in the whole ledger is no pattern of its breaks: a time or a prefix must be far more common among the
  breaks.
- Memory is bounded: a limited number of values is counted, and rare ones are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import asdict, define, field, frozen

from payclient._escape import plural
from payclient.reconcile.result._causes import Cause, are_alike, causes, described, places
from payclient.reconcile.values import Bucket, PatternKind, Row

_MIN_ROWS = 20
_MIN_SHARE = 20
"""The part of the breaks that a pattern explains at least, as one divided by this."""
_MIN_LIFT = 3
_MAX_KEPT = 4096
_MAX_SHOWN = 20
_MAX_LINES = 3


@frozen(kw_only=True)
class Pattern:
    """
    Something that many breaks have in common.

    Attributes:
        kind: What that is.
        sentence: The same in words, with the values; safe to print.
        rows: Breaks that have it. A break may be in several patterns.
        is_exact: Whether these are all; where too many different values were counted, there may be more.
        amount: The amount at stake in them, as `Row.at_stake` has it; of a reference that is listed twice, once.
        treatment: The rule or option that would treat it; safe to print.
        lines: The ledger lines of the first few.
    """

    kind: PatternKind
    sentence: str
    rows: int
    is_exact: bool = True
    amount: int
    treatment: str
    lines: tuple[int, ...] = ()

    @property
    def counted(self) -> str:
        """The number of rows in words."""
        return f"{'' if self.is_exact else 'at least '}{plural(self.rows, 'row')}"


@define
class _Count:
    """The rows of one value."""

    is_exact: bool = True
    rows: int = 0
    amount: int = 0
    lines: tuple[int, ...] = ()

    def add(self, row: Row, amount: int) -> None:
        """Count *row*, with the amount at stake in it."""
        self.rows += 1
        self.amount += amount
        if len(self.lines) < _MAX_LINES:
            self.lines = (*self.lines, row.line)

    def pattern(self, cause: Cause) -> Pattern:
        """Return the pattern of *cause*."""
        sentence, treatment = described(cause)
        return Pattern(kind=cause[0], sentence=sentence, treatment=treatment, **asdict(self))


@define
class _Counts:
    """Counts the rows of each value; of too many values, the rare ones are forgotten."""

    by_cause: dict[Cause, _Count] = field(init=False, factory=dict)
    _is_exact: bool = field(init=False, default=True)

    def of(self, cause: Cause) -> _Count:
        """Return the count of *cause*, for a row to be added."""
        found = self.by_cause.get(cause)
        if found is None:
            if len(self.by_cause) >= _MAX_KEPT:
                self._forget()
            found = self.by_cause[cause] = _Count(self._is_exact)
        return found

    def _forget(self) -> None:
        self._is_exact = False
        middle = sorted(count.rows for count in self.by_cause.values())[_MAX_KEPT // 2]
        self.by_cause = {cause: count for cause, count in self.by_cause.items() if count.rows > middle}


@define
class Patterns:
    """Finds the patterns, row by row in the order of the ledger."""

    _rows: int = field(init=False, default=0)
    _breaks: int = field(init=False, default=0)
    _causes: _Counts = field(init=False, factory=_Counts)
    _places: _Counts = field(init=False, factory=_Counts)
    _places_of_breaks: _Counts = field(init=False, factory=_Counts)

    def add(self, row: Row) -> None:
        """Take the next row."""
        self._rows += 1
        stands = tuple(places(row))
        for place in stands:
            self._places.of(place).rows += 1
        if row.bucket is not Bucket.BREAK:
            return
        self._breaks += 1
        first = row.primary
        is_counted = first is not None and first.code.is_of_ledger and first.code in row.counted_before
        amount = 0 if is_counted else row.at_stake
        for place in stands:
            self._places_of_breaks.of(place).add(row, amount)
        for cause in dict.fromkeys(causes(row)):
            self._causes.of(cause).add(row, amount)

    def patterns(self) -> tuple[Pattern, ...]:
        """Return the patterns, those of the most rows first."""
        shared = (*self._causes.by_cause.items(), *self._found_places())
        found = [count.pattern(cause) for cause, count in shared if self._is_enough(count)]
        order = list(PatternKind)
        found.sort(key=lambda each: (-each.rows, order.index(each.kind), each.sentence))
        return tuple(found[:_MAX_SHOWN])

    def _is_enough(self, count: _Count) -> bool:
        return count.rows >= _MIN_ROWS and count.rows * _MIN_SHARE >= self._breaks

    def _found_places(self) -> Iterator[tuple[Cause, _Count]]:
        """Yield the places that are far more common among the breaks than in the ledger; of nested ones, one."""
        found: list[tuple[Cause, _Count]] = []
        for cause, count in self._places_of_breaks.by_cause.items():
            of_all = self._places.by_cause.get(cause)
            if of_all is None or not of_all.is_exact or not self._is_enough(count):
                continue
            if count.rows * self._rows >= _MIN_LIFT * of_all.rows * self._breaks:
                found.append((cause, count))
        found.sort(key=lambda each: (-each[1].rows, -len(each[0][1]), each[0][1]))
        for place, (cause, count) in enumerate(found):
            if not any(are_alike(cause, earlier) for earlier, _ in found[:place]):
                yield cause, count
