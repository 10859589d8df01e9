"""The small vocabulary through which the states of both sides are compared."""

from __future__ import annotations

import re
from enum import StrEnum


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

_WORDS = {status.value: status for status in Status} | {"cancelled": Status.CANCELED}


def read_status(word: str | None) -> Status | None:
    """Return what *word* means, whatever its case and its spaces, dashes and underscores; None if not known."""
    return None if word is None else _WORDS.get(re.sub(r"[-_\s]+", " ", word.casefold()).strip())
