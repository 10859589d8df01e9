"""The statuses that both sides are mapped to before they are compared."""

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from functools import lru_cache
from types import MappingProxyType
from unicodedata import normalize


class Status(StrEnum):
    """
    Meaning of a status word. An unknown word has none, and none is guessed.

    Source:
        `Canceled` is in the specification, `Paid` in the provider's public documentation; the
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


class Strictness(Enum):
    """
    The difference between two texts that makes no difference, apart from case and width.

    Attributes:
        SPACING: The number of spaces; of an invoice, whose dashes may tell it from another.
        SEPARATORS: Spaces, dashes and underscores for each other; of a word or a name.
        CHARACTERS: Spaces and dashes at all; of a code that people type.
    """

    SPACING = re.compile(r"\s+"), " "
    SEPARATORS = re.compile(r"[-_\s]+"), " "
    CHARACTERS = re.compile(r"[-\s]+"), ""


STRICTNESS: Mapping[str, Strictness] = MappingProxyType(
    {
        "merchant_reff": Strictness.SPACING,
        "payment_method": Strictness.SEPARATORS,
        "payment_name": Strictness.SEPARATORS,
        "payment_code": Strictness.CHARACTERS,
    }
)
"""How the texts of each field are compared."""


def folded(text: str, strictness: Strictness) -> str:
    """Return *text* so that it equals all texts that are the same by *strictness*."""
    pattern, instead = strictness.value
    return pattern.sub(instead, normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)  # a ledger of a million rows has a handful of words
def normalise(word: str) -> str:
    """Return *word* with case, width, spaces, dashes and underscores made uniform."""
    return folded(word, Strictness.SEPARATORS)


def read_status(word: str | None, more: Mapping[str, Status] = MappingProxyType({})) -> Status | None:
    """
    Return the meaning of *word*, whatever its case and its spaces, dashes and underscores; None if not known.

    Args:
        word: As a side wrote it; None if it wrote nothing.
        more: Other known words, normalised, such as `Rules.statuses`.
    """
    if word is None:
        return None
    plain = normalise(word)
    return WORDS.get(plain) or more.get(plain)
