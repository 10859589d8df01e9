"""
Keep the sums and words of the unused columns, so that a verdict can name what was not looked at.

No word is interpreted here: a list of words catches what it lists. A column of numbers has a sum, and one of a few
different texts, shapes of texts or first words has their counts, whatever its name and language. What has another text
of the same shape in each row, or a time, only tells rows apart, and is not named.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from attrs import define, field, frozen

from payclient._shared.escape import quote
from payclient.reconcile.ledger._cells import BLANK, CellProblem, as_word
from payclient.reconcile.ledger._columns import Columns, is_side, read_only, refuse_unused, sign_of
from payclient.reconcile.ledger._money import MoneyReader
from payclient.reconcile.ledger._suggestion import is_time, may_be_money

_EMPTY, _FILLED = "(empty)", "(filled)"
"""Counted among the words: the cells without one, and those with texts that are not shown."""
_LETTER = re.compile(r"[^\W\d_]")
_MAX_WORDS = 10
_MAX_REPEATED = 50
"""More than ten words are still few if rows share them, such as the dozens of types in an export of payments."""
MAX_COUNTED = 4096
_MIN_SUM = 1000
"""Fewer than eleven different numbers, all below this, are codes and flags, and shown like words."""
_MAX_SHOWN = 5
_LABEL = re.compile(r"\A([^\W\d_]*)\d+([^\W\d_]*)\Z|[^\W_]*\d[^\W_]*")
"""A part with a digit, such as the number of an invoice; if it is the whole, only its digits are."""
_ZEROS = dict.fromkeys(map(ord, "123456789"), "0")
"""Turns texts that differ in their digits alone into one, whose shape is remembered."""
_NAME = re.compile(r"(?=.*\d).{4,}")
"""A text that occurs once names its row, rather than describing it."""
_CODE = re.compile(r"0\d+|\d{13,}")


@frozen
class UnusedColumn:
    """
    A column that is neither used nor ignored by name, and that may say what a row means.

    Attributes:
        name: Name in the header.
        words: Its different texts with the number of rows, the most frequent first; empty for numbers.
        amount: The sum of its numbers, read as amounts are; None for texts, and if not all can be read so.
    """

    name: str
    words: Mapping[str, int] = field(converter=read_only, hash=False)
    amount: int | None = None

    @property
    def may_be_status(self) -> bool:
        """Whether it has a few words; numbers, and texts that differ in a label, do not count."""
        words = self.words.keys() - {_EMPTY, _FILLED}
        return self.amount is None and any(map(_LETTER.search, words)) and not any("#" in word for word in words)

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        name = quote(self.name)[1:-1]
        if self.amount is not None:
            return f"{name} {self.amount:,}"
        shown = [f"{quote(word)[1:-1]} {rows:,}" for word, rows in self.words.items()]
        return f"{name}: {', '.join(shown[:_MAX_SHOWN])}{' …' if shown[_MAX_SHOWN:] else ''}"


@lru_cache(maxsize=MAX_COUNTED)
def _shape(text: str) -> str:
    return _LABEL.sub(r"\1#\2", text)


@define
class Evidence:
    """The cells of one unused column; memory does not grow with the ledger."""

    name: str
    place: int = -1
    counts: dict[Any, int] = field(init=False, factory=dict)
    """Cells that were not looked at yet, each different one once."""
    _filled: int = field(init=False, default=0)
    _times: int = field(init=False, default=0)
    _sum: int | None = field(init=False, default=0)
    _numbers: list[int] = field(init=False, factory=lambda: [0, 0])
    """The greatest number, without its sign, and the last one."""
    _may_be_money: bool = field(init=False, default=True)
    _are_running: bool = field(init=False, default=True)
    _has_objects: bool = field(init=False, default=False)
    _texts: set[str] = field(init=False, factory=set)
    """The cells that are neither numbers nor times."""
    words: dict[str, int] = field(init=False, factory=dict)
    _shapes: tuple[dict[str, int], dict[str, int]] = field(init=False, factory=lambda: ({}, {}))
    """The words with `#` for each label, and what these begin with."""

    def add(self, cell: Any, reader: MoneyReader) -> None:
        if cell.__hash__ is None:  # a list or an object of JSON
            self._has_objects, cell = True, str(cell)
        self.counts[cell] = self.counts.get(cell, 0) + 1
        if len(self.counts) > MAX_COUNTED:
            self.look(reader)

    def look(self, reader: MoneyReader) -> None:
        """Look at the cells that wait, as *reader* reads amounts."""
        for cell, rows in self.counts.items():
            text = "" if cell is None else str(cell).removesuffix(".0").strip(BLANK)
            if text:
                self._filled += rows
                if len(self._texts) <= _MAX_WORDS:
                    self._classify(cell, text, rows, reader)
                if len(self.words) <= _MAX_REPEATED:
                    self.words[text] = self.words.get(text, 0) + rows
                if len(self._shapes[1]) <= _MAX_WORDS:
                    shape = _shape(text.translate(_ZEROS))
                    for found, each in zip(self._shapes, (shape, shape.split(" ", 1)[0]), strict=True):
                        if len(found) <= _MAX_WORDS:
                            found[each] = found.get(each, 0) + rows
        self.counts = {}

    def _classify(self, cell: Any, text: str, rows: int, reader: MoneyReader) -> None:
        if isinstance(cell, date) or is_time(text):
            self._times += rows
            return
        try:
            number = reader.read(text if isinstance(cell, float | str) else cell)
        except CellProblem:
            number = None
        if number is None and not may_be_money(text):
            self._texts.add(text)
            return
        if number is None or self._sum is None:
            self._sum, self._numbers[0], self._are_running = None, _MIN_SUM, False
            return
        greatest, last = self._numbers
        self._may_be_money = self._may_be_money and not _CODE.fullmatch(text)
        self._are_running = self._are_running and rows == 1 and (not greatest or abs(number - last) == 1)
        self._sum, self._numbers = self._sum + number * rows, [max(greatest, abs(number)), number]

    @property
    def has_money(self) -> bool:
        """Whether its numbers may be amounts: codes, flags and running numbers are not."""
        is_counted = self._are_running and self._filled > 2
        are_numbers = len(self._texts) <= _MAX_WORDS and self._filled > self._times and self._may_be_money
        return are_numbers and not is_counted and (len(self.words) > _MAX_WORDS or self._numbers[0] >= _MIN_SUM)

    def found(self, rows: int) -> UnusedColumn | None:
        """Return what its cells may say about *rows*; None if they say nothing."""
        if not self._filled:
            return None
        empty = {_EMPTY: rows - self._filled} if rows > self._filled else {}
        if self.has_money and self._times < self._filled:
            return UnusedColumn(self.name, {} if self._sum is not None else self.words, self._sum)
        rest = {_FILLED: self._filled} if empty or self._has_objects else {}
        words = {**(self._few or rest), **empty}
        return UnusedColumn(self.name, dict(sorted(words.items(), key=lambda word: -word[1]))) if words else None

    @property
    def _few(self) -> Mapping[str, int]:
        """The texts of its cells, or the few ways in which they are written or begin; empty if there are many."""
        if self._times == self._filled:
            return {}
        are_labels = all(rows == 1 and _NAME.fullmatch(word) for word, rows in self.words.items())
        is_few = len(self.words) <= max(_MAX_WORDS, min(_MAX_REPEATED, self._filled // 2))
        if is_few and (not are_labels or self._has_objects):
            return self.words
        few: list[dict[str, int]] = [found for found in self._shapes if 1 < len(found) <= _MAX_WORDS]
        return few[0] if few else {}


def check_values(columns: Columns, unused: Sequence[Evidence], sample: Sequence[Sequence[Any]]) -> None:
    """Check that no unused column has the amounts, or their sign, without which nothing can be compared."""
    # The first rows, *sample*, are read by a suggestion before it is made.
    if "amount" not in columns.used and (money := [each for each in unused if each.has_money]):
        sides = {sign: each for each in money for sign in (1, -1) if is_side(each.name, sign)}
        use = ""
        if len(sides) == 2 and all(_is_filled(row, sides[1]) is not _is_filled(row, sides[-1]) for row in sample):
            credit, debit = (as_word(sides[sign].name) for sign in (1, -1))
            use = f"them with --column amount={credit} --debit-column amount={debit}"
        money = [*sides.values()] if use else sorted(money, key=lambda each: len(each.words) < 2)  # a constant is last
        refuse_unused([each.name for each in money], "holds what looks like money and is not used", "amount", use=use)
    few = [each for each in unused if len(each.words) <= _MAX_WORDS]
    directions = [each.name for each in few if {*map(sign_of, each.words)} == {1, -1}]
    if {"direction", "kind"}.isdisjoint(columns.used) and directions:
        refuse_unused(directions, "says credit and debit and is not used", "direction")


def _is_filled(row: Sequence[Any], column: Evidence) -> bool:
    return re.search("[1-9]", str(row[column.place])) is not None
