"""
Decide whether and when to retry.

A lookup is idempotent, so every failure is safe to retry. The question is only whether a retry
helps, and each class of errors answers it.
"""

from collections import Counter
from collections.abc import Callable

from attrs import define, field, frozen

from payclient import errors
from payclient._shared.checks import check_order, is_count, is_wait
from payclient._shared.options import answer_other_words
from payclient.errors import Again, Classification, classify


def pause_of(error: errors.PayClientError) -> float:
    """Return the seconds that the service asks to wait with *error*, as far as they are believed. 0.0 without any."""
    asked = error.asked_pause if isinstance(error, errors.ResponseError) else None
    return min(asked or 0.0, MAX_PAUSE)


def names_no_reference(error: errors.PayClientError) -> bool:
    """Return whether *error* is final, but its response may belong to another request."""
    # Only a transaction names its reference. On a reused connection that is out of step, "not found", "rejected" or
    # "unauthorized" may be the response to an earlier request.
    return isinstance(error, errors.ResponseError) and classify(error).again is Again.NEVER


@frozen(kw_only=True)
class RetryPolicy:
    """
    Number and pace of the retries of one lookup.

    Attributes:
        max_attempts: Maximum of attempts that fail, the first included. 1 disables retries. An awaited lookup with a
            deadline doesn't count temporary refusals (429, 503): its time bounds them.
        initial_backoff: Upper bound in seconds of the wait before the second attempt. It doubles
            with each attempt. The wait itself is drawn evenly from 0 to the bound.
        max_backoff: Maximum of the upper bound, in seconds.
        max_retry_after: The longest pause, in seconds, that a lookup without a nearer deadline waits
            out. With a longer one it fails at once.

    Source:
        Exponential backoff and jitter ("full jitter"), AWS Architecture Blog, 2015.
    """

    max_attempts: int = field(default=4, validator=is_count)
    initial_backoff: float = field(default=0.25, validator=is_wait)
    max_backoff: float = field(default=8.0, validator=is_wait)
    max_retry_after: float = field(default=900.0, validator=is_wait)

    def __attrs_post_init__(self) -> None:
        check_order("initial_backoff", self.initial_backoff, "max_backoff", self.max_backoff, defaults=(0.25, 8.0))


answer_other_words(RetryPolicy, "__init__")

MAX_PAUSE = 300.0
"""A longer pause is believed for only this many seconds: then one attempt asks whether it still applies."""
MAX_OWN_WAIT = 2.0
"""A `Retry-After` of up to this many seconds delays only the refused request."""
_MAX_AT_ONCE, _MAX_UNCOUNTED = 8, 50
"""After this many refusals for load a lookup with a deadline backs off, and one without is given up."""


@define
class Retries:
    policy: RetryPolicy
    random: Callable[[], float]
    is_timed: bool = False  # it is awaited, and has a deadline
    _seen: Counter[Again] = field(factory=Counter, init=False)
    _waits: int = field(default=0, init=False)

    def delay(self, verdict: Classification, *, is_alone: bool = False) -> float | None:
        """Return the seconds to wait before the next attempt, or None without one. *is_alone*: others are accepted."""
        again, seen = verdict.again, self._seen
        if again is Again.UNCOUNTED and is_alone:
            again = Again.LATER
        if again is Again.NEVER or self.policy.max_attempts == 1:
            return None
        seen[again] += 1
        most = _MAX_AT_ONCE if self.is_timed else _MAX_UNCOUNTED
        if again is Again.UNCOUNTED and (seen[again] <= most or not self.is_timed):
            # Without `Retry-After` no separate wait: the limiter delays this lookup together with all others.
            return 0.0 if seen[again] <= most else None
        counted = seen[Again.COUNTED] + seen[Again.ONCE] + (0 if self.is_timed else seen[Again.LATER])
        if counted >= self.policy.max_attempts or seen[Again.ONCE] > 1:
            return None
        bound = min(self.policy.max_backoff, self.policy.initial_backoff * 2.0 ** min(self._waits, 60))
        self._waits += 1
        return self.random() * bound

    def own_wait(self, error: errors.PayClientError) -> float:
        """Return the seconds that a refusal asks its own lookup to wait. A longer wait is a pause of the client."""
        seconds = pause_of(error)
        return seconds * (1 + self.random() / 2) if 0 < seconds <= MAX_OWN_WAIT else 0.0
