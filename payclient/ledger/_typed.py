"""
Read one cell that may have a type of its own: a number, a truth value or a time as well as text.

Text is read as in CSV. A number where a code belongs is refused: whether it had leading zeros, or
more digits than the format keeps, can no longer be seen.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from attrs import frozen

from payclient._visible import quoted
from payclient.ledger._cells import CellProblem, read_code, read_creation, read_money, read_time, read_word
from payclient.ledger._rows import readers

_MOST = 10**18
_MOST_FLOATING = 10**15  # digits beyond the fifteenth are not those that were typed


@frozen
class Unreadable:
    """A cell without a value that means anything; *reason* is what a rejected row says of it."""

    reason: str


def money_value(value: Any) -> int | None:
    """
    Return a whole number, or None for an empty cell.

    Args:
        value: An int; a float or a Decimal that is exactly whole; or text.

    Raises:
        CellProblem: For anything else, and for a float of more than fifteen digits.
    """
    if value is None or isinstance(value, str):
        return None if value is None else read_money(value)
    if type(value) is int:
        if -_MOST < value < _MOST:
            return value
    elif isinstance(value, float):
        if value.is_integer() and abs(value) < _MOST_FLOATING:
            return int(value)
    elif isinstance(value, Decimal):
        return read_money(str(value))
    message = f"{_shown(value)} is not a whole number of at most {15 if isinstance(value, float) else 18} digits"
    raise CellProblem(message)


def code_value(value: Any) -> str | None:
    """
    Return an identifier, or None for an empty cell.

    Raises:
        CellProblem: When it is not text, or a spreadsheet has been at it.
    """
    return read_code(_only_text(value))


def word_value(value: Any) -> str | None:
    """
    Return a word, or None for an empty cell.

    Raises:
        CellProblem: When it is not text, or holds what cannot be seen.
    """
    return read_word(_only_text(value))


def time_value(value: Any) -> datetime | None:
    """
    Return a time without a zone, or None for an empty cell.

    Raises:
        CellProblem: When it has a zone or a fraction of a second, or is a date alone or no time.
    """
    if isinstance(value, datetime) and value.microsecond:
        message = f"{_shown(value)} has a fraction of a second; the service's times have none"
        raise CellProblem(message)
    return _naive(value) if isinstance(value, datetime) else read_time(_time_text(value))


def creation_value(value: Any) -> datetime | None:
    """
    Return a time without a zone, or None for an empty cell. A fraction of a second is accepted.

    Raises:
        CellProblem: When it has a zone, or is a date alone or no time.
    """
    return _naive(value) if isinstance(value, datetime) else read_creation(_time_text(value))


TYPED_READERS = readers(code=code_value, money=money_value, word=word_value, time=time_value, creation=creation_value)
"""For formats whose cells have types."""


def _only_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    what = "a number, so leading zeros or digits may be lost" if is_number else "no text"
    message = f"{_shown(value)} is {what}; store the column as text"
    raise CellProblem(message)


def _time_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    message = f"{_shown(value)} is {'a date without a time of day' if isinstance(value, date) else 'not a time'}"
    raise CellProblem(message)


def _naive(value: datetime) -> datetime:
    if value.tzinfo is not None:
        message = f"{_shown(value)} has a time zone, which the service's times have not; store it without"
        raise CellProblem(message)
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Unreadable):
        raise CellProblem(value.reason)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bytes):
        return "binary data"
    return quoted(str(value)).strip("'")
