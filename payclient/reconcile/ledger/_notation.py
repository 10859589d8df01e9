"""
The declared notation of a ledger, its amounts and times, read exactly or not at all, and the declaration to suggest.

payclient never guesses. A mark that is not declared is refused, and the reason names the option that would declare it.
A notation of amounts or times is suggested only if it reads every cell, and no other reads any of them differently.
Only the shapes of the cells are remembered, so memory does not grow with the ledger.

Times are in the notation of `strftime`, or in ISO 8601. Not with `strptime`, which knows the names of months in the
language of the process, takes digits of other scripts, and reads `%y` and missing parts as it likes.

A sign stands once: in its cell, by a column of debits or of directions, or by the kind of line. If the cell and its
neighbour both show it, they must agree, in each debit of the column: otherwise some debits would be read as money
received.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias, cast
from unicodedata import category

import attrs
from attrs import Attribute, define, field, frozen

from payclient._shared.checks import invalid_option, must_be, unfit
from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Side, Way
from payclient.protocol import EMPTY
from payclient.reconcile._fields import KINDS
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import BLANK, SIDES, WORDS, CellProblem, is_currency, read_word, shown

_MONTHS = {name: number for number, names in enumerate(WORDS["months"].values(), 1) for name in names}
_NAME = r"[^\W\d_]+\.?"
_PARTS = {
    "Y": r"(?P<year>[0-9]{4})",
    "y": r"(?P<short_year>[0-9]{2})",
    "m": r"(?P<month>[0-9]{1,2})",
    "b": rf"(?P<name>{_NAME})",
    "B": rf"(?P<name>{_NAME})",
    "d": r"(?P<day>[0-9]{1,2})",
    "H": r"(?P<hour>[0-9]{1,2})",
    "I": r"(?P<half>0?[1-9]|1[0-2])",
    "p": r"(?P<noon>[AaPp]\.?[Mm]\.?)",
    "M": r"(?P<minute>[0-9]{2})",
    "S": r"(?P<second>[0-9]{2})",
    "f": r"(?P<part>[0-9]{1,9})",
    "z": r"(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)",
    "%": "%",
}
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_SAME_PART = {"y": "Y", "b": "m", "B": "m"}
_USABLE = re.compile(r"%*(?:H(?:MS?)?|(?P<half>I)(?:MS?)?)?Ydf?m(?(half)p)z?").fullmatch
"""The letters of a format in their order, each once: a whole day, and a time of day that is not ambiguous."""
_FIRST_CENTURY = 69
"""Two digits from here on are of the 1900s, as in POSIX."""
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def time_pattern(text: str) -> str:
    literals = enumerate(_DIRECTIVE.split(text))
    return "".join(re.escape(part) if number % 2 == 0 else _PARTS[part] for number, part in literals)


class TimeFormat:
    """One way to write a time, such as `%d/%m/%Y %H:%M`. The parts are `%Y %y %m %b %d %H %I %p %M %S %f %z`."""

    def __init__(self, text: str) -> None:
        self.text = text
        names: list[str] = _DIRECTIVE.findall(text)
        if unknown := [name for name in names if name not in _PARTS]:
            parts = " ".join(f"%{name}" for name in _PARTS)
            raise invalid_option("date_format", f"has no %{unknown[0]}: its parts are {parts}")
        kinds = "".join(sorted(_SAME_PART.get(name, name) for name in names))
        if not _USABLE(kinds):
            problem = f"must have day, month and year once each, as in %d/%m/%Y, got {quote(text)}"
            raise invalid_option("date_format", problem)
        self.has_time = not kinds.lstrip("%").startswith("Y")
        self._pattern = re.compile(time_pattern(text), re.IGNORECASE)

    def read(self, text: str) -> datetime | None:
        """Return the time in *text*, aware if it has a zone. None if it is not written like this."""
        if (match := self._pattern.fullmatch(text)) is None:
            return None
        parts = match.groupdict()
        year, month, hour = parts.get("year"), parts.get("month"), int(parts.get("hour") or parts.get("half") or 0)
        if not year:
            year = f"{'19' if int(parts['short_year']) >= _FIRST_CENTURY else '20'}{parts['short_year']}"
        if not month:
            month = _MONTHS.get(parts["name"].casefold().rstrip("."), 0)
        if "half" in parts:
            hour = hour % 12 + 12 * (parts["noon"][0] in "Pp")
        with suppress(ValueError):  # the 31st of February
            day, clock = f"{year}-{int(month):02}-{int(parts['day']):02}", f"{hour:02}:{parts.get('minute') or '00'}"
            return _time(day, f"{clock}:{parts.get('second') or '00'}", parts.get("part"), parts.get("zone"))
        return None


class TimeReader:
    """Reads times in the declared formats. Without one, the year is first, as in ISO 8601."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        self._formats = [TimeFormat(text) for text in texts]

    def read(self, cell: Any) -> datetime | None:
        """Return a time without a zone, or None for an empty cell."""
        # A time is refused with a zone, a fraction of a second or two readings, or without a time of day.
        if (reading := self._reading(cell)) is None:
            return None
        time, has_time = reading
        for is_wrong, problem in (
            (time.tzinfo is not None, "has a time zone, unlike the service's times: store it without"),
            (time.microsecond, "has a fraction of a second, unlike the service's times"),
            (not has_time, "is a date without a time of day"),
        ):
            if is_wrong:
                raise CellProblem(f"{{}} {problem}", quote(cell) if isinstance(cell, str) else shown(cell))
        return time

    def read_creation(self, cell: Any) -> datetime | None:
        """Return the time of creation, aware if the cell has a zone, or None for an empty cell."""
        # A date alone is the start of that day, and a fraction of a second in a text is dropped.
        if (reading := self._reading(cell)) is None or not isinstance(cell, str):
            return reading and reading[0]
        return reading[0].replace(microsecond=0)

    def _reading(self, cell: Any) -> tuple[datetime, bool] | None:
        """Return the time in a cell, and whether it has a time of day."""
        if isinstance(cell, date):
            return (cell, True) if isinstance(cell, datetime) else (datetime.combine(cell, time.min), False)
        if cell is not None and not isinstance(cell, str):
            raise CellProblem("{} is not a time", shown(cell))
        if (text := read_word(cell)) is None:
            return None
        if not self._formats:
            return _in_iso(text)
        readings = [(read, form) for form in self._formats if (read := form.read(text)) is not None]
        if not readings:
            formats = " or ".join(quote(form.text) for form in self._formats)
            raise CellProblem("{} is not a time written {}", quote(text), formats)
        if any(read != readings[0][0] for read, _ in readings):
            both = " and ".join(quote(form.text) for _, form in readings)
            raise CellProblem("{} is another day with each of {}: declare one of them", quote(text), both)
        return readings[-1][0], readings[-1][1].has_time


def _in_iso(text: str) -> tuple[datetime, bool]:
    match = _ISO.fullmatch(text)
    try:
        day, clock, part, zone = match.groups() if match else ("", "", "", "")
        return _time(day, clock or "00:00", part, zone), bool(clock)
    except ValueError:  # including the 31st of February
        wanted = "such as 2026-11-21 22:16:00, 2026-11-21T22:16:00Z or 2026-11-21"
        raise CellProblem(f"{{}} is not a time {wanted}: declare the format that it has", quote(text)) from None


def _time(day: str, clock: str, part: str | None, zone: str | None) -> datetime:
    offset = "Z" if zone and zone[0].isalpha() else zone or ""
    return datetime.fromisoformat(f"{day} {clock}{':00' * (clock.count(':') < 2)}.{(part or '')[:6]:0<6}{offset}")


UTF_8 = "utf-8"
THOUSANDS = (",", ".", "space", "apostrophe")
NEGATIVE = ("leading", "trailing", "parentheses", "debit")
_ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "mac-roman", "koi8-r", "koi8-u", "cp874"),
    *(f"cp{number}" for number in (437, 850, 852, 858, 866, *range(1250, 1259), 932, 949, 950)),
    *(f"iso8859-{number}" for number in (*range(1, 12), *range(13, 17))),
    *("gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
)
"""In the spelling of `codecs`. It knows other names for them, such as `iso-8859-1` and `cp936`."""
_MAX_MINOR_UNITS = 4
_MONEY = tuple(name for name, kind in KINDS.items() if kind == "money")

_is_row = must_be("the number of a row, from 1", lambda value: value is None or (type(value) is int and value >= 1))
_is_mark = must_be("a point or a comma", lambda value: value in (None, ".", ","))
_is_thousands = must_be(f"one of {', '.join(THOUSANDS)}", lambda value: value in (None, *THOUSANDS))
_is_negative = must_be(f"one of {', '.join(NEGATIVE)}", lambda value: value in NEGATIVE)
_is_places = must_be(
    f"from 0 to {_MAX_MINOR_UNITS}, such as 2 for cents",
    lambda value: type(value) is int and 0 <= value <= _MAX_MINOR_UNITS,
)
_is_flag = must_be("true or false", lambda value: value is True or value is False)
_are_texts = must_be(
    "text, or a list of texts",
    lambda value: isinstance(value, tuple) and all(isinstance(each, str) and each for each in cast("Any", value)),
)


def _is_symbol(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, str) and value.casefold() in SIDES:
        problem = f"must be a currency, but {quote(value)} means credit or debit: try debit for negative"
        raise invalid_option(attribute.name, problem)
    if not isinstance(value, str) or any(
        not category(character).startswith(("L", "M", "Sc")) and character not in " /" for character in value
    ):
        raise unfit(attribute.name, "the sign or the letters of a currency, such as Rp", quote(value))


def _to_encoding(value: Any) -> str:
    with suppress(LookupError, TypeError, ValueError):
        if (name := codecs.lookup(value).name) in _ENCODINGS:
            return name
    raise unfit("encoding", "one for ledgers, such as cp1252, iso-8859-1 or utf-16", repr(value))


def _to_texts(value: Any) -> Any:
    # What it cannot convert is left to the validator.
    raw: object = value
    texts = cast("list[Any]", [value] if isinstance(raw, str) else value)
    are_texts = isinstance(raw, str | list | tuple) and all(isinstance(text, str) and text.strip() for text in texts)
    return tuple(text.strip() for text in texts) if are_texts else value


def _to_debits(value: Any) -> Mapping[str, str]:
    """Return a table, or a list of `field=name`, as a table that cannot be changed."""
    if isinstance(value, list | tuple):
        value = {name: column for name, _, column in (str(text).partition("=") for text in cast("list[Any]", value))}
    columns = cast("Mapping[str, object]", value).items() if isinstance(value, Mapping) else [("", value)]
    trimmed = {name: column.strip() if isinstance(column, str) else "" for name, column in columns}
    if not all(name in _MONEY and column for name, column in trimmed.items()):
        wanted = f"a table with a column for {', '.join(_MONEY)}, as in amount=Debit"
        raise unfit("debit_columns", wanted, repr(cast(object, value)))
    return MappingProxyType(trimmed)


def _trimmed(value: Any) -> Any:
    return value.strip().rstrip(".") if isinstance(value, str) else value


@frozen(kw_only=True)
class Dialect:
    """
    The notation of a ledger.

    Attributes:
        encoding: Encoding of CSV and JSON Lines. A byte order mark of UTF-8 has priority.
        header_row: Line of the file, or row of the sheet, that names the columns. The first that is not empty if None.
        decimal: The mark before the fraction of an amount: `.` or `,`.
        thousands: The mark between its thousands: `.`, `,`, `space` for any space, plain, no-break, narrow or thin, or
            `apostrophe` for a straight or a curly one.
        negative: The notation of amounts below zero: `trailing` as in `15000-`, `parentheses` as in `(15000)`, `debit`
            as in `15000 DB` next to `15000 CR`, with the words that banks use, only `leading`, as in `-15000`,
            which is also read with each of the others.
        minor_units: Decimal places of an amount that the service counts as whole units: 2 if it counts cents.
        currency_prefix: A currency's sign or letters before an amount, such as `Rp`. It may be missing.
        currency_suffix: The same, after an amount.
        date_format: How times are written as text, in the letters of `strftime`. Each cell fits exactly one.
        null: Texts that mean an empty cell, such as `NULL`.
        allow_references: References that would be taken for an empty cell otherwise, such as `NA` and `0`.
        debit_columns: Columns whose amounts count as below zero, by field, next to a column with amounts above zero. In
            each row one of the two is empty.
        fees_below_zero: Whether fees are written below zero, as deductions from the amount.
        skip_totals: Whether totals rows are left out, and not rejected.
        skip_rows_like: The beginnings of rows that are left out, such as `Saldo` or `----` of a footer: of their first
            cell that is not empty, in any letter case.
        only_currency: The currency whose rows are read, such as `IDR`. All rows must have one currency if empty.

    Without a declaration, `15000` and `15000.00` are amounts, and `2026-11-21 22:16:00` is a time.

    Raises:
        ValueError: When a value cannot be used. The message begins with its name.
    """

    encoding: str = field(default=UTF_8, converter=_to_encoding)
    header_row: int | None = field(default=None, validator=_is_row)
    decimal: str | None = field(default=None, validator=_is_mark)
    thousands: str | None = field(default=None, validator=_is_thousands)
    negative: str = field(default="leading", validator=_is_negative)
    minor_units: int = field(default=0, validator=_is_places)
    currency_prefix: str = field(default="", converter=_trimmed, validator=_is_symbol)
    currency_suffix: str = field(default="", converter=_trimmed, validator=_is_symbol)
    date_format: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    null: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    allow_references: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    debit_columns: Mapping[str, str] = field(default=EMPTY, converter=_to_debits, hash=False)
    fees_below_zero: bool = field(default=False, validator=_is_flag)
    skip_totals: bool = field(default=False, validator=_is_flag)
    skip_rows_like: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    only_currency: str = field(default="", converter=_trimmed, validator=_is_symbol)

    def __attrs_post_init__(self) -> None:
        if self.decimal is not None and self.decimal == self.thousands:
            raise invalid_option("decimal", f"and thousands must differ, got {quote(self.decimal)} for both")
        for text in self.date_format:
            TimeFormat(text)


PLAIN = Dialect()
"""Without any declaration."""

_MAX_DIGITS = 18
_MAX = 10**_MAX_DIGITS
_MAX_FLOATING = 10**15  # a float does not keep further digits
_SPACES = "\u0020\u00a0\u2007\u2009\u202f"
_MARKS = {None: "(?!)", ",": ",", ".": r"\.", "space": f"[{_SPACES}]", "apostrophe": "['\u2019]"}
_NUMBER = re.compile(r"[0-9]+(?:[.,'\u2019 \u00a0\u2007\u2009\u202f][0-9]+)*")
_PLAIN, _NEVER = re.compile(f"[0-9]{{1,{_MAX_DIGITS}}}"), re.compile("(?!)")
_EFFECTS = {
    "parentheses": "reads parentheses as less than zero",
    "trailing": "reads a sign behind the digits",
    "debit": "reads letters for credit and debit",
}
_STRANGE = re.compile("[*#!?~^]+")
_NEARLY = 0.0001
_DIGITS_ONLY = "write only digits, or declare how it is written"


class MoneyReader:
    """Reads amounts in one notation."""

    # Without a declaration, `15000` and `15000.00` are the same. `15.000` is refused, which is fifteen to one reader
    # and fifteen thousand to another.

    def __init__(self, dialect: Dialect = PLAIN) -> None:
        self._dialect = dialect
        self._places = dialect.minor_units
        self._has_point = dialect.decimal != "," and dialect.thousands != "."
        self.is_plain: Callable[[str], object] = (_NEVER if self._places else _PLAIN).fullmatch  # unambiguous texts
        self._pattern = _pattern(dialect)

    def read(self, cell: Any) -> int | None:
        """Return a whole number of the service's unit, or None for an empty cell."""
        # A cell is refused without exactly one reading in this notation, and a float of more than fifteen digits.
        if not isinstance(cell, str):
            return None if cell is None else self._number(cell)
        if self.is_plain(cell):  # the usual cases
            return int(cell)
        if self._has_point and cell[-3:] == ".00" and self.is_plain(cell[:-3]):
            return int(cell[:-3])
        if not (text := cell.strip(BLANK)):
            return None
        if (match := self._pattern.fullmatch(text)) is None:
            raise _refusal(text, self._dialect)
        return self._value(text, match)

    def sign(self, cell: Any, number: int) -> int:
        """Return -1 or 1 for a *cell* that shows the sign of its *number*. 0 if it has only digits."""
        if number < 0 or not isinstance(cell, str) or cell.isdigit():
            return -1 if number < 0 else 0
        match = self._pattern.fullmatch(cell.strip(BLANK))
        return 1 if match is not None and _signs(match) else 0

    def _value(self, text: str, match: re.Match[str]) -> int:
        whole, fraction = re.sub("[^0-9]", "", match["whole"]), match["fraction"] or ""
        if len(signs := _signs(match)) > 1:
            raise CellProblem("{} has two signs", quote(text))
        sign, digits = sum(signs) or 1, whole.lstrip("0")
        if fraction == "000" and 1 <= len(digits) <= 3 and self._dialect.decimal is None:
            number = f"-{digits}" if sign < 0 else digits
            message = "{} may mean {} or {}000: write only digits, or declare what the point is"
            ways = [Remedy((Way(name, "."),), "declares it") for name in ("decimal", "thousands")]
            raise CellProblem(message, quote(text), number, number, remedies=ways)
        return _scaled(sign, whole, fraction, self._places, text)

    def _number(self, value: Any) -> int | None:
        number = Decimal(value) if type(value) is int else value
        if isinstance(value, float) and abs(value) < _MAX_FLOATING:  # false for what is not a number
            if not self._places and 0 < abs(value - round(value)) < _NEARLY:
                message = "{} is nearly {:,}, but not quite. Round it in its formula, as with ROUND(…, 0)"
                raise CellProblem(message, shown(value), round(value))
            # The digits that spreadsheets keep are enough for a scale.
            number = Decimal(f"{value:.15g}" if self._places else repr(value))
        if not isinstance(number, Decimal) or not number.is_finite() or abs(number) >= _MAX:
            most = 15 if isinstance(value, float) else 18
            raise CellProblem("{} is not a whole number of at most {} digits", shown(value), most)
        text = f"{number:f}"
        if number is value and not self._places:  # its point may be one between thousands
            return _PLAIN_READER.read(text)
        whole, _, fraction = text.lstrip("+-").partition(".")
        return _scaled(-1 if number < 0 else 1, whole, fraction, self._places, text)


def _scaled(sign: int, whole: str, fraction: str, places: int, text: str) -> int:
    """Return a number with *places* decimal places as a whole number of its smallest units."""
    # The only place where digits of any length become a number: `int` refuses long ones with a plain error.
    digits = fraction.rstrip("0")
    if len(digits) > places:
        if places:
            raise CellProblem("{} has more than {} decimal places", quote(text), places)
        smaller = Way("minor_units", max(2, min(len(fraction), 4)))
        ways = [Remedy((smaller,), "reads it if the service counts in the smaller unit")]
        raise CellProblem("{} is not a whole number", quote(text), remedies=ways)
    number = (whole + digits.ljust(places, "0")).lstrip("0") or "0"
    if len(number) > _MAX_DIGITS:
        raise CellProblem("{} has more than {} digits", quote(text), _MAX_DIGITS)
    return sign * int(number)


def _pattern(dialect: Dialect) -> re.Pattern[str]:
    thousands = _MARKS[dialect.thousands]
    groups = f"[0-9]{{1,3}}(?:(?P<mark>{thousands})[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*)"
    space = f"[{_SPACES}]?"
    prefix = f"(?:{_affix(dialect.currency_prefix)}{space})?"
    suffix = f"(?:{space}{_affix(dialect.currency_suffix)})?"
    point = re.escape(dialect.decimal or "") or ("(?!)" if dialect.thousands == "." else r"\.")
    # Behind a declared decimal mark, nothing or a dash stands for "no fraction": 15.000,- and the 15.000.- of Indonesia
    dash = "(?:-{1,2}|[\u2013\u2014])"
    nothing = f"|{dash}?" if dialect.decimal else ""
    fraction = f"{point}(?:(?P<fraction>[0-9]+){nothing})"
    if dialect.thousands in (".", ","):
        fraction = f"{fraction}|(?(mark){thousands}{dash}|(?!))"
    fraction = f"(?:{fraction})?"
    bare = f"|(?={re.escape(dialect.decimal)}[0-9])" if dialect.decimal else ""  # such as .00
    number = f"(?P<whole>{groups}|[0-9]+{bare}){fraction}"
    sign = "[-+\u2212]"
    text = rf"(?:(?P<before>{sign}){space})?{prefix}(?P<between>{sign}?){number}{suffix}"
    if dialect.negative == "trailing":
        text = rf"{text}(?:{space}(?P<behind>{sign}))?"
    elif dialect.negative == "debit":
        words = "|".join(SIDES)
        ahead = rf"(?:(?P<ahead>{words})(?:\.?[{_SPACES}]|(?!\.)))?"  # the point of DB.50 may be a decimal mark
        text = rf"{ahead}{text}(?:{space}(?P<side>{words})\.?)?"
    elif dialect.negative == "parentheses":
        text = rf"(?P<open>{prefix}\()?{text}(?P<close>(?(open)\){suffix}))"
    return re.compile(text, re.IGNORECASE)


def _affix(symbol: str) -> str:
    if not symbol:
        return "(?!)"
    return re.escape(symbol) + (r"\.?" if symbol[-1].isalpha() else "")


def _signs(match: re.Match[str]) -> list[int]:
    """Return the signs of an amount, as 1 and -1."""
    marks = map(match.groupdict().get, ("before", "between", "behind", "ahead", "side", "open"))
    return [SIDES.get(mark.casefold()) or (1 if mark == "+" else -1) for mark in marks if mark]


def _refusal(text: str, dialect: Dialect) -> CellProblem:
    """Return the problem with *text*, and the option that would declare it."""
    if damage := _columns.damage(text):
        return CellProblem("{}: export the column as whole numbers", damage)
    if (number := _NUMBER.search(text)) is None:
        empty = Remedy((Way("null", text),), "reads it as an empty cell")
        return CellProblem("{} is not a number", quote(text), remedies=[empty])
    before, behind = text[: number.start()], text[number.end() :]
    fitting = _around([text], dialect)
    if fitting is not None and (ways := _options(fitting, dialect)):
        declaring = Remedy(ways[:1], _EFFECTS.get(str(ways[0].value), "reads it as a currency"))
        return CellProblem("{} is not a number as declared", quote(text), remedies=[declaring])
    if mark := _STRANGE.search(f"{before} {behind}"):
        message = "{}: {} may change the amount: export it in a column by itself"
        return CellProblem(message, quote(text), quote(mark[0]))
    if (hidden := _columns.invisible(number[0])) and dialect.thousands != "space":
        spaces = Remedy((Way("thousands", "space"),), "reads it if it groups thousands")
        return CellProblem("{}", hidden, remedies=[spaces])
    marks = {"decimal": dialect.decimal, "thousands": dialect.thousands}
    declarations = [f"{quote(str(mark))} for {name}" for name, mark in marks.items() if mark]
    declared = f" with {' and '.join(declarations)}" if declarations else ""
    return CellProblem("{} is not a whole number{}; {}", quote(text), declared, _DIGITS_ONLY)


_PLAIN_READER = MoneyReader()


@define
class SignLaw:
    """Applies the sign that stands next to the cells of one column."""

    _said_by: str
    """Such as `the column 'D/C'`."""
    _remedies: Sequence[Remedy] = ()
    _debits: dict[bool, int] = field(init=False, factory=dict)
    """The first debit whose cell has a sign for less than zero, and the first without."""

    def apply(self, number: int, in_cell: int, beside: int) -> int:
        """Return *number* with the sign that is given *beside* its cell, or *in_cell*: 1, -1, or 0 for neither."""
        if not number or not beside:
            return number
        if in_cell == -beside:
            side = "below" if in_cell < 0 else "above"
            message = f"{{:,}} is {side} zero by its own sign, but not by {{}}"
            raise CellProblem(message, number, self._said_by, remedies=self._remedies)
        if beside < 0:
            self._debits.setdefault(in_cell < 0, number)
            if len(self._debits) > 1:
                signed, bare = self._debits[True], self._debits[False]
                message = (
                    f"amounts that {self._said_by} makes debits have a minus ({signed:,}) and none ({bare:,}), "
                    "so one of them is not a debit: write them all in one way"
                )
                raise _columns.LedgerError(message)
        return beside * abs(number)


_MAX_SHAPES = 5000
_DIGITS = re.compile("[0-9]+")
_TRAILING = re.compile(r".*(?<![-,.])[-+\u2212]", re.DOTALL).fullmatch
_AROUND = re.compile(r"[-+\u2212()\s]+")
_WORDS = "|".join(SIDES)
_AHEAD = re.compile(rf"^(?P<side>{_WORDS})(?:\.?(?=\s)|$)", re.IGNORECASE)
_BEHIND = re.compile(rf"(?:^|(?<=[\W_]))(?P<side>{_WORDS})\.?$", re.IGNORECASE)
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
_READ = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_time_format = cache(TimeFormat)


def _as_long(digits: re.Match[str]) -> str:
    """Return as many digits with as many zeros at the end: their reading depends on nothing else."""
    zeros = len(digits[0]) - len(digits[0].rstrip("0"))
    return "1" * (len(digits[0]) - zeros) + "0" * zeros


Readings: TypeAlias = dict[tuple[object, ...], tuple[Way, ...]]
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
        readings = zip(self.remedies, self.values, strict=True)
        ways = " or ".join(f"{way.words(side)} ({first}{quote(self.cell)} → {value})" for way, value in readings)
        if not self.is_ambiguous:
            return f"{refused}: all can be read with {ways}"
        return f"{refused}. They are ambiguous: all can be read with {ways}, so declare the right one"


def combined(suggestions: Iterable[Suggestion]) -> list[Remedy]:
    """Return the ways to read all cells: one with every declaration, or one for each reading of ambiguous ones."""
    suggestions = list(suggestions)
    certain = [way for suggested in suggestions if not suggested.is_ambiguous for way in suggested.remedies[0].ways]
    readings = [remedy.ways for suggested in suggestions if suggested.is_ambiguous for remedy in suggested.remedies]
    return [Remedy((*certain, *ways), "reads them") for ways in readings or [()] if certain or ways]


@define
class _Seen:
    """The cells of amounts or of times."""

    cells: dict[Any, str] = field(factory=dict)
    """The first of each shape: of its digits, or of its day, the marks in it and the format of its clock."""
    rows: int = 0
    """Those with a refused cell."""
    first: str = ""
    is_readable: bool = True
    """Whether a declaration may make each refused cell readable."""


class Suggester:
    """Remembers the shapes of cells, and suggests declarations."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen = {"amounts": _Seen(), "times": _Seen()}

    def add_amount(self, cell: str, *, is_needed: bool = False) -> None:
        """Remember a cell of an amount, read or refused. If *is_needed*, it must not be empty."""
        seen = self._seen["amounts"]
        if cell[-3:] == ".00" and cell[:-3].isdigit():  # usual, and every notation reads all of these alike
            seen.cells.setdefault("", cell)
            return
        text = cell.strip(BLANK)
        if is_needed and text and not _DIGITS.search(text):
            seen.is_readable = False
        if len(seen.cells) <= _MAX_SHAPES and text:
            seen.cells.setdefault(_DIGITS.sub(_as_long, text), text)

    def add_time(self, cell: str) -> None:
        text, seen = cell.strip(BLANK), self._seen["times"]
        if not text or not seen.is_readable or self._dialect.date_format or len(seen.cells) > _MAX_SHAPES:
            return
        parts = _time_parts(text)
        if parts is None or _READ.match(text):  # read as it is, and refused with a declaration
            seen.is_readable = False
        else:
            seen.cells.setdefault(parts, text)

    def refuse(self, cells: Mapping[str, object]) -> None:
        """Count a row with the first refused cell of its amounts and times."""
        for what, cell in cells.items():
            seen = self._seen[what]
            seen.rows += 1
            seen.first = seen.first or str(cell).strip(BLANK)
            seen.is_readable = seen.is_readable and isinstance(cell, str)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield the declarations for amounts and for times that fit every cell."""
        for (what, seen), read in zip(self._seen.items(), (self._as_amounts, self._as_times), strict=True):
            is_readable = seen.rows and seen.is_readable and 0 < len(seen.cells) <= _MAX_SHAPES
            if is_readable and (readings := read(seen.cells)):
                yield _suggested(what, seen, readings)

    def _as_amounts(self, cells: Mapping[Any, str]) -> Readings:
        # The simplest dialect for each different way to read all cells.
        readings: Readings = {}
        options = {dialect: _options(dialect, self._dialect) for dialect in candidates(cells.values(), self._dialect)}
        for candidate in sorted(options, key=lambda dialect: len(options[dialect])):
            if values := _read_all(cells.values(), candidate):
                readings.setdefault(values, options[candidate])
        return readings

    def _as_times(self, cells: Mapping[Any, str]) -> Readings:
        clocks = list(dict.fromkeys(clock for *_, clock in cells))
        (_, marks, _), *_ = cells
        readings: Readings = {}
        for order in (pattern.format(*marks) for pattern in _ORDERS):
            times = tuple(_time_format(f"{order}{clock}").read(cell) for (*_, clock), cell in cells.items())
            if None not in times:
                readings.setdefault(times, tuple(Way("date_format", f"{order}{clock}") for clock in clocks))
        return readings


def _suggested(what: str, seen: _Seen, readings: Readings) -> Suggestion:
    """Return the suggestion of the ways to read all cells that were found, by their values."""
    cells = [*seen.cells.values()]
    first = cells.index(seen.first) if seen.first in cells else 0
    number = next((number for number, values in enumerate(zip(*readings, strict=True)) if len({*values}) > 1), first)
    remedies = tuple(Remedy(options, "reads them") for options in readings.values())
    values = tuple("empty" if values[number] is None else str(values[number]) for values in readings)
    return Suggestion(what=what, rows=seen.rows, cell=cells[number], remedies=remedies, values=values)


_MARK_OPTIONS = ("decimal", "thousands", "negative", "currency_prefix", "currency_suffix")


def _read_all(cells: Iterable[str], dialect: Dialect) -> tuple[int | None, ...] | None:
    reader = MoneyReader(dialect)
    try:
        return tuple(None if cell in dialect.null else reader.read(cell) for cell in cells)
    except CellProblem:
        return None


def candidates(cells: Iterable[str], dialect: Dialect) -> Iterator[Dialect]:
    """Yield every dialect for amounts that agrees with *dialect* and fits the marks around the digits."""
    if (fitting := _around(list(cells), dialect)) is not None:
        decimals = (None, ".", ",") if dialect.decimal is None else (dialect.decimal,)
        thousands = (None, *THOUSANDS) if dialect.thousands is None else (dialect.thousands,)
        for decimal, mark in product(decimals, thousands):
            if mark is None or decimal != mark:
                yield attrs.evolve(fitting, decimal=decimal, thousands=mark)


def _around(cells: list[str], dialect: Dialect) -> Dialect | None:
    """Return *dialect* with the declarations needed for currency, sign and empty cells. None if none can be right."""
    filled = [cell for cell in cells if _DIGITS.search(cell)]
    changes: dict[str, Any] = {"null": (*dialect.null, *(cell for cell in cells if cell not in filled))}
    if dialect.negative == "leading" and any("(" in cell for cell in filled):
        changes["negative"] = "parentheses"
    elif dialect.negative == "leading" and any(map(_TRAILING, filled)):
        changes["negative"] = "trailing"
    for name, pattern, side in (("currency_prefix", r"^[^0-9]*", _AHEAD), ("currency_suffix", r"[^0-9]*$", _BEHIND)):
        around = [match[0] if (match := re.search(pattern, cell)) else "" for cell in filled]
        sides = [match["side"].casefold() for text in around if (match := side.search(text))]
        if side is _BEHIND or len({SIDES[text] for text in sides}) > 1 or any(len(text) > 1 for text in sides):
            around = [side.sub("", text) for text in around]
            changes |= {"negative": "debit"} if sides else {}
        spelt = [symbol for text in around if (symbol := _AROUND.sub("", text).strip(".,\u2013\u2014'"))]
        symbols = {symbol.casefold() for symbol in spelt}
        declared = getattr(dialect, name)
        if len(symbols) > 1 or (declared and symbols - {declared.casefold().rstrip(".")}):
            return None
        if symbols and not declared:
            changes[name] = spelt[0]
    try:
        return attrs.evolve(dialect, **changes)
    except ValueError:  # the text around the digits is not a currency
        return None


def _options(candidate: Dialect, declared: Dialect) -> tuple[Way, ...]:
    marks = (name for name in _MARK_OPTIONS if getattr(candidate, name) != getattr(declared, name))
    empty = (text for text in candidate.null if text not in declared.null)
    return (*(Way(name, getattr(candidate, name)) for name in marks), *(Way("null", text) for text in empty))


def _time_parts(cell: str) -> tuple[str, tuple[str, ...], str] | None:
    """Return the day, its two marks, and the format of the rest. None if unknown."""
    if (match := _DAY.match(cell)) is None:
        return None
    mark, rest = cell[match.end() :][:1], cell[match.end() + 1 :]
    clocks = (clock for clock, pattern in _CLOCKS.items() if mark in ("", " ", "T") and pattern.fullmatch(rest))
    return next(((match[0], match.groups(), f"{mark}{clock}") for clock in clocks), None)


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
    if parts := _time_parts(text):
        _, marks, clock = parts
        if any(_time_format(f"{order.format(*marks)}{clock}").read(text) for order in _ORDERS):
            return True
    with suppress(CellProblem):
        return TimeReader().read_creation(text) is not None
    return False
