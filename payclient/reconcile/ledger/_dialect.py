"""Declared notation of a ledger: nothing of this is ever guessed."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self, cast
from unicodedata import category

from attrs import Attribute, field, frozen
from attrs.converters import optional

from payclient._shared.checks import invalid_option, must_be, unfit
from payclient._shared.escape import quote
from payclient.protocol import EMPTY
from payclient.reconcile.ledger._columns import SIDES
from payclient.reconcile.ledger._times import TimeFormat

UTF_8 = "utf-8"


class _Word(StrEnum):
    @classmethod
    def _missing_(cls, value: object) -> Self:
        raise unfit(cls.__name__.lower(), f"one of {', '.join(cls)}", quote(value))


class Thousands(_Word):
    """
    The mark between the thousands of an amount.

    Attributes:
        COMMA: `1,250,000`.
        POINT: `1.250.000`.
        SPACE: Any space: plain, no-break, narrow or thin.
        APOSTROPHE: `1'250'000`, straight or curly.
    """

    COMMA = ","
    POINT = "."
    SPACE = "space"
    APOSTROPHE = "apostrophe"


class Negative(_Word):
    """
    The notation of amounts below zero.

    Attributes:
        LEADING: `-15000`, also read with each of the others.
        TRAILING: `15000-`.
        PARENTHESES: `(15000)`.
        DEBIT: `15000 DB`, next to `15000 CR`, with the words that banks use.
    """

    LEADING = "leading"
    TRAILING = "trailing"
    PARENTHESES = "parentheses"
    DEBIT = "debit"


_ENCODINGS = frozenset(
    (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "mac-roman", "koi8-r", "koi8-u", "cp874"),
        *(f"cp{number}" for number in (437, 850, 852, 858, 866, *range(1250, 1259), 932, 936, 949, 950)),
        *(f"iso8859-{number}" for number in (*range(1, 12), *range(13, 17))),
        *("gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
    )
)
_MAX_MINOR_UNITS = 4
_MONEY = ("amount", "fee", "amount_received")


def _is_known(encoding: object) -> bool:
    return encoding == UTF_8 or encoding in [codecs.lookup(each).name for each in _ENCODINGS]


_is_row = must_be("the number of a row, from 1", lambda value: value is None or (type(value) is int and value >= 1))
_is_mark = must_be("a point or a comma", lambda value: value in (None, ".", ","))
_is_places = must_be(
    f"from 0 to {_MAX_MINOR_UNITS}, such as 2 for cents",
    lambda value: type(value) is int and 0 <= value <= _MAX_MINOR_UNITS,
)
_is_flag = must_be("true or false", lambda value: value is True or value is False)
_are_texts = must_be(
    "text, or a list of texts",
    lambda value: isinstance(value, tuple) and all(isinstance(each, str) and each for each in cast("Any", value)),
)
_is_encoding = must_be("one that ledgers have, such as cp1252, iso-8859-1 or utf-16", _is_known)
_are_debits = must_be(
    f"a table with a column for {', '.join(_MONEY)}, as in amount=Debit",
    lambda value: (
        isinstance(value, Mapping) and all(name in _MONEY and column for name, column in cast("Any", value).items())
    ),
)


def _is_symbol(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, str) and value.casefold() in SIDES:
        problem = f"must be a currency, and {quote(value)} says credit or debit; try debit for negative"
        raise invalid_option(attribute.name, problem)
    if not isinstance(value, str) or not all(_may_be_symbol(each) for each in value.rstrip(".")):
        raise unfit(attribute.name, "the sign or the letters of a currency, such as Rp", quote(value))


def _may_be_symbol(character: str) -> bool:
    """Return whether a currency symbol may contain it, such as `Rp`, `US$`, `S/` and `₨`."""
    return character.isalpha() or character in " /" or category(character)[0] == "M" or category(character) == "Sc"


# A converter leaves to the validator what it cannot convert.


def _to_encoding(value: Any) -> Any:
    try:
        name = codecs.lookup(value).name
    except (LookupError, TypeError, ValueError):
        return value
    return name if _is_known(name) else value


def _to_texts(value: Any) -> Any:
    given: object = value
    texts = cast("list[Any]", [value] if isinstance(given, str) else value)
    are_texts = isinstance(given, str | list | tuple) and all(isinstance(text, str) and text.strip() for text in texts)
    return tuple(text.strip() for text in texts) if are_texts else value


def _to_debits(value: Any) -> Any:
    """Return a table, or a list of `field=name`, as a table that cannot be changed."""
    if isinstance(value, list | tuple):
        value = {name: column for name, _, column in (str(text).partition("=") for text in cast("list[Any]", value))}
    if not isinstance(value, Mapping):
        return value
    columns = cast("Mapping[str, object]", value).items()
    return MappingProxyType({name: column.strip() if isinstance(column, str) else "" for name, column in columns})


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
        thousands: The mark between its thousands: `.`, `,`, `space` or `apostrophe`.
        negative: The notation of amounts below zero.
        minor_units: Decimal places of an amount that the service counts as whole units: 2 if it counts cents.
        currency_prefix: A currency's sign or letters before an amount, such as `Rp`. It may be missing.
        currency_suffix: The same, after an amount.
        date_format: How times are written as text, in the letters of `strftime`. Each cell fits exactly one.
        null: Texts that mean an empty cell, such as `NULL`.
        allow_references: References that would be taken for an empty cell otherwise, such as `NA` and `0`.
        debit_columns: Columns whose amounts count as below zero, by field, next to a column with those above zero. In
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

    encoding: str = field(default=UTF_8, converter=_to_encoding, validator=_is_encoding)
    header_row: int | None = field(default=None, validator=_is_row)
    decimal: str | None = field(default=None, validator=_is_mark)
    thousands: Thousands | None = field(default=None, converter=optional(Thousands))
    negative: Negative = field(default=Negative.LEADING, converter=Negative)
    minor_units: int = field(default=0, validator=_is_places)
    currency_prefix: str = field(default="", converter=_trimmed, validator=_is_symbol)
    currency_suffix: str = field(default="", converter=_trimmed, validator=_is_symbol)
    date_format: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    null: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    allow_references: tuple[str, ...] = field(default=(), converter=_to_texts, validator=_are_texts)
    debit_columns: Mapping[str, str] = field(default=EMPTY, converter=_to_debits, validator=_are_debits, hash=False)
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
