"""
Read one cell of a ledger: exactly, or not at all.

Spreadsheets rewrite what looks like a number. A long code becomes `1.23457E+15`, digits gain `.0`,
spaces become no-break spaces. Such a cell no longer says what the ledger said, so it is refused.
"""

from __future__ import annotations

import re
from datetime import datetime

from payclient._visible import quoted

_BLANK = " \t\r\n"
_UNSEEN = re.compile("[\u00a0\u00ad\u2007\u200b-\u200d\u202f\u2060\ufeff\ud800-\udfff]")
_DAMAGED = re.compile(
    r"""
    [+-]?\d+(?:[.,]\d+)?[eE]\+\d+        # 1.23457E+15
    | \d+\.0+                            # 1001.0
    | \#(?:REF|N/A|VALUE|NAME|NUM|DIV/0|NULL)[!?]? | \#{2,}
    | =.*                                # ="0012", or a formula
    """,
    re.ASCII | re.VERBOSE,
)
_MOST_DIGITS = 18
_WHOLE = re.compile(r"([+-]?\d{1,18})(?:\.(0+))?", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?", re.ASCII)


class CellProblem(ValueError):  # noqa: N818  it is a finding about the data; a rejected entry is made of it
    """A cell cannot be read; the text says what was found and what is needed."""


def read_code(cell: str) -> str | None:
    """
    Return an identifier, or None for an empty cell.

    Raises:
        CellProblem: When a spreadsheet has been at it.
    """
    text = read_word(cell)
    if text is not None and _DAMAGED.fullmatch(text):
        message = f"{quoted(text)} looks damaged by a spreadsheet; export the column as text"
        raise CellProblem(message)
    return text


def read_word(cell: str) -> str | None:
    """
    Return a word or a short text, or None for an empty cell.

    Raises:
        CellProblem: When it holds a space or a mark that cannot be seen.
    """
    text = cell.strip(_BLANK)
    if not text.isascii() and (unseen := _UNSEEN.search(text)):
        message = f"{quoted(text)} holds U+{ord(unseen[0]):04X}, which cannot be seen: damaged by a spreadsheet"
        raise CellProblem(message)
    return text or None


def read_money(cell: str) -> int | None:
    """
    Return a whole number, or None for an empty cell. `15000` and `15000.00` are the same.

    Raises:
        CellProblem: For anything that is not exactly one whole number: `15000.5`, `15,000`, and
            `15.000`, which is fifteen to one reader and fifteen thousand to another.
    """
    if cell.isascii() and cell.isdigit() and len(cell) <= _MOST_DIGITS:  # nearly every cell
        return int(cell)
    text = _number_text(cell)
    if text is None:
        return None
    match = _WHOLE.fullmatch(text)
    if match is None:
        message = f"{quoted(text)} is not a whole number; write it with digits only"
        raise CellProblem(message)
    number = int(match[1])
    if match[2] == "000" and 0 < abs(number) < 1000:
        message = f"{quoted(text)} may mean {number} or {number}000; write it with digits only"
        raise CellProblem(message)
    return number


def _number_text(cell: str) -> str | None:
    """Return the text of a cell in which a trailing `.0` is no damage, because a number is wanted."""
    text = read_word(cell)
    if text is not None and _DAMAGED.fullmatch(text) and not _WHOLE.fullmatch(text):
        message = f"{quoted(text)} looks damaged by a spreadsheet; export the column as whole numbers"
        raise CellProblem(message)
    return text


def read_time(cell: str) -> datetime | None:
    """
    Return a time without a zone, or None for an empty cell.

    Raises:
        CellProblem: Unless it is written `YYYY-MM-DD HH:MM:SS`; a `T` between, and no seconds, are
            accepted. A zone is refused, because the service's own times have none to compare with.
    """
    return _read_time(cell)


def read_creation(cell: str) -> datetime | None:
    """
    Return a time like `read_time`, but accept and drop a fraction of a second.

    Raises:
        CellProblem: Unless it is written `YYYY-MM-DD HH:MM:SS`, or nearly so.
    """
    return _read_time(cell, may_have_fraction=True)


def _read_time(cell: str, *, may_have_fraction: bool = False) -> datetime | None:
    text = read_word(cell)
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    try:
        if match and (may_have_fraction or not (match[3] or "").strip("0")):
            return datetime.fromisoformat(f"{match[1]} {match[2]}")
    except ValueError:
        pass  # the 31st of February
    message = f"{quoted(text)} is not a time written YYYY-MM-DD HH:MM:SS without a zone"
    raise CellProblem(message)
