"""
The polls of one client: one lookup at a time for each reference, with its result shared by all waits.

Design rules:

- A poll is made by one of the waits, in its own task. If that is cancelled, or its time is over, another one makes
  the poll.
- The result of a poll counts for all waits of the reference: each plans its next poll from then on. A wait that begins
  within the shortest interval of it starts from it.
- Each wait reads a result in its own task. So what a predicate, an observer or a trace raises ends its own wait, and
  no other.
- A wait sleeps by one timer of the event loop, so ten thousand of them cost nothing until one is due.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from attrs import define, field

from payclient.client.waiting._wait import Result, Wait
from payclient.errors import DeadlineExceededError, PayClientError
from payclient.protocol import Transaction

Poll: TypeAlias = Callable[[], Awaitable[Transaction]]
"""Looks up one reference, within the time of the calling wait."""


@define(eq=False)
class _Polled:
    """A reference that is polled by some waits."""

    waits: int = 0
    is_in_flight: bool = False
    results: int = 0  # so far
    result: Result | None = None  # the last one
    at: float = -math.inf
    changed: asyncio.Event = field(factory=asyncio.Event)

    def notify(self) -> None:
        """Wake all waits."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def make(self, poll: Poll) -> None:
        self.is_in_flight = True
        try:
            self.result = await poll()
        except DeadlineExceededError:
            return  # the time of this wait is over; others may have more
        except PayClientError as error:
            error.__traceback__ = None  # it may be kept for long
            self.result = error
        finally:
            self.is_in_flight = False
            self.notify()
        self.results += 1
        self.at = asyncio.get_running_loop().time()


class Polls:
    """The references that are polled by one client."""

    def __init__(self) -> None:
        self._polled: dict[str, _Polled] = {}
        self.closed: Callable[[], PayClientError] | None = None

    def __len__(self) -> int:
        return len(self._polled)

    def __contains__(self, reference: str) -> bool:
        """Return whether a poll for *reference* is in flight."""
        return reference in self._polled and self._polled[reference].is_in_flight

    @contextmanager
    def of(self, reference: str) -> Generator[_Polled]:
        """Count one wait for *reference* inside this block."""
        polled = self._polled.setdefault(reference, _Polled())
        polled.waits += 1
        try:
            yield polled
        finally:
            polled.waits -= 1
            if not polled.waits:
                del self._polled[reference]

    def close(self, error: Callable[[], PayClientError]) -> None:
        """End all waits with the error; one whose poll is in flight, after that."""
        self.closed = error
        for polled in self._polled.values():
            polled.notify()


async def poll_until(wait: Wait, polls: Polls, poll: Poll) -> Transaction:
    """Poll one reference, or get the poll results of other waits, until `until` holds."""
    loop = asyncio.get_running_loop()
    with polls.of(wait.reference) as polled:
        known = polled.results
        is_held = wait.start_from(polled.result, polled.at, loop.time())
        while not is_held and (now := loop.time()) < wait.ends_at:
            if now >= wait.due_at and not polled.is_in_flight:
                await polled.make(poll)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(
                        wait.ends_at if polled.is_in_flight else min(wait.due_at, wait.ends_at)
                    ):
                        await polled.changed.wait()
            if polls.closed is not None:
                raise polls.closed()
            if polled.results != known and polled.result is not None:
                known = polled.results
                is_held = wait.take(polled.result, loop.time())
    if not is_held:
        raise wait.exceeded(loop.time())
    assert wait.transaction is not None  # noqa: S101  it holds of a transaction
    return wait.transaction
