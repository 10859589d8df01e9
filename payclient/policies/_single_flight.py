"""Single-flight: concurrent calls for the same key share one result."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from attrs import define, field

from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")

_Result: TypeAlias = tuple[_Value | None, PayClientError | None]
"""The value or the error of a call; neither, if it ended without a result."""


class SingleFlight(dict[str, "InFlight[_Value]"], Generic[_Value]):
    """
    The calls in flight, by key; where there are several for one, the one that was started last.

    The first caller for a key makes the call in its own task; later callers wait for its result. If
    the first is cancelled or exceeds its own deadline, there is no result, and one of the waiters
    makes the call again. So there is no background task, and the cancellation of one caller does not
    affect the others. A caller that needs a result newer than a moment joins no call that was sent
    before it, and makes one for all who come later.
    """

    def start(self, key: str, sent_at: Callable[[], float | None]) -> InFlight[_Value]:
        """
        Return a block in which the caller makes the call for *key*.

        Args:
            key: Of the call.
            sent_at: Returns when the request was sent that gives the result; None if that is still to come.
        """
        return InFlight(key, self, sent_at)

    def joinable(self, key: str, *, after: float = -math.inf) -> InFlight[_Value] | None:
        """Return the call in flight for *key*; None if it was sent at the time *after* or before."""
        call = self.get(key)
        if call is None or (sent_at := call.sent_at()) is None or sent_at > after:
            return call
        return None


@define(eq=False, repr=False)
class InFlight(Generic[_Value]):
    """
    One call in flight: a block that ends with or without a result.

    Attributes:
        sent_at: As given to `SingleFlight.start`.
        waiters: Callers that wait for its result.
        is_cut_short: Whether the caller gives up earlier than others would, so that its failure is its own.
    """

    _key: str
    _others: dict[str, InFlight[_Value]]
    sent_at: Callable[[], float | None]
    _value: _Value | None = field(default=None, init=False)
    is_cut_short: bool = field(default=False, init=False)
    waiters: list[asyncio.Future[_Result[_Value]]] = field(factory=list, init=False)

    async def join(self) -> _Value | None:
        """
        Return or raise the result.

        Returns:
            None when the call ended without one: then one of the waiters makes it again.
        """
        waiter: asyncio.Future[_Result[_Value]] = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        value, failure = await waiter
        if failure is not None:
            # A single exception raised in several tasks would collect the tracebacks of all of them.
            raise copy.copy(failure)
        return value

    def set_result(self, value: _Value) -> _Value:
        """Return *value*, and hand it to the waiters when the block ends."""
        self._value = value
        return value

    def __enter__(self) -> InFlight[_Value]:
        self._others[self._key] = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._others.get(self._key) is self:
            del self._others[self._key]
        if not self.waiters:
            return
        # The deadline was the caller's own, so waiters with more time try again.
        is_own_time = isinstance(error, DeadlineExceededError)
        is_own = is_own_time or self.is_cut_short
        failure = error if isinstance(error, PayClientError) and not is_own else None
        for waiter in self.waiters:
            if not waiter.done():  # done: its waiter was cancelled
                waiter.set_result((self._value, failure))
