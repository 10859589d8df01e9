"""The words for credit and debit, beside an amount or in another column."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from payclient._escape import quote
from payclient.ledger._cells import CellProblem, LedgerError, as_option, read_word
from payclient.ledger._columns import normalise_name, word_list

SIDES: Mapping[str, int] = MappingProxyType(
    {**dict.fromkeys(word_list("credit"), 1), **dict.fromkeys(word_list("debit"), -1)},
)
"""Each word with its sign, as a bank statement means it, in the languages of the profiles."""

ONLY_TOGETHER = frozenset(word_list("direction", "only_together"))
"""Words that say a direction only next to their opposite; alone they are more often states."""

MAX_WORDS = 4
"""A cell of more words is text that people write."""

_OPPOSITES = tuple(
    (credit, debit) for credit, _, debit in (each.partition("/") for each in word_list("direction", "opposites"))
)
"""Words that mean credit and debit side by side, and so do their beginnings; alone, many mean something else."""

_SIGNS = {"+": 1, "1": 1, "+1": 1, "-": -1, "\u2212": -1, "\u2013": -1, "-1": -1, "\uff0b": 1, "\uff0d": -1}
_MAX_FOUND = 50
_LETTERS = {"p": 1, "n": -1}
"""Positive and negative; beside an amount they may be a currency."""
_NEUTRAL = frozenset(word_list("direction", "neutral"))


def sign_of(text: str) -> int | None:
    """Return 1 for a text that means credit, -1 for debit; None if it is neither. Case and accents do not matter."""
    # A short text such as `Debit Transfer` means what its only word of direction does, if the others change nothing.
    name = normalise_name(text)
    if sign := _SIGNS.get(_bare(text)) or SIDES.get(name) or _LETTERS.get(name):
        return sign
    words = name.split("_")
    if len(words) > MAX_WORDS:
        return None
    signs = {SIDES.get(word, 0) for word in words if word not in _NEUTRAL}
    return next(iter(signs)) or None if len(signs) == 1 else None


def opposites(words: Collection[str]) -> tuple[str, str] | None:
    """Return the credit and the debit of a pair of opposites among *words*, in the form of names; None without one."""
    for credit, debit in _OPPOSITES:
        found = [[each for each in words if each and _begins(each, whole)] for whole in (credit, debit)]
        if all(found):
            return found[0][0], found[1][0]
    return None


def _begins(text: str, whole: str) -> bool:
    return text == whole or (text.isalpha() and whole.startswith(text))


def _bare(text: str) -> str:
    return text.strip("()")


class DirectionReader:
    """Reads the column of directions: words in all its cells, or signs in all; a dash next to words is no debit."""

    def __init__(self) -> None:
        self._are_signs: bool | None = None
        self._found: dict[str, tuple[str, int | None]] = {}
        """Each word in the form of a name, with the first text and its sign."""

    def read(self, cell: Any) -> int | None:
        """Return the sign that a cell gives to the amounts of its row, or None for an empty cell."""
        word = read_word(cell)
        if word is None:
            return None
        sign = sign_of(word)
        if len(self._found) < _MAX_FOUND:
            self._found.setdefault(normalise_name(word), (word, sign))
        if sign is None:
            message = f"{quote(word)} is not known to mean credit or debit"
            raise CellProblem(message)
        is_sign = _bare(word) in _SIGNS
        if self._are_signs not in (None, is_sign):
            message = (
                f"the column of directions has both words and signs, such as {quote(word)}; if a sign stands for an "
                f"empty cell, {as_option('null', '-')} says so"
            )
            raise LedgerError(message)
        self._are_signs = is_sign
        return sign

    def check(self) -> None:
        """Check that no word was read that means something else beside another one, as the `C` of `A` and `C` does."""
        are_both_known = {1, -1} <= {sign for _, sign in self._found.values()}
        if not are_both_known and (pair := opposites(self._found)):
            credit, debit = (quote(self._found[word][0]) for word in pair)
            message = (
                f"the column of directions has {credit} and {debit}, which may be credit and debit, and are not known "
                "together; write these words in it, or list both as charge and refund in the table [lines.kind] of the "
                "rules file instead"
            )
            raise LedgerError(message)
