"""The tasks of one block, and the iterator over their results; both end with the block."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, ClassVar, Generic, Self, TypeVar

from attrs import define, field

from payclient._shared.until_done import until_done

_Item = TypeVar("_Item")


@define(eq=False, repr=False)
class Results(Generic[_Item]):
    """The results of one block, for any number of readers."""

    # Results that are ready are read first, then the failure is raised, once, and then the iteration ends. Each reader
    # that finds nothing waits for `_wakeup`, and looks again.

    _NAME: ClassVar[str] = ""
    _METHOD: ClassVar[str] = ""

    _loop: asyncio.AbstractEventLoop = field(init=False, factory=asyncio.get_running_loop)
    _ready: deque[_Item] = field(init=False, factory=deque)
    _tasks: set[asyncio.Task[None]] = field(init=False, factory=set)
    _wakeup: asyncio.Event = field(init=False, factory=asyncio.Event)
    _failure: BaseException | None = field(init=False, default=None)
    _reader: asyncio.Task[Any] | None = field(init=False, default=None)  # that has seen the end
    _is_ending: bool = field(init=False, default=False)  # nothing new is begun
    _is_stopping: bool = field(init=False, default=False)  # the block has ended

    def __aiter__(self) -> Self:
        if self._reader is not None and self._reader is asyncio.current_task():  # other tasks may read the rest
            message = f"this {self._NAME} has been read to its end; open another one"
            raise RuntimeError(message)
        return self

    async def __anext__(self) -> _Item:
        since = self._loop.time()
        while not self._is_stopping:
            if self._ready:
                return self._delivered(self._ready.popleft())
            if self._is_done():
                failure, self._failure = self._failure, None
                self._reader = self._reader if failure else asyncio.current_task()
                raise failure or StopAsyncIteration
            self._wakeup.clear()
            since = await self._wait(since)
        message = (
            f"the block of this {self._NAME} has ended, or its context manager was dropped; "
            f"read inside `async with client.{self._METHOD}(...)`"
        )
        raise RuntimeError(message)

    async def _wait(self, since: float) -> float:
        """Wait for a wake-up; return since when the reader has been waiting in vain."""
        await self._wakeup.wait()
        return since

    def _delivered(self, item: _Item) -> _Item:
        return item

    def _is_done(self) -> bool:
        return self._is_ending

    def _publish(self, item: _Item) -> None:
        self._ready.append(item)
        self._wakeup.set()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()  # read in any case, or asyncio logs it
        if task.cancelled():
            self._end(RuntimeError(f"a lookup of the {self._NAME} was cancelled from outside"))
        elif error is not None:
            self._end(error)  # the caller's own, such as in the references
        if self._is_done():
            self._wakeup.set()

    def _end(self, failure: BaseException | None) -> None:
        """Begin nothing new; only the first failure counts."""
        if not self._is_ending:
            self._is_ending, self._failure = True, failure
            self._wakeup.set()

    async def stop(self) -> None:
        """End all tasks and readers, even if this is cancelled repeatedly."""
        self._is_stopping = True
        self._end(None)
        for task in self._tasks:
            task.cancel()
        try:
            await until_done(self._tasks)
        finally:
            self._release()
            self._wakeup.set()

    def _release(self) -> None:
        """Let go of everything that the block held."""
        self._ready.clear()
