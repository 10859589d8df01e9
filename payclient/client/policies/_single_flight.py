"""Single-flight: concurrent calls for the same key share one result."""

from __future__ import annotations

import asyncio
import copy
import math
from typing import Generic, Protocol, TypeAlias, TypeVar

from attrs import define, field

from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")

_Result: TypeAlias = tuple[_Value | None, PayClientError | None]
"""The value or the error of a call; neither, if it ended without a result."""


class SingleFlight(dict[str, "InFlight[_Value]"], Generic[_Value]):
    """The calls in flight, by key; if there are several for one key, the one that was started last."""

    # The first caller for a key makes the call in its own task; later callers wait for its result. If the first is
    # cancelled or exceeds its own deadline, there is no result, and one of the waiters makes the call again. So there
    # is no background task, and the cancellation of one caller does not affect the others. A caller that needs a
    # result newer than a moment, or a fresh one, joins no call that was sent before it, or that is not fresh, and makes
    # one for all later callers.

    def joinable(self, key: str, *, after: float = -math.inf, is_fresh: bool = False) -> InFlight[_Value] | None:
        """Return the call in flight for *key*; None if it was sent at the time *after* or before, or is less fresh."""
        call = self.get(key)
        if call is not None and is_fresh and not call.is_fresh:
            return None
        if call is None or call.made.sent_at is None or call.made.sent_at > after:
            return call
        return None


class _Made(Protocol):
    @property
    def sent_at(self) -> float | None:
        """When the request was sent; None while it is still to be sent."""
        ...


@define(eq=False, repr=False)
class InFlight(Generic[_Value]):
    """One call in flight: a block in which the caller makes it; `value` is the result, if there is one."""

    _key: str
    _others: dict[str, InFlight[_Value]]
    made: _Made
    is_fresh: bool = False  # over a new connection
    value: _Value | None = field(default=None, init=False)
    is_cut_short: bool = field(default=False, init=False)  # the caller gives up earlier than others would
    _ended: asyncio.Future[_Result[_Value]] | None = field(default=None, init=False)  # most calls are not shared

    async def join(self) -> _Value | None:
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._ended])  # which is not cancelled with this caller
        value, failure = self._ended.result()
        if failure is not None:
            # A single exception raised in several tasks would collect the tracebacks of all of them.
            raise copy.copy(failure)
        return value

    def __enter__(self) -> InFlight[_Value]:
        self._others[self._key] = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._others.get(self._key) is self:
            del self._others[self._key]
        if self._ended is None:
            return
        # The deadline was the caller's own, so waiters with more time try again.
        is_own = isinstance(error, DeadlineExceededError) or self.is_cut_short
        failure = error if isinstance(error, PayClientError) and not is_own else None
        self._ended.set_result((self.value, failure))
