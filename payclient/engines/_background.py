"""
The background client of a worker process: one client, with its event loop in a daemon thread.

There is one per process and specification. All batches and tasks share it, so connections stay open and the limiter
keeps what it has learnt. The registry is keyed by process id, so a forked process makes its own clients.
"""

import asyncio
import atexit
import os
import threading
from functools import partial
from typing import Final, cast

from attrs import define, field

from payclient._shared.checks import check_count
from payclient._shared.options import OPTIONS
from payclient.client import AsyncClient, ClientOptions
from payclient.engines._spec import LookupSpec, key_of, not_found_messages_of

_CLOSE_SECONDS: Final = 2.0
"""Seconds that the exit of the process waits for connections to close."""


class BackgroundClient:
    """A client, and the thread that runs its event loop, uses the client alone and closes it."""

    def __init__(self, client: AsyncClient, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client = client
        self.loop = asyncio.new_event_loop() if loop is None else loop
        self._process = os.getpid()
        self._closing: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="payclient-engine", daemon=True)
        self._thread.start()

    @property
    def is_this_process(self) -> bool:
        """Whether the caller is in the process that made it; a fork has no such thread."""
        return self._process == os.getpid()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is in the event loop's thread, where nothing may wait for it."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def close(self) -> None:
        """Cancel every lookup, close the client and stop the thread; return after at most two seconds."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._begin_to_close)
            self._thread.join(_CLOSE_SECONDS)

    def _begin_to_close(self) -> None:
        self._closing = self.loop.create_task(self._close())

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        try:
            await asyncio.gather(*others, return_exceptions=True)
            await self.client.aclose()
        finally:
            self.loop.stop()


@define
class _ProcessRegistry:
    lock: threading.Lock = field(factory=threading.Lock)
    clients: dict[LookupSpec, BackgroundClient] = field(factory=dict)


_registries: Final[dict[int, _ProcessRegistry]] = {}


def background_client(spec: LookupSpec) -> BackgroundClient:
    """Return this process's client for *spec*; it lives as long as the process."""
    # The lock is per process, because a fork may have copied one that is held.
    registry = _registries.setdefault(os.getpid(), _ProcessRegistry())
    with registry.lock:
        if spec not in registry.clients:
            registry.clients[spec] = BackgroundClient(_connect(spec))
        return registry.clients[spec]


def share_rate(spec: LookupSpec, *, workers: int) -> None:
    """
    Tell this process's client for *spec* the number of worker processes that share the key.

    Call it when workers join or leave. From the next attempt on, `max_rate` is divided by the new number; without
    `max_rate`, the adaptive limit is. The client is made if there is none yet.

    Args:
        spec: As given to `lookup_batches`.
        workers: Their number, including this one.

    Raises:
        ConfigurationError: When the worker has no key, or *workers* is not a count.
    """
    background, workers = background_client(spec), check_count("workers", workers)
    background.loop.call_soon_threadsafe(partial(background.client.set_max_rate, spec.max_rate, workers=workers))


def _connect(spec: LookupSpec) -> AsyncClient:
    options = {name: getattr(spec, name) for name, option in OPTIONS.items() if option.worker == name}
    options |= {**dict(spec.network), "not_found_messages": not_found_messages_of(spec)}
    return AsyncClient(**cast("ClientOptions", {**options, "api_key": key_of(spec)}))  # the key is in no variable


@atexit.register
def _close_all() -> None:
    registry = _registries.get(os.getpid())
    for client in registry.clients.values() if registry else ():
        client.close()
