"""One flight per key: callers that ask for the same thing at the same time share one answer."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

from payclient.errors import DeadlineExceededError, PayClientError

_Value = TypeVar("_Value")


_Landed: TypeAlias = tuple[_Value | None, PayClientError | None]
"""The value or the error of a call; neither, when it ended without an answer."""
_Landing: TypeAlias = asyncio.Future[_Landed[_Value]]


class Flights(Generic[_Value]):
    """
    The calls under way, by key.

    The first caller for a key makes the call itself, in its own task; later ones wait for what it
    gets. When the first is cancelled or runs out of its own time, that is no answer: one of those
    who wait makes the call again. So there is no task of ours that could outlive its caller, and
    nobody is hurt by somebody else's cancellation.
    """

    def __init__(self) -> None:
        self._landings: dict[str, list[_Landing[_Value]]] = {}

    def __len__(self) -> int:
        return len(self._landings)

    async def run(
        self,
        key: str,
        call: Callable[[], Awaitable[_Value]],
        *,
        wait: Callable[[_Landing[_Value]], Awaitable[_Landed[_Value]]],
    ) -> _Value:
        """
        Return what *call* returns, or what an equal call that is under way returns.

        Args:
            key: Calls for the same key are equal.
            call: Made by one caller, for all.
            wait: Awaits what somebody else's call gets, within the caller's own time.
        """
        while (waiting := self._landings.get(key)) is not None:
            landing: _Landing[_Value] = asyncio.get_running_loop().create_future()
            waiting.append(landing)
            value, failure = await wait(landing)
            if failure is not None:
                # One exception raised in several tasks would collect the traceback of them all.
                raise copy.copy(failure)
            if value is not None:
                return value
        return await self._lead(key, call)

    async def _lead(self, key: str, call: Callable[[], Awaitable[_Value]]) -> _Value:
        waiting: list[_Landing[_Value]] = []
        self._landings[key] = waiting
        value: _Value | None = None
        failure: PayClientError | None = None
        try:
            value = await call()
        except DeadlineExceededError:
            raise  # its own time, and nobody else's
        except PayClientError as error:
            failure = error
            raise
        else:
            return value
        finally:
            del self._landings[key]
            for landing in waiting:
                if not landing.done():  # done: its waiter was cancelled
                    landing.set_result((value, failure))
