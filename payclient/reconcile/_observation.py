"""What the service answered for one reference, and when."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from attrs import frozen

from payclient import errors
from payclient._models import Transaction


class Answer(Enum):
    """
    What an outcome is evidence of.

    Attributes:
        FOUND: There is such a transaction.
        NOT_FOUND: The service says that there is none.
        UNASKABLE: The reference cannot be asked for, so the ledger row is at fault.
        FAILED: Nothing; we could not ask.
    """

    FOUND = "found"
    NOT_FOUND = "not found"
    UNASKABLE = "unaskable"
    FAILED = "failed"


@frozen(kw_only=True)
class Observation:
    """
    One answer.

    Attributes:
        answer: What it is evidence of.
        at: When it came, in UTC.
        transaction: What was found.
        error: Name of the error class, when nothing was.
        message: The error's text.
    """

    answer: Answer
    at: datetime
    transaction: Transaction | None = None
    error: str | None = None
    message: str = ""

    def agrees_with(self, other: Observation) -> bool:
        """Say whether both are evidence of the same."""
        return (self.answer, self.transaction) == (other.answer, other.transaction)


def failure(error: errors.PayClientError, *, at: datetime) -> Observation:
    """Return *error* as plain values."""
    answer = Answer.FAILED
    if isinstance(error, errors.TransactionNotFoundError):
        answer = Answer.NOT_FOUND
    elif isinstance(error, errors.InvalidReferenceError):
        answer = Answer.UNASKABLE
    return Observation(answer=answer, at=at, error=type(error).__name__, message=str(error))
