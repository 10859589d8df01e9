"""A transaction as a frozen value, made of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, tzinfo
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import cattrs
from attrs import evolve, field, fields, frozen
from cattrs.gen import make_dict_structure_fn, override

from payclient.protocol.transaction._codec import BOUND, DOCUMENTED, HOOKS, REQUIRED, FieldProblem, deviations_of

EMPTY: Mapping[str, Any] = MappingProxyType({})
_DOCUMENTED_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_MAX_DOCUMENTED = 4096
"""Characters. The documented response has about 350."""
_PICKLE_VERSION = 1
"""Grows when a field gets another name or meaning. `__setstate__` then reads both. None stands for 0."""
_decoder: Any = json.JSONDecoder(object_pairs_hook=tuple)  # the checkers of types do not know its `scan_once`
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once
_TYPES = tuple(DOCUMENTED.values())
_COUNT = len(_TYPES)
_MONEY = (int, type(None))
_documented_values = itemgetter(*DOCUMENTED)


def masked(code: str) -> str:
    """Return a payment code with all but the last four characters masked."""
    return "*" * (len(code) - 4) + code[-4:] if len(code) > 4 else "*" * len(code)


@frozen(kw_only=True)
class Transaction:
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
            None if there is no `expdate`.
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
        code = self.payment_code
        return {
            "reference": self.reference,
            "merchant_reff": self.merchant_reff,
            "payment_method": self.payment_method,
            "payment_name": self.payment_name,
            "amount": self.amount,
            "fee": self.fee,
            "amount_received": self.amount_received,
            "payment_code": code if code is None or with_payment_code else masked(code),
            "expdate": None if self.expdate is None else self.expdate.isoformat(sep=" "),
            "status": self.status,
        }

    def __iter__(self) -> Iterator[tuple[str, str | int | None]]:
        # As pydantic's models do: `dict(transaction)` works, as does a response of FastAPI without a type.
        return iter(self.as_json().items())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Transaction:
        """
        Return the transaction that `as_json` was made from.

        Args:
            data: The fields, read by the same rules as a response of the service.

        Note:
            A payment code that was masked stays so.

        Raises:
            ValueError: When `reference`, `amount` or `status` is missing, or money is not exact.
        """
        return evolve(read_transaction(dict(data)), deviations=())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Make it a field of a pydantic model, and a response model of FastAPI. Only pydantic calls it."""
        from payclient.protocol.transaction._pydantic import schema, transaction_shape  # noqa: PLC0415  it needs pydantic

        return schema(cls, transaction_shape(), cls.as_json, cls.from_json)

    def __getstate__(self) -> dict[str, Any]:
        state = {attribute.name: getattr(self, attribute.name) for attribute in fields(type(self))}
        return {**state, "raw": dict(self.raw), "version": _PICKLE_VERSION}  # a read-only view cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Queues outlive an update: what another version lacks has its default, and what it has more is left out.
        for attribute in fields(Transaction):
            value: Any = state.get(attribute.name, attribute.default)
            object.__setattr__(self, attribute.name, MappingProxyType(value) if attribute.name == "raw" else value)


_structure = make_dict_structure_fn(
    Transaction,
    cattrs.Converter(detailed_validation=False),
    _cattrs_detailed_validation=False,
    raw=override(omit=True),
    deviations=override(omit=True),
    request_id=override(omit=True),
    **HOOKS,
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
    # It is still unshared, and a copy by `evolve` would take 2 µs.
    object.__setattr__(transaction, "raw", MappingProxyType(data))
    object.__setattr__(transaction, "deviations", notes + deviations_of(data, transaction))
    object.__setattr__(transaction, "request_id", request_id)
    return transaction


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
