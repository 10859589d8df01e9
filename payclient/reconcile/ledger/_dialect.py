"""
Declared notation of a ledger: nothing of this is ever guessed.

Times are in the notation of `strftime`, or in ISO 8601. Not with `strptime`, which knows the names of months in the
language of the process, takes digits of other scripts, and reads `%y` and missing parts as it likes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time
from types import MappingProxyType
from typing import Any, cast
from unicodedata import category

from attrs import Attribute, field, frozen

from payclient._shared.checks import invalid_option, must_be, unfit
from payclient._shared.escape import quote
from payclient.protocol import EMPTY
from payclient.reconcile._fields import KINDS
from payclient.reconcile.ledger._columns import SIDES, WORDS, CellProblem, read_word, shown

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
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.0{1,9})?()", re.ASCII)
_CREATION = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
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
            return datetime.fromisoformat(
                f"{year}-{int(month):02}-{int(parts['day']):02} {hour:02}:{parts.get('minute') or '00'}:"
                f"{parts.get('second') or '00'}.{(parts.get('part') or '')[:6]:0<6}{_offset(parts.get('zone'))}"
            )
        return None


class TimeReader:
    """Reads times in the declared formats. Without one, the year is first, as in ISO 8601."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        self._formats = [TimeFormat(text) for text in texts]

    def read(self, cell: Any) -> datetime | None:
        """Return a time without a zone, or None for an empty cell."""
        # A time is refused with a zone, a fraction of a second or two readings, or without a time of day.
        if isinstance(cell, datetime):
            return _exact(cell, shown(cell), has_time=True)
        reading = self._found(cell, _TIME, "written YYYY-MM-DD HH:MM:SS without a zone")
        return None if reading is None else _exact(reading[0], quote(cell), has_time=reading[1])

    def read_creation(self, cell: Any) -> datetime | None:
        """Return the time of creation, aware if the cell has a zone, or None for an empty cell."""
        # A date alone is the start of that day, and a fraction of a second in a text is dropped.
        if isinstance(cell, date):
            return cell if isinstance(cell, datetime) else datetime.combine(cell, time.min)
        reading = self._found(cell, _CREATION, "such as 2026-11-21 22:16:00, 2026-11-21T22:16:00Z or 2026-11-21")
        return None if reading is None else reading[0].replace(microsecond=0)

    def _found(self, cell: Any, pattern: re.Pattern[str], wanted: str) -> tuple[datetime, bool] | None:
        """Return the time in a cell, and whether its format has a time of day. Undeclared, *pattern* reads it."""
        if cell is not None and not isinstance(cell, str):
            what = "a date without a time of day" if isinstance(cell, date) else "not a time"
            raise CellProblem(f"{{}} is {what}", shown(cell))
        if (text := read_word(cell)) is None:
            return None
        if not self._formats:
            return _in_iso(text, pattern, wanted), True
        readings = [(read, form) for form in self._formats if (read := form.read(text)) is not None]
        if not readings:
            formats = " or ".join(quote(form.text) for form in self._formats)
            raise CellProblem("{} is not a time written {}", quote(text), formats)
        if any(read != readings[0][0] for read, _ in readings):
            both = " and ".join(quote(form.text) for _, form in readings)
            raise CellProblem("{} is another day with each of {}: declare one of them", quote(text), both)
        return readings[-1][0], readings[-1][1].has_time


def _in_iso(text: str, pattern: re.Pattern[str], wanted: str) -> datetime:
    match = pattern.fullmatch(text)
    try:
        day, clock, zone = match.groups() if match else ("", "", "")
        return datetime.fromisoformat(f"{day} {clock or '00:00'}{_offset(zone) if zone else ''}")
    except ValueError:  # including the 31st of February
        raise CellProblem(f"{{}} is not a time {wanted}: declare the format that it has", quote(text)) from None


def _offset(zone: str | None) -> str:
    return "Z" if zone and zone[0].isalpha() else zone or ""


def _exact(time: datetime, cell: str, *, has_time: bool) -> datetime:
    for is_wrong, problem in (
        (time.tzinfo is not None, "has a time zone, unlike the service's times: store it without"),
        (time.microsecond, "has a fraction of a second, unlike the service's times"),
        (not has_time, "is a date without a time of day"),
    ):
        if is_wrong:
            raise CellProblem(f"{{}} {problem}", cell)
    return time


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
