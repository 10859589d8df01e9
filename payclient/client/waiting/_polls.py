"""
The polls of one client: one lookup at a time for each reference, with its result shared by all waits.

Design rules:

- A poll is made by one of the waits, in its own task. If that is cancelled, or its time is over, another one makes
  the poll.
- The result of a poll counts for all waits of the reference: each plans its next poll from then on. A wait that begins
  within the shortest interval of it starts from it.
- No code of a caller's runs while a result is passed on: a listener only stores it. So what a predicate, an observer or
  a trace raises ends its own wait, and no other.
- A wait sleeps by one timer of the event loop, so ten thousand of them cost nothing until one is due.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from attrs import define, field

from payclient.client.waiting._wait import Result, Wait
from payclient.errors import DeadlineExceededError, PayClientError
from payclient.protocol import Transaction

Poll: TypeAlias = Callable[[], Awaitable[Transaction]]
"""Looks up one reference, within the time of the calling wait."""

Listener: TypeAlias = Callable[[Result | None], None]
"""Stores the result of a poll; None if there is none, so another wait has to make the poll."""

Close: TypeAlias = Callable[[PayClientError], None]
"""Ends a wait or a watch with the error."""


@define(eq=False)
class _Polled:
    """A reference that is polled: its listeners, and its last result with the time of it."""

    listeners: dict[Listener, None] = field(factory=dict[Listener, None])
    result: Result | None = None
    at: float = -math.inf


class Polls:
    """The references that are polled by one client, each with its listeners."""

    def __init__(self) -> None:
        self._polled: dict[str, _Polled] = {}
        self._in_flight: set[str] = set()
        self._open: dict[Close, None] = {}
        self._closed: Callable[[], PayClientError] | None = None

    def __len__(self) -> int:
        return len(self._polled)

    def __contains__(self, reference: str) -> bool:
        """Return whether a poll for *reference* is in flight."""
        return reference in self._in_flight

    def add(self, reference: str, listener: Listener) -> tuple[Result | None, float]:
        """Pass each result for *reference* to *listener* from now on; return the last one, and the time of it."""
        polled = self._polled.setdefault(reference, _Polled())
        polled.listeners[listener] = None
        return polled.result, polled.at

    def remove(self, reference: str, listener: Listener) -> None:
        others = self._polled[reference].listeners
        del others[listener]
        if not others:
            del self._polled[reference]

    async def make(self, reference: str, poll: Poll) -> None:
        self._in_flight.add(reference)
        result: Result | None = None
        try:
            result = await poll()
        except DeadlineExceededError:
            pass  # the time of this wait is over; others may have more
        except PayClientError as error:
            error.__traceback__ = None  # it may be kept for long
            result = error
        finally:
            self._in_flight.discard(reference)
            if polled := self._polled.get(reference):
                if result is not None:
                    polled.result, polled.at = result, asyncio.get_running_loop().time()
                for listener in tuple(polled.listeners):
                    listener(result)

    def add_open(self, close: Close) -> None:
        """Call *close* when the client is closed; at once if it is."""
        self._open[close] = None
        if self._closed is not None:
            close(self._closed())

    def remove_open(self, close: Close) -> None:
        del self._open[close]

    def close(self, error: Callable[[], PayClientError]) -> None:
        self._closed = error
        for close in tuple(self._open):
            close(error())


async def poll_until(wait: Wait, polls: Polls, poll: Poll) -> Transaction:
    """Poll one reference, or get the poll results of other waits, until `until` holds."""
    loop = asyncio.get_running_loop()
    inbox = asyncio.Queue[Result | None]()
    result, at = polls.add(wait.reference, inbox.put_nowait)
    polls.add_open(inbox.put_nowait)
    try:
        is_held = wait.start_from(result, at, loop.time())
        while not is_held and (now := loop.time()) < wait.ends_at:
            received: list[Result | None] = []
            is_in_flight = wait.reference in polls
            if now >= wait.due_at and not is_in_flight:
                await polls.make(wait.reference, poll)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(wait.ends_at if is_in_flight else min(wait.due_at, wait.ends_at)):
                        received.append(await inbox.get())
            while not inbox.empty():
                received.append(inbox.get_nowait())
            is_held = any(result is not None and wait.take(result, loop.time()) for result in received)
    finally:
        polls.remove_open(inbox.put_nowait)
        polls.remove(wait.reference, inbox.put_nowait)
    if not is_held:
        raise wait.exceeded(loop.time())
    assert wait.transaction is not None  # noqa: S101  it holds of a transaction
    return wait.transaction
