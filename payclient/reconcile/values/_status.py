"""The statuses that both sides are mapped to before they are compared."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from unicodedata import normalize

from payclient.reconcile._fields import COMPARED_FIELDS


class Status(StrEnum):
    """
    Meaning of a status word. An unknown word has none, and none is guessed.

    Source:
        `Canceled` is in the specification, `Paid` in the provider's public documentation. The
        others are plain English.
    """

    PAID = "paid"
    PENDING = "pending"
    CANCELED = "canceled"
    EXPIRED = "expired"
    FAILED = "failed"
    REFUNDED = "refunded"


class Assumed(StrEnum):
    """
    The status of each row if the ledger has no status column.

    Attributes:
        PAID: It is paid, as a settlement file means it.
        NONE: Nothing, so the status is not compared, and no such report is clean.
    """

    PAID = "paid"
    NONE = "none"


CLOSED = frozenset({Status.CANCELED, Status.EXPIRED, Status.FAILED})
"""States that end without a payment."""

WORDS: Mapping[str, Status] = MappingProxyType(
    {status.value: status for status in Status} | {"cancelled": Status.CANCELED}
)
"""The words with a fixed meaning, normalised."""


_DASHES = " -\u2010\u2011\u2012\u2013\u2014\u2212"


def states_none(word: str | None) -> bool:
    """Return whether *word* is not a status: it is empty, or a dash."""
    return word is None or not word.strip(_DASHES)


_SPELLINGS = {each.name: (re.compile(each.spelling[0]), each.spelling[1]) for each in COMPARED_FIELDS if each.spelling}


def folded(text: str, field: str) -> str:
    """Return *text* so that it equals all texts that are the same in *field*."""
    pattern, instead = _SPELLINGS[field]
    return pattern.sub(instead, normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)  # a ledger of a million rows has a handful of words
def normalise(word: str) -> str:
    """Return *word* with case, width, spaces, dashes and underscores made uniform."""
    return folded(word, "status")


def read_status(word: str | None, more: Mapping[str, Status] = MappingProxyType({})) -> Status | None:
    """
    Return the meaning of *word*, ignoring case, spaces, dashes and underscores. None if not known.

    Args:
        word: As a side wrote it. None if it wrote nothing.
        more: Other known words, normalised, such as `Rules.statuses`.
    """
    if word is None:
        return None
    plain = normalise(word)
    return WORDS.get(plain) or more.get(plain)
