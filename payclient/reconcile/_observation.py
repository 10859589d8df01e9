"""What the service answered for a reference, and when."""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from attrs import frozen

from payclient import errors
from payclient.policies import classify
from payclient.protocol import Found, Outcome, Transaction


class Answer(Enum):
    """
    What an outcome is evidence of.

    Attributes:
        FOUND: There is such a transaction.
        NOT_FOUND: The service says that there is none.
        UNASKABLE: The reference is invalid and was not sent, so the ledger row is at fault.
        UNUSABLE: Nothing, although the service answered: it declined, or its answer cannot be read.
        FAILED: Nothing; the lookup failed.
    """

    FOUND = "found"
    NOT_FOUND = "not found"
    UNASKABLE = "unaskable"
    UNUSABLE = "unusable"
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

    @property
    def is_usable(self) -> bool:
        """Whether it says something about the transaction."""
        return self.answer not in (Answer.UNUSABLE, Answer.FAILED)

    def agrees_with(self, other: Observation) -> bool:
        """Say whether both are evidence of the same fact."""
        return (self.answer, self.transaction) == (other.answer, other.transaction)


def failure(error: errors.PayClientError, *, at: datetime) -> Observation:
    """Return the observation that *error* makes."""
    answer = Answer.FAILED
    if isinstance(error, errors.TransactionNotFoundError):
        answer = Answer.NOT_FOUND
    elif isinstance(error, errors.InvalidReferenceError):
        answer = Answer.UNASKABLE
    elif isinstance(error, errors.RejectedError | errors.UnexpectedResponseError) and not classify(error).is_fatal:
        answer = Answer.UNUSABLE
    return Observation(answer=answer, at=at, error=type(error).__name__, message=str(error))


def is_canary_found(canary: str, outcome: Outcome) -> bool:
    """
    Say whether the lookup of *canary* found it.

    Raises:
        ConfigurationError: When the service does not know it, so that no "not found" of it can be believed.
    """
    if not isinstance(outcome, Found) and isinstance(outcome.error, errors.TransactionNotFoundError):
        message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
        raise errors.ConfigurationError(message) from outcome.error
    return isinstance(outcome, Found)
