"""Refuse a ledger with an unused column that may hold money or decide a row, or without a required column."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from unicodedata import category

from attrs import define, field, frozen

from payclient._shared.escape import quote
from payclient.reconcile.ledger._cells import BLANK, CellProblem, LedgerError, as_option, as_word
from payclient.reconcile.ledger._columns import (
    MAX_WORDS,
    ONLY_TOGETHER,
    SIDES,
    Columns,
    column_names,
    field_of,
    listed,
    normalise_name,
    opposites,
    sign_of,
    word_list,
)
from payclient.reconcile.ledger._dialect import Dialect
from payclient.reconcile.ledger._entry import COMPARED
from payclient.reconcile.ledger._money import MoneyReader
from payclient.reconcile.ledger._suggestion import candidates

_MAX_CELLS = 1000
_MAX_SHAPES = 5000
_MAX_WORDS = 50
_MAX_LENGTH = 40
_MAX_SYMBOL = 4
_ANY = Dialect(minor_units=4)
_FILLED = re.compile("[1-9]")
_LETTERS = re.compile(r"[^\d\s.,'\u2019()+\u2212\u2013\u2014-]+")
_DECORATION = re.compile(
    r"^=?\"|\"$|^=(?=[0-9])|^\*+|\*+$|\s*\((?:cr|dr|db|c|d|h|s|k)\)$",
    re.IGNORECASE,
)
"""Marks that programs put around an amount, and that cannot be declared."""
_LETTER = re.compile(r"^[cdhsk](?=[-+]?[0-9])", re.IGNORECASE)
_DIGITS = re.compile("[0-9]+")
_CODE = re.compile(r"0\d+|\d{13,}")
_YEARS = range(1900, 2101)
_CURRENCIES = frozenset(word_list("money", "currencies"))
_DASHES = frozenset({"-", "\u2013", "\u2212"})
_NEGATIONS = frozenset(word_list("booking", "negations"))
_BOOKED = frozenset(word_list("booking", "booked"))
_FLAG_ENDS = frozenset(word_list("flags", "ends"))
_NO_SIGN_OF_FLAG = frozenset({"in", "out"})  # opt_in, sold_out
_FLAGS: Mapping[str, bool] = MappingProxyType(
    {**dict.fromkeys(word_list("flags", "yes"), True), **dict.fromkeys(word_list("flags", "no"), False)}
)


@frozen
class Decision:
    """What the words of a column may decide, and the use that says it: one of *fields* says the same already."""

    name: str
    fields: frozenset[str]
    use: str


_SIGN = Decision("the sign of amounts", frozenset({"direction"}), "choose it with --column direction={name}")
_KIND = Decision(
    "what a line is",
    frozenset({"kind"}),
    "give its words a meaning in the table [lines.kind] of the rules file",
)
_STATE = Decision(
    "whether a line is booked",
    frozenset({"kind", "status"}),
    "choose it with --column status={name}, list its words in [lines.kind] of the rules file",
)
_MEANINGS: Mapping[str, Decision] = MappingProxyType(
    {**dict.fromkeys(word_list("kinds"), _KIND), **dict.fromkeys(word_list("states"), _STATE)},
)


@define
class Evidence:
    """The cells of one unused column; memory does not grow with the ledger."""

    # `looks_for_money`: in every cell, and not only for words. `seen`: texts that need not be added again.

    name: str
    place: int
    looks_for_money: bool
    has_formatted: bool = field(init=False, default=False)
    """Whether a cell can be read as an amount, and not as a mere number."""
    seen: set[str] = field(init=False, factory=set)
    _has_empty: bool = field(init=False, default=False)
    _has_lettered: bool = field(init=False, default=False)
    """Whether a cell is such an amount behind one letter, which is as often a code."""
    _words: dict[str, str] | None = field(init=False, factory=dict)
    _numbers: list[int] = field(init=False, factory=lambda: [0, 0])
    """The greatest whole number, and the last one."""
    _is_running: bool = field(init=False, default=True)
    _are_years: bool = field(init=False, default=True)
    _has_code: bool = field(init=False, default=False)
    _is_single: bool = field(init=False, default=True)

    @property
    def is_done(self) -> bool:
        return self._words is None and (self.has_formatted or not self.looks_for_money)

    def add(self, cell: Any) -> None:
        text = "" if cell is None else str(cell).removesuffix(".0")
        if text in self.seen:
            return
        if len(self.seen) < _MAX_CELLS and len(text) <= _MAX_LENGTH:
            self.seen.add(text)
        text = text.strip(BLANK)
        if not text:
            self._has_empty = True
            return
        self._add_word(text)
        if self.looks_for_money and len(text) <= _MAX_LENGTH and _FILLED.search(text):
            self._add_number(text)

    def _add_word(self, text: str) -> None:
        if self._words is not None:
            has_letters = any(map(str.isalpha, text))
            self._words.setdefault(normalise_name(text) if has_letters else text, text)
            if len(self._words) > _MAX_WORDS or len(text) > _MAX_LENGTH:
                self._words = None

    def _add_number(self, text: str) -> None:
        if not text.isdecimal():
            text = _DIGITS.sub(_as_long, text)
            self.has_formatted = self.has_formatted or may_be_money(text)
            self._has_lettered = self._has_lettered or may_be_money(_LETTER.sub("", text))
        elif _CODE.fullmatch(text):
            self._has_code = True
        else:
            number, (greatest, last) = int(text), self._numbers
            self._is_running = self._is_running and (not greatest or abs(number - last) == 1)
            self._is_single = self._is_single and not greatest
            self._are_years = self._are_years and number in _YEARS
            self._numbers = [max(greatest, number), number]

    @property
    def is_constant(self) -> bool:
        """Whether every cell that was seen has the same text, as a code of the company has."""
        return len(self.seen) - self._has_empty < 2

    @property
    def has_amounts(self) -> bool:
        """Whether the column may hold amounts, whatever its name: codes, years and running numbers are none."""
        are_counts = (self._is_running and not self._is_single) or self._are_years
        return self.has_formatted or (self._numbers[0] >= 1000 and not self._has_code and not are_counts)

    @property
    def has_numbers(self) -> bool:
        """Whether a column with a name like money may hold amounts: codes and flags are none."""
        return self.has_formatted or self._has_lettered or (self._numbers[0] > 1 and not self._has_code)

    @property
    def are_directions(self) -> bool:
        """Whether every text says credit or debit, so that a column of directions reads it."""
        return None not in {sign_of(text) for text in (self._words or {}).values()}

    @property
    def are_unknown(self) -> bool:
        """Whether a column of directions could not read both sides of its only two texts."""
        return bool(self._opposites()) and not self.are_directions

    def decisive(self) -> Iterator[tuple[Decision, str]]:
        """Yield the decisions that its words may make, each with the first such word."""
        words = self._words or {}
        debits = [text for word, text in words.items() if sign_of(text) == -1 or -1 in _sides(word)]
        has_credits = any(sign_of(text) == 1 or 1 in _sides(word) for word, text in words.items())
        are_plain = self.are_directions and words.keys() - _MEANINGS.keys() - ONLY_TOGETHER - _DASHES
        are_dashes = bool(words) and words.keys() <= _DASHES and self._has_empty
        if debits and (has_credits or are_plain or are_dashes):
            yield _SIGN, debits[0]
        elif pair := self._opposites():
            yield _SIGN, pair
        if words and _FLAGS.keys() >= words.keys():
            yield from self._flagged(words)
        for word, text in words.items():
            for what in _meanings(word):
                yield what, text

    def _opposites(self) -> str:
        """Return the debit if there are just two texts, which may be credit and debit; otherwise an empty text."""
        words = {word: text for word, text in (self._words or {}).items() if word not in _DASHES}
        pair = opposites(words) if len(words) == 2 else None
        return words[pair[1]] if pair else ""

    def _flagged(self, words: Mapping[str, str]) -> Iterator[tuple[Decision, str]]:
        parts = normalise_name(self.name).split("_")
        for name in reversed(parts) if parts[-1] in _FLAG_ENDS else parts[-1:]:
            what, is_usual = (_STATE, True) if name in _BOOKED else (_MEANINGS.get(name), False)
            if what is None and len(name) > 1 and name in SIDES.keys() - ONLY_TOGETHER - _NO_SIGN_OF_FLAG:
                what, is_usual = _SIGN, SIDES[name] > 0
            unusual = next((text for word, text in words.items() if _FLAGS[word] is not is_usual), None)
            if what is not None and unusual is not None:
                yield what, unusual
                return


def _parts(word: str) -> list[str]:
    """Return the parts of a short text in the form of a name; none if it is a longer text or has digits."""
    parts = word.split("_")
    return parts if len(parts) <= MAX_WORDS and word.replace("_", "").isalpha() else []


def _sides(word: str) -> set[int]:
    """Return the signs that the words in a text of several have; `in` is left out, which is in any sentence."""
    return {SIDES[part] for part in _parts(word) if part in SIDES and len(part) > 1 and part != "in"}


def _meanings(word: str) -> Iterator[Decision]:
    """Yield all that a short text in the form of a name decides; nothing for a longer text."""
    parts = _parts(word)
    if not _NEGATIONS.isdisjoint(parts):
        yield _STATE
    yield from dict.fromkeys(_MEANINGS[part] for part in parts if part in _MEANINGS)
    debits = [part for part in parts if SIDES.get(part, 1) < 0 and part not in ONLY_TOGETHER]
    if any(len(part) > 2 or (part == parts[-1] and len(part) > 1) for part in debits):
        yield _SIGN


def _as_long(digits: re.Match[str]) -> str:
    """Return as many digits with as many zeros at the end, which read alike; so that there are few texts to judge."""
    zeros = len(digits[0]) - len(digits[0].rstrip("0"))
    return "1" * (len(digits[0]) - zeros) + "0" * zeros


@lru_cache(maxsize=_MAX_SHAPES)
def may_be_money(text: str) -> bool:
    """Return whether *text* is an amount in any notation that can be declared; the reader itself is asked."""
    text = _DECORATION.sub("", text)
    return _is_around_money(text) and any(_reads(text, dialect) for dialect in candidates([text], _ANY))


def _is_around_money(text: str) -> bool:
    """Return whether all words and signs in *text* may be beside an amount."""
    marks = (mark.strip(".").casefold() for mark in _LETTERS.findall(_DECORATION.sub("", text)))
    return all(mark in SIDES or _is_currency(mark) for mark in marks if mark)


def _is_currency(mark: str) -> bool:
    return mark in _CURRENCIES or (len(mark) <= _MAX_SYMBOL and any(category(each) == "Sc" for each in mark))


def _reads(text: str, dialect: Dialect) -> bool:
    try:
        return MoneyReader(dialect).read(text) is not None
    except CellProblem:
        return False


_MONEY = frozenset(word_list("money", "names"))
_NOT_MONEY = frozenset(word_list("money", "not_names"))
_FLOWS = frozenset(word_list("money", "flows")).union(word for word in SIDES if len(word) > 3)
"""Words for money that came or went; also for other things, so the cells decide."""
_ENDS = ("betrag", "summe", "amount")


def unused_columns(columns: Columns, ignored: Collection[str] = ()) -> list[Evidence]:
    """Return the evidence, still empty, of each column that is neither used nor *ignored* by name."""
    return [
        Evidence(name, place, looks_for_money="amount" not in columns.used or is_flow_name(name))
        for place, name in enumerate(column_names(columns.header))
        if place not in columns.places.values() and name not in ignored
    ]


def check_use(
    columns: Columns, dialect: Dialect, *, chosen: Collection[str], ignored: Collection[str], required: Collection[str]
) -> tuple[str, ...]:
    """
    Check that no unused column has a name like money or like a field, and that required fields have a column.

    Return the names of the columns that may stay unused: those *ignored*, and those that the dialect or its profile
    knows, also those before which it prefers another one.
    """
    if unknown := next((name for name in required if name not in COMPARED), None):
        message = f"require: there is no field {unknown!r}; the fields are {', '.join(COMPARED)}"
        raise ValueError(message)
    names = column_names(columns.header)
    if not names:
        return ()  # an empty file has nothing to use
    if missing := next((name for name in ignored if name.strip() not in names), None):
        message = f"no column is called {quote(missing)}, which was to be ignored; there are {listed(names)}"
        raise LedgerError(message, line=1)
    if missing := next((name for name in required if name not in columns.used), None):
        message = f"no column was found for {missing}, which is required; there are {listed(names)}; choose one with "
        raise LedgerError(f"{message}--column {missing}=NAME", line=1)
    of_profile = [name for names in dialect.columns.values() for name in names]
    known = {*dialect.ignore_columns, *dialect.debit_columns.values(), *of_profile}
    ignored = tuple(each.strip() for each in ignored) + tuple(name for name in columns.ignored if name in known)
    left = [name for name in columns.ignored if name not in ignored]
    if doubled := [name for name in left if field_of(name) in {*COMPARED} - {*chosen, *dialect.columns}]:
        _refuse(doubled, f"could be {field_of(doubled[0])} as well and is not used", field_of(doubled[0]))
    if money := [name for name in left if is_money_name(name)]:
        _refuse(money, "looks like money and is not used", "amount")
    return ignored


def check_values(columns: Columns, unused: Sequence[Evidence]) -> None:
    """Check that no unused column may hold missing money, or decides the meaning of a row."""
    if flows := [each.name for each in unused if is_flow_name(each.name) and each.has_numbers]:
        _refuse(flows, "holds what looks like money and is not used", "amount", use=_sides_of(flows, columns))
    varied_first = sorted(unused, key=lambda each: each.is_constant)
    if "amount" not in columns.used and (money := [each.name for each in varied_first if each.has_amounts]):
        _refuse(money, "holds what looks like money and is not used", "amount")
    for each in sorted(unused, key=lambda each: not each.are_directions):
        for what, word in each.decisive():
            if what.fields.isdisjoint(columns.used):
                use = what.use.format(name=as_word(each.name))
                if what is _SIGN and each.are_unknown:
                    use = "list its words as charge and refund in the table [lines.kind] of the rules file"
                message = (
                    f"the column {quote(each.name)} has {quote(word)}, which decides {what.name}, and is not used; "
                    f"{use}, or leave it out with {as_option('ignore-column', each.name)}"
                )
                raise LedgerError(message, line=1)


def is_money_name(name: str) -> bool:
    """Return whether a column called *name* probably holds money, and not a time, a code or a count."""
    words = normalise_name(name).split("_")
    has_money = any(word in _MONEY or word.endswith(_ENDS) for word in words)
    return has_money and not _NOT_MONEY.intersection(words)


def is_flow_name(name: str) -> bool:
    """Return whether a column called *name* may hold money that came or went, if its cells are numbers."""
    words = normalise_name(name).split("_")
    return not _FLOWS.isdisjoint(words) and _NOT_MONEY.isdisjoint(words)


def _sides_of(names: Sequence[str], columns: Columns) -> str:
    """Return the options for a column of credits and one of debits; empty if there are not both."""
    signs = {name: {SIDES.get(word) for word in normalise_name(name).split("_")} for name in names}
    debit = next((name for name in names if -1 in signs[name]), None)
    credit = next((name for name in names if 1 in signs[name]), None)
    if debit is None or (credit is None and "amount" not in columns.used):
        return ""
    chosen = "" if credit is None or "amount" in columns.used else f"--column amount={as_word(credit)} "
    return f"{chosen}--debit-column amount={as_word(debit)}"


def _refuse(names: Sequence[str], what: str, field: str | None, *, use: str = "") -> None:
    first = names[0]
    use = use or f"--column {field}={'NAME' if names[1:] else as_word(first)}"
    others = f" (and so {'is' if len(names) == 2 else 'are'} {listed(names[1:])})" if names[1:] else ""
    it = "the right one" if names[1:] and use.endswith("=NAME") else "it"
    message = (
        f"the column {quote(first)} {what}{others}; choose {it} with {use}, "
        f"or leave it out with {as_option('ignore-column', 'NAME' if it != 'it' else first)}"
    )
    raise LedgerError(message, line=1)
