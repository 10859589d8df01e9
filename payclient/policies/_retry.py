"""
What an error means to the policies, and how long to wait before asking again.

Everything here is a pure function of the error. A lookup is idempotent, so every failure is safe to
retry; the question is only whether a retry helps.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import field, frozen

from payclient import errors
from payclient._checks import is_count, is_wait


class Signal(Enum):
    """
    What an attempt says about the load that the service takes.

    Attributes:
        ACCEPTED: The service did the work, whatever it answered.
        THROTTLED: The service asked for fewer requests.
        OVERLOADED: The service, or the way to it, failed; few of these are normal.
        SILENT: It says nothing about the service: cancelled, or refused by our own side.
    """

    ACCEPTED = "accepted"
    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    SILENT = "silent"


class Again(Enum):
    """
    Whether one more attempt of the same lookup can help.

    Attributes:
        NEVER: The answer will be the same.
        ONCE: A broken body may be a transmission error; twice is how the service is.
        COUNTED: As often as the policy allows, with back-off.
        UNCOUNTED: It does not count as an attempt: the service asked to wait.
    """

    NEVER = "never"
    ONCE = "once"
    COUNTED = "counted"
    UNCOUNTED = "uncounted"


@frozen
class Classification:
    """
    What one error means.

    Attributes:
        signal: For the limiter.
        again: For this lookup.
        is_fatal: No other lookup can succeed either, so a stream ends.
    """

    signal: Signal
    again: Again
    is_fatal: bool = False

    @property
    def is_passing(self) -> bool:
        """Whether the same lookup may succeed some minutes later."""
        return self.again is not Again.NEVER


_ANSWERED = Classification(Signal.ACCEPTED, Again.NEVER)
_OURS = Classification(Signal.SILENT, Again.NEVER)
_FATAL = Classification(Signal.SILENT, Again.NEVER, is_fatal=True)
_THROTTLED = Classification(Signal.THROTTLED, Again.UNCOUNTED)
_TOLD_TO_WAIT = Classification(Signal.THROTTLED, Again.COUNTED)
_BROKEN = Classification(Signal.OVERLOADED, Again.COUNTED)
_GARBLED = Classification(Signal.OVERLOADED, Again.ONCE)
_OUT_OF_TIME = Classification(Signal.SILENT, Again.COUNTED)

# The first class that fits decides, so a subclass stands above its parent.
_CLASSIFICATIONS: tuple[tuple[type[errors.PayClientError], Classification], ...] = (
    (errors.TransactionNotFoundError, _ANSWERED),
    (errors.RejectedError, _ANSWERED),
    (errors.RateLimitedError, _THROTTLED),
    (errors.AuthenticationError, _FATAL),
    (errors.PermissionDeniedError, _OURS),
    (errors.ReferenceMismatchError, _GARBLED),
    (errors.TLSVerificationError, _FATAL),
    (errors.TransportError, _BROKEN),
    (errors.WaitError, _OURS),
    (errors.DeadlineExceededError, _OUT_OF_TIME),
    (errors.InvalidReferenceError, _OURS),
    (errors.ClientClosedError, _FATAL),
    (errors.ConfigurationError, _FATAL),
)


def classify(error: errors.PayClientError) -> Classification:
    """Say what *error* means to limiter, retry and stream."""
    if isinstance(error, errors.ServiceError):
        return _BROKEN if error.retry_after is None else _TOLD_TO_WAIT
    if isinstance(error, errors.UnexpectedResponseError) and not isinstance(error, errors.ReferenceMismatchError):
        return _classify_unexpected(error)
    return next((verdict for kind, verdict in _CLASSIFICATIONS if isinstance(error, kind)), _OURS)


def names_no_reference(error: errors.PayClientError) -> bool:
    """
    Say whether *error* is the final word of an answer that may have been meant for another request.

    Only a transaction names its reference. An answer that arrives out of step on a kept connection and
    says "not found", "rejected" or "unauthorized" looks like the answer to the reference that was sent.
    """
    return isinstance(error, errors.ResponseError) and classify(error).again is Again.NEVER


def _classify_unexpected(error: errors.UnexpectedResponseError) -> Classification:
    """Classify a response of an undocumented shape: with a wrong address, every response has one."""
    status_code = error.status_code
    if 300 <= status_code < 400 or (status_code == 404 and not error.service_message):
        return _FATAL
    if 400 <= status_code < 500:
        return _OURS
    return _GARBLED


@frozen(kw_only=True)
class RetryPolicy:
    """
    How often and how fast one lookup asks again.

    Attributes:
        max_attempts: At most this many, the first included; 1 switches retries off.
        initial_backoff: Upper bound in seconds of the wait before the second attempt; it doubles
            from attempt to attempt. The wait itself is drawn evenly from 0 to the bound.
        max_backoff: Where the doubling ends, in seconds.
        max_retry_after: The longest wait, in seconds, that the service may ask for before a lookup
            without a nearer deadline gives up instead of waiting.

    Source:
        Exponential backoff and jitter ("full jitter"), AWS Architecture Blog, 2015.
    """

    max_attempts: int = field(default=4, validator=is_count)
    initial_backoff: float = field(default=0.25, validator=is_wait)
    max_backoff: float = field(default=8.0, validator=is_wait)
    max_retry_after: float = field(default=900.0, validator=is_wait)


_MAX_UNCOUNTED = 50
"""A reference throttled more often, while others are answered, is throttled for itself."""


class Retries:
    """The retry state of one lookup."""

    __slots__ = ("_counted", "_garbled", "_policy", "_random", "_uncounted")

    def __init__(self, policy: RetryPolicy, *, random: Callable[[], float]) -> None:
        self._policy = policy
        self._random = random
        self._counted = 0
        self._garbled = 0
        self._uncounted = 0

    def delay(self, verdict: Classification) -> float | None:
        """Return the seconds to wait before the next attempt, or None when this one was the last."""
        policy = self._policy
        if verdict.again is Again.NEVER or policy.max_attempts == 1:
            return None
        if verdict.again is Again.UNCOUNTED:
            self._uncounted += 1
            # No separate wait: the limiter holds this lookup back together with all others.
            return 0.0 if self._uncounted <= _MAX_UNCOUNTED else None
        self._counted += 1
        self._garbled += verdict.again is Again.ONCE
        if self._counted >= policy.max_attempts or self._garbled > 1:
            return None
        bound = min(policy.max_backoff, policy.initial_backoff * 2.0 ** min(self._counted - 1, 60))
        return self._random() * bound
