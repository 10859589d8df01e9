"""
A transaction as a frozen value, read from JSON by one hook of cattrs for each field.

Design rules:

- Money is exact or refused: a whole number, however it is written, and nothing else.
- `reference`, `amount` and `status` are required. Any other field may be absent, null or malformed,
  and is then None: an optional field must not make the row unusable.
- Every tolerated fault is listed. `deviations` is computed afterwards, by comparing the data with the
  specification, so no reading rule can forget to report itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, tzinfo
from decimal import Decimal
from functools import partial
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, cast, get_type_hints

import cattrs
from attrs import evolve, field, fields, frozen
from cattrs.gen import make_dict_structure_fn, override

from payclient.protocol._json import kind

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
    """Describe a JSON value in a few words. Never a payment code."""
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
    if (number := _exact_integer(value)) is None:
        raise FieldProblem(f"{name}: {_shown(name, value)} is not an exact whole number")
    return number


def _text(value: object, _: object = None) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else None


def _required_text(name: str, value: object, _: object) -> str:
    if not (text := _text(value)):
        raise FieldProblem(f"{name}: {_shown(name, value)} where text is needed")
    return text


def _read_expdate(value: object, _: object) -> datetime | None:
    """Read a naive time. None for `0000-00-00 00:00:00`, and for a time with a zone, since it would be lost."""
    if not isinstance(value, str) or (match := _TIME.fullmatch(value)) is None:
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
        or (name == "expdate" and (transaction.expdate is None or not _DOCUMENTED_TIME.fullmatch(str(value))))
    ]
    read = dict(zip(DOCUMENTED, documented_values(transaction), strict=True)) if odd else {}
    found = [f"{name}: {_shown(name, data.get(name, _ABSENT))} {_reading(read[name])}" for name in odd]
    found += [f"unknown field {name[:40]!r}" for name in data if name not in DOCUMENTED]
    more = len(found) - _MAX_DEVIATIONS
    return (*found[:_MAX_DEVIATIONS], f"and {more} more") if more > 0 else tuple(found)


def _reading(value: object) -> str:
    if value is None:
        return "read as nothing"
    if value == "":
        return "is empty"
    return f"read as {'integer' if isinstance(value, int) else 'time' if isinstance(value, datetime) else 'text'}"


REQUIRED = ("reference", "amount", "status")
DOCUMENTED: Mapping[str, type] = {
    **dict.fromkeys(("reference", "merchant_reff", "payment_method", "payment_name"), str),
    **dict.fromkeys(("amount", "fee", "amount_received"), int),
    **dict.fromkeys(("payment_code", "expdate", "status"), str),
}


_READ: dict[str, Callable[[object, object], object]] = {
    **dict.fromkeys(DOCUMENTED, _text),
    **{name: partial(_required_text, name) for name in ("reference", "status")},
    **{name: partial(_money, name) for name, kind in DOCUMENTED.items() if kind is int},
    "expdate": _read_expdate,
}
EMPTY: Mapping[str, Any] = MappingProxyType({})
_DOCUMENTED_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_MAX_DOCUMENTED = 4096
"""Characters. The documented response has about 350."""
_PICKLE_VERSION = 1
"""Grows when a field gets another meaning. `__setstate__` then reads both. None stands for 0."""
_decoder: Any = json.JSONDecoder(object_pairs_hook=tuple)  # the checkers of types do not know its `scan_once`
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once
_TYPES = tuple(DOCUMENTED.values())
_COUNT = len(_TYPES)
_MONEY = (int, type(None))
_documented_values = itemgetter(*DOCUMENTED)


class Returnable:
    """The base class of results that have JSON, so that a page can return them, and FastAPI lists of them."""

    __slots__ = ()
    _computed: ClassVar[tuple[str, ...]] = ()
    """The properties that are a part of the JSON."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    """Names that the JSON of another version may lack."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON, with the payment code masked."""
        names = (*(each.name for each in fields(cast("type[Any]", type(self)))), *self._computed)
        return {name: _plain(getattr(self, name)) for name in names}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        # As pydantic's models do: `dict(result)` works, as does a response of FastAPI without a type.
        return iter(self.as_json().items())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> Any:
        """Make it a field of a pydantic model, and a response model of FastAPI. Only pydantic calls it."""
        from payclient.protocol.transaction._pydantic import schema  # noqa: PLC0415  it needs pydantic

        return schema(cls, getattr(cls, "from_json", None), handler.generate_schema)

    @classmethod
    def _json_types(cls) -> dict[str, Any]:
        computed = {name: get_type_hints(getattr(cls, name).fget)["return"] for name in cls._computed}
        hints = get_type_hints(cls)
        return {each.name: hints[each.name] for each in fields(cast("type[Any]", cls))} | computed


def _plain(value: object) -> object:
    if isinstance(value, Returnable):
        return value.as_json()
    return [_plain(each) for each in cast("tuple[object, ...]", value)] if isinstance(value, tuple) else value


def masked(code: str) -> str:
    """Return a payment code with all but the last four characters masked."""
    return "*" * (len(code) - 4) + code[-4:] if len(code) > 4 else "*" * len(code)


@frozen(kw_only=True)
class Transaction(Returnable):
    """
    One transaction, with the service's own field names.

    Attributes:
        reference: The service's reference code. Always the requested one.
        merchant_reff: The merchant's own reference.
        payment_method: Short code of the payment method.
        payment_name: Human-readable name of the payment method.
        amount: Total amount. The specification gives neither currency nor unit.
        fee: Fee charged on the transaction.
        amount_received: Amount received by the merchant.
        payment_code: Code that the payer pays with. Masked in `repr`.
        expdate: Expiry of the payment, without a time zone, because the service gives none.
        status: The service's word for the state, unchanged.
        raw: The `data` object as received, read-only. Numbers with a point are `Decimal`.
        deviations: Differences from the specification that were tolerated, one sentence each.
        request_id: The service's identifier of the request that gave the transaction, if it sent one.

    Source:
        Transaction detail specification, part 2.
    """

    reference: str
    merchant_reff: str | None = None
    payment_method: str | None = None
    payment_name: str | None = None
    amount: int
    fee: int | None = None
    amount_received: int | None = None
    payment_code: str | None = field(default=None, repr=lambda code: repr(code and masked(code)))
    expdate: datetime | None = None
    status: str
    raw: Mapping[str, Any] = field(default=EMPTY, repr=False, eq=False)
    deviations: tuple[str, ...] = field(default=(), eq=False)
    request_id: str | None = field(default=None, repr=False, eq=False)

    _optional = frozenset(DOCUMENTED) - {*REQUIRED}

    def __attrs_post_init__(self) -> None:
        # One look at all: a validator for each field would be a call for each.
        if type(self.amount) is not int or type(self.fee) not in _MONEY or type(self.amount_received) not in _MONEY:
            given = f"{self.amount!r}, {self.fee!r} and {self.amount_received!r}"
            raise TypeError(f"amount must be an int, and fee and amount_received an int or None, got {given}")

    def expires_at(self, tz: tzinfo) -> datetime | None:
        """
        Return `expdate` as an aware time.

        Args:
            tz: The zone of the service, such as `ZoneInfo("Asia/Jakarta")`. The specification has
                none.

        Returns:
            None without `expdate`.
        """
        return None if self.expdate is None else self.expdate.replace(tzinfo=tz)

    def as_json(self, *, with_payment_code: bool = False) -> dict[str, str | int | None]:
        """
        Return the ten fields in the form of JSON, in the order of the specification.

        Args:
            with_payment_code: Include the whole payment code, instead of masking all but its last four characters.

        Note:
            `expdate` is text such as `2026-11-21 10:00:00`. `raw`, `deviations` and `request_id` are left out.

        Source:
            Transaction detail specification, part 2.
        """
        values: dict[str, str | int | None] = dict(zip(DOCUMENTED, documented_values(self), strict=True))
        if self.payment_code is not None and not with_payment_code:
            values["payment_code"] = masked(self.payment_code)
        if self.expdate is not None:
            values["expdate"] = self.expdate.isoformat(sep=" ")
        return values

    def __iter__(self) -> Iterator[tuple[str, str | int | None]]:
        return iter(self.as_json().items())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Transaction:
        """
        Return the transaction that `as_json` has turned into *data*.

        Args:
            data: The fields, read by the same rules as a response of the service.

        Note:
            A payment code that was masked stays so.

        Raises:
            ValueError: When `reference`, `amount` or `status` is missing, or money is not exact.
        """
        return evolve(read_transaction(dict(data)), deviations=())

    @classmethod
    def _json_types(cls) -> dict[str, Any]:
        return {name: kind | None if name in cls._optional else kind for name, kind in DOCUMENTED.items()}

    def __getstate__(self) -> dict[str, Any]:
        state = {str(attribute.alias): getattr(self, attribute.name) for attribute in fields(type(self))}
        return {**state, "raw": dict(self.raw), "version": _PICKLE_VERSION}  # a read-only view cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Queues outlive an update: a field that another version lacks gets its default, further fields are left out.
        for attribute in fields(Transaction):
            value: Any = state.get(str(attribute.alias), attribute.default)
            object.__setattr__(self, attribute.name, MappingProxyType(value) if attribute.name == "raw" else value)


ATTRIBUTES: Mapping[str, str] = {str(each.alias): each.name for each in fields(Transaction) if each.alias in DOCUMENTED}
"""The attribute of each field. A field with another name than the service's has that one as its `alias`."""
documented_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*ATTRIBUTES.values())
# For the checker of types, `**` could as well name the options of cattrs.
_HOOKS: dict[str, Any] = {
    **{ATTRIBUTES[name]: override(struct_hook=read) for name, read in _READ.items()},
    **dict.fromkeys(("raw", "deviations", "request_id"), override(omit=True)),
}
_structure = make_dict_structure_fn(
    Transaction,
    cattrs.Converter(detailed_validation=False),
    _cattrs_detailed_validation=False,
    _cattrs_use_alias=True,
    **_HOOKS,
)


def read_transaction(
    data: dict[str, Any], *, notes: tuple[str, ...] = (), request_id: str | None = None
) -> Transaction:
    """Return the `data` object of a response as a `Transaction`."""
    # Transaction detail specification, part 2.
    for name in REQUIRED:
        if name not in data:
            raise FieldProblem(f"{name}: absent")
    transaction = _structure(data, Transaction)
    deviations = notes + deviations_of(data, transaction)
    return evolve(transaction, raw=MappingProxyType(data), deviations=deviations, request_id=request_id)


def read_documented(text: str, *, request_id: str | None) -> Transaction | None:
    """Return the transaction of a body that is as documented to the letter, as nearly all are. None for any other."""
    # It believes only what the strict readers would read in the same way, and leaves everything else to them.
    # Excluded are escapes, lists and objects within `data`. Objects arrive as tuples of pairs, so ten pairs with
    # the ten names repeat none. Any other type, such as the `float` of a number with a point, is not in `_TYPES`.
    if len(text) > _MAX_DOCUMENTED or "\\" in text or "[" in text or text.count("{") > 2:
        return None
    try:
        body, end = _scan(text, 0)
        (success, is_success), *said, (name, pairs) = body
        data: dict[str, Any] = dict(pairs)
        values: tuple[Any, ...] = _documented_values(data)
        if success != "success" or is_success is not True or name != "data" or pairs[_COUNT:]:
            return None
        if said and (said[1:] or said[0][0] != "message" or type(said[0][1]) is not str):  # it is meaningless here
            return None
        if type(pairs) is not tuple or tuple(map(type, values)) != _TYPES or "" in values:
            return None
        amount, fee, received, expdate = values[4], values[5], values[6], values[8]
        if not (-BOUND < amount < BOUND and -BOUND < fee < BOUND and -BOUND < received < BOUND):
            return None
        if not _DOCUMENTED_TIME.fullmatch(expdate) or (text[end:] and text[end:].strip(" \t\r\n")):
            return None
        fields: dict[str, Any] = {**data, "expdate": datetime.fromisoformat(expdate)}
    except (StopIteration, KeyError, TypeError, ValueError):  # not JSON, another shape, or an impossible day
        return None
    return Transaction(**fields, raw=MappingProxyType(data), request_id=request_id)
