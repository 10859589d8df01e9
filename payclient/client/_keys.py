"""
The API key of one client: given once, or asked for and asked again when the service declines it.

The key source runs in a separate task, shared by all lookups that need the key at that time. So each lookup can be
cancelled, or run out of time, without ending the call for the others. The last one ends it. It does so a moment later,
because a caller who shares its lookup may take over, and wait for the same call.
"""

import asyncio
import copy
import inspect
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from attrs import define

from payclient._shared.escape import escape_unprintable
from payclient.errors import ConfigurationError, KeySourceError, PayClientError
from payclient.protocol import ApiKey

KeySource: TypeAlias = Callable[[], str | Awaitable[str]]
"""Gives the API key, plain or async."""

_TOKEN = re.compile(r"(?=[\w~+=-]*[0-9])[\w~+=-]{12,}")
"""A possible key that is not known yet, in the words of a source that failed."""
_MAX_WORDS = 200
_TAKEOVER = 0.1  # seconds


@define(eq=False, repr=False)  # the repr of a task shows its exception
class _Call:
    """One call of the source, and the number of lookups that wait for it."""

    task: asyncio.Task[None]
    waiters: int = 0
    timer: asyncio.TimerHandle | None = None  # ends it, unless another lookup takes over


class Keys:
    """The current key."""

    def __init__(self, key: ApiKey | None, source: KeySource | None = None) -> None:
        self.version = 0
        self.fingerprint: str = ""  # the current key's. Empty before the source was asked
        self._current: ApiKey | None = None
        self.source = source
        self._call: _Call | None = None
        self.authorization: Callable[[], str] = str  # requests wait for the key
        self.redact: Callable[[str], str] = str
        if key is not None:
            self._use(key)

    async def renew(self, known_version: int) -> bool:
        # Lookups that ask at the same time share one call of the source, and its failure.
        if self.source is not None and self.version == known_version:
            call = self._call = self._call or self._start(self.source)
            call.waiters += 1
            if call.timer is not None:
                call.timer.cancel()
            try:
                await asyncio.wait([call.task])
            finally:
                call.waiters -= 1
                if not (call.waiters or call.task.done()):
                    call.timer = asyncio.get_running_loop().call_later(_TAKEOVER, self._end_unused, call)
            if failure := _failure(call.task, self.redact):
                raise failure
        return self.version != known_version

    def _end_unused(self, call: _Call) -> None:
        self._call = None
        call.task.cancel()

    def close(self) -> None:
        if self._call is not None:
            self._call.task.cancel()

    def _start(self, source: KeySource) -> _Call:
        call = _Call(asyncio.create_task(self._ask(source), name="payclient-key"))
        call.task.add_done_callback(partial(self._forget, call))
        return call

    def _forget(self, call: _Call, task: asyncio.Task[None]) -> None:
        if self._call is call:
            self._call = None
        if call.timer is not None:
            call.timer.cancel()
        if not task.cancelled():
            task.exception()  # without a reader, asyncio would log it with the words of the source

    async def _ask(self, source: KeySource) -> None:
        given, key, problem = source(), None, ""
        try:
            if inspect.isawaitable(given):
                given = await given
            try:
                key = ApiKey(given)
            except ConfigurationError as error:  # such as of a vault that is starting
                problem = error.problem
        finally:
            del given  # a traceback may include the local variables of its frames
        if key is None:
            raise KeySourceError(f"the key source gave no usable key: it {problem}")
        if key.fingerprint != self.fingerprint:
            self._use(key)

    def _use(self, key: ApiKey) -> None:
        former, self._current = self._current, key
        self.version += 1
        self.authorization, self.fingerprint = key.authorization, key.fingerprint
        self.redact = key.redact if former is None else lambda text: former.redact(key.redact(text))


def _failure(task: asyncio.Task[None], redact: Callable[[str], str]) -> BaseException | None:
    """Return the error for one caller that waited for *task*. One for all would collect their tracebacks."""
    if task.cancelled():
        return KeySourceError("the call of the key source was cancelled")
    error = task.exception()
    if isinstance(error, PayClientError):
        return copy.copy(error)
    if not isinstance(error, Exception):
        return error
    words = escape_unprintable(_TOKEN.sub("…", redact(str(error))), max_length=_MAX_WORDS)
    return KeySourceError(f"the key source failed: {type(error).__name__}{': ' if words else ''}{words}")
