"""One flight per key: callers that ask for the same thing at the same time share one answer."""

from __future__ import annotations

import asyncio
import copy
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")

_Landed: TypeAlias = tuple[_Value | None, PayClientError | None]
"""The value or the error of a call; neither, when it ended without an answer."""


class Flights(Generic[_Value]):
    """
    The calls under way, by key.

    The first caller for a key makes the call itself, in its own task; later ones wait for what it
    gets. When the first is cancelled or runs out of its own time, that is no answer: one of those
    who wait makes the call again. So there is no task of ours that could outlive its caller, and
    nobody is hurt by somebody else's cancellation.
    """

    def __init__(self) -> None:
        self._flights: dict[str, Flight[_Value]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def take_off(self, key: str) -> Flight[_Value]:
        """Make the call for *key* in the block of what is returned; nobody else may be making it."""
        return Flight(key, self._flights)

    async def follow(self, key: str) -> _Value | None:
        """
        Return what the call for *key* returns, which somebody else is making, or raise what it raises.

        Returns:
            None when it ended without an answer: then the next one makes it.
        """
        landing: asyncio.Future[_Landed[_Value]] = asyncio.get_running_loop().create_future()
        self._flights[key].followers.append(landing)
        value, failure = await landing
        if failure is not None:
            # One exception raised in several tasks would collect the traceback of them all.
            raise copy.copy(failure)
        return value


class Flight(Generic[_Value]):
    """
    One call under way: a block, which ends with an answer or without.

    Args:
        key: What is called for.
        others: All that are under way; this one is among them during the block.
    """

    __slots__ = ("_key", "_others", "_value", "followers")

    def __init__(self, key: str, others: dict[str, Flight[_Value]]) -> None:
        self._key = key
        self._others = others
        self._value: _Value | None = None
        self.followers: list[asyncio.Future[_Landed[_Value]]] = []

    def land(self, value: _Value) -> _Value:
        """Return *value*, and give it to whoever waits for it when the block ends."""
        self._value = value
        return value

    def __enter__(self) -> Flight[_Value]:
        self._others[self._key] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._others[self._key]
        if not self.followers:
            return
        # A deadline is the caller's own time, and nobody else's.
        is_own_time = isinstance(error, DeadlineExceededError)
        failure = error if isinstance(error, PayClientError) and not is_own_time else None
        for landing in self.followers:
            if not landing.done():  # done: its waiter was cancelled
                landing.set_result((self._value, failure))
