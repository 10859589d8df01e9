"""
Recognise a totals row at the end of a ledger.

A totals row is not a transaction: the service would not find it, and the ledger's total would count every amount
twice. It is recognised by a word such as `TOTAL` in its reference, by such a word in another cell if it has no
reference, or by an amount that is the sum of the rows above if its reference has no digit and all of theirs have one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from payclient._escape import quote
from payclient.ledger._words import word_list

TOTALS_WORDS = frozenset(word_list("totals", "words"))
"""One of these must be there, in any case."""

_BESIDE = frozenset(word_list("totals", "beside"))
_DIGIT = re.compile(r"\d")
_COUNT = re.compile(r"\(\s*\d[\d.,]*\s*\w*\s*\)")
_WORD = re.compile(r"[^\W\d_]+")
_MIN_ROWS = 2
"""Minimum number of rows of a sum; with one row, a repeated amount would look like its sum."""


def is_totals_text(text: str) -> bool:
    """Return whether *text* is the label of a total, such as `Grand Total:` or `Jumlah (12 baris)`."""
    if _DIGIT.search(text) and _DIGIT.search(text := _COUNT.sub("", text)):
        return False  # the usual case: a reference
    found = _WORD.findall(text.casefold())
    return not TOTALS_WORDS.isdisjoint(found) and all(word in TOTALS_WORDS or word in _BESIDE for word in found)


class Totals:
    """Keeps the sums of the rows above, to recognise a row that states one."""

    def __init__(self) -> None:
        self._parts = [[0, 0], [0, 0]]
        """Rows and their sum: of the whole ledger, and since the last totals row."""
        self._are_numbered = True
        """Whether each reference has a digit, so that a word in its place is something else."""

    def reason(self, reference: str | None, amount: int | None, cells: Sequence[Any]) -> str:
        """Return why a row is a totals row; otherwise count it and return an empty text."""
        is_named = reference is not None and any(map(str.isalnum, reference))
        texts = [reference] if reference is not None and is_named else [each for each in cells if isinstance(each, str)]
        found = next(filter(is_totals_text, texts), None)
        is_sum = bool(amount) and any(rows >= _MIN_ROWS and amount == total for rows, total in self._parts)
        is_numbered = _DIGIT.search(reference or "") is not None
        is_sum = is_sum and (not is_named or (self._are_numbered and not is_numbered))
        if found is None and not is_sum:
            self._are_numbered = self._are_numbered and (is_numbered or not is_named)
            for part in self._parts:
                part[0] += 1
                part[1] += amount or 0
            return ""
        self._parts[1] = [0, 0]
        why = f"it says {quote(found)}" if found is not None else f"{amount} is the sum of the rows above"
        return f"is a totals row: {why}; its amount is not added to the total"
