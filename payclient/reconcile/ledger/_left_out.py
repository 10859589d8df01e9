"""
What of a ledger is left out: rows of another currency, of totals or declared to be outside, and columns not in use.

Rows outside are neither looked up nor part of any total. They are counted, with their lines and amounts.

A totals row is not a transaction: the service would not find it, and the ledger's total would count every amount
twice. It is recognised by a word such as `TOTAL` in its reference, by such a word in another cell if its reference is
empty, or by an amount that is the sum of the rows above if only its reference is without a digit; or by the number of
rows of a group behind its heading, as in `BCA (3)`, whose rows must then add up to its amount.

The sums and words of the unused columns are kept, so that a verdict can name them. No word is interpreted: a list of
words catches what it lists. Arithmetic decides, alike for texts, numbers, times, booleans and JSON. A few different
values that rows share, or one value in most rows next to few others, are words with their counts. A few shapes or first
words of texts are, too. Numbers that are amounts have a sum. Not named is what has another value in each row, unless
these are times. Two lists of names make a column quiet, so that what they lack is named: of row numbers, and of times
that every payment has.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from typing import Any

from attrs import define, field, frozen

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Side, Way
from payclient.reconcile._fields import KINDS
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import SIDES, WORDS, CellProblem, Columns, LedgerError
from payclient.reconcile.ledger._notation import PLAIN, Dialect, MoneyReader, is_time, may_be_money

TOTALS_WORDS, _BESIDE = (frozenset(WORDS["totals"][key]) for key in ("words", "beside"))
"""One of the first must be there, in any case, and others of both."""
HAS_DIGIT = re.compile(r"\d").search
_CURRENCY = re.compile(r"(?<![^\W_])[A-Z]{3}(?![^\W_])")
"""The code of a currency in the name of a column."""
_COUNT = re.compile(r"\(\s*\d[\d.,]*\s*\w*\s*\)")
_WORD = re.compile(r"[^\W\d_]+")
_GROUP = re.compile(r".*\S \(([1-9]\d{0,6})\)").fullmatch
"""The heading of a group with the number of its rows, from an accounting program."""
_MIN_ROWS = 2
"""Minimum number of rows of a sum. With one row, a repeated amount would look like its sum."""


def is_totals_text(text: str) -> bool:
    """Return whether *text* is the label of a total, such as `Grand Total:` or `Jumlah (12 baris)`."""
    if HAS_DIGIT(text) and HAS_DIGIT(text := _COUNT.sub("", text)):
        return False  # the usual case: a reference
    words = _WORD.findall(text.casefold())
    return not TOTALS_WORDS.isdisjoint(words) and all(word in TOTALS_WORDS or word in _BESIDE for word in words)


_MAX_RANGES = 200
_MAX_KINDS = 50
_TOTALS = "of totals"


@frozen(kw_only=True)
class Excluded:
    """
    Rows that are outside for one reason.

    Attributes:
        why: The reason, such as `in USD`.
        rows: The number of them.
        amount: Their amounts, added up, as far as they can be read.
        lines: Their lines, such as `4, 7-9`. Ends with `…` if there are too many to list.
    """

    why: str
    rows: int
    amount: int
    lines: str

    def __str__(self) -> str:
        line = "line" if self.lines.isdecimal() else "lines"
        return f"skipped {plural(self.rows, 'row')} {self.why}: {line} {self.lines}; amount {self.amount:,}"


@frozen
class UnreadSheet:
    """A sheet of a workbook with its filled rows, without a header, if no sheet was chosen by name."""

    name: str
    rows: int


@define
class _Outside:
    rows: int = 0
    amount: int = 0
    ranges: list[list[int]] = field(factory=list)

    def add(self, line: int, amount: object) -> None:
        self.rows += 1
        self.amount += amount if isinstance(amount, int) else 0
        if self.ranges and self.ranges[-1][1] == line - 1:
            self.ranges[-1][1] = line
        elif len(self.ranges) <= _MAX_RANGES:  # one more than is shown
            self.ranges.append([line, line])

    @property
    def lines(self) -> str:
        shown = [str(first) if first == last else f"{first}-{last}" for first, last in self.ranges[:_MAX_RANGES]]
        return ", ".join(shown) + (" …" if self.ranges[_MAX_RANGES:] else "")


class Scope:
    """Decides about each row whether it is a payment to look up, and counts those outside."""

    # A row of a statement needs no amount if it has the amount received.

    def __init__(self, dialect: Dialect = PLAIN, *, is_statement: bool = False) -> None:
        self.dialect: Dialect = dialect
        self.is_statement: bool = is_statement
        self.side: Side = "statement" if is_statement else "ledger"
        self.totals_amount: int = 0
        self.is_whole: bool = True
        """Whether each row so far is used with its amount. Otherwise a control total cannot be checked."""
        self._wanted = dialect.only_currency.casefold()
        self._currency = "", 0
        self._outside: dict[str, _Outside] = {}
        self._rows, self._total = 0, 0
        self._before: tuple[int, int] = 0, 0
        """The rows and their sum at the last totals row."""
        self._are_numbered = True
        """Whether each reference has a digit, so that a word in its place is something else."""
        self._groups: dict[int, list[tuple[str, int]]] = {}
        """The headings of groups, with the sum of the whole ledger at their end, by the number of rows there."""

    def check_columns(self, used: Mapping[str, str]) -> None:
        if self._wanted and used and "currency" not in used:
            message = "only the rows of one currency are to be read, and no column is called currency: choose one"
            raise LedgerError(message, line=1, refused=Way("only_currency", self.dialect.only_currency))
        money = [name for of, name in used.items() if KINDS[of] == "money"]
        named = {code: name for name in money for code in _CURRENCY.findall(name) if _columns.is_currency(code)}
        if len(named) > 1:
            message = (
                f"the columns {_columns.listed([*named.values()])} have different currencies, which cannot be added"
            )
            raise LedgerError(message, line=1, remedies=[_columns.IGNORING])
        self._currency = next(iter(named), "").casefold(), 1

    def totals_problem(self, reference: str | None, amount: int | None, cells: Sequence[Any]) -> CellProblem | None:
        """Return why a row is a totals row, with a remedy if it may be left out. Otherwise count it and return None."""
        is_numbered = reference is not None and HAS_DIGIT(reference) is not None
        is_named = is_numbered or (reference is not None and any(map(str.isalnum, reference)))
        texts = [reference] if reference is not None and is_named else [cell for cell in cells if isinstance(cell, str)]
        label = None if is_numbered and "(" not in texts[0] else next(filter(is_totals_text, texts), None)
        rows, total, (rows_before, total_before) = self._rows, self._total, self._before
        total_since = total - total_before
        is_sum = (rows >= _MIN_ROWS and amount == total) or (rows >= rows_before + _MIN_ROWS and amount == total_since)
        is_sum = bool(amount) and is_sum and (not is_named or (self._are_numbered and not is_numbered))
        group = _GROUP(texts[0]) if label is None and is_named and texts[0][-1] == ")" else None
        if label is None and not is_sum and group is None:
            self._are_numbered = self._are_numbered and (is_numbered or not is_named)
            self.is_whole = self.is_whole and amount is not None
            self._rows, self._total = rows + 1, total + (amount or 0)
            if self._groups:
                self._end_groups()
            return None
        self._before = rows, total
        if group is not None:
            why = f"{quote(group[0])} is the heading of {plural(int(group[1]), 'row')}"
            if amount is not None and self.dialect.skip_totals:
                self._groups.setdefault(rows + int(group[1]), []).append((group[0], total + amount))
        elif rows and self.is_whole and amount not in (None, total, total_since):
            message = "is a totals row with {:,}, but the rows above it add up to {:,}: rows may be missing"
            return CellProblem(message, amount, total)
        else:
            why = f"it has {quote(label)}" if label is not None else f"{amount:,} is the sum of the rows above"
        out = Remedy((Way("skip_totals"),), "leaves it out")
        return CellProblem("is a totals row: {}, and its amount is not added to the total", why, remedies=[out])

    def _end_groups(self) -> None:
        for name, wanted in self._groups.pop(self._rows, ()):
            if self.is_whole and self._total != wanted:
                message = f"the rows below {quote(name)} do not add up to its amount, by {wanted - self._total:,}"
                raise LedgerError(f"{message}: rows may be missing")

    def leaves_out_totals(self, line: int, amount: object) -> bool:
        """Return whether a totals row on *line* is outside, which is then counted."""
        if isinstance(amount, int) and not self.dialect.skip_totals:
            self.totals_amount += amount
        return self._leave_out(_TOTALS if self.dialect.skip_totals else "", line, amount)

    def leaves_out_like(self, line: int, cells: Iterable[Any], amount: object) -> bool:
        """Return whether the row on *line* begins like the rows declared to be outside. If so, count it."""
        texts = (str("" if cell is None else cell).strip() for cell in cells)
        first = next(filter(None, texts), "").casefold()
        beginning = next((start for start in self.dialect.skip_rows_like if first.startswith(start.casefold())), "")
        return self._leave_out(f"like {quote(beginning)}" if beginning else "", line, amount)

    def leaves_out(self, line: int, values: Mapping[str, Any], problems: list[tuple[str, CellProblem]]) -> bool:
        """Return whether the row on *line* is outside, which is then counted. A missing currency is a problem."""
        currency, (first, first_line) = values.get("currency") or "", self._currency
        if not currency and self._wanted:
            problems.append(("currency", CellProblem("the cell is empty, and only the rows of one currency are read")))
        elif self._wanted and currency.casefold() != self._wanted:
            return self._leave_out(f"in {currency.upper()}", line, values.get("amount"))
        elif not first:
            self._currency = currency.casefold(), line
        elif currency and first != currency.casefold():
            both = f"{quote(first.upper())} (line {first_line}) and {quote(currency.upper())} (line {line})"
            names = dict.fromkeys((first.upper(), currency.upper()))
            ways = [Remedy((Way("only_currency", name),), "reads the rows of one") for name in names]
            raise LedgerError(f"there are amounts in {both}, which cannot be added", line=line, remedies=ways)
        return False

    def _leave_out(self, why: str, line: int, amount: object) -> bool:
        if why:
            self.is_whole = self.is_whole and why == _TOTALS
            is_known = why in self._outside or len(self._outside) < _MAX_KINDS
            self._outside.setdefault(why if is_known else "of other kinds", _Outside()).add(line, amount)
        return bool(why)

    @property
    def currency(self) -> str:
        return (self._wanted or self._currency[0]).upper()

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        outside = self._outside.items()
        return tuple(Excluded(why=why, rows=part.rows, amount=part.amount, lines=part.lines) for why, part in outside)


_EMPTY, _FILLED, _OTHERS = "(empty)", "(filled)", "(others)"
"""Counted among the words: empty cells, and cells whose texts are not shown."""
_MAX_WORDS = 10
_MAX_KEYS = 1000
_SAMPLE = 10
_MAX_REPEATED = 50
"""More than ten words are still few if rows share them, such as the dozens of types in an export of payments."""
MAX_COUNTED = 4096
_MIN_SUM = 1000
"""Fewer than eleven different numbers, all below this, are codes and flags, and shown like words."""
_LABEL = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\A([^\W\d_]*)\d+([^\W\d_]*)\Z|[^\W_]*\d[^\W_]*", re.IGNORECASE
)
"""A UUID, or a part with a digit, such as the number of an invoice. If it is the whole, only its digits are."""
_ZEROS = dict.fromkeys(map(ord, "123456789"), "0")
"""Turns texts that differ only in their digits into one shape."""
_NAME = re.compile(r"(?=.*\d).{4,}")
"""A text that occurs once names its row, rather than describing it."""
_CODE = re.compile(r"0\d+|\d{13,}")
_YEAR = re.compile(r"(?<!\d)\d{4}(?=\D|\d{4}(?!\d)|$)|(?<=[-/. ])\d\d(?=$|[ T,]+\d\d?[:.])")
"""Four digits or, behind a day and a month, two."""
_ERA = 10
"""Years between times, if some of them mean *never*, as 0001, 1900, 1970 and 9999 do."""
_NUMBERING, _TIMES, _TIMES_BESIDE = (frozenset(WORDS["quiet"][key]) for key in ("numbering", "times", "beside"))
_REVERSALS = {
    word if len(word) > 5 or not word.isascii() else f"_{word}_": word
    for word in map(_columns.normalise_name, WORDS["reversal"]["words"])
}
"""Words, as they stand between underscores. A long word may be a part of another, such as Stornogebühr."""
_MARK = re.compile(r"[\W_]([^\W\d_]{1,2})\W*\Z")
"""One or two letters at the end of a text, such as the `R` of a refund."""
_MAX_MARKS = 2
_MAX_FLAGS, _MIN_FLAGGED = 3, 20
"""Up to three different last digits of at least 20 codes are a flag."""


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
def _shape_of_zeros(text: str) -> str:
    return _LABEL.sub(r"\1#\2", text)


@lru_cache(maxsize=1)  # several views read one text
def _shape(text: str) -> str:
    return _shape_of_zeros(text.translate(_ZEROS))


@lru_cache(maxsize=MAX_COUNTED)
def _reversal_in(word: str) -> str:
    words = f"_{_columns.normalise_name(word)}_"
    return next((reversal for spelling, reversal in _REVERSALS.items() if spelling in words), "")


def _reversal(text: str) -> str:
    """Return the word for money that went back. Empty without one."""
    words = text.translate(_ZEROS).split()
    return next((reversal for word in words if (reversal := _reversal_in(word))), "")


_VIEWS: tuple[Callable[[str], str], ...] = (
    _shape,
    lambda text: _shape(text).split(" ", 1)[0],
    lambda text: _shape(text).rsplit(" ", 1)[-1],
    _reversal,
    lambda text: mark[1] if (mark := _MARK.search(text[-5:])) else "",
    lambda text: text[-1] if text.isdigit() else "",
)
"""What many different texts may share: three shapes, a word, a mark at the end, and the last digit of a code."""


class Evidence:
    """The cells of one unused column. Memory does not grow with the ledger."""

    def __init__(self, name: str, reader: MoneyReader) -> None:
        self.name, self._reader = name, reader
        self.counts: dict[Any, int] = {}
        """Cells still to be examined, without repetitions."""
        self.words = Counter[str]()
        """All different texts while they are few. The most frequent ones otherwise."""
        self._views = [(view, Counter[str]()) for view in _VIEWS]
        """The rows by each view, until there are too many."""
        self._years = Counter[int]()
        self._filled = self._times = self._greatest = self._last = 0
        self._sum: int | None = 0
        """None if an amount is not written as declared."""
        self._may_be_money = self._are_running = True
        self._has_objects = False
        self._texts = set[str]()
        """The cells that are neither numbers nor times."""

    def add(self, cell: Any) -> None:
        if cell.__hash__ is None:  # a list or an object of JSON
            self._has_objects, cell = True, str(cell)
        self.counts[cell] = self.counts.get(cell, 0) + 1
        if len(self.counts) > MAX_COUNTED:
            self.look()

    def look(self) -> None:
        for cell, rows in self.counts.items():
            text = "" if cell is None else str(cell).removesuffix(".0").strip(_columns.BLANK)
            if not text:
                continue
            self._filled += rows
            self.words[text] += rows
            if len(self._texts) <= _MAX_WORDS:
                self._classify(cell, text, rows)
            for view, counts in self._views:
                if len(counts) <= _MAX_WORDS and (part := view(text)):
                    counts[part] += rows
        self.counts = {}
        if len(self.words) > MAX_COUNTED:  # words that rows share stay
            self.words = Counter(dict(self.words.most_common(MAX_COUNTED // 2)))

    def _classify(self, cell: Any, text: str, rows: int) -> None:
        if isinstance(cell, date) or is_time(text):
            self._times += rows
            if year := _YEAR.search(text):
                self._years[int(f"20{year[0]}"[-4:])] += rows
            return
        number = None
        with suppress(CellProblem):
            number = self._reader.read(text if isinstance(cell, float | str) else cell)
        if number is None and not may_be_money(text):
            self._texts.add(text)
        elif number is None or self._sum is None:
            self._sum = None
        else:
            is_next = not self._greatest or abs(number - self._last) == 1
            self._may_be_money = self._may_be_money and not _CODE.fullmatch(text)
            self._are_running = self._are_running and rows == 1 and is_next
            self._sum, self._greatest, self._last = self._sum + number * rows, max(self._greatest, abs(number)), number

    @property
    def has_money(self) -> bool:
        """Whether its numbers may be amounts: codes, flags and row numbers are not."""
        is_readable, are_many = self._sum is not None, len(self.words) > _MAX_WORDS or self._greatest >= _MIN_SUM
        is_counted = is_readable and self._are_running and self._filled > 2 and _NUMBERING & _words_of(self.name)
        are_numbers = len(self._texts) <= _MAX_WORDS and self._filled > self._times and self._may_be_money
        return are_numbers and not is_counted and (are_many or not is_readable)

    @property
    def _are_codes(self) -> bool:
        """Whether its numbers are few and repeated, like account numbers: codes, not amounts. 0 does not count."""
        numbers = {word: rows for word, rows in self.words.items() if re.search("[1-9]", word)}
        is_like_code = len({*map(len, numbers)}) == 1 and len(numbers) <= _MAX_REPEATED
        return (len(numbers) <= _MAX_WORDS or is_like_code) and sum(numbers.values()) >= 2 * len(numbers)

    def unused(self, rows: int) -> UnusedColumn | None:
        """Return what its cells may mean for *rows*. None if they are meaningless."""
        if not self._filled:
            return None
        if self.has_money and self._times < self._filled and not self._are_codes:
            return UnusedColumn(self.name, {} if self._sum is not None else self.words, self._sum)
        rest = {_FILLED: self._filled} if rows > self._filled or self._has_objects else {}
        words = +Counter({**(self._few or self._marks or rest), _EMPTY: rows - self._filled})
        return UnusedColumn(self.name, dict(words.most_common())) if words else None

    @property
    def _few(self) -> Mapping[str, int]:
        """The texts of its cells, or the few ways they are written or begin or end. Empty if there are many."""
        are_times = self._times == self._filled
        eras = self._eras if are_times else {}
        if are_times and len(eras) < 2 and _words_of(self.name) - _TIMES_BESIDE <= _TIMES:
            return {}
        are_labels = not self._has_objects and all(n == 1 and _NAME.fullmatch(word) for word, n in self.words.items())
        (word, most), (_, second) = [*self.words.most_common(2), ("", 0)][:2]
        is_alone = most >= _MAX_WORDS * max(second, 1)  # next to texts that are hardly shared
        is_shared = len(self.words) <= min(_MAX_REPEATED, self._filled // 2) and not is_alone
        if not are_labels and (len(self.words) <= _MAX_WORDS or is_shared):
            return self.words
        if is_alone or 2 * most > self._filled > most:
            return {word: most, _OTHERS: self._filled - most}
        shapes: Sequence[Mapping[str, int]] = [eras] if are_times else [counts for _, counts in self._views[:3]]
        rest = {_FILLED: self._filled} if are_times else dict[str, int]()
        return next((counts for counts in shapes if 1 < len(counts) <= _MAX_WORDS), rest)

    @property
    def _marks(self) -> Mapping[str, int]:
        """The words, marks and last digits in texts that differ in each row."""
        reversals, marks, digits = (counts for _, counts in self._views[3:])
        are_marks = len(marks) <= _MAX_MARKS and marks.total() < self._filled
        are_flags = 1 < len(digits) <= _MAX_FLAGS and digits.total() >= _MIN_FLAGGED
        shown = reversals or (marks if are_marks else Counter()) or (digits if are_flags else Counter())
        rest = {_OTHERS: self._filled - shown.total()} if shown else {}
        return +Counter({f"… {part}": rows for part, rows in shown.items()} | rest)

    @property
    def _eras(self) -> dict[str, int]:
        """The rows by the years of their times, parted where many years are between two."""
        eras: list[list[int]] = []
        for year in sorted(self._years):
            if not eras or year - eras[-1][1] >= _ERA:
                eras.append([year, year, 0])
            eras[-1][1:] = [year, eras[-1][2] + self._years[year]]
        return {f"{first:04}" if first == last else f"{first:04}-{last:04}": rows for first, last, rows in eras}


def _words_of(name: str) -> set[str]:
    return {*_columns.normalise_name(name).split("_")} if name[:1] != "#" else {"no"}


class Unused:
    """The columns of a ledger that nothing uses, with the possible meanings of their cells."""

    def __init__(self, columns: Columns, used: Collection[int], reader: MoneyReader) -> None:
        self._used, self._reader = columns.used, reader
        names = enumerate(_columns.column_names(columns.header))
        self._places = [(position, Evidence(name, reader)) for position, name in names if position not in used]
        self._keys: dict[str, Evidence] = {}
        """The cells under names that the header does not have."""
        self._sample: list[Sequence[Any]] = []
        """The first rows. A suggestion must be able to read them."""
        self._rows = 0
        self.is_currency_used: bool = True
        """Whether the rows are of one currency with others. Rows without one are named next to others anyway."""
        self.ignored: Collection[str] = ()

    def observe(self, cells: Sequence[Any]) -> None:
        self._rows += 1
        if self._rows <= _SAMPLE:
            self._sample.append(cells)
        for position, column in self._places:
            column.add(cells[position])

    def add_keys(self, cells: Mapping[str, Any]) -> None:
        """Add the cells under names that the header does not have."""
        for name, cell in cells.items():
            if name in self._keys or len(self._keys) < _MAX_KEYS:
                self._keys.setdefault(name, Evidence(name, self._reader)).add(cell)

    @property
    def _columns(self) -> list[Evidence]:
        return [*(column for _, column in self._places), *self._keys.values()]

    def found(self, *, are_ignored: bool) -> tuple[UnusedColumn, ...]:
        """Return what the columns, ignored by name or not, may mean for the rows. Complete at the end."""
        columns = (column for column in self._columns if (column.name in self.ignored) is are_ignored)
        named = (unused for column in columns if (unused := column.unused(self._rows)) is not None)
        currency = self._used.get("currency") if self.is_currency_used else None
        return tuple(unused for unused in named if unused.name != currency or _EMPTY in unused.words)

    def check(self) -> None:
        """Check that no column has the amounts, or their sign, without which nothing can be compared."""
        for column in self._columns:
            column.look()
        unused = [column for column in self._columns if column.name not in (*self.ignored, self._used.get("currency"))]
        if "amount" not in self._used and (money := [column for column in unused if column.has_money]):
            sides = {SIDES[word]: column for column in money for word in _words_of(column.name) & SIDES.keys()}
            use: list[Remedy] = []
            both_places = [position for position, column in self._places if column in sides.values()]
            filled = ([bool(re.search("[1-9]", str(row[at]))) for at in both_places] for row in self._sample)
            if len(sides) == 2 and all(sum(cells) == 1 for cells in filled):
                for came, whose in ((1, "a bank has them"), (-1, "your own books have them")):
                    both = Way("column", sides[came].name, "amount"), Way("debit_columns", sides[-came].name, "amount")
                    use.append(Remedy(both, f"reads both as {whose}"))
            money = [*sides.values()] if use else sorted(money, key=lambda side: len(side.words) < 2)  # constants last
            _columns.refuse_unused([column.name for column in money], "looks like money and is not used", "amount", use)
        few = [column for column in unused if len(column.words) <= _MAX_WORDS]
        directions = [column.name for column in few if {*map(_columns.sign_of, column.words)} == {1, -1}]
        if {"direction", "kind"}.isdisjoint(self._used) and directions:
            _columns.refuse_unused(directions, "has words for credit and debit and is not used", "direction")
