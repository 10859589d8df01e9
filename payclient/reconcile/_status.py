"""The small vocabulary through which the states of both sides are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType


class Status(StrEnum):
    """
    What a state can mean. A word that is not known has no meaning here, and none is guessed.

    Source:
        `Canceled` is in the specification, `Paid` in the provider's public documentation; the
        others are plain English for themselves.
    """

    PAID = "paid"
    PENDING = "pending"
    CANCELED = "canceled"
    EXPIRED = "expired"
    FAILED = "failed"
    REFUNDED = "refunded"


CLOSED = frozenset({Status.CANCELED, Status.EXPIRED, Status.FAILED, Status.REFUNDED})
"""States in which no payment is expected."""

WORDS: Mapping[str, Status] = MappingProxyType(
    {status.value: status for status in Status} | {"cancelled": Status.CANCELED}
)
"""The words that everybody reads in the same way, folded."""


@lru_cache(maxsize=1024)  # a ledger of a million rows has a handful of words
def folded(word: str) -> str:
    """Return *word* without the differences that do not matter: case, and spaces, dashes and underscores."""
    return re.sub(r"[-_\s]+", " ", word.casefold()).strip()


def read_status(word: str | None, more: Mapping[str, Status] = MappingProxyType({})) -> Status | None:
    """
    Return what *word* means, whatever its case and its spaces, dashes and underscores; None if not known.

    Args:
        word: As a side wrote it; None where it wrote nothing.
        more: Other words that are known, folded, such as `Rules.statuses`.
    """
    if word is None:
        return None
    plain = folded(word)
    return WORDS.get(plain) or more.get(plain)
