"""
Decide about a failed lookup of a stream: final, retried in a later pass, or fatal for the stream.

Design rules:

- A transient failure is final only after several failed passes, in each of which the service answered
  other lookups. During an outage, no row is to blame.
- A failure that every reference would have ends the stream once, instead of failing every row.
- A redirect, or a 404 of another program, is about its row, wherever the row stands. It means a wrong address only if
  nothing else came before, or comes any more.
"""

from collections.abc import Callable
from enum import Enum
from math import inf

from attrs import define, field

from payclient import errors
from payclient.client.policies._limiter import MAX_PAUSE
from payclient.client.policies._retry import Signal, classify

PASSES = 4
_FIRST_WAIT = 5.0
_OUTAGE_WAIT = 10.0
_MAX_REFUSED_IN_A_ROW = 20  # without a response between them
_MAX_UNREACHED = 3
"""When the first three had no connection, no key or no answer of the service, the address or the source is wrong."""


class Disposition(Enum):
    """Whether a failure is final for its row or for the whole stream."""

    FINAL = "final"
    FATAL = "fatal"


@define
class PendingRow:
    """One reference of the stream that has no outcome yet."""

    index: int
    reference: str
    failed_passes: int = 0  # in which other lookups were answered
    answers_when_sent: int = 0  # that the stream had received


@define(kw_only=True)
class Deferral:
    """Decides about the failures of one stream."""

    is_on: bool
    max_retry_after: float  # a longer one ends the stream
    random: Callable[[], float]
    malformed_passes: int = PASSES
    was_reached: bool = False  # by this stream or one before
    _refused_in_a_row: int = field(default=0, init=False)
    _unreached: int = field(default=0, init=False)
    answers: int = field(default=0, init=False)

    @property
    def is_reached(self) -> bool:
        """Whether any lookup has reached the service."""
        return self.was_reached or self.answers > 0

    @property
    def is_one_enough(self) -> bool:
        """Whether to send rows one by one, as before the service is first reached."""
        return self.is_on and not self.is_reached

    def succeed(self) -> None:
        self.answers += 1
        self._refused_in_a_row = 0

    def passes(self, error: errors.PayClientError) -> int:
        """Return the number of failed passes after which *error* is final."""
        is_malformed = isinstance(error, errors.UnexpectedResponseError) and error.is_about_reference
        return self.malformed_passes if is_malformed else PASSES

    def decide(self, row: PendingRow, error: errors.PayClientError, *, longest: float = inf) -> Disposition | float:
        verdict = classify(error)
        if verdict.signal is Signal.ACCEPTED:
            self.succeed()
            return Disposition.FINAL
        is_temporary = is_passing(error)
        if (verdict.is_fatal and not is_temporary) or self._is_hopeless(error):
            return Disposition.FATAL
        if not (self.is_on and is_temporary):
            return Disposition.FINAL
        return self._defer(row, error, longest)

    def _is_hopeless(self, error: errors.PayClientError) -> bool:
        is_refused = isinstance(error, errors.PermissionDeniedError) or _is_elsewhere(error)
        self._refused_in_a_row = self._refused_in_a_row + 1 if is_refused else 0
        is_unsent = isinstance(error, errors.ConnectionFailedError) and error.sent == "no"
        is_keyless = isinstance(error, errors.KeySourceError) and not error.attempts
        if is_unsent or is_keyless or _is_elsewhere(error):
            self._unreached += 1
        elif _has_reached(error):
            self.was_reached = True  # from now on, this is an outage, and no wrong address or source
        is_never_reached = self._unreached >= _MAX_UNREACHED and not self.is_reached
        is_pause_too_long = isinstance(error, errors.RateLimitedError) and _believed(error) > self.max_retry_after
        return is_never_reached or is_pause_too_long or self._refused_in_a_row >= _MAX_REFUSED_IN_A_ROW

    def _defer(self, row: PendingRow, error: errors.PayClientError, longest: float) -> Disposition | float:
        asked = _believed(error) if isinstance(error, errors.ResponseError) else 0.0
        # Another program's answers are not an outage of the service, once the service is reached.
        is_outage = not (self.is_reached and _is_elsewhere(error))
        if is_outage and self.answers == row.answers_when_sent:
            return max(asked, self._spread(_OUTAGE_WAIT))
        row.failed_passes += 1
        if row.failed_passes >= self.passes(error):
            return Disposition.FINAL
        wait = min(_FIRST_WAIT * 4.0 ** (row.failed_passes - 1), max(_FIRST_WAIT, longest))
        return max(asked, self._spread(wait))

    def _spread(self, seconds: float) -> float:
        return seconds * (0.5 + self.random())


def _believed(error: errors.ResponseError) -> float:
    """Return the seconds of the pause that *error* asks for, as far as the limiter believes them."""
    return min(error.asked_pause or 0.0, MAX_PAUSE)


def is_passing(error: errors.PayClientError) -> bool:
    return error.is_retryable or _is_elsewhere(error)


def _is_elsewhere(error: errors.PayClientError) -> bool:
    """Return whether *error* is a response that suggests a wrong address."""
    return isinstance(error, errors.UnexpectedResponseError) and classify(error).is_fatal


def _has_reached(error: errors.PayClientError) -> bool:
    if isinstance(error, errors.OutageError):
        return False
    if not isinstance(error, errors.DeadlineExceededError):
        return True
    last = error.__cause__
    is_unsent = isinstance(last, errors.TransportError) and last.sent == "no"
    return isinstance(last, errors.PayClientError) and not is_unsent
