"""
Keep the sums and words of the unused columns, so that a verdict can name them.

No word is interpreted here: a list of words catches what it lists. Arithmetic decides, alike for texts, numbers,
times, booleans and JSON. A few different values that rows share, or one value in most rows next to few others, are
words with their counts. A few shapes or first words of texts are, too. Numbers that are amounts have a sum. Not named
is what has another value in each row. Two lists of names make a column quiet, so that what they lack is named: of row
numbers, and of times that every payment has.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import lru_cache
from heapq import nlargest
from typing import Any

from attrs import field, frozen

from payclient._shared.remedy import Remedy, Way
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import SIDES, CellProblem, Columns, Unreadable, refuse_unused
from payclient.reconcile.ledger._money import MoneyReader
from payclient.reconcile.ledger._suggestion import is_time, may_be_money

_EMPTY, _FILLED, _OTHERS = "(empty)", "(filled)", "(others)"
"""Counted among the words: the cells without one, and those with texts that are not shown."""
_MAX_WORDS = 10
_MAX_KEYS = 1000
_SAMPLE = 10
_MAX_REPEATED = 50
"""More than ten words are still few if rows share them, such as the dozens of types in an export of payments."""
MAX_COUNTED = 4096
_MIN_SUM = 1000
"""Fewer than eleven different numbers, all below this, are codes and flags, and shown like words."""
_LABEL = re.compile(r"\A([^\W\d_]*)\d+([^\W\d_]*)\Z|[^\W_]*\d[^\W_]*")
"""A part with a digit, such as the number of an invoice. If it is the whole, only its digits are."""
_ZEROS = dict.fromkeys(map(ord, "123456789"), "0")
"""Turns texts that differ in their digits alone into one, whose shape is remembered."""
_NAME = re.compile(r"(?=.*\d).{4,}")
"""A text that occurs once names its row, rather than describing it."""
_CODE = re.compile(r"0\d+|\d{13,}")
_YEAR = re.compile(r"(?<!\d)\d{4}(?=\D|\d{4}(?!\d)|$)")
_ERA = 10
"""Years between times, if some of them mean *never*, as 0001, 1900, 1970 and 9999 do."""
_NUMBERING = frozenset(_columns.word_list("quiet", "numbering"))
_TIMES, _TIMES_BESIDE = (frozenset(_columns.word_list("quiet", key)) for key in ("times", "beside"))


@frozen
class UnusedColumn:
    """
    A column that nothing uses, and that may change the meaning of a row.

    Attributes:
        name: Name in the header.
        words: Its different texts with the number of rows, the most frequent first. Empty for numbers.
        amount: The sum of its numbers, read as amounts are. None for texts, and if not all can be read so.
    """

    name: str
    words: Mapping[str, int] = field(converter=_columns.read_only, hash=False)
    amount: int | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Its words that stand in the file."""
        return tuple(word for word in self.words if word not in (_EMPTY, _FILLED, _OTHERS))


@lru_cache(maxsize=MAX_COUNTED)
def _shape(text: str) -> str:
    return _LABEL.sub(r"\1#\2", text)


class Evidence:
    """The cells of one unused column. Memory does not grow with the ledger."""

    def __init__(self, name: str, reader: MoneyReader, place: int = -1) -> None:
        self.name, self._reader, self.place = name, reader, place
        self.counts: dict[Any, int] = {}
        """Cells that were not looked at yet, each different one once."""
        self._filled = self._times = self._greatest = self._last = 0
        self._years = Counter[int]()
        self._sum: int | None = 0
        self._may_be_money = self._are_running = True
        self._has_objects = False
        self._texts = set[str]()
        """The cells that are neither numbers nor times."""
        self.words: dict[str, int] = {}
        """All different texts while they are few. The most frequent ones otherwise."""
        self._shapes = Counter[str](), Counter[str]()
        """The words with `#` for each label, and what these begin with."""

    def add(self, cell: Any) -> None:
        if cell.__hash__ is None:  # a list or an object of JSON
            self._has_objects, cell = True, str(cell)
        self.counts[cell] = self.counts.get(cell, 0) + 1
        if len(self.counts) > MAX_COUNTED:
            self.look()

    def look(self) -> None:
        """Look at the cells that wait."""
        for cell, rows in self.counts.items():
            text = "" if cell is None else cell.reason if isinstance(cell, Unreadable) else str(cell)
            text = text.removesuffix(".0").strip(_columns.BLANK)
            if text:
                self._filled += rows
                if len(self._texts) <= _MAX_WORDS:
                    self._classify(cell, text, rows)
                self.words[text] = self.words.get(text, 0) + rows
                if len(self._shapes[1]) <= _MAX_WORDS:
                    shape = _shape(text.translate(_ZEROS))
                    for found, each in zip(self._shapes, (shape, shape.split(" ", 1)[0]), strict=True):
                        if len(found) <= _MAX_WORDS:
                            found[each] += rows
        self.counts = {}
        if len(self.words) > MAX_COUNTED:  # words that rows share stay
            self.words = dict(nlargest(MAX_COUNTED // 2, self.words.items(), key=_rows_of))

    def _classify(self, cell: Any, text: str, rows: int) -> None:
        if isinstance(cell, date) or is_time(text):
            self._times += rows
            if year := _YEAR.search(text):
                self._years[int(year[0])] += rows
            return
        try:
            number = self._reader.read(text if isinstance(cell, float | str) else cell)
        except CellProblem:
            number = None
        if number is None and not may_be_money(text):
            self._texts.add(text)
            return
        if number is None or self._sum is None:
            self._sum, self._greatest, self._are_running = None, _MIN_SUM, False
            return
        self._may_be_money = self._may_be_money and not _CODE.fullmatch(text)
        self._are_running = self._are_running and rows == 1 and (not self._greatest or abs(number - self._last) == 1)
        self._sum, self._greatest, self._last = self._sum + number * rows, max(self._greatest, abs(number)), number

    def is_in(self, row: Sequence[Any]) -> bool:
        """Return whether *row* has a number in it."""
        return re.search("[1-9]", str(row[self.place])) is not None

    @property
    def has_money(self) -> bool:
        """Whether its numbers may be amounts: codes, flags and row numbers are not."""
        is_counted = self._are_running and self._filled > 2 and not _NUMBERING.isdisjoint(_words_of(self.name))
        are_numbers = len(self._texts) <= _MAX_WORDS and self._filled > self._times and self._may_be_money
        return are_numbers and not is_counted and (len(self.words) > _MAX_WORDS or self._greatest >= _MIN_SUM)

    @property
    def _are_codes(self) -> bool:
        """Whether its numbers are few and rows share them, on average, as they do account numbers. 0 does not count."""
        numbers = {word: rows for word, rows in self.words.items() if re.search("[1-9]", word)}
        is_like_code = len({*map(len, numbers)}) == 1 and len(numbers) <= _MAX_REPEATED
        return (len(numbers) <= _MAX_WORDS or is_like_code) and sum(numbers.values()) >= 2 * len(numbers)

    def found(self, rows: int) -> UnusedColumn | None:
        """Return what its cells may mean for *rows*. None if they are meaningless."""
        if not self._filled:
            return None
        empty = {_EMPTY: rows - self._filled} if rows > self._filled else {}
        if self.has_money and self._times < self._filled and not self._are_codes:
            return UnusedColumn(self.name, {} if self._sum is not None else self.words, self._sum)
        rest = {_FILLED: self._filled} if empty or self._has_objects else {}
        words = {**(self._few or rest), **empty}
        return UnusedColumn(self.name, dict(sorted(words.items(), key=_rows_of, reverse=True))) if words else None

    @property
    def _few(self) -> Mapping[str, int]:
        """The texts of its cells, or the few ways they are written or begin. Empty if there are many."""
        are_times = self._times == self._filled
        eras = self._eras if are_times else {}
        if are_times and len(eras) < 2 and _words_of(self.name) - _TIMES_BESIDE <= _TIMES:
            return {}
        are_labels = not self._has_objects and all(n == 1 and _NAME.fullmatch(word) for word, n in self.words.items())
        most_frequent = nlargest(2, self.words.items(), key=_rows_of)
        (word, most), (_, second) = [*most_frequent, ("", 0)][:2]
        is_alone = most >= _MAX_WORDS * max(second, 1)  # next to texts that are hardly shared
        is_shared = len(self.words) <= min(_MAX_REPEATED, self._filled // 2) and not is_alone
        if not are_labels and (len(self.words) <= _MAX_WORDS or is_shared):
            return self.words
        if is_alone or 2 * most > self._filled > most:
            return {word: most, _OTHERS: self._filled - most}
        few: Sequence[Mapping[str, int]] = [eras] if are_times else self._shapes
        return next((found for found in few if 1 < len(found) <= _MAX_WORDS), dict[str, int]())

    @property
    def _eras(self) -> dict[str, int]:
        """The rows by the years of their times, parted where many years are between two."""
        eras: list[list[int]] = []
        for year in sorted(self._years):
            if not eras or year - eras[-1][1] >= _ERA:
                eras.append([year, year, 0])
            eras[-1][1:] = [year, eras[-1][2] + self._years[year]]
        return {f"{first:04}" if first == last else f"{first:04}-{last:04}": rows for first, last, rows in eras}


def _rows_of(word: tuple[str, int]) -> int:
    return word[1]


def _words_of(name: str) -> set[str]:
    return {*_columns.normalise_name(name).split("_")} if name[:1] != "#" else {"no"}


class Unused:
    """The columns of a ledger that nothing uses, with the possible meanings of their cells."""

    def __init__(self, columns: Columns, used: Collection[int], reader: MoneyReader) -> None:
        self._used, self._reader = columns.used, reader
        names = enumerate(_columns.column_names(columns.header))
        self._columns = [Evidence(name, reader, place) for place, name in names if place not in used]
        self._sample: list[Sequence[Any]] = []
        """The first rows. A suggestion must be able to read them."""
        self._rows = 0
        self.ignored: Collection[str] = ()

    def observe(self, cells: Sequence[Any]) -> None:
        self._rows += 1
        if self._rows <= _SAMPLE:
            self._sample.append(cells)
        for column in self._columns:
            cell = cells[column.place] if column.place >= 0 else None
            if type(cell) is str:  # nearly every cell, so without a call
                counts = column.counts
                counts[cell] = counts.get(cell, 0) + 1
                if len(counts) > MAX_COUNTED:
                    column.look()
            elif column.place >= 0:
                column.add(cell)

    def add_key(self, name: str, cell: Any) -> None:
        """Add a cell under a name that the header does not have."""
        known = next((each for each in self._columns if each.name == name), None)
        if known is None and len(self._columns) < _MAX_KEYS:
            self._columns.append(known := Evidence(name, self._reader))
        if known is not None:
            known.add(cell)

    def found(self, *, are_ignored: bool) -> tuple[UnusedColumn, ...]:
        """Return what the columns, ignored by name or not, may mean for the rows. Complete at the end."""
        columns = (each for each in self._columns if (each.name in self.ignored) is are_ignored)
        return tuple(found for each in columns if (found := each.found(self._rows)) is not None)

    def check(self) -> None:
        """Check that no column has the amounts, or their sign, without which nothing can be compared."""
        for each in self._columns:
            each.look()
        unused = [each for each in self._columns if each.name not in self.ignored]
        if "amount" not in self._used and (money := [each for each in unused if each.has_money]):
            sides = {SIDES[word]: each for each in money for word in _words_of(each.name) & SIDES.keys()}
            use: list[Remedy] = []
            if len(sides) == 2 and all(sides[1].is_in(row) is not sides[-1].is_in(row) for row in self._sample):
                for came, whose in ((1, "a bank has them"), (-1, "your own books have them")):
                    both = Way("column", sides[came].name, "amount"), Way("debit_columns", sides[-came].name, "amount")
                    use.append(Remedy(both, f"reads both as {whose}"))
            money = [*sides.values()] if use else sorted(money, key=lambda each: len(each.words) < 2)  # constants last
            refuse_unused([each.name for each in money], "looks like money and is not used", "amount", use)
        few = [each for each in unused if len(each.words) <= _MAX_WORDS]
        directions = [each.name for each in few if {*map(_columns.sign_of, each.words)} == {1, -1}]
        if {"direction", "kind"}.isdisjoint(self._used) and directions:
            refuse_unused(directions, "has words for credit and debit and is not used", "direction")
