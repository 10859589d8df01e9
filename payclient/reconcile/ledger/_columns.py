"""
The columns of a ledger, and one cell: read exactly, or not at all.

Spreadsheets change what looks like a number. A long code becomes `1.23457E+15`, digits gain `.0`,
spaces become no-break spaces. The original value of such a cell is lost, so it is refused.

`words.toml` has the names of columns and other words that ledgers use.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, cast
from unicodedata import category, combining, normalize

from attrs import frozen

from payclient._shared.escape import did_you_mean, escape_unprintable, nearest, quote
from payclient._shared.remedy import Remedy, Side, Way, advice
from payclient.errors import PayClientError
from payclient.reconcile._fields import FIELDS

WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    table: {key: tuple(words.split()) for key, words in lists.items()}
    for table, lists in tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8")).items()
}
"""The words of each list, by table and key."""


class LedgerError(PayClientError, ValueError):
    """
    The ledger as a whole cannot be trusted. The text has the place and the remedies.

    Attributes:
        line: Line of the file, from 1. 0 if the problem is not in a line.
        offset: Byte of the file, from 0. None if the problem is not about bytes.
        remedies: Options that would help. Each is one way to go on.
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
_UNSEEN = re.compile("[\u00a0\u00ad\u061c\u2007\u200b-\u200f\u202a-\u202f\u2060-\u2069\ufeff\ud800-\udfff]")
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
    A cell cannot be read. The text has the value found and the form needed. It also stands for such a cell in a row.

    Attributes:
        kind: The text without its values: the same for cells with the same problem.
        remedies: Options that would help.
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


def read_code(cell: Any) -> str | None:
    """Return an identifier, or None for an empty cell."""
    if type(cell) is str and _USUAL(cell):
        return cell
    text = read_word(cell)
    if text is not None and _DAMAGED.fullmatch(text):
        raise CellProblem("{} looks damaged by a spreadsheet: export the column as text", quote(text))
    return text


_NO_REFERENCES = frozenset({"", *(text.replace("_", " ") for text in WORDS["nothing"]["words"])})
"""The words that programs and people write for nothing, without the marks around them."""


def read_reference(cell: Any, *, allowed: Collection[str] = ()) -> str | None:
    """Return a reference, or None for an empty cell, or for a word for nothing that is not *allowed*."""
    text = cell if type(cell) is str and _USUAL(cell) else read_code(cell)
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
    if cell is not None and not isinstance(cell, str):
        is_number = isinstance(cell, int | float | Decimal) and not isinstance(cell, bool)
        what = "a number, so leading zeros or digits may be lost" if is_number else "not text"
        raise CellProblem(f"{{}} is {what}: store the column as text", shown(cell))
    text = (cell or "").strip(BLANK)
    if not text.isascii() and (hidden := invisible(text)):
        raise CellProblem("{}", hidden)
    if text == r"\N":
        how = Remedy((Way("null", text),), "reads it as one")
        raise CellProblem("{} is an empty cell to databases", quote(text), remedies=[how])
    return text or None


def shown(value: Any) -> str:
    if isinstance(value, CellProblem):
        raise CellProblem("{}", value)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bytes):
        return "binary data"
    return escape_unprintable(str(value), max_length=80)


def invisible(text: str) -> str:
    """Name the first invisible space or mark in *text*. Empty without one."""
    if text.isascii() or not (unseen := _UNSEEN.search(text)):
        return ""
    return f"{quote(text)} contains U+{ord(unseen[0]):04X}, which is invisible: damaged by a spreadsheet"


def damage(text: str) -> str:
    is_damaged = _DAMAGED.fullmatch(text) and not _ZEROS.fullmatch(text)
    return f"{quote(text)} looks damaged by a spreadsheet" if is_damaged else ""


SYNONYMS: Mapping[str, tuple[str, ...]] = WORDS["columns"]
"""Other names that people give to each field, normalised by `normalise_name`."""

_FIELD_OF = {name: field for field, names in SYNONYMS.items() if names for name in (field, *names)}

SIDES: Mapping[str, int] = {
    word: sign for side, sign in (("credit", 1), ("debit", -1)) for words in WORDS[side].values() for word in words
}
"""Each word with its sign, as a bank statement means it."""

MAX_WORDS = 4
"""A cell of more words is text that people write."""

SIGNS = {"+": 1, "1": 1, "+1": 1, "-": -1, "\u2212": -1, "\u2013": -1, "-1": -1, "\uff0b": 1, "\uff0d": -1}
_LETTERS = {"p": 1, "n": -1}
"""Positive and negative. Next to an amount they may be a currency."""
_VALUE = re.compile(r"(?:[^\d\s]*\d){5}\S*\Z")  # more digits than a name has, in one word
_NEUTRAL = frozenset(WORDS["direction"]["neutral"])
_CURRENCIES = frozenset(WORDS["money"]["currencies"])

Finder: TypeAlias = "Callable[[Sequence[str]], Columns]"
"""Finds the columns in a header, by their names, the options and the known synonyms."""


@frozen
class Columns:
    """
    The columns of one ledger, by field.

    Attributes:
        used: The column's name in the header, by field.
        ignored: The names of the other columns, in their order.
        places: Position of each used column from 0, by field.
        header: Every cell of the header, in order.
    """

    used: Mapping[str, str]
    ignored: tuple[str, ...]
    places: Mapping[str, int]
    header: tuple[str, ...]


def read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))


def column_names(header: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns as users give them. One without a name is called by its number, such as `#5`."""
    return tuple(name.strip() or f"#{number}" for number, name in enumerate(header, 1))


def normalise_name(name: str) -> str:
    """Return a column's name without irrelevant differences: case, accents, spaces, dots, dashes."""
    plain = name.casefold()
    if not plain.isascii():
        plain = "".join(character for character in normalize("NFKD", plain) if not combining(character))
    return re.sub(r"[\W_]+", "_", plain).strip("_")


def field_of(name: str) -> str | None:
    return _FIELD_OF.get(normalise_name(name))


def find_columns(
    header: Sequence[str], chosen: Mapping[str, str] | None = None, ignored: Collection[str] = ()
) -> Columns:
    """Find the column of each field in *header*; *ignored* columns are used only if they are chosen."""
    # A field's own name has priority over other names for it, and *chosen* over all.
    names = column_names(header)
    chosen = _checked(chosen or {})
    left_out = {name.strip() for name in ignored}
    places = {field: _place(names, field, name) for field, name in chosen.items()}
    taken = {*places.values(), *(position for position, name in enumerate(names) if name in left_out)}
    free = [(position, normalise_name(name)) for position, name in enumerate(names) if position not in taken]
    for field in FIELDS:
        if field not in places and SYNONYMS[field]:
            matching = [position for position, name in free if name == field]
            if matching := matching or [position for position, name in free if name in SYNONYMS[field]]:
                places[field] = _only(names, field, matching)
    value = None if any(map(field_of, names)) else next(filter(_VALUE.match, names), None)
    if "reference" not in places:
        is_data = not any(map(field_of, names)) and any(map(str.isdecimal, "".join(names)))
        hint = "; if this row is data, add a row with the names above it" if is_data else ""
        message = f"no column is called reference: the columns are {listed(names)}{hint}"
        once = [] if is_data else [name for name in _like_references(names) if names.count(name) == 1]
        raise LedgerError(message, line=1, remedies=choices("reference", once))
    if value is not None:  # the payment in it would be lost
        message = (
            f"the names of the columns are missing: {quote(value)} is a value, and no known name is next to it; "
            "add a first row with their names"
        )
        raise LedgerError(message, line=1)
    places = {field: places[field] for field in FIELDS if field in places}
    unused = tuple(name for position, name in enumerate(names) if position not in places.values())
    used = MappingProxyType({field: names[position] for field, position in places.items()})
    return Columns(used, unused, MappingProxyType(places), tuple(header))


def _like_references(names: Sequence[str]) -> Iterable[str]:
    """Return the names that have a word for a reference, then the names of order numbers. Without any, all others."""
    fields = {name: field_of(name) for name in names}
    # A long word may be a part of another, such as Zahlungsreferenz.
    words = [word if len(word) > 6 else f"_{word}_" for word in ("reference", *SYNONYMS["reference"])]
    free = [name for name in names if fields[name] is None]
    similar = [name for name in free if any(word in f"_{normalise_name(name)}_" for word in words)]
    return [*similar, *(name for name in names if fields[name] == "merchant_reff")] or free


def _checked(chosen: Mapping[str, str]) -> Mapping[str, str]:
    names = cast("Mapping[str, object]", chosen).values() if isinstance(cast(object, chosen), Mapping) else (None,)
    if not all(isinstance(name, str) for name in names):
        message = f"columns must give the name of a column for each field, as in {{'amount': 'Betrag'}}, got {chosen!r}"
        raise TypeError(message)
    check_known("columns", chosen, FIELDS)
    return chosen


def check_known(option: str, names: Iterable[str], fields: Sequence[str]) -> None:
    if unknown := next((name for name in names if name not in fields), None):
        meant = did_you_mean(unknown, fields)
        raise ValueError(f"{option}: unknown field {unknown!r}{meant}: the fields are {', '.join(fields)}")


def _place(names: tuple[str, ...], field: str, name: str) -> int:
    places = [position for position, column in enumerate(names) if column == name.strip()]
    if not places:
        called = f"{quote(name)}{did_you_mean(name, names)}"
        message = f"no column is called {called}, which was chosen for {field}; there are {listed(names)}"
        meant = choices(field, nearest(name, names))
        raise LedgerError(message, line=1, remedies=meant, refused=Way("column", name, field))
    return _only(names, field, places)


def _only(names: tuple[str, ...], field: str, places: list[int]) -> int:
    if len(places) > 1:
        twice = " and ".join(f"column {position + 1} ({quote(names[position])})" for position in places)
        once = [name for position in places if names.count(name := names[position]) == 1]
        raise LedgerError(f"{twice} both mean {field}: rename one", line=1, remedies=choices(field, once))
    return places[0]


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names[:30])) + (" …" if len(names) > 30 else "")


def sign_of(text: str) -> int | None:
    """Return 1 for a text that means credit, -1 for debit. None if it is neither. Case and accents do not matter."""
    # A short text such as `Debit Transfer` means what its only word of direction does, if the others change nothing.
    name = normalise_name(text)
    if sign := SIGNS.get(text.strip("()")) or SIDES.get(name) or _LETTERS.get(name):
        return sign
    words = name.split("_")
    if len(words) > MAX_WORDS:
        return None
    signs = {SIDES.get(word, 0) for word in words if word not in _NEUTRAL}
    return next(iter(signs)) or None if len(signs) == 1 else None


def is_currency(symbol: str) -> bool:
    """Return whether *symbol* is the code, the name or the sign of a currency. `rb` and `k` may be a thousand."""
    is_sign = len(symbol) <= 4 and any(category(character) == "Sc" for character in symbol)
    return is_sign or symbol.strip(".").casefold() in _CURRENCIES


def choices(field: str, names: Iterable[str]) -> list[Remedy]:
    """Return the remedies that choose one of *names* as the column of *field*."""
    return [Remedy((Way("column", name, field),), "chooses it") for name in islice(dict.fromkeys(names), 3)]


IGNORING = Remedy((Way("ignore_column", "NAME"),), "leaves a column out", is_decision=True)
"""It names no column: a person has to, so that pasting it never ignores one."""


def refuse_unused(names: Sequence[str], what: str, field: str, use: Sequence[Remedy] = ()) -> NoReturn:
    others = f" (and so {'is' if len(names) == 2 else 'are'} {listed(names[1:])})" if names[1:] else ""
    which = ": the amount is what the customer paid" if field == "amount" and names[1:] and not use else ""
    message = f"the column {quote(names[0])} {what}{others}{which}"
    raise LedgerError(message, line=1, remedies=[*(use or choices(field, names)), IGNORING])
