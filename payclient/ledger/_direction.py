"""The words for credit and debit, beside an amount or in another column."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from payclient._escape import quote
from payclient.ledger._cells import CellProblem, as_option, read_word
from payclient.ledger._columns import normalise_name
from payclient.ledger._errors import LedgerError

SIDES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("c", "cr", "crdt", "credit", "k", "kredit", "h", "haben", "gutschrift", "rd"), 1),
        **dict.fromkeys(("credito", "abono", "haber", "ingreso", "avoir", "masuk", "zugang", "in", "incoming"), 1),
        **dict.fromkeys(("d", "db", "dr", "dbit", "debit", "debet", "s", "soll", "lastschrift", "rc"), -1),
        **dict.fromkeys(("debito", "cargo", "debe", "egreso", "keluar", "abgang", "out", "outgoing"), -1),
    },
)
"""Each word with its sign, as a bank statement means it, in English, Indonesian, German, French and Spanish."""

_SIGNS = {"+": 1, "1": 1, "+1": 1, "-": -1, "\u2212": -1, "-1": -1}


def sign_of(text: str) -> int | None:
    """Return 1 for a word that means credit, -1 for debit; None if it is neither. Case and accents do not matter."""
    return _SIGNS.get(text) or SIDES.get(normalise_name(text))


class DirectionReader:
    """Reads the column of directions: words in all its cells, or signs in all; a dash next to words is no debit."""

    def __init__(self) -> None:
        self._are_signs: bool | None = None

    def read(self, cell: Any) -> int | None:
        """
        Return the sign that a cell gives to the amounts of its row, or None for an empty cell.

        Raises:
            CellProblem: When it is not known what it means.
            LedgerError: When it is a sign and others are words, or the other way round.
        """
        word = read_word(cell)
        if word is None:
            return None
        sign = sign_of(word)
        if sign is None:
            message = f"{quote(word)} is not known to mean credit or debit"
            raise CellProblem(message)
        if self._are_signs not in (None, word in _SIGNS):
            message = (
                f"the column of directions has both words and signs, such as {quote(word)}; if a sign stands for an "
                f"empty cell, {as_option('null', '-')} says so"
            )
            raise LedgerError(message)
        self._are_signs = word in _SIGNS
        return sign
