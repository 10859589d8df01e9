"""
Read one cell of a ledger: exactly, or not at all.

Spreadsheets change what looks like a number. A long code becomes `1.23457E+15`, digits gain `.0`,
spaces become no-break spaces. The original value of such a cell is lost, so it is refused.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any

from attrs import frozen

from payclient._shared.escape import escape_unprintable, quote
from payclient._shared.remedy import Remedy, Side, Way, advice
from payclient.errors import PayClientError, with_attributes


@with_attributes
class LedgerError(PayClientError, ValueError):
    """
    The ledger as a whole cannot be trusted. The text has the place and the remedies.

    Attributes:
        line: Line of the file, from 1. 0 if the problem has no line.
        offset: Byte of the file, from 0. None if the problem is not about bytes.
        remedies: What would help. Each is one way to go on.
        refused: The option at fault, such as a column that is not there. None if none is.
        side: `ledger` or `statement`.
        file: Name of the statement. Empty for a ledger.
    """

    line: int = 0
    offset: int | None = None
    remedies: Sequence[Remedy] = ()
    refused: Way | None = None
    side: Side = "ledger"
    file: str = ""

    def __str__(self) -> str:
        return self.words(self.remedies)

    def words(self, remedies: Iterable[Remedy]) -> str:
        """Return the problem, with only these *remedies*."""
        which = f"the statement {self.file}: " if self.side == "statement" else ""
        return f"{which}{self.message}{advice(remedies, self.side)}"


class LedgerChangedError(LedgerError):
    """The ledger file changed after it was read, so no report is written."""


BLANK = " \t\r\n"
"""Characters stripped from both ends of a cell."""
_UNSEEN = re.compile("[\u00a0\u00ad\u2007\u200b-\u200d\u202f\u2060\ufeff\ud800-\udfff]")
_DAMAGED = re.compile(
    r"""
    [+-]?\d+[eE]\+\d+                    # 9E+11; 12E5 may be a code
    | [+-]?\d+[.,]\d+[eE][+-]?\d+        # 1.23457E+15, 1.23457E15
    | \d+\.0+                            # 1001.0
    | \#(?:REF|N/A|VALUE|NAME|NUM|DIV/0|NULL)[!?]? | \#{2,}
    | =.*                                # ="0012", or a formula
    | '[^']+                             # '0012: the mark of a spreadsheet for text
    """,
    re.ASCII | re.VERBOSE,
)
_ZEROS = re.compile(r"\d+\.0+", re.ASCII)
_USUAL = re.compile(r"[\w-]+", re.ASCII).fullmatch  # visible, not damaged, without blanks: nearly every cell
_HAS_NUMBER = re.compile("[1-9]").search


class CellProblem(ValueError):  # noqa: N818  it is a finding about the data. A rejected entry is built from it
    """
    A cell cannot be read. The text has the value found and the form needed.

    Attributes:
        kind: The text without its values: the same for cells with the same problem.
        remedies: What would help.
    """

    def __init__(self, kind: str, *values: object, remedies: Iterable[Remedy] = ()) -> None:
        super().__init__(kind.format(*values))
        self.kind = kind
        self.remedies: tuple[Remedy, ...] = tuple(remedies)

    def __str__(self) -> str:
        return f"{self.message}{advice(self.remedies)}"

    @property
    def message(self) -> str:
        """The text without the remedies."""
        return str(self.args[0])


@frozen
class Unreadable:
    """A cell without a usable value. *reason* is for the rejected row."""

    reason: str


def read_code(cell: Any) -> str | None:
    """Return an identifier, or None for an empty cell."""
    if type(cell) is str and _USUAL(cell):
        return cell
    text = read_word(cell)
    if text is not None and _DAMAGED.fullmatch(text):
        raise CellProblem("{} looks damaged by a spreadsheet; export the column as text", quote(text))
    return text


_NO_REFERENCES = frozenset(
    (
        *("", "na", "n/a", "n.a", "nan", "nat", "none", "null", "nil", "undefined", "unknown", "blank", "empty"),
        *("missing", "not set", "leer", "kosong", "vide", "vacio", "vacío", "tidak ada", "kein", "keine", "aucun"),
    )
)
"""The words that programs and people write for nothing, without the marks around them."""


def read_reference(cell: Any, *, allowed: Collection[str] = ()) -> str | None:
    """Return a reference, or None for an empty cell, or for a word for nothing that is not *allowed*."""
    text = read_code(cell)
    if text is not None and not _HAS_NUMBER(text) and text not in allowed:
        plain = text.casefold().strip(" .-_/?*#'()[]<>{}\u2013\u2014\u2212")
        if plain in _NO_REFERENCES or not plain.strip("0"):
            how = Remedy((Way("allow_references", text),), "reads it as one")
            raise CellProblem("{} stands for an empty cell, and is not a reference", quote(text), remedies=[how])
    return text


def read_word(cell: Any) -> str | None:
    """Return a word or a short text, or None for an empty cell."""
    if type(cell) is str and _USUAL(cell):
        return cell
    text = (cell if isinstance(cell, str) else _only_text(cell)).strip(BLANK)
    if not text.isascii() and (hidden := invisible(text)):
        raise CellProblem("{}", hidden)
    if text == r"\N":
        how = Remedy((Way("null", text),), "reads it as one")
        raise CellProblem("{} is an empty cell to databases", quote(text), remedies=[how])
    return text or None


def _only_text(value: Any) -> str:
    if value is None:
        return ""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    what = "a number, so leading zeros or digits may be lost" if is_number else "not text"
    raise CellProblem(f"{{}} is {what}; store the column as text", shown(value))


def shown(value: Any) -> str:
    if isinstance(value, Unreadable):
        raise CellProblem("{}", value.reason)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bytes):
        return "binary data"
    return escape_unprintable(str(value), max_length=80)


def invisible(text: str) -> str:
    """Name the first invisible space or mark in *text*. Empty without one."""
    if text.isascii() or not (unseen := _UNSEEN.search(text)):
        return ""
    return f"{quote(text)} holds U+{ord(unseen[0]):04X}, which is invisible: damaged by a spreadsheet"


def damage(text: str) -> str:
    is_damaged = _DAMAGED.fullmatch(text) and not _ZEROS.fullmatch(text)
    return f"{quote(text)} looks damaged by a spreadsheet" if is_damaged else ""
