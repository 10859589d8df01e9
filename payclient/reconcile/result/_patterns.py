"""
Patterns: what many breaks have in common.

Design rules:

- A pattern is a fact about rows, with the rule or option that would treat it. It never says who is to blame.
- A pattern explains at least a twentieth of the breaks, and at least twenty rows.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from attrs import define, field, frozen

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.rules import Rules
from payclient.reconcile.values import Code, Finding, PatternKind, Row, Status, normalise, states_none

_MAX_TEXT = 60
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SETTLED = "settled amount"
_TENS = frozenset(10**power for power in range(1, 7))


Cause: TypeAlias = tuple[Any, ...]
"""A `PatternKind`, and the values that the rows share, as JSON has them."""


def causes(row: Row) -> Iterator[Cause]:
    """Yield the attributes that the differences of a break may share with others."""
    decisive = [finding for finding in row.findings if finding.is_decisive]
    has_amount = any(each.code in (Code.UNDERPAID, Code.OVERPAID) for each in decisive)
    for finding in decisive:
        # A net amount that differs next to the gross one says the same again.
        if finding.code.pattern is not None and not (finding.code is Code.NET_DIFFERS and has_amount):
            yield from _CAUSES[finding.code.pattern](row, finding)


def _numbers(_: Row, finding: Finding) -> Iterator[Cause]:
    name = _SETTLED if finding.code.is_of_statement else finding.code.fields[0]
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


# In words


def described(cause: Cause) -> tuple[str, str]:
    """Return the shared attribute in words, and the rule or option that would treat it; both safe to print."""
    kind, *values = cause
    words = _DESCRIBED[PatternKind(kind)](*values)
    sentence, treatment = (escape_unprintable(text, max_length=300) for text in words)
    return sentence, treatment


def _factor(name: str, numerator: int, denominator: int) -> tuple[str, str]:
    factor = Fraction(numerator, denominator)
    ours = "the statement's" if name == _SETTLED else "the ledger's"
    big, of_whom, other = (factor, "the service's", ours) if abs(factor) > 1 else (1 / factor, ours, "the service's")
    sentence = f"{of_whom} {name.removeprefix('settled ')} is {_number(big)} times {other}"
    if name == _SETTLED:
        return sentence, "see how the statement is read: payclient ledger STATEMENT; [statement.reading] declares it"
    if big in _TENS:
        return sentence, "export both sides in the same unit, and see how the ledger is read: payclient ledger FILE"
    side = "above" if factor > 1 else "below"
    percent = abs(factor - 1) * 100
    if 0 < percent <= 100 and percent == round(percent, 6):
        return sentence, f"[tolerances.{name}] {side}_percent = {_number(percent)}, if the difference is expected"
    return sentence, "correct the export; no rule allows such a factor"


def _number(value: Fraction) -> str:
    if value == round(value, 6):
        return f"{float(value):,.6f}".rstrip("0").rstrip(".")
    return f"{value.numerator}/{value.denominator}"


def _difference(name: str, difference: int) -> tuple[str, str]:
    side, word = ("above", "more") if difference > 0 else ("below", "less")
    if name == _SETTLED:
        sentence = (
            f"the statement's amount is {abs(difference):,} {'less' if difference > 0 else 'more'} than the service's"
        )
        return sentence, "if its column is what was paid out: --statement-column amount_received=NAME"
    sentence = f"{name} is {abs(difference):,} {word} at the service"
    return sentence, f"[tolerances.{name}] {side} = {abs(difference)}, if the difference is expected"


def _fee_words(of: str, method: str, difference: int) -> tuple[str, str]:
    word, side = ("more", "above") if difference > 0 else ("less", "below")
    what = "the schedule expects" if of == "schedule" else "the ledger has"
    sentence = f"the fee of {quote(method or None)} is {abs(difference):,} {word} than {what}"
    tolerance = f"[tolerances.fee] {side} = {abs(difference)}"
    schedule = f"[fees.{_key(method)}] with the right schedule"
    return sentence, f"{schedule if of == 'schedule' else tolerance}, if that fee is right"


def _status_words(code: str, ours: str, theirs: str, meant: str | None, means: str | None) -> tuple[str, str]:
    sentence = f"status is {quote(ours or None)} in the ledger and {quote(theirs or None)} at the service"
    if code == Code.UNKNOWN_STATUS.value:
        word, meaning, side = (theirs, meant, "service") if meant else (ours, means, "ledger")
        sentence = f"unknown word {quote(word)} of the {side}: {sentence}"
        if not word:
            return sentence, "a status in the export, or --assume-status for a ledger without that column"
        if meaning is not None:
            return sentence, f'to map it: [statuses] {_key(word)} = "{meaning}"'
        return sentence, f'to map it: [statuses] {_key(word)} = "…"'
    if Status.PENDING in (meant, means):
        return sentence, 'grace = "36h", if such rows settle by themselves'
    return sentence, "correct the side that is wrong; both words are known, so no rule maps them"


def _pair_words(name: str, ours: str, theirs: str) -> tuple[str, str]:
    sentence = f"{name} is {quote(ours or None)} in the ledger and {quote(theirs or None)} at the service"
    if name == "payment_method" and ours and theirs:
        return sentence, f"if they are the same: methods.{_key(ours)} = {json.dumps(theirs, ensure_ascii=False)}"
    return sentence, "correct the export; no rule maps such a pair"


def _key(word: str) -> str:
    return word if _BARE_KEY.fullmatch(word) else json.dumps(word, ensure_ascii=False)


_DESCRIBED: Mapping[PatternKind, Callable[..., tuple[str, str]]] = {
    PatternKind.FACTOR: _factor,
    PatternKind.DIFFERENCE: _difference,
    PatternKind.FEE: _fee_words,
    PatternKind.STATUS: _status_words,
    PatternKind.WORDS: _pair_words,
}


# Before anything is looked up

_SHORT_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,9}")
_MAX_WORDS = 200


@define
class UnknownWords:
    """
    Counts the words of a ledger that would not agree with any of the service, as far as rules and earlier runs say.

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

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each of them, with the line of the rules that gives it a meaning; safe to print."""
        known = (*self._methods, *self._rules.methods.values(), *self._rules.fees)
        methods = {self._rules.fold(each, "payment_method") for each in known}
        for (name, word), rows in self._counts.items():
            which = f"{quote(word)} of {plural(rows, 'row')}"
            if name == "statuses" and not states_none(word) and self._rules.read_status(word) is None:
                why, way = "each will be a break", f'if it means paid: statuses.{_key(word)} = "paid"'
                yield escape_unprintable(f"status {which} is not known, so {why}; {way}", max_length=300)
            is_code = _SHORT_CODE.fullmatch(word) or self._rules.fold(word, "payment_method") in methods
            if name == "methods" and any(map(str.isalpha, word)) and not is_code:
                way = f'if the service calls it VA, for example: methods.{_key(word)} = "VA"'
                yield escape_unprintable(f"payment_method {which} is not in the rules; {way}", max_length=300)


@frozen(kw_only=True)
class Pattern:
    """
    Something that many breaks have in common.

    Attributes:
        kind: The kind of this feature.
        sentence: The same in words, with the values; safe to print.
        rows: Breaks that have it. A break may be in several patterns.
        amount: The amount at stake in them, as `Row.at_stake` has it; of each payment, the largest.
        treatment: The rule or option that would treat it; safe to print.
        lines: The ledger lines of the first few.
    """

    kind: PatternKind
    sentence: str
    rows: int
    amount: int
    treatment: str
    lines: tuple[int, ...] = ()
