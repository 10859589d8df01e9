"""
The fields of a ledger: the kind of their cells, and how the compared ones are compared.

A new compared field is a row of `COMPARED_FIELDS`, an attribute of `Entry` and of `Transaction`, its other names in
`words.toml`, and for a text a code with the pattern `WORDS`.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from attrs import field, frozen

from payclient.protocol import ATTRIBUTES


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
    A field that a ledger may have.

    Attributes:
        name: Its name in a ledger, a report and an `Entry`.
        cell: The kind of its cells.
        also: Other fields of `Transaction` that may have the ledger's word, besides the one of the same name.
        spelling: A pattern of the characters that make no difference in its text, apart from case and width, and the
            text that stands for them.
        is_exact: Whether another spelling is a finding too, of medium severity.
    """

    name: str
    cell: Cell
    also: tuple[str, ...] = field(kw_only=True, default=())
    spelling: tuple[str, str] | None = field(kw_only=True, default=None)
    is_exact: bool = field(kw_only=True, default=False)

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


_AS_WORDS = r"[-_\s]+", " "

COMPARED_FIELDS = (
    Field("merchant_reff", Cell.CODE, spelling=(r"\s+", " "), is_exact=True),  # dashes may distinguish invoices
    Field("amount", Cell.MONEY),
    Field("fee", Cell.MONEY),
    Field("amount_received", Cell.MONEY),
    Field("status", Cell.WORD, spelling=_AS_WORDS),
    Field("payment_method", Cell.WORD, also=("payment_name",), spelling=_AS_WORDS),
    Field("payment_code", Cell.CODE, spelling=(r"[-\s]+", "")),
    Field("expdate", Cell.TIME),
)
"""In the order of every report."""

OTHER_FIELDS = (
    Field("direction", Cell.DIRECTION),
    Field("created_at", Cell.CREATION),
    Field("kind", Cell.WORD),
    Field("currency", Cell.WORD),
    Field("payout", Cell.WORD),
)

COMPARED = tuple(column.name for column in COMPARED_FIELDS)
"""The optional columns that are compared, in the order of every report."""

FIELDS = ("reference", *COMPARED, *(column.name for column in OTHER_FIELDS))
"""The fields that a column can have, in the order of every list."""

KINDS: Mapping[str, str] = MappingProxyType(
    {column.name: column.cell.value for column in (Field("reference", Cell.CODE), *COMPARED_FIELDS, *OTHER_FIELDS)}
)
"""Kind of cell of each field."""
