"""
Pass batches of references through one stream of lookups, several at a time, and return them in order.

Design rules:

- Each process has one client for each specification, in a thread, which all batches and tasks share: its connections
  stay open, and its limiter keeps what it has learnt.
- The caller's thread reads the source and returns batches. The background thread runs the lookups. The threads
  exchange whole batches, never single rows.
- The next batch is read while slow rows of earlier batches are in flight.
- A reference is looked up once for all rows and batches of the window.
- Backpressure: the number of rows held is bounded, and the source is read only as the results are.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

from attrs import define, field

from payclient._shared.options import OPTIONS, STALL_TIMEOUT
from payclient.blocking import LoopThread
from payclient.client import AsyncClient, Attempt, ClientOptions
from payclient.engines._spec import LookupSpec, ReconcileSpec, key_of, rules_of
from payclient.errors import ClientClosedError
from payclient.protocol import Found, Outcome
from payclient.reconcile import Answer, Observation, ask_canary, observe, utc_now

_HELD_WINDOWS = 4
"""Windows of rows held at most, while the first batch waits for a slow row and later rows are answered."""

_WANTED: Final = object()
"""A step of a window: it takes another batch."""
_END: Final = object()
"""A step of a window: every batch has been returned."""

_CLOSE_SECONDS: Final = 2.0
"""Seconds that the exit of the process waits for connections to close."""

_registries: Final[dict[int, tuple[threading.Lock, dict[LookupSpec, LoopThread]]]] = {}
"""The clients of each process. The lock is per process, too, because a fork may have copied one that is held."""


def background_client(spec: LookupSpec) -> LoopThread:
    """Return this process's client for *spec*. It lives as long as the process."""
    lock, clients = _registries.setdefault(os.getpid(), (threading.Lock(), {}))
    with lock:
        if spec not in clients:
            clients[spec] = LoopThread(_connect(spec))
        return clients[spec]


def _connect(spec: LookupSpec) -> AsyncClient:
    options = {name: getattr(spec, name) for name, option in OPTIONS.items() if option.worker == name}
    of_rules = rules_of(spec).not_found_messages if isinstance(spec, ReconcileSpec) else ()
    options |= {**dict(spec.network), "not_found_messages": (*spec.not_found_messages, *of_rules)}
    return AsyncClient(**cast("ClientOptions", {**options, "api_key": key_of(spec)}))  # the key is in no variable


@atexit.register
def _close_all() -> None:
    _, clients = _registries.setdefault(os.getpid(), (threading.Lock(), {}))
    for client in clients.values():
        client.stop(at_once=True)
        with suppress(TimeoutError):
            client.join(_CLOSE_SECONDS)


@define(eq=False)
class Batch:
    """Rows that are read and returned together."""

    # `payload` is the owner's data. `references` has each once. `entries`, by reference, is empty if nothing is
    # compared.

    payload: Any
    rows: int
    references: Sequence[str]
    entries: Mapping[str, Sequence[Any]] = field(factory=dict[str, Sequence[Any]])
    first: dict[str, Observation] = field(init=False, factory=dict)
    second: dict[str, Observation] = field(init=False, factory=dict)

    @property
    def is_answered(self) -> bool:
        return len(self.first) == len(self.references)


NeedsConfirmation: TypeAlias = Callable[[Any, Observation], bool]
"""Decides whether a second lookup must confirm a first answer for a ledger row."""


@define(eq=False)
class _Pending:
    batches: list[Batch] = field(factory=list[Batch])
    first: Observation | None = None
    attempts: int = 0
    status_code: int | None = None


@define(eq=False)
class Window:
    """One pass over a source of batches."""

    # The next batch is read when fewer than `rows` references are in flight. The pass ends after `stall_timeout`
    # seconds without any answer.
    _background: LoopThread
    _rows: int = field(alias="rows", kw_only=True)
    _stall_timeout: float = field(default=STALL_TIMEOUT, alias="stall_timeout", kw_only=True)
    _needs_confirmation: NeedsConfirmation | None = field(default=None, alias="needs_confirmation", kw_only=True)
    _canary: str | None = field(default=None, alias="canary", kw_only=True)
    found: int = field(init=False, default=0)  # references found so far
    # Used in the event loop's thread.
    _held: deque[Batch] = field(init=False, factory=deque)
    _in_flight: int = field(init=False, default=0)
    _pending: dict[str, _Pending] = field(init=False, factory=dict)
    _confirming: set[str] = field(init=False, factory=set)
    _feed: asyncio.Queue[str | None] = field(init=False, factory=asyncio.Queue)  # that no worker has. None: the end
    _is_read: bool = field(init=False, default=False)  # the source, to its end
    _changed: asyncio.Event = field(init=False, factory=asyncio.Event)
    _task: asyncio.Task[None] = field(init=False)

    def through(self, batches: Iterator[Batch]) -> Generator[Batch]:
        """Look up the references of *batches*, and yield each batch, in order, when it is answered."""
        # *batches* is read in the caller's thread, about a window ahead. Leaving early ends every lookup. When no
        # further lookup can succeed, the batches answered before are yielded first.
        wait = partial(self._background.wait, may_block_loop=True)
        wait(self._start)
        try:
            while (step := wait(self._next)) is not _END:
                if step is _WANTED:
                    wait(partial(self._take, next(batches, None)))
                else:
                    yield cast("Batch", step)
        finally:
            if self._background.is_this_thread:  # there, the garbage collector may close an abandoned generator
                self._task.cancel()
            else:
                with suppress(ClientClosedError):  # which has ended them, or this is another process
                    wait(self._end)

    # The event loop's thread

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._ask(), name="payclient-window")
        self._task.add_done_callback(lambda _: self._changed.set())

    async def _next(self) -> object:
        """Return the first batch when it is answered, or that another one is wanted, or that this is the end."""
        while self._held or not self._is_read:
            self._changed.clear()
            held_rows = sum(max(1, each.rows) for each in self._held)
            is_full = len(self._held) > 1 and held_rows >= self._rows * _HELD_WINDOWS
            if self._wants_more() and not is_full and not self._task.done():
                return _WANTED
            if self._held and self._held[0].is_answered:
                return self._held.popleft()
            if self._task.done():
                self._task.result()
            await self._changed.wait()
        return _END

    def _wants_more(self) -> bool:
        return not self._is_read and self._in_flight < self._rows

    async def _end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _take(self, batch: Batch | None) -> None:
        if batch is None:
            self._is_read = True
            self._end_feed()
            return
        self._held.append(batch)
        self._in_flight += len(batch.references)
        for reference in batch.references:
            if reference not in self._pending:
                self._pending[reference] = _Pending()
                self._feed.put_nowait(reference)
            self._pending[reference].batches.append(batch)

    def _end_feed(self) -> None:
        # A second lookup goes through the feed again, so the feed cannot end before the last answer.
        if self._is_read and not (self._needs_confirmation and self._pending):
            self._feed.put_nowait(None)

    async def _ask(self) -> None:
        client = self._background.client.with_options(on_attempt=self._note)
        stream = partial(client.stream_transactions, stall_timeout=self._stall_timeout)
        if self._canary is not None:
            self.found += await ask_canary(self._canary, stream([self._canary]))
        async with stream(self._fed(), fresh=self._confirming) as outcomes:
            async for outcome in outcomes:
                self._note_outcome(outcome)

    async def _fed(self) -> AsyncIterator[str]:
        while (reference := await self._feed.get()) is not None:
            yield reference

    def _note(self, attempt: Attempt) -> None:
        if (pending := self._pending.get(attempt.reference)) is not None:
            pending.attempts += 1
            pending.status_code = attempt.status

    def _note_outcome(self, outcome: Outcome) -> None:
        reference = outcome.reference
        pending = self._pending[reference]
        seen = observe(
            outcome.transaction if isinstance(outcome, Found) else outcome.error,
            at=utc_now(),
            status_code=pending.status_code,
            attempts=pending.attempts,
        )
        self.found += seen.answer is Answer.FOUND
        needs_confirmation = self._needs_confirmation if pending.first is None else None
        if needs_confirmation and any(
            needs_confirmation(entry, seen) for batch in pending.batches for entry in batch.entries[reference]
        ):
            pending.first = seen
            self._confirming.add(reference)
            self._feed.put_nowait(reference)
            return
        del self._pending[reference]
        self._confirming.discard(reference)
        for batch in pending.batches:
            batch.first[reference] = pending.first or seen
            if pending.first is not None:
                batch.second[reference] = seen
        self._in_flight -= len(pending.batches)
        if self._wants_more() or any(batch.is_answered for batch in pending.batches):
            self._changed.set()
        self._end_feed()
