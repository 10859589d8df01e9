"""The frozen values of one line of the ledger."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from attrs import Attribute, field, frozen


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of a field without a column, which is not compared. An empty cell is None, and is compared."""

Text: TypeAlias = str | Absent | None
Money: TypeAlias = int | Absent | None
Validator: TypeAlias = Callable[[object, "Attribute[Any]", object], None]

COMPARED: Final = (
    "merchant_reff",
    "amount",
    "fee",
    "amount_received",
    "status",
    "payment_method",
    "payment_code",
    "expdate",
)
"""The optional columns, in the order of every report."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def _must_be(kind: type[int | str], *others: object) -> Validator:
    """Return a validator for values of one *kind*, and for these *others*."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if kind is str and isinstance(value, str):
            if not value.isascii() and _SURROGATE.search(value):
                message = f"{attribute.name} holds half a surrogate pair, which UTF-8 cannot hold"
                raise ValueError(message)
        elif type(value) is not kind and value not in others:
            message = f"{attribute.name} must be {'a str' if kind is str else 'an int'}, got {type(value).__name__}"
            raise TypeError(message)

    return check


def _naive(_: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        message = f"{attribute.name} must be without a time zone, as the service's times are"
        raise ValueError(message)


def _not_empty(_: object, attribute: Attribute[Any], value: object) -> None:
    if not value:
        message = f"{attribute.name} must not be empty"
        raise ValueError(message)


_OPTIONAL_TEXT = _must_be(str, None, ABSENT)
_OPTIONAL_MONEY = _must_be(int, None, ABSENT)


@frozen(kw_only=True)
class Entry:
    """
    One usable line of the ledger, for one transaction.

    Attributes:
        line: Position in the ledger, for people: the line of a file, or any number that you choose.
        reference: The service's reference, which is looked up.
        merchant_reff: The merchant's own reference.
        amount: Total amount, in the unit of the service.
        fee: Fee charged.
        amount_received: Amount received by the merchant.
        status: The ledger's word for the state.
        payment_method: Short code of the method.
        payment_code: Code that the payer pays with.
        expdate: Expiry, without a time zone, because the service gives none.
        created_at: Time of the record, with or without a time zone; not compared, but gives the age of the row.
        kind: The ledger's word for what the line is to its payment, such as a charge or a refund; not compared.
        payout: The payout that a line of a statement is part of; not compared, and not stored.

    All but `line` and `reference` may be left out, and are then not compared.

    Raises:
        TypeError: For a value of another type.
        ValueError: For an empty reference, text that cannot be encoded as UTF-8, and an expiry with a time zone.
    """

    line: int
    reference: str = field(validator=[_must_be(str), _not_empty])
    merchant_reff: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    amount: int | Absent = field(default=ABSENT, validator=_must_be(int, ABSENT))
    fee: Money = field(default=ABSENT, validator=_OPTIONAL_MONEY)
    amount_received: Money = field(default=ABSENT, validator=_OPTIONAL_MONEY)
    status: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payment_method: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payment_code: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    expdate: datetime | Absent | None = field(default=ABSENT, validator=_naive)
    created_at: datetime | Absent | None = ABSENT
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)


@frozen(kw_only=True)
class RejectedEntry:
    """
    One line of the ledger that cannot be used; reported, never dropped.

    Attributes:
        line: Position in the ledger.
        reason: The problem with it, and its remedy.
        reference: The reference as written, if there is one.
        amount: The amount for the ledger's total, if it is readable.
        amount_received: The amount received, if it is readable; of a statement, or a ledger with kinds.
        status: The ledger's word for the state, if it is readable.
        kind: The ledger's word for what the line is to its payment, if it is readable.
        payout: The payout that a line of a statement is part of; not stored.
    """

    line: int
    reason: str = field(validator=_OPTIONAL_TEXT)
    reference: str | None = field(default=None, validator=_OPTIONAL_TEXT)
    amount: int | None = field(default=None, validator=_must_be(int, None))
    amount_received: int | None = field(default=None, validator=_must_be(int, None))
    status: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)
