"""
Suggest the declaration that would read a ledger's amounts and times, or both if there are two.

A notation is suggested only if it reads every cell, and no other reads any of them differently. Only the shapes of the
cells are remembered, so memory does not grow with the ledger.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from itertools import product
from typing import Any, TypeAlias, cast

import attrs
from attrs import frozen

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Side, Way
from payclient.reconcile.ledger._columns import BLANK, SIDES, CellProblem, is_currency
from payclient.reconcile.ledger._dialect import THOUSANDS, Dialect, TimeFormat, TimeReader, time_pattern
from payclient.reconcile.ledger._money import MoneyReader

_MAX_SHAPES = 5000
_DIGITS = re.compile("[0-9]+")
_TRAILING = re.compile(r".*(?<![-,.])[-+\u2212]", re.DOTALL).fullmatch
_AROUND = re.compile(r"[-+\u2212()\s]+")
_WORDS = "|".join(SIDES)
_AHEAD = re.compile(rf"^(?P<side>{_WORDS})(?:\.?(?=\s)|$)", re.IGNORECASE)
_BEHIND = re.compile(rf"(?:^|(?<=[\W_]))(?P<side>{_WORDS})\.?$", re.IGNORECASE)
_MAX_READINGS = 3
_DAY = re.compile(r"(?:[0-9]{1,4}|[^\W\d_]+\.?)([-/. ]|, |\. )(?:[0-9]{1,2}|[^\W\d_]+\.?)([-/. ]|, )[0-9]{2,4}")
_CLOCKS = {
    clock: re.compile(time_pattern(clock))
    for clock in (
        *("", "%H:%M", "%H:%M:%S", "%H.%M", "%H.%M.%S", "%H:%M:%S.%f"),
        *("%I.%M.%S %p", "%I:%M %p", "%I:%M:%S %p"),
    )
}
_ORDERS = (
    *("%d{0}%m{1}%Y", "%m{0}%d{1}%Y", "%d{0}%m{1}%y", "%m{0}%d{1}%y", "%y{0}%m{1}%d", "%y{0}%d{1}%m"),
    *("%Y{0}%m{1}%d", "%Y{0}%d{1}%m", "%d{0}%b{1}%Y", "%d{0}%b{1}%y", "%b{0}%d{1}%Y", "%b{0}%d{1}%y"),
)
_MAX_CLOCKS = 4
_READ = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _as_long(digits: re.Match[str]) -> str:
    """Return as many digits with as many zeros at the end: their reading depends on nothing else."""
    zeros = len(digits[0]) - len(digits[0].rstrip("0"))
    return "1" * (len(digits[0]) - zeros) + "0" * zeros


Options: TypeAlias = tuple[Way, ...]
"""Options that declare a notation together."""

Readings: TypeAlias = dict[tuple[object, ...], Options]
"""The options of each way to read all cells, by what it reads."""


@frozen(kw_only=True)
class Suggestion:
    """
    A suggested declaration.

    Attributes:
        what: `amounts` or `times`.
        rows: Rows with a cell that is refused.
        cell: The first one. With several readings, the first that they read differently.
        remedies: The options of each reading of all cells. More than one if it is ambiguous.
        values: How each of them reads that cell.
    """

    what: str
    rows: int
    cell: str
    remedies: tuple[Remedy, ...]
    values: tuple[str, ...]

    @property
    def is_ambiguous(self) -> bool:
        """Whether the cells have several readings. Only the owner of the ledger knows the right one."""
        return len(self.remedies) > 1

    def __str__(self) -> str:
        return self.words()

    def words(self, side: Side = "ledger") -> str:
        refused = f"{plural(self.rows, 'row')} {'has' if self.rows == 1 else 'have'} {self.what} that cannot be read"
        first = "" if self.is_ambiguous else "first: "
        each = zip(self.remedies, self.values, strict=True)
        ways = " or ".join(f"{way.words(side)} ({first}{quote(self.cell)} → {value})" for way, value in each)
        if not self.is_ambiguous:
            return f"{refused}: all can be read with {ways}"
        return f"{refused}. They are ambiguous: all can be read with {ways}, so declare the right one"


def combined(suggestions: Iterable[Suggestion]) -> list[Remedy]:
    """Return the ways to read all cells: one with every declaration, or one for each reading of ambiguous ones."""
    suggestions = list(suggestions)
    known = [way for each in suggestions if not each.is_ambiguous for way in each.remedies[0].ways]
    readings = [remedy.ways for each in suggestions if each.is_ambiguous for remedy in each.remedies] or [()]
    return [Remedy((*known, *ways), "reads them") for ways in readings if known or ways]


class Suggester:
    """Remembers the shapes of cells, and suggests declarations."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._shapes: dict[str, str] = {}
        self._first: dict[str, str] = {}
        self._rows = {"amounts": 0, "times": 0}
        self._times: dict[tuple[str, str], str] = {}
        """The first cell of each day and format of clock."""
        self._unreadable = set[str]()
        """Amounts or times with a refused cell that no declaration can make readable."""

    def add_amount(self, cell: str, *, is_needed: bool = False) -> None:
        """Remember a cell of an amount, read or refused. If *is_needed*, it must not be empty."""
        if cell[-3:] == ".00" and cell[:-3].isdigit():  # usual, and every notation reads all of these alike
            self._shapes.setdefault("", cell)
            return
        text = cell.strip(BLANK)
        if is_needed and text and not _DIGITS.search(text):
            self._unreadable.add("amounts")
        if len(self._shapes) <= _MAX_SHAPES and text:
            self._shapes.setdefault(_DIGITS.sub(_as_long, text), text)

    def add_time(self, cell: str) -> None:
        text = cell.strip(BLANK)
        if not text or "times" in self._unreadable or self._dialect.date_format or len(self._times) > _MAX_SHAPES:
            return
        match, clock = _time_parts(text)
        if match is None or clock is None or _READ.match(text):  # read as it is, and refused with a declaration
            self._unreadable.add("times")
        else:
            self._times.setdefault((match[0], clock), text)

    def refuse(self, cells: Mapping[str, object]) -> None:
        """Count a row with the first refused cell of its amounts and times."""
        for what, cell in cells.items():
            self._rows[what] += 1
            if isinstance(cell, str):
                self._first.setdefault(what, cell.strip(BLANK))
            else:
                self._unreadable.add(what)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield the declarations for amounts and for times that fit every cell."""
        for what, seen, read in (("amounts", self._shapes, self._as_amounts), ("times", self._times, self._as_times)):
            cells = list(seen.values())
            is_readable = what in self._first.keys() - self._unreadable and 0 < len(cells) <= _MAX_SHAPES
            if is_readable and (found := read(cells)):
                yield self._suggested(what, cells, found)

    def _as_amounts(self, cells: list[str]) -> Readings:
        # The simplest dialect for each different way to read all cells.
        found: Readings = {}
        for candidate in sorted(candidates(cells, self._dialect), key=lambda each: len(_options(each, self._dialect))):
            if values := _read_all(cells, candidate):
                found.setdefault(values, _options(candidate, self._dialect))
        return found

    def _as_times(self, cells: list[str]) -> Readings:
        clocks = list(dict.fromkeys(clock for _, clock in self._times))
        match, _ = _time_parts(cells[0])
        found: Readings = {}
        for order in (each.format(*match.groups()) for each in _ORDERS if match is not None):
            times = tuple(_time_format(f"{order}{clock}").read(cell) for (_, clock), cell in self._times.items())
            if None not in times:
                found.setdefault(times, tuple(Way("date_format", f"{order}{clock}") for clock in clocks))
        return found if len(clocks) <= _MAX_CLOCKS else {}

    def _suggested(self, what: str, cells: list[str], found: Readings) -> Suggestion:
        """Return the suggestion of the ways to read *cells* that were found, by their values."""
        first = cells.index(self._first[what]) if self._first[what] in cells else 0
        differ = (place for place, values in enumerate(zip(*found, strict=True)) if len(set(values)) > 1)
        place = next(differ, first)
        shown = {options: "empty" if values[place] is None else str(values[place]) for values, options in found.items()}
        chosen = [*shown.items()][:_MAX_READINGS]
        remedies = tuple(Remedy(options, "reads them") for options, _ in chosen)
        values = tuple(value for _, value in chosen)
        return Suggestion(what=what, rows=self._rows[what], cell=cells[place], remedies=remedies, values=values)


def _read_all(cells: Iterable[str], dialect: Dialect) -> tuple[int | None, ...] | None:
    reader = MoneyReader(dialect)
    try:
        return tuple(None if cell in dialect.null else reader.read(cell) for cell in cells)
    except CellProblem:
        return None


def candidates(cells: Iterable[str], dialect: Dialect) -> Iterator[Dialect]:
    """Yield every dialect for amounts that agrees with *dialect* and fits the marks around the digits."""
    if (given := _around(list(cells), dialect)) is not None:
        decimals = (None, ".", ",") if dialect.decimal is None else (dialect.decimal,)
        thousands = (None, *THOUSANDS) if dialect.thousands is None else (dialect.thousands,)
        for decimal, mark in product(decimals, thousands):
            if mark is None or decimal != mark:
                yield attrs.evolve(given, decimal=decimal, thousands=mark)


def _around(cells: list[str], dialect: Dialect) -> Dialect | None:
    """Return *dialect* with the declarations needed for currency, sign and empty cells. None if none can be right."""
    filled = [cell for cell in cells if _DIGITS.search(cell)]
    given: dict[str, Any] = {"null": (*dialect.null, *(cell for cell in cells if cell not in filled))}
    if dialect.negative == "leading" and any("(" in cell for cell in filled):
        given["negative"] = "parentheses"
    elif dialect.negative == "leading" and any(map(_TRAILING, filled)):
        given["negative"] = "trailing"
    for name, pattern, side in (("currency_prefix", r"^[^0-9]*", _AHEAD), ("currency_suffix", r"[^0-9]*$", _BEHIND)):
        around = [match[0] if (match := re.search(pattern, cell)) else "" for cell in filled]
        sides = [match["side"].casefold() for each in around if (match := side.search(each))]
        if side is _BEHIND or len({SIDES[each] for each in sides}) > 1 or any(len(each) > 1 for each in sides):
            around = [side.sub("", each) for each in around]
            given |= {"negative": "debit"} if sides else {}
        spelt = [symbol for each in around if (symbol := _AROUND.sub("", each).strip(".,\u2013\u2014'"))]
        symbols = {symbol.casefold() for symbol in spelt}
        declared = getattr(dialect, name)
        if len(symbols) > 1 or (declared and symbols - {declared.casefold().rstrip(".")}):
            return None
        if symbols and not declared:
            given[name] = spelt[0]
    try:
        return attrs.evolve(dialect, **given)
    except ValueError:  # what is around the digits is not a currency
        return None


def _options(candidate: Dialect, declared: Dialect) -> Options:
    options: list[Way] = []
    for each in attrs.fields(Dialect):
        value, before = getattr(candidate, each.name), getattr(declared, each.name)
        if value != before:
            texts = [str(value)]
            if isinstance(value, tuple):
                texts = [text for text in cast("tuple[str, ...]", value) if text not in before]
            options += [Way(each.name, text) for text in texts]
    return tuple(options)


_time_format = cache(TimeFormat)


def _time_parts(cell: str) -> tuple[re.Match[str] | None, str | None]:
    """Return the day with its two marks, and the format of the rest. None if unknown."""
    match = _DAY.match(cell)
    if match is None:
        return None, None
    mark, rest = cell[match.end() :][:1], cell[match.end() + 1 :]
    clocks = (clock for clock, pattern in _CLOCKS.items() if mark in ("", " ", "T") and pattern.fullmatch(rest))
    return match, next((f"{mark}{clock}" for clock in clocks), None)


_ANY = Dialect(minor_units=4)
_LETTERS = re.compile(r"[^\d\s.,'\u2019()+\u2212\u2013\u2014-]+")
_DECORATION = re.compile(r"^=?\"|\"$|^=(?=[0-9])|^\*+|\*+$|\s*\((?:cr|dr|db|c|d|h|s|k)\)$", re.IGNORECASE)
"""Marks that programs put around an amount, and that cannot be declared."""
_COMPACT_DAY = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


@lru_cache(maxsize=_MAX_SHAPES)
def _may_be_money(text: str) -> bool:
    text = _DECORATION.sub("", text)
    marks = [mark.strip(".").casefold() for mark in _LETTERS.findall(text)]
    if not all(not mark or mark in SIDES or is_currency(mark) for mark in marks):
        return False
    for dialect in candidates([text], _ANY):
        with suppress(CellProblem):
            if MoneyReader(dialect).read(text) is not None:
                return True
    return False


def may_be_money(text: str) -> bool:
    """Return whether *text* is an amount in any notation that can be declared. The reader itself is asked."""
    return _may_be_money(_DIGITS.sub(_as_long, text))


def is_time(text: str) -> bool:
    """Return whether *text* is a day or a time in a notation that is read or can be declared."""
    return _COMPACT_DAY.fullmatch(text) is not None or _is_time(re.sub("[0-9]", "1", text))


@lru_cache(maxsize=_MAX_SHAPES)
def _is_time(text: str) -> bool:
    match, clock = _time_parts(text)
    orders = [f"{order.format(*match.groups())}{clock}" for order in _ORDERS] if match and clock is not None else []
    if any(_time_format(order).read(text) for order in orders):
        return True
    with suppress(CellProblem):
        return TimeReader().read_creation(text) is not None
    return False
