"""
The polls of one client: one lookup at a time for each reference, with its result shared by all waits.

Design rules:

- A poll is made by one of the waits, in its own task. If that is cancelled, or its time is over, another one makes
  the poll.
- The result of a poll counts for all waits of the reference: each plans its next poll from then on.
- A wait sleeps by one timer of the event loop, so ten thousand of them cost nothing until one is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from payclient.errors import DeadlineExceededError, PayClientError
from payclient.protocol import Transaction
from payclient.waiting._wait import Result, Wait

Poll: TypeAlias = Callable[[], Awaitable[Transaction]]
"""Looks up one reference, within the time of the calling wait."""

Listener: TypeAlias = Callable[[Result | None], None]
"""Gets the result of a poll; None if there is none, so another wait has to make the poll."""


class Polls:
    """The references that are polled by one client, each with its listeners."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[Listener, None]] = {}
        self._under_way: set[str] = set()

    def __len__(self) -> int:
        return len(self._listeners)

    def __contains__(self, reference: str) -> bool:
        """Return whether a poll for *reference* is in flight."""
        return reference in self._under_way

    def add(self, reference: str, listener: Listener) -> None:
        """Pass the result of each poll for *reference* to *listener* from now on."""
        self._listeners.setdefault(reference, {})[listener] = None

    def remove(self, reference: str, listener: Listener) -> None:
        """Remove *listener*."""
        others = self._listeners[reference]
        del others[listener]
        if not others:
            del self._listeners[reference]

    async def make(self, reference: str, poll: Poll) -> None:
        """Make a poll, and pass its result to the listeners; none for *reference* may be in flight."""
        self._under_way.add(reference)
        result: Result | None = None
        try:
            result = await poll()
        except DeadlineExceededError:
            pass  # the time of this wait is over; others may have more
        except PayClientError as error:
            error.__traceback__ = None  # it may be kept for long
            result = error
        finally:
            self._under_way.discard(reference)
            for listener in tuple(self._listeners.get(reference, ())):
                listener(result)


class _Ear:
    """The results for one wait, and the event by which it sleeps."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._heard: list[Result] = []

    def hear(self, result: Result | None) -> None:
        if result is not None:
            self._heard.append(result)
        self._news.set()

    def take(self) -> list[Result]:
        heard, self._heard = self._heard, []
        self._news.clear()
        return heard

    async def sleep_until(self, when: float) -> None:
        """Sleep until there is a result, or until *when*."""
        timer = asyncio.get_running_loop().call_at(when, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()


async def wait_until_held(wait: Wait, polls: Polls, poll: Poll) -> Transaction:
    """
    Poll one reference, or get the results of other waits, until `until` holds.

    Raises:
        WaitError: When it does not hold in time, or cannot hold any more.
        PayClientError: When every other lookup would fail too.
    """
    loop = asyncio.get_running_loop()
    ear = _Ear()
    polls.add(wait.reference, ear.hear)
    try:
        while (now := loop.time()) < wait.ends_at:
            is_under_way = wait.reference in polls
            if now >= wait.due_at and not is_under_way:
                await polls.make(wait.reference, poll)
            else:
                await ear.sleep_until(wait.ends_at if is_under_way else min(wait.due_at, wait.ends_at))
            for result in ear.take():
                if wait.take(result, loop.time()):
                    assert wait.transaction is not None  # noqa: S101  it holds of a transaction
                    return wait.transaction
    finally:
        polls.remove(wait.reference, ear.hear)
    raise wait.exceeded(loop.time())
