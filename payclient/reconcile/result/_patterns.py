"""
Patterns: what many breaks have in common.

Design rules:

- A pattern is a fact about rows, with the rule or option that would treat it. It never names who is to blame.
- A pattern explains at least a twentieth of the breaks, and at least twenty rows.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from attrs import define, field, frozen

from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.rules import Rules
from payclient.reconcile.values import Code, Finding, PatternKind, Row, normalise, states_none

_MAX_TEXT = 60
SETTLED = "settled amount"
"""The amount of a pattern between service and statement."""


Cause: TypeAlias = tuple[Any, ...]
"""A `PatternKind`, and the values that the rows share, in the form of JSON."""


def causes(row: Row) -> Iterator[Cause]:
    """Yield the attributes that the differences of a break may share with others."""
    decisive = [finding for finding in row.findings if finding.is_decisive]
    has_amount = any(each.code in (Code.UNDERPAID, Code.OVERPAID) for each in decisive)
    for finding in decisive:
        # A different net amount repeats the finding of the gross amount.
        if finding.code.pattern is not None and not (finding.code is Code.NET_DIFFERS and has_amount):
            yield from _CAUSES[finding.code.pattern](row, finding)


def _numbers(_: Row, finding: Finding) -> Iterator[Cause]:
    name = SETTLED if finding.code.is_of_statement else finding.code.fields[0]
    ours, theirs = finding.ledger, finding.service
    if isinstance(ours, int) and isinstance(theirs, int):
        yield PatternKind.DIFFERENCE, name, theirs - ours
        if ours and theirs:
            yield PatternKind.FACTOR, name, *Fraction(theirs, ours).as_integer_ratio()


def _fee(row: Row, finding: Finding) -> Iterator[Cause]:
    method = _text(row.transaction and row.transaction.payment_method)
    if finding.code is Code.FEE_OFF_SCHEDULE:
        yield PatternKind.FEE, "schedule", method, finding.leakage
    else:
        ours, theirs = finding.ledger or 0, finding.service or 0
        difference = theirs - ours if isinstance(ours, int) and isinstance(theirs, int) else 0
        yield PatternKind.FEE, "ledger", method, difference


def _status(row: Row, finding: Finding) -> Iterator[Cause]:
    words = (normalise(_text(finding.ledger)), normalise(_text(finding.service)))
    yield PatternKind.STATUS, finding.code, *words, row.ledger_status, row.service_status


def _words(_: Row, finding: Finding) -> Iterator[Cause]:
    yield PatternKind.WORDS, finding.code.fields[0], _text(finding.ledger), _text(finding.service)


_CAUSES: Mapping[PatternKind, Callable[[Row, Finding], Iterator[Cause]]] = {
    PatternKind.FACTOR: _numbers,
    PatternKind.FEE: _fee,
    PatternKind.STATUS: _status,
    PatternKind.WORDS: _words,
}


def _text(value: object) -> str:
    return "" if value is None else str(value)[:_MAX_TEXT]


# Before anything is looked up

_SHORT_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,9}")
_MAX_WORDS = 200


@frozen
class UnknownWord:
    """A word without a meaning: the table of the rules that would give it one, and the rows that have it."""

    table: str
    word: str
    rows: int


@define
class UnknownWords:
    """
    Counts the words of a ledger that would not agree with any of the service, by the rules and earlier runs.

    Args:
        rules: For the meaning of words.
        methods: The payment methods that the service has shown in earlier runs.
    """

    _rules: Rules
    _methods: Iterable[str] = ()
    _counts: Counter[tuple[str, str]] = field(init=False, factory=Counter)

    def add(self, entry: Entry | RejectedEntry) -> None:
        if isinstance(entry, Entry):
            for name, word in (("statuses", entry.status), ("methods", entry.payment_method)):
                if word is None or word is ABSENT:
                    continue
                if (name, word) in self._counts or len(self._counts) < _MAX_WORDS:
                    self._counts[name, word] += 1

    def found(self) -> Iterator[UnknownWord]:
        known = (*self._methods, *self._rules.methods.values(), *self._rules.fees)
        methods = {self._rules.fold(each, "payment_method") for each in known}
        for (name, word), rows in self._counts.items():
            is_unknown = name == "statuses" and not states_none(word) and self._rules.read_status(word) is None
            is_code = _SHORT_CODE.fullmatch(word) or self._rules.fold(word, "payment_method") in methods
            if is_unknown or (name == "methods" and any(map(str.isalpha, word)) and not is_code):
                yield UnknownWord(name, word, rows)


@frozen(kw_only=True)
class Pattern:
    """
    Something that many breaks have in common.

    Attributes:
        kind: The kind of this feature.
        values: What the rows share, in the order of its kind.
        rows: Breaks that have it. A break may be in several patterns.
        amount: The amount at stake in them, as `Row.at_stake` has it; of each payment, the largest.
        lines: The ledger lines of the first few.
    """

    kind: PatternKind
    values: tuple[Any, ...]
    rows: int
    amount: int
    lines: tuple[int, ...] = ()
