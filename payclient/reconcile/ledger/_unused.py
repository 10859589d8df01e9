"""
Keep the sums and words of the unused columns, so that a verdict can name what was not looked at.

No word is interpreted here: a list of words catches what it lists. A column of numbers has a sum, and one of a few
different texts has their counts, whatever its name and language. Neither says anything if each row has another text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from attrs import define, field, frozen

from payclient._shared.escape import quote
from payclient.reconcile.ledger._cells import BLANK, CellProblem, as_word
from payclient.reconcile.ledger._columns import Columns, is_side, refuse_unused, sign_of
from payclient.reconcile.ledger._money import MoneyReader
from payclient.reconcile.ledger._suggestion import is_time, may_be_money

_MAX_WORDS = 10
_MAX_COUNTED = 4096
_MIN_SUM = 1000
"""Fewer than eleven numbers that are all below are codes and flags, and shown as words are."""
_MAX_SHOWN = 5
_LABEL = re.compile(r"[^\W_]*[0-9][^\W_]*")
_NAME = re.compile(r"(?=.*\d).{4,}")
"""A text that is there once, and rather names its row than says what it is."""
_CODE = re.compile(r"0\d+|\d{13,}")


def _read_only(words: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(words))


@frozen
class UnusedColumn:
    """
    A column that is neither used nor ignored by name, and that may say what a row means.

    Attributes:
        name: In the header.
        words: Its different texts with the number of rows, the most frequent first; empty for numbers.
        amount: The sum of its numbers, read as amounts are; None for texts, and if not all can be read so.
    """

    name: str
    words: Mapping[str, int] = field(converter=_read_only, hash=False)
    amount: int | None = None

    @property
    def sentence(self) -> str:
        """For people; safe to print."""
        name = quote(self.name)[1:-1]
        if self.amount is not None:
            return f"{name} {self.amount:,}"
        shown = ", ".join(f"{quote(word)[1:-1]} {rows:,}" for word, rows in list(self.words.items())[:_MAX_SHOWN])
        return f"{name}: {shown}{' …' if self.words and len(self.words) > _MAX_SHOWN else ''}"


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
    words: dict[str, int] = field(init=False, factory=dict)
    _texts: set[str] = field(init=False, factory=set)
    """Those that are neither numbers nor times."""
    _shapes: dict[str, int] = field(init=False, factory=dict)
    """The words with `#` for each part that has a digit, such as the number of an invoice."""

    def add(self, cell: Any, reader: MoneyReader) -> None:
        key = str(cell) if cell.__hash__ is None else cell  # a list or an object of JSON
        self.counts[key] = self.counts.get(key, 0) + 1
        if len(self.counts) > _MAX_COUNTED:
            self.look(reader)

    def look(self, reader: MoneyReader) -> None:
        """Look at the cells that wait, as *reader* reads amounts."""
        for cell, rows in self.counts.items():
            text = "" if cell is None else str(cell).removesuffix(".0").strip(BLANK)
            if text:
                self._filled += rows
                if len(self._texts) <= _MAX_WORDS:
                    self._classify(cell, text, rows, reader)
                if len(self.words) <= _MAX_WORDS:
                    self.words[text] = self.words.get(text, 0) + rows
                if len(self._shapes) <= _MAX_WORDS:
                    shape = _LABEL.sub("#", text)
                    self._shapes[shape] = self._shapes.get(shape, 0) + rows
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

    @property
    def are_directions(self) -> bool:
        """Whether its words say credit and debit, so that a column of directions reads it."""
        return len(self.words) <= _MAX_WORDS and {sign_of(word) for word in self.words} == {1, -1}

    def found(self, rows: int) -> UnusedColumn | None:
        """Return what its cells may say about *rows*; None if they say nothing."""
        empty = {"(empty)": rows - self._filled} if rows > self._filled else {}
        if not self._filled or (self._times == self._filled and not empty):
            return None
        if self.has_money and self._times < self._filled:
            return UnusedColumn(self.name, {} if self._sum is not None else self.words, self._sum)
        words: Mapping[str, int]
        are_labels = all(count == 1 and _NAME.fullmatch(word) for word, count in self.words.items())
        if len(self.words) <= _MAX_WORDS and not are_labels and self._times < self._filled:
            words = self.words
        elif 1 < len(self._shapes) <= _MAX_WORDS and self._times < self._filled:
            words = self._shapes
        else:
            words = {"(filled)": self._filled} if empty else {}
        return (
            UnusedColumn(self.name, dict(sorted({**words, **empty}.items(), key=lambda word: -word[1])))
            if words
            else None
        )


def check_values(columns: Columns, unused: Sequence[Evidence], sample: Sequence[Sequence[Any]]) -> None:
    """Check that no unused column has what nothing can be compared without: the amounts, or their sign."""
    # The first rows, *sample*, are read by a suggestion before it is made.
    if "amount" not in columns.used and (money := [each for each in unused if each.has_money]):
        sides = {sign: each for each in money for sign in (1, -1) if is_side(each.name, sign)}
        use = ""
        if len(sides) == 2 and all(_is_filled(row, sides[1]) is not _is_filled(row, sides[-1]) for row in sample):
            credit, debit = (as_word(sides[sign].name) for sign in (1, -1))
            use = f"them with --column amount={credit} --debit-column amount={debit}"
        money = (
            list(sides.values()) if use else sorted(money, key=lambda each: len(each.words) < 2)
        )  # a constant is last
        refuse_unused([each.name for each in money], "holds what looks like money and is not used", "amount", use=use)
    directions = [each.name for each in unused if each.are_directions]
    if {"direction", "kind"}.isdisjoint(columns.used) and directions:
        refuse_unused(directions, "says credit and debit and is not used", "direction")


def _is_filled(row: Sequence[Any], column: Evidence) -> bool:
    return re.search("[1-9]", str(row[column.place])) is not None
