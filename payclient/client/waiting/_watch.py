"""
Watch many references through one client: bounded, lazy and safe to cancel.

Design rules:

- Due references are polled in the order in which they became due, by at most *concurrency* tasks at once.
- A reference has at most one unread change, and is not polled as long as it has one. So a slow reader loses no
  change, and memory depends on the number of watched references.
- When a reference ends, the next one is read from the input.
- The caller's predicate runs in a task of the watch, and never where a poll passes its result on: what it raises ends
  the watch, and no other wait.
- All tasks end before the block does, even if the block is cancelled repeatedly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from heapq import heappop, heappush
from typing import ClassVar, TypeAlias

from attrs import define, field, frozen

from payclient._shared.escape import plural
from payclient.client._results import Results
from payclient.client.policies import classify
from payclient.client.waiting._polls import Listener, Polls
from payclient.client.waiting._wait import Result, Terms, Wait
from payclient.errors import PayClientError, WaitDeadlineError
from payclient.protocol import Failed, Transaction, WithoutTruth, check_reference

References: TypeAlias = Iterable[str] | AsyncIterable[str]


@frozen
class Change(WithoutTruth):
    """
    A new status of a watched reference.

    Attributes:
        reference: The reference, as given.
        previous: The status before; None in the first change of a reference.
        transaction: The service's transaction now.
        is_last: Whether `until` holds, so the reference is not polled again.
        index: Position of the reference in the input, from 0.
    """

    reference: str
    previous: str | None
    transaction: Transaction
    is_last: bool = field(kw_only=True)
    index: int = field(default=0, kw_only=True)


Seen: TypeAlias = Change | Failed


@define(eq=False, repr=False)
class _Watched:
    """One reference of the input."""

    index: int
    wait: Wait
    has_unread_change: bool = False
    result: Result | None = None  # of a poll, not processed yet
    listener: Listener = field(init=False)


@asynccontextmanager
async def watch(
    poll: Callable[[str, float], Awaitable[Transaction]],
    references: References,
    terms: Terms,
    *,
    polls: Polls,
    concurrency: int,
    at_once: int,
    random: Callable[[], float] = random.random,
) -> AsyncGenerator[AsyncIterator[Seen]]:
    run = _Watch(poll, terms, polls, concurrency, at_once, random)
    run.start(references)
    try:
        yield run
    finally:
        await run.stop()


@define(eq=False, repr=False)
class _Watch(Results[Seen]):
    """The tasks of one watch, and the iterator over its changes."""

    _NAME: ClassVar[str] = "watch"
    _METHOD: ClassVar[str] = "watch"

    _poll: Callable[[str, float], Awaitable[Transaction]]
    _terms: Terms
    _polls: Polls
    _concurrency: int
    _at_once: int
    _random: Callable[[], float]
    _watched: dict[int, _Watched] = field(init=False, factory=dict)
    _due: list[tuple[float, int]] = field(init=False, factory=list)  # with the index of the reference
    _ends_at: float = field(init=False)
    _deadline: asyncio.Handle = field(init=False)
    _timer: asyncio.Handle | None = field(init=False, default=None)
    _asking: int = field(init=False, default=0)
    _room: asyncio.Event = field(init=False, factory=asyncio.Event)
    _count: int = field(init=False, default=0)
    _is_read: bool = field(init=False, default=False)

    # The reader

    def _is_done(self) -> bool:
        return self._is_ending or (self._is_read and not self._watched)

    def _delivered(self, item: Seen) -> Seen:
        watched = self._watched.get(item.index)
        if watched is not None and not self._is_ending:
            watched.has_unread_change = False
            self._plan(watched)
        self._room.set()
        return item

    # The input

    def start(self, references: References) -> None:
        self._ends_at = self._loop.time() + self._terms.deadline
        self._deadline = self._loop.call_at(self._ends_at, self._on_deadline)
        self._begin(self._read(references), "payclient-watch")
        self._polls.add_open(self._end)

    async def _read(self, references: References) -> None:
        async for reference in references if isinstance(references, AsyncIterable) else _one_by_one(references):
            while len(self._watched) + len(self._ready) >= self._at_once:
                self._room.clear()
                await self._room.wait()
            self._add(self._count, reference)
            self._count += 1
            await asyncio.sleep(0)  # a long list must not block the event loop
        self._is_read = True
        self._wakeup.set()

    def _add(self, index: int, reference: str) -> None:
        try:
            check_reference(reference)
        except PayClientError as error:
            self._publish(Failed(reference, error, index=index))
            return
        now = self._loop.time()
        watched = _Watched(index, Wait(reference, self._terms, began_at=now, random=self._random))
        watched.listener = partial(self._on_result, watched)
        self._watched[index] = watched
        result, at = self._polls.add(reference, watched.listener)
        self._process(watched, lambda: watched.wait.start_from(result, at, now))

    # The polls

    def _plan(self, watched: _Watched) -> None:
        heappush(self._due, (watched.wait.due_at, watched.index))
        self._poll_due()

    def _poll_due(self) -> None:
        now = self._loop.time()
        while self._due and self._due[0][0] <= now and self._asking < self._concurrency and not self._is_ending:
            due_at, index = heappop(self._due)
            watched = self._watched.get(index)
            # A reference with a newer result has a newer entry here, and one in flight will get one.
            if watched is None or watched.wait.due_at != due_at or watched.has_unread_change or watched.result:
                continue
            if watched.wait.reference not in self._polls:
                self._asking += 1
                self._begin(self._ask(watched), "payclient-watch")
        if self._timer is not None:
            self._timer.cancel()
        is_waiting = self._due and self._asking < self._concurrency and not self._is_ending
        self._timer = self._loop.call_at(self._due[0][0], self._poll_due) if is_waiting else None

    async def _ask(self, watched: _Watched) -> None:
        reference = watched.wait.reference
        try:
            if reference not in self._polls:  # another wait for it may have started a poll in the same turn
                await self._polls.make(reference, partial(self._poll, reference, self._ends_at))
        finally:
            self._asking -= 1
        self._poll_due()

    def _on_result(self, watched: _Watched, result: Result | None) -> None:
        """Keep a result; when there is none, poll again."""
        if self._is_ending or watched.has_unread_change:
            return
        if result is None:
            self._plan(watched)
            return
        watched.result = result
        self._begin(self._take(watched), "payclient-watch")

    async def _take(self, watched: _Watched) -> None:
        result, watched.result = watched.result, None
        if result is not None and watched.index in self._watched and not self._is_ending:
            self._process(watched, partial(watched.wait.take, result, self._loop.time()))

    def _process(self, watched: _Watched, take: Callable[[], bool]) -> None:
        """Let the wait *take* a result by the caller's predicate, and publish the change."""
        wait = watched.wait
        previous = None if wait.transaction is None else wait.transaction.status
        try:
            is_last = take()
        except PayClientError as error:
            if classify(error).is_fatal:
                self._end(error)
            else:
                self._fail(watched, error)
            return
        if is_last:
            self._remove(watched)
        transaction = wait.transaction
        if transaction is not None and (is_last or transaction.status != previous):
            watched.has_unread_change = not is_last
            self._publish(Change(wait.reference, previous, transaction, is_last=is_last, index=watched.index))
        else:
            self._plan(watched)

    def _fail(self, watched: _Watched, error: PayClientError) -> None:
        self._remove(watched)
        self._publish(Failed(watched.wait.reference, error, index=watched.index))

    # The end

    def _remove(self, watched: _Watched) -> None:
        del self._watched[watched.index]
        self._polls.remove(watched.wait.reference, watched.listener)
        self._room.set()

    def _on_deadline(self) -> None:
        now = self._loop.time()
        for watched in list(self._watched.values()):
            self._fail(watched, watched.wait.exceeded(now))
        failure: WaitDeadlineError | None = None
        if not self._is_read:
            message = (
                f"{plural(self._count, 'reference')} watched in {self._terms.deadline:g} s; others were not asked for"
            )
            failure = WaitDeadlineError(message, waited=self._terms.deadline)
        self._end(failure)

    def _end(self, failure: BaseException | None) -> None:
        """Make no more polls; changes that are ready are still yielded."""
        if self._is_ending:
            return
        super()._end(failure)
        self._deadline.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _release(self) -> None:
        super()._release()
        self._polls.remove_open(self._end)
        for watched in list(self._watched.values()):
            self._remove(watched)


async def _one_by_one(references: Iterable[str]) -> AsyncIterator[str]:
    for reference in references:
        yield reference
