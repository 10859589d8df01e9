"""The rows of a ledger that belong to this run: one currency, and no totals rows.

Rows outside are neither looked up nor part of any total. They are counted, with their lines and amounts.

A totals row is not a transaction: the service would not find it, and the ledger's total would count every amount
twice. It is recognised by a word such as `TOTAL` in its reference, by such a word in another cell if its reference is
empty, or by an amount that is the sum of the rows above if only its reference is without a digit; or by the number of
rows of a group behind its heading, as in `BCA (3)`, whose rows must then add up to its amount.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Side, Way
from payclient.reconcile.ledger._columns import CellProblem, LedgerError, word_list
from payclient.reconcile.ledger._dialect import PLAIN, Dialect

TOTALS_WORDS = frozenset(word_list("totals", "words"))
"""One of these must be there, in any case."""

_BESIDE = frozenset(word_list("totals", "beside"))
HAS_DIGIT = re.compile(r"\d").search
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
    found = _WORD.findall(text.casefold())
    return not TOTALS_WORDS.isdisjoint(found) and all(word in TOTALS_WORDS or word in _BESIDE for word in found)


class Totals:
    """Keeps the sums of the rows above, to recognise a row that has one."""

    def __init__(self, dialect: Dialect = PLAIN) -> None:
        self._parts = [[0, 0], [0, 0]]
        """Rows and their sum: of the whole ledger, and since the last totals row."""
        self._are_numbered = True
        """Whether each reference has a digit, so that a word in its place is something else."""
        self.is_whole = True
        """Whether each row so far is used with its amount. Otherwise a control total cannot be checked."""
        self._are_skipped = dialect.skip_totals
        self._groups: list[tuple[str, list[int]]] = []
        """The headings of the groups that this row is in, each with the rows and the sum that are still missing."""

    def reason(self, reference: str | None, amount: int | None, cells: Sequence[Any]) -> CellProblem | None:
        """Return why a row is a totals row, with a remedy if it may be left out. Otherwise count it and return None."""
        is_numbered = reference is not None and HAS_DIGIT(reference) is not None
        is_named = is_numbered or (reference is not None and any(map(str.isalnum, reference)))
        texts = [reference] if reference is not None and is_named else [each for each in cells if isinstance(each, str)]
        found = None if is_numbered and "(" not in texts[0] else next(filter(is_totals_text, texts), None)
        (rows, total), (rows_since, total_since) = self._parts
        is_sum = (rows >= _MIN_ROWS and amount == total) or (rows_since >= _MIN_ROWS and amount == total_since)
        is_sum = bool(amount) and is_sum and (not is_named or (self._are_numbered and not is_numbered))
        group = _GROUP(texts[0]) if found is None and is_named and texts[0][-1] == ")" else None
        if found is None and not is_sum and group is None:
            self._count(amount, is_numbered=is_numbered, is_named=is_named)
            return None
        self._parts[1] = [0, 0]
        if group is not None:
            why = f"{quote(group[0])} is the heading of {plural(int(group[1]), 'row')}"
            if amount is not None and self._are_skipped:
                self._groups.append((group[0], [int(group[1]), amount]))
        elif rows and self.is_whole and amount is not None and amount not in (total, total_since):
            message = "is a totals row with {:,}, but the rows above it add up to {:,}: rows may be missing"
            return CellProblem(message, amount, total)
        else:
            why = f"it has {quote(found)}" if found is not None else f"{amount:,} is the sum of the rows above"
        out = Remedy((Way("skip_totals"),), "leaves it out")
        return CellProblem("is a totals row: {}, and its amount is not added to the total", why, remedies=[out])

    def _count(self, amount: int | None, *, is_numbered: bool, is_named: bool) -> None:
        self._are_numbered = self._are_numbered and (is_numbered or not is_named)
        self.is_whole = self.is_whole and amount is not None
        for part in self._parts:
            part[0] += 1
            part[1] += amount or 0
        for name, rest in self._groups:
            rest[0] -= 1
            rest[1] -= amount or 0
            if self.is_whole and rest[1] and not rest[0]:
                message = f"the rows below {quote(name)} do not add up to its amount, by {rest[1]:,}"
                raise LedgerError(f"{message}: rows may be missing")
        if self._groups:
            self._groups = [each for each in self._groups if each[1][0] > 0]


_MAX_RANGES = 200
_MAX_KINDS = 50


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
        where = f"{line} {self.lines}; amount {self.amount:,}"
        return f"skipped {plural(self.rows, 'row')} {self.why}: {where}"


@frozen
class UnreadSheet:
    """A sheet of a workbook with its filled rows, without a header, if no sheet was chosen by name."""

    name: str
    rows: int


@define
class _Group:
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
    """Decides about each row, and counts those outside."""

    # A row of a statement needs no amount if it has the amount received.

    def __init__(self, dialect: Dialect = PLAIN, *, is_statement: bool = False) -> None:
        self.dialect: Dialect = dialect
        self.is_statement: bool = is_statement
        self.side: Side = "statement" if is_statement else "ledger"
        self.totals_amount: int = 0
        self._wanted = dialect.only_currency.casefold()
        self._currency = "", 0
        self._groups: dict[str, _Group] = {}

    def check_columns(self, used: Mapping[str, str]) -> None:
        if self._wanted and used and "currency" not in used:
            message = "only the rows of one currency are to be read, and no column is called currency: choose one"
            raise LedgerError(message, line=1, refused=Way("only_currency", self.dialect.only_currency))

    def leaves_out_totals(self, line: int, amount: object) -> bool:
        """Return whether a totals row on *line* is outside, which is then counted."""
        if isinstance(amount, int) and not self.dialect.skip_totals:
            self.totals_amount += amount
        return self._leave_out("of totals" if self.dialect.skip_totals else "", line, amount)

    def leaves_out_like(self, line: int, cells: Iterable[Any], amount: object) -> bool:
        """Return whether the row on *line* begins like the rows declared to be outside. If so, count it."""
        first = next((text for cell in cells if (text := str("" if cell is None else cell).strip())), "")
        found = next((each for each in self.dialect.skip_rows_like if first.casefold().startswith(each.casefold())), "")
        return self._leave_out(f"like {quote(found)}" if found else "", line, amount)

    def leaves_out(self, line: int, values: Mapping[str, Any], problems: list[tuple[str, CellProblem]]) -> bool:
        """Return whether the row on *line* is outside, which is then counted. A missing currency is a problem."""
        return self._leave_out(self._other_currency(line, values, problems), line, values.get("amount"))

    def _other_currency(self, line: int, values: Mapping[str, Any], problems: list[tuple[str, CellProblem]]) -> str:
        currency = values.get("currency")
        if currency is None:
            if self._wanted:
                message = "the cell is empty, and only the rows of one currency are read"
                problems.append(("currency", CellProblem(message)))
            return ""
        if self._wanted:
            return "" if currency.casefold() == self._wanted else f"in {currency.upper()}"
        first, first_line = self._currency
        if not first:
            self._currency = currency.casefold(), line
        elif first != currency.casefold():
            both = f"{quote(first.upper())} (line {first_line}) and {quote(currency.upper())} (line {line})"
            names = dict.fromkeys((first.upper(), currency.upper()))
            ways = [Remedy((Way("only_currency", name),), "reads the rows of one") for name in names]
            raise LedgerError(f"there are amounts in {both}, which cannot be added", line=line, remedies=ways)
        return ""

    def _leave_out(self, why: str, line: int, amount: object) -> bool:
        if why:
            is_known = why in self._groups or len(self._groups) < _MAX_KINDS
            self._groups.setdefault(why if is_known else "of other kinds", _Group()).add(line, amount)
        return bool(why)

    @property
    def currency(self) -> str:
        return (self._wanted or self._currency[0]).upper()

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        groups = self._groups.items()
        return tuple(Excluded(why=why, rows=each.rows, amount=each.amount, lines=each.lines) for why, each in groups)
