"""
Read one cell of a ledger: exactly, or not at all.

Spreadsheets change what looks like a number. A long code becomes `1.23457E+15`, digits gain `.0`,
spaces become no-break spaces. The original value of such a cell is lost, so it is refused.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

from payclient._escape import quote

BLANK = " \t\r\n"
"""What is stripped from a cell."""
_NULL = r"\N"
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
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.0{1,9})?)?", re.ASCII)
_FORMAT = "another order is declared with --date-format"
_CREATION = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)


class CellProblem(ValueError):  # noqa: N818  it is a finding about the data; a rejected entry is made of it
    """A cell cannot be read; the text says what was found and what is needed."""


def read_code(cell: str) -> str | None:
    """
    Return an identifier, or None for an empty cell.

    Raises:
        CellProblem: When a spreadsheet has changed it.
    """
    text = read_word(cell)
    if text is not None and _DAMAGED.fullmatch(text):
        message = f"{quote(text)} looks damaged by a spreadsheet; export the column as text"
        raise CellProblem(message)
    return text


def read_word(cell: str) -> str | None:
    """
    Return a word or a short text, or None for an empty cell.

    Raises:
        CellProblem: When it has an invisible space or mark.
    """
    text = cell.strip(BLANK)
    if hidden := invisible(text):
        raise CellProblem(hidden)
    if text == _NULL:
        message = f"{quote(text)} is an empty cell to databases; --null {quote(text)} reads it as one"
        raise CellProblem(message)
    return text or None


def invisible(text: str) -> str:
    """Name the first invisible space or mark in *text*; empty if there is none."""
    if text.isascii() or not (unseen := _UNSEEN.search(text)):
        return ""
    return f"{quote(text)} holds U+{ord(unseen[0]):04X}, which is invisible: damaged by a spreadsheet"


def damage(text: str) -> str:
    """Say that a spreadsheet has damaged a number; empty if it has not."""
    is_damaged = _DAMAGED.fullmatch(text) and not _ZEROS.fullmatch(text)
    return f"{quote(text)} looks damaged by a spreadsheet" if is_damaged else ""


def read_time(cell: str) -> datetime | None:
    """
    Return a time without a zone, or None for an empty cell.

    Raises:
        CellProblem: Unless it is `YYYY-MM-DD HH:MM:SS`; a `T` between and missing seconds are
            accepted. A zone is refused, because the service's times have none to compare with.
    """
    text = read_word(cell)
    if text is None:
        return None
    if _TIME.fullmatch(text):
        with suppress(ValueError):  # the 31st of February
            return datetime.fromisoformat(text.partition(".")[0])
    message = f"{quote(text)} is not a time written YYYY-MM-DD HH:MM:SS without a zone; {_FORMAT}"
    raise CellProblem(message)


def read_creation(cell: str) -> datetime | None:
    """
    Return the time of creation, aware if the cell states a zone, or None for an empty cell.

    A date alone is the start of that day, and a fraction of a second is dropped.

    Raises:
        CellProblem: Unless it is a date, or a date and a time, with the year first.
    """
    text = read_word(cell)
    if text is None:
        return None
    if match := _CREATION.fullmatch(text):
        day, time, zone = match.groups()
        offset = "Z" if zone and zone[0].isalpha() else zone or ""
        with suppress(ValueError):  # the 31st of February
            return datetime.fromisoformat(f"{day} {time or '00:00'}{offset}")
    message = f"{quote(text)} is not a time such as 2026-11-21 22:16:00, 2026-11-21T22:16:00Z or 2026-11-21; {_FORMAT}"
    raise CellProblem(message)
