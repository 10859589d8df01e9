"""
The client that lives in a worker process, with an event loop of its own in a daemon thread.

One per process and specification, whatever number of batches and tasks come by, so that connections are kept and the
limiter goes on with what it has learnt. A process that was forked begins anew: it finds nothing under its own id.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from functools import partial
from typing import Final

from attrs import define, field

from payclient._client import AsyncClient
from payclient._config import resolve_workers
from payclient.engines._spec import LookupSpec, key_of

_PATIENCE: Final = 2.0
"""Seconds that the end of the process waits for connections to close."""


class Resident:
    """
    One client, and the thread that its event loop runs in.

    Args:
        client: Not used before; from now on used in the thread alone, and closed with it.
        loop: Of the thread.
    """

    def __init__(self, client: AsyncClient, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client = client
        self.loop = asyncio.new_event_loop() if loop is None else loop
        self._closing: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="payclient-engine", daemon=True)
        self._thread.start()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is in the event loop's thread, where nothing may wait for it."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def close(self) -> None:
        """End every lookup, close the client, and end the thread; at the latest after some seconds."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._begin_to_close)
            self._thread.join(_PATIENCE)

    def _begin_to_close(self) -> None:
        self._closing = self.loop.create_task(self._close())

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.aclose()
        self.loop.stop()


@define
class _Home:
    """What lives in one process."""

    lock: threading.Lock = field(factory=threading.Lock)
    residents: dict[LookupSpec, Resident] = field(factory=dict)


_homes: Final[dict[int, _Home]] = {}


def resident_of(spec: LookupSpec) -> Resident:
    """
    Return the one client of this process for *spec*; it lives as long as the process.

    Raises:
        ConfigurationError: When the worker has no key, or none that can be used.
    """
    home = _homes.setdefault(os.getpid(), _Home())  # with a lock of its own: a fork may have copied one that is held
    with home.lock:
        if spec not in home.residents:
            home.residents[spec] = Resident(_connect(spec))
        return home.residents[spec]


def share_rate(spec: LookupSpec, *, workers: int) -> None:
    """
    Tell the client of this process for *spec* how many worker processes use the key now.

    For a worker that learns of the others while it works. `max_rate` is divided anew from the next attempt on; without
    one, so is what the limiter adapts. It is made if there is none yet.

    Args:
        spec: As given to `lookup_batches`.
        workers: This one included.

    Raises:
        ConfigurationError: When the worker has no key, or *workers* is no count.
    """
    resident, workers = resident_of(spec), resolve_workers(workers)
    resident.loop.call_soon_threadsafe(partial(resident.client.set_max_rate, spec.max_rate, workers=workers))


def _connect(spec: LookupSpec) -> AsyncClient:
    return AsyncClient(
        api_key=key_of(spec),
        base_url=spec.base_url,
        environment=spec.environment,
        max_concurrency=spec.max_concurrency,
        max_rate=spec.max_rate,
        transport=spec.transport,
        workers=spec.workers,
        timeout=spec.timeout,
        deadline=spec.deadline,
        retry=spec.retry,
    )


@atexit.register
def _close_all() -> None:
    home = _homes.get(os.getpid())
    for resident in home.residents.values() if home else ():
        resident.close()
