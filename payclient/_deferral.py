"""
What becomes of a lookup that failed in bulk: given up, asked again later, or the end of the stream.

Design rules:

- A row is given up for a passing reason only after it failed in several passes, each of which saw
  the service answer somebody else. While nobody gets an answer, no row is to blame.
- What is the same for every reference ends the stream once, instead of failing every row.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from attrs import define, frozen

from payclient import errors
from payclient._retry import judge
from payclient._signal import Signal

_PASSES = 4
_FIRST_WAIT = 5.0
_OUTAGE_WAIT = 10.0
_DENIALS_IN_A_ROW = 20
_FIRST_CONTACTS = 3
"""So many lookups that cannot connect, before any other could, and the address is taken to be wrong."""


class Fate(Enum):
    """What becomes of one failed lookup: it is final, asked again, or ends the stream."""

    FINAL = "final"
    LATER = "later"
    FATAL = "fatal"


@define
class Row:
    """
    One reference on its way through the stream.

    Attributes:
        index: Its position in the input.
        reference: As it was given.
        strikes: Passes in which it failed while others were answered.
        witness: How many answers the stream had seen when it was last sent out.
    """

    index: int
    reference: str
    strikes: int = 0
    witness: int = 0


@frozen
class Ruling:
    """
    The fate of one failed lookup.

    Attributes:
        fate: What becomes of it.
        wait: Seconds until it is asked again; 0 unless the fate is `LATER`.
    """

    fate: Fate
    wait: float = 0.0


class Deferral:
    """
    Rules on failures; it sees every result of one stream.

    Args:
        is_on: Whether a failed row may be asked again later.
        longest_pause: Seconds the service may ask everyone to wait before the stream ends.
        random: Draws from 0 to 1.
    """

    def __init__(self, *, is_on: bool, longest_pause: float, random: Callable[[], float]) -> None:
        self._is_on = is_on
        self._longest_pause = longest_pause
        self._random = random
        self._denials = 0
        self._unreached = 0
        self._was_reached = False
        self.answers = 0
        """How many lookups the service has answered, whatever it said about the reference."""

    @property
    def is_reached(self) -> bool:
        """Whether a lookup has got as far as the service."""
        return self._was_reached or self.answers > 0

    @property
    def is_one_enough(self) -> bool:
        """Whether rows should go out one by one: to nobody, attempts soon go slowly, and a crowd would share them."""
        return self._is_on and not self.is_reached

    def succeed(self) -> None:
        """Note a lookup that the service answered."""
        self.answers += 1
        self._denials = 0

    def rule(self, row: Row, error: errors.PayClientError) -> Ruling:
        """Return what becomes of *row*, which failed with *error*."""
        verdict = judge(error)
        if verdict.signal is Signal.ACCEPTED:
            self.succeed()
            return Ruling(Fate.FINAL)
        if verdict.is_fatal or self._is_hopeless(error):
            return Ruling(Fate.FATAL)
        if not (self._is_on and verdict.is_passing):
            return Ruling(Fate.FINAL)
        return self._defer(row, error)

    def _is_hopeless(self, error: errors.PayClientError) -> bool:
        """Say whether what failed here fails for everyone, judged by how often and when it happened."""
        self._denials = self._denials + 1 if isinstance(error, errors.PermissionDeniedError) else 0
        if isinstance(error, errors.ConnectionFailedError) and error.sent == "no":
            self._unreached += 1
        elif not isinstance(error, errors.DeadlineExceededError):
            self._was_reached = True  # from now on, not to get through is an outage and not a wrong address
        is_nobody_there = self._unreached >= _FIRST_CONTACTS and not self.is_reached
        is_pause_too_long = (
            isinstance(error, errors.RateLimitedError) and (error.retry_after or 0.0) > self._longest_pause
        )
        return is_nobody_there or is_pause_too_long or self._denials >= _DENIALS_IN_A_ROW

    def _defer(self, row: Row, error: errors.PayClientError) -> Ruling:
        asked = error.retry_after or 0.0 if isinstance(error, errors.ResponseError) else 0.0
        if self.answers == row.witness:
            return Ruling(Fate.LATER, max(asked, self._spread(_OUTAGE_WAIT)))
        row.strikes += 1
        if row.strikes >= _PASSES:
            return Ruling(Fate.FINAL)
        return Ruling(Fate.LATER, max(asked, self._spread(_FIRST_WAIT * 4.0 ** (row.strikes - 1))))

    def _spread(self, seconds: float) -> float:
        return seconds * (0.5 + self._random())
