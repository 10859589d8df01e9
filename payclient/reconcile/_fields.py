"""
The fields of a ledger: the entry that they make, the kind of their cells, and how the compared ones are compared.

A new compared field is an attribute of `Entry` and of `Transaction`, its other names in `words.toml`, and for a text a
code with the pattern `WORDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import Attribute, field, fields, frozen

from payclient._shared.remedy import Remedy
from payclient.protocol import ATTRIBUTES


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of a field without a column, which is not compared. An empty cell is None, and is compared."""

Text: TypeAlias = str | Absent | None
Money: TypeAlias = int | Absent | None


class Cell(StrEnum):
    """The kind of a field's cells, which decides how they are read, stored and shown."""

    CODE = "code"
    MONEY = "money"
    WORD = "word"
    TIME = "time"
    CREATION = "creation"
    DIRECTION = "direction"


@frozen
class Field:
    """
    How a field is compared.

    Attributes:
        name: Its name in a ledger, a report and an `Entry`.
        cell: The kind of its cells.
        also: Other fields of `Transaction` that may have the ledger's word, besides the one of the same name.
        spelling: A pattern of the characters that make no difference in its text, apart from case and width, and the
            text that stands for them.
        is_exact: Whether another spelling is a finding too, of medium severity.
        is_masked: Whether a terminal shows only its end.
    """

    name: str
    cell: Cell
    also: tuple[str, ...] = field(kw_only=True, default=())
    spelling: tuple[str, str] | None = field(kw_only=True, default=None)
    is_exact: bool = field(kw_only=True, default=False)
    is_masked: bool = field(kw_only=True, default=False)

    @property
    def at_service(self) -> tuple[str, ...]:
        return (ATTRIBUTES[self.name], *(ATTRIBUTES[name] for name in self.also))

    @property
    def may_differ(self) -> bool:
        """Whether the lines of one payment may have other values: it is enough if one agrees with the service."""
        return self.cell is not Cell.MONEY and self.name != "status"

    @property
    def is_text(self) -> bool:
        return self.cell in (Cell.CODE, Cell.WORD)


_SURROGATE = re.compile("[\ud800-\udfff]")
_Validator: TypeAlias = Callable[[object, "Attribute[Any]", object], None]


def _must_be(kind: type[int | str], *others: object) -> _Validator:
    """Return a validator for values of one *kind*, and for these *others*."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if kind is str and isinstance(value, str):
            if not value.isascii() and _SURROGATE.search(value):
                raise ValueError(f"{attribute.name} contains half a surrogate pair, which UTF-8 cannot encode")
        elif type(value) is not kind and value not in others:
            message = f"{attribute.name} must be {'a str' if kind is str else 'an int'}, got {type(value).__name__}"
            raise TypeError(message)

    return check


_OPTIONAL_TEXT = _must_be(str, None, ABSENT)
_OPTIONAL_MONEY = _must_be(int, None, ABSENT)
_AS_WORDS = r"[-_\s]+", " "


def _compared(cell: Cell, validator: _Validator | None = _OPTIONAL_TEXT, **how: Any) -> Any:
    """Return an attribute that is compared. *how* are other attributes of its `Field`."""
    return field(default=ABSENT, validator=validator, metadata={"cell": cell, **how})


@frozen(kw_only=True, slots=False)  # so that `checked_entry` fills one in a fifth of the time
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
        created_at: Time of the record, with or without a time zone. Not compared, but gives the age of the row.
        kind: The ledger's word for what the line is to its payment, such as a charge or a refund. Not compared.
        payout: The payout that a line of a statement is part of. Not compared, and not stored.

    All but `line` and `reference` may be left out, and are then not compared.

    Raises:
        TypeError: For a value of another type.
        ValueError: For an empty reference, text that cannot be encoded as UTF-8, and an expiry with a time zone.
    """

    line: int
    reference: str = field(validator=_must_be(str))
    merchant_reff: Text = _compared(Cell.CODE, spelling=(r"\s+", " "), is_exact=True)  # dashes may distinguish invoices
    amount: int | Absent = _compared(Cell.MONEY, _must_be(int, ABSENT))
    fee: Money = _compared(Cell.MONEY, _OPTIONAL_MONEY)
    amount_received: Money = _compared(Cell.MONEY, _OPTIONAL_MONEY)
    status: Text = _compared(Cell.WORD, spelling=_AS_WORDS)
    payment_method: Text = _compared(Cell.WORD, also=("payment_name",), spelling=_AS_WORDS)
    payment_code: Text = _compared(Cell.CODE, spelling=(r"[-\s]+", ""), is_masked=True)
    expdate: datetime | Absent | None = _compared(Cell.TIME, None)
    created_at: datetime | Absent | None = ABSENT
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        if not self.reference:
            raise ValueError("reference must not be empty")
        if isinstance(self.expdate, datetime) and self.expdate.tzinfo is not None:
            raise ValueError("expdate must be without a time zone, as the service's times are")


_DEFAULTS = {each.name: each.default for each in fields(Entry)}


def checked_entry(values: Mapping[str, Any]) -> Entry:
    """Return the entry of *values* that a reader of cells has checked, without the calls of the validators."""
    entry = Entry.__new__(Entry)
    entry.__dict__.update(_DEFAULTS, **values)
    return entry


@frozen(kw_only=True)
class RejectedEntry:
    """
    One line of the ledger that cannot be used. Reported, never dropped.

    Attributes:
        line: Position in the ledger.
        reason: The problem with it, and its remedy.
        reference: The reference as written, if there is one.
        amount: The amount for the ledger's total, if it is readable.
        amount_received: The amount received in a statement or a ledger with kinds, if it is readable.
        status: The ledger's word for the state, if it is readable.
        kind: The ledger's word for what the line is to its payment, if it is readable.
        payout: The payout that a line of a statement is part of. Not stored.
        problems: Its problems without their values, to count rows with the same ones. Not stored.
        remedies: Options that would help. Not stored.
    """

    line: int
    reason: str = field(validator=_OPTIONAL_TEXT)
    reference: str | None = field(default=None, validator=_OPTIONAL_TEXT)
    amount: int | None = field(default=None, validator=_must_be(int, None))
    amount_received: int | None = field(default=None, validator=_must_be(int, None))
    status: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)
    problems: tuple[str, ...] = field(default=(), eq=False)
    remedies: tuple[Remedy, ...] = field(default=(), eq=False)


COMPARED_FIELDS = tuple(Field(each.name, **each.metadata) for each in fields(Entry) if each.metadata)
"""In the order of every report."""

COMPARED = tuple(column.name for column in COMPARED_FIELDS)
"""The optional columns that are compared, in the order of every report."""

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "reference": Cell.CODE.value,
        **{column.name: column.cell.value for column in COMPARED_FIELDS},
        "direction": Cell.DIRECTION.value,
        "created_at": Cell.CREATION.value,
        **dict.fromkeys(("kind", "currency", "payout"), Cell.WORD.value),
    }
)
"""Kind of cell of each field."""

FIELDS = tuple(KINDS)
"""The fields that a column can have, in the order of every list."""
