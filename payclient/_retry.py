"""
What an error means to the policies, and how long to wait before asking again.

Everything here is a pure function of the error. A lookup is a read, so every failure is safe to
repeat; the question is only whether it helps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

from attrs import Attribute, field, frozen

from payclient import errors
from payclient._signal import Signal


class Again(Enum):
    """
    Whether one more attempt of the same lookup can help.

    Attributes:
        NEVER: The answer will be the same.
        ONCE: A broken body may be an accident of the way; twice is how the service is.
        COUNTED: As often as the policy allows, with back-off.
        UNCOUNTED: It was not an attempt at all: the service asked to come back later.
    """

    NEVER = "never"
    ONCE = "once"
    COUNTED = "counted"
    UNCOUNTED = "uncounted"


@frozen
class Verdict:
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
        """Whether the same lookup may well succeed some minutes later."""
        return self.again is not Again.NEVER


_ANSWERED = Verdict(Signal.ACCEPTED, Again.NEVER)
_OURS = Verdict(Signal.SILENT, Again.NEVER)
_FATAL = Verdict(Signal.SILENT, Again.NEVER, is_fatal=True)
_THROTTLED = Verdict(Signal.THROTTLED, Again.UNCOUNTED)
_TOLD_TO_WAIT = Verdict(Signal.THROTTLED, Again.COUNTED)
_BROKEN = Verdict(Signal.OVERLOADED, Again.COUNTED)
_GARBLED = Verdict(Signal.OVERLOADED, Again.ONCE)
_OUT_OF_TIME = Verdict(Signal.SILENT, Again.COUNTED)

# The first class that fits decides, so a subclass stands above its parent.
_VERDICTS: tuple[tuple[type[errors.PayClientError], Verdict], ...] = (
    (errors.TransactionNotFoundError, _ANSWERED),
    (errors.RejectedError, _ANSWERED),
    (errors.RateLimitedError, _THROTTLED),
    (errors.AuthenticationError, _FATAL),
    (errors.PermissionDeniedError, _OURS),
    (errors.ReferenceMismatchError, _GARBLED),
    (errors.TLSVerificationError, _FATAL),
    (errors.TransportError, _BROKEN),
    (errors.DeadlineExceededError, _OUT_OF_TIME),
    (errors.InvalidReferenceError, _OURS),
    (errors.ClientClosedError, _FATAL),
    (errors.ConfigurationError, _FATAL),
)


def judge(error: errors.PayClientError) -> Verdict:
    """Say what *error* means to limiter, retry and stream."""
    if isinstance(error, errors.ServiceError):
        return _BROKEN if error.retry_after is None else _TOLD_TO_WAIT
    if isinstance(error, errors.UnexpectedResponseError) and not isinstance(error, errors.ReferenceMismatchError):
        return _judge_shape(error.status_code)
    return next((verdict for kind, verdict in _VERDICTS if isinstance(error, kind)), _OURS)


def _judge_shape(status_code: int) -> Verdict:
    """Judge an answer that is not the documented shape: a wrong address shows in every answer."""
    if 300 <= status_code < 400 or status_code == 404:
        return _FATAL
    if 400 <= status_code < 500:
        return _OURS
    return _GARBLED


def _count(_: object, attribute: Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"{attribute.name} must be an integer of at least 1, got {value!r}"
        raise errors.ConfigurationError(message)


def _seconds(_: object, attribute: Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        message = f"{attribute.name} must be a number of seconds, 0 or more, got {value!r}"
        raise errors.ConfigurationError(message)


@frozen(kw_only=True)
class RetryPolicy:
    """
    How often and how fast one lookup asks again.

    Attributes:
        attempts: At most so many, the first included; 1 switches retries off.
        first_backoff: Upper bound in seconds of the wait before the second attempt; it doubles
            from attempt to attempt. The wait itself is drawn evenly from 0 to the bound.
        longest_backoff: Where the doubling ends, in seconds.
        longest_pause: The longest wait, in seconds, that the service may ask for before a lookup
            without a nearer deadline gives up instead of waiting.

    Source:
        Exponential backoff and jitter ("full jitter"), AWS Architecture Blog, 2015.
    """

    attempts: int = field(default=4, validator=_count)
    first_backoff: float = field(default=0.25, validator=_seconds)
    longest_backoff: float = field(default=8.0, validator=_seconds)
    longest_pause: float = field(default=900.0, validator=_seconds)


_MOST_UNCOUNTED = 50
"""A reference that is refused so often while others are answered is throttled for itself."""


class Retries:
    """The retry state of one lookup."""

    __slots__ = ("_counted", "_garbled", "_policy", "_random", "_uncounted")

    def __init__(self, policy: RetryPolicy, *, random: Callable[[], float]) -> None:
        self._policy = policy
        self._random = random
        self._counted = 0
        self._garbled = 0
        self._uncounted = 0

    def delay(self, verdict: Verdict) -> float | None:
        """Return the seconds to wait before the next attempt, or None when this one was the last."""
        policy = self._policy
        if verdict.again is Again.NEVER or policy.attempts == 1:
            return None
        if verdict.again is Again.UNCOUNTED:
            self._uncounted += 1
            # No wait of its own: the limiter holds the lookup back, together with all the others.
            return 0.0 if self._uncounted <= _MOST_UNCOUNTED else None
        self._counted += 1
        self._garbled += verdict.again is Again.ONCE
        if self._counted >= policy.attempts or self._garbled > 1:
            return None
        bound = min(policy.longest_backoff, policy.first_backoff * 2.0 ** min(self._counted - 1, 60))
        return self._random() * bound
