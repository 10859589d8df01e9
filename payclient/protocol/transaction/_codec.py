"""
Read the fields of a transaction, by one hook of cattrs for each.

Design rules:

- Money is exact or refused: a whole number, however it is written, and nothing else.
- `reference`, `amount` and `status` are required. Any other field may be absent, null or malformed,
  and is then None: an optional field must not make the row unusable.
- Every tolerated fault is listed. `deviations` is computed afterwards, by comparing the data with the
  specification, so no reading rule can forget to report itself.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, cast

from cattrs.gen import override

from payclient.protocol.transaction._json import kind

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.0{1,6})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,20}(?:\.0{1,2})?", re.ASCII)
_MAX_ZEROS = 2
"""Zeros after the point: `15.000` is fifteen thousand where the point separates thousands."""
BOUND = 10**18
"""No payment has more digits, and larger numbers do not fit a 64-bit column."""
_MAX_DEVIATIONS = 20
_ABSENT = object()


class FieldProblem(ValueError):  # noqa: N818  it is a finding about the data. The error is built from it
    """A field cannot be read. The text has its name, the value and the requirement."""


def _shown(name: str, value: object) -> str:
    """Describe a JSON value in a few words; never a payment code."""
    if value is _ABSENT:
        return "absent"
    if name == "payment_code" and value is not None and value != "":
        return "a value that is not text"
    if isinstance(value, str) and value:
        return f"text {value[:40] + '…' if len(value) > 40 else value!r}"
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"number {value}"
    return kind(value)


def _exact_integer(value: object) -> int | None:
    if type(value) is int:  # `bool` is an `int`, and not money
        number = value
    elif isinstance(value, Decimal):
        if value != value.to_integral_value() or cast("int", value.as_tuple().exponent) < -_MAX_ZEROS:
            return None
        number = int(value)
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        number = int(Decimal(value))
    else:
        return None
    return number if abs(number) < BOUND else None


def _money(name: str, value: object, _: object) -> int | None:
    """Read money: an inexact value is refused, and an empty one if it is required."""
    if name not in REQUIRED and (value is None or value == ""):
        return None
    number = _exact_integer(value)
    if number is None:
        raise FieldProblem(f"{name}: {_shown(name, value)} is not an exact whole number")
    return number


def _text(value: object, _: object = None) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else None


def _required_text(name: str, value: object, _: object) -> str:
    text = _text(value)
    if not text:
        raise FieldProblem(f"{name}: {_shown(name, value)} where text is needed")
    return text


def _read_expdate(value: object, _: object) -> datetime | None:
    """Read a naive time. None for `0000-00-00 00:00:00`, and for a time with a zone, since it would be lost."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        return datetime.fromisoformat(match[1])
    except ValueError:
        return None


def deviations_of(data: Mapping[str, Any], transaction: Any) -> tuple[str, ...]:
    """Describe each field that is not as the specification documents it."""
    odd = [
        name
        for name, kind in DOCUMENTED.items()
        if type(value := data.get(name)) is not kind
        or value == ""
        or (name == "expdate" and not _is_documented_time(value, transaction.expdate))
    ]
    found = [f"{name}: {_shown(name, data.get(name, _ABSENT))} {_reading(getattr(transaction, name))}" for name in odd]
    found += [f"unknown field {name[:40]!r}" for name in data if name not in DOCUMENTED]
    more = len(found) - _MAX_DEVIATIONS
    return (*found[:_MAX_DEVIATIONS], f"and {more} more") if more > 0 else tuple(found)


def _reading(value: object) -> str:
    if value is None:
        return "read as nothing"
    if value == "":
        return "is empty"
    return f"read as {'integer' if isinstance(value, int) else 'time' if isinstance(value, datetime) else 'text'}"


def _is_documented_time(value: object, read: datetime | None) -> bool:
    return read is not None and isinstance(value, str) and len(value) == 19 and value[10] == " "


REQUIRED = ("reference", "amount", "status")
DOCUMENTED: Mapping[str, type] = {
    **dict.fromkeys(("reference", "merchant_reff", "payment_method", "payment_name"), str),
    **dict.fromkeys(("amount", "fee", "amount_received"), int),
    **dict.fromkeys(("payment_code", "expdate", "status"), str),
}


def _hook(name: str) -> Callable[[object, object], object]:
    if name == "expdate":
        return _read_expdate
    if DOCUMENTED[name] is int:
        return partial(_money, name)
    return partial(_required_text, name) if name in REQUIRED else _text


# For the checker of types, `**` could as well name the options of cattrs.
HOOKS: dict[str, Any] = {name: override(struct_hook=_hook(name)) for name in DOCUMENTED}
