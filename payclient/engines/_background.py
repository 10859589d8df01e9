"""
The background client of a worker process: one client, with its event loop in a daemon thread.

There is one per process and specification. All batches and tasks share it, so connections stay open and the limiter
keeps what it has learnt. The registry is keyed by process id, so a forked process makes its own clients.
"""

import atexit
import os
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Final, cast

from payclient._shared.checks import check_count
from payclient._shared.options import OPTIONS
from payclient.blocking import LoopThread
from payclient.client import AsyncClient, ClientOptions
from payclient.engines._spec import LookupSpec, key_of, not_found_messages_of

_CLOSE_SECONDS: Final = 2.0
"""Seconds that the exit of the process waits for connections to close."""

_registries: Final[dict[int, tuple[Lock, dict[LookupSpec, LoopThread]]]] = {}
"""The clients of each process. The lock is per process, too, because a fork may have copied one that is held."""


def background_client(spec: LookupSpec) -> LoopThread:
    """Return this process's client for *spec*; it lives as long as the process."""
    lock, clients = _registries.setdefault(os.getpid(), (Lock(), {}))
    with lock:
        if spec not in clients:
            clients[spec] = LoopThread(_connect(spec))
        return clients[spec]


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
    _, clients = _registries.setdefault(os.getpid(), (Lock(), {}))
    for client in clients.values():
        client.stop(at_once=True)
        with suppress(TimeoutError):
            client.join(_CLOSE_SECONDS)
