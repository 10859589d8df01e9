"""Single-flight: concurrent calls for the same key share one result."""

from __future__ import annotations

import asyncio
import copy
from typing import Generic, TypeAlias, TypeVar

from attrs import define, field

from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")

_Result: TypeAlias = tuple[_Value | None, PayClientError | None]
"""The value or the error of a call; neither, when it ended without an answer."""


class SingleFlight(dict[str, "InFlight[_Value]"], Generic[_Value]):
    """
    The calls in flight, by key.

    The first caller for a key makes the call in its own task; later callers wait for its result. If
    the first is cancelled or exceeds its own deadline, there is no result, and one of the waiters
    makes the call again. So there is no background task, and the cancellation of one caller does not
    affect the others.
    """

    def start(self, key: str) -> InFlight[_Value]:
        """Return a block in which the caller makes the call for *key*; no other may be in flight."""
        return InFlight(key, self)

    async def join(self, key: str) -> _Value | None:
        """
        Return or raise the result of the call in flight for *key*.

        Returns:
            None when it ended without a result: then one of the waiters makes the call.
        """
        waiter: asyncio.Future[_Result[_Value]] = asyncio.get_running_loop().create_future()
        self[key].waiters.append(waiter)
        value, failure = await waiter
        if failure is not None:
            # A single exception raised in several tasks would collect the tracebacks of all of them.
            raise copy.copy(failure)
        return value


@define(eq=False, repr=False)
class InFlight(Generic[_Value]):
    """
    One call in flight: a block that ends with or without a result.

    Attributes:
        waiters: Callers that wait for its result.
    """

    _key: str
    _others: dict[str, InFlight[_Value]]
    _value: _Value | None = field(default=None, init=False)
    waiters: list[asyncio.Future[_Result[_Value]]] = field(factory=list, init=False)

    def set_result(self, value: _Value) -> _Value:
        """Return *value*, and hand it to the waiters when the block ends."""
        self._value = value
        return value

    def __enter__(self) -> InFlight[_Value]:
        self._others[self._key] = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        del self._others[self._key]
        if not self.waiters:
            return
        # The deadline was the caller's own, so waiters with more time try again.
        is_own_time = isinstance(error, DeadlineExceededError)
        failure = error if isinstance(error, PayClientError) and not is_own_time else None
        for waiter in self.waiters:
            if not waiter.done():  # done: its waiter was cancelled
                waiter.set_result((self._value, failure))
