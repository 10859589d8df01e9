"""The service's answer about a reference, and its time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from enum import Enum
from functools import partial

from attrs import frozen

from payclient import errors
from payclient._shared.checks import invalid_option
from payclient.protocol import Found, Outcome, Transaction, check_reference
from payclient.reconcile.values._errors import UnknownCanaryError


class Answer(Enum):
    """
    Evidence of an answer.

    Attributes:
        FOUND: There is such a transaction.
        NOT_FOUND: The service does not know it.
        UNASKABLE: The reference is invalid and was not sent, so the ledger row is at fault.
        UNUSABLE: Nothing: the service declined, or a field of its answer about this reference cannot be read.
        FAILED: Nothing. The lookup failed, or what came names no reference, such as a web page.
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
        answer: Its evidence.
        at: When it came, in UTC.
        transaction: The found transaction.
        error: Name of the error class, when nothing was.
        message: The error's text.
        status_code: Status of the last attempt. None when it got no response, or was not watched.
        attempts: HTTP exchanges, including earlier passes. 0 when they were not watched.
        reused_from: Name of the earlier run that it is from. Empty for an answer of this run.

    A journal keeps neither `status_code` nor `attempts`.
    """

    answer: Answer
    at: datetime
    transaction: Transaction | None = None
    error: str | None = None
    message: str = ""
    status_code: int | None = None
    attempts: int = 0
    reused_from: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether it is about the transaction."""
        return self.answer not in (Answer.UNUSABLE, Answer.FAILED)

    def differs_from(self, first: Observation) -> bool:
        """
        Return whether the state has changed since the *first* answer.

        "Not found" before a transaction does not show that: it names no reference, so a lookup over a connection that
        was used before asks again by itself, and one over a fresh connection does not.
        """
        is_appeared = first.answer is Answer.NOT_FOUND and self.answer is Answer.FOUND
        return not is_appeared and (self.answer, self.transaction) != (first.answer, first.transaction)


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe(
    seen: Transaction | errors.PayClientError, *, at: datetime, status_code: int | None = None, attempts: int = 0
) -> Observation:
    """Return the observation of a lookup that ended with *seen*. The other arguments are as in `Observation`."""
    observed = partial(Observation, at=at, status_code=status_code, attempts=attempts)
    if isinstance(seen, Transaction):
        return observed(answer=Answer.FOUND, transaction=seen)
    answer = Answer.FAILED
    if isinstance(seen, errors.TransactionNotFoundError):
        answer = Answer.NOT_FOUND
    elif isinstance(seen, errors.InvalidReferenceError):
        answer = Answer.UNASKABLE
    elif isinstance(seen, errors.RejectedError) or getattr(seen, "is_about_reference", False):
        answer = Answer.UNUSABLE
    # Without how long a failed attempt took, which differs from run to run.
    message = seen.message if isinstance(seen, errors.TransportError) else str(seen)
    return observed(answer=answer, error=type(seen).__name__, message=message)


def check_canary(canary: object) -> None:
    try:
        check_reference(canary)
    except errors.InvalidReferenceError as error:
        raise invalid_option("canary", f"must be a reference that is known to exist: {error.message}") from error


async def ask_canary(canary: str, lookups: AbstractAsyncContextManager[AsyncIterator[Outcome]]) -> bool:
    """Return whether the stream of its lookup alone finds *canary*. Raise `UnknownCanaryError` if there is none."""
    async with lookups as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome, Found):
                return True
            if isinstance(outcome.error, errors.TransactionNotFoundError):
                message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                raise UnknownCanaryError(message) from outcome.error
    return False
