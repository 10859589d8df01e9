"""
The client for code without an event loop: scripts, notebooks, WSGI applications, tasks of a worker.

One event loop runs in one daemon thread. Every method runs its namesake of `AsyncClient` there, and waits for the
result.

Design rules:

- No lock: a signal handler may call while its thread is anywhere in this file. A call enters its future in a set and
  then looks whether the client is closed. The thread marks the client as closed and then fails the calls in the set.
- However the loop ends, the thread that runs it cancels all tasks, closes the client and fails each open call. So
  closing is to ask the loop to stop, and an interrupted `close` leaves nothing undone.
"""

import asyncio
import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial, wraps
from threading import Thread, current_thread
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, Unpack, cast

from payclient.client import AsyncClient, ClientOptions, OptionChanges, Shared, Stats, closed, running_loop
from payclient.errors import ClientClosedError, ConfigurationError

TYPE_CHECKING = False  # not the one of `typing`, which jedi takes for true

__all__ = ["Client"]

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")
_END: Final = object()
_IS_CLOSED = "it has been closed"
_GREEN_THREADS = (
    ("gevent", "monkey", "is_module_patched", ("threading", "select")),
    ("eventlet", "patcher", "is_monkey_patched", ("thread",)),
)


class LoopThread:
    """The thread with one client's event loop, and the calls waiting for it. Engines use it, too."""

    def __init__(self, client: AsyncClient, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.client = client
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop() if loop is None else loop
        self.problem: str | None = None
        """Why no call is accepted, or None."""
        self._process = os.getpid()
        self._stopping = self.loop.create_future()
        self._ending: asyncio.Task[None] | None = None
        self._open: set[Future[Any]] = set()
        self._ended: Future[None] = Future()
        self._thread = Thread(target=self._run, name="payclient", daemon=True)
        self._thread.start()

    @property
    def is_this_process(self) -> bool:
        """Whether the caller is in the process that created it. The thread does not survive a fork."""
        return self._process == os.getpid()

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is in the thread itself, where nothing may wait for it."""
        return current_thread() is self._thread

    def wait(self, call: Callable[[], Coroutine[Any, Any, _Result]], *, may_block_loop: bool = False) -> _Result:
        """Run a coroutine in the loop, and return its result. A loop that runs in the caller's thread stands still."""
        self._check_place(may_block_loop=may_block_loop)
        answer = Future[_Result]()
        self._open.add(answer)
        try:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._start, call, answer)
            if self.problem is None:
                return answer.result()
        except CancelledError:
            pass
        finally:
            answer.cancel()  # this thread was interrupted. Otherwise it is done
            self._open.discard(answer)
        raise closed(self.problem or _IS_CLOSED)

    def stop(self, *, at_once: bool = False) -> None:
        """Refuse new calls, and ask the loop to end, at once without those under way. No effect after a fork."""
        if self.is_this_process:
            self.problem = self.problem or _IS_CLOSED
            with suppress(RuntimeError):  # the loop is closed
                for step in (self._stop, self._cancel) if at_once else (self._stop,):
                    self.loop.call_soon_threadsafe(step)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the client is closed, and raise its closing error. No effect in the thread itself."""
        if self.is_this_process and not self.is_this_thread:
            error = self._ended.exception(timeout)
            self._thread.join()
            if error is not None:
                raise error

    def _check_place(self, *, may_block_loop: bool) -> None:
        if not self.is_this_process:  # the thread does not exist there
            raise closed("it was created in another process: create a client after the fork")
        if sys.is_finalizing():  # the thread no longer runs then
            raise closed("Python is about to end")
        if self.is_this_thread or (running_loop() is not None and not may_block_loop):
            message = "payclient.blocking would block the event loop of this thread: await an AsyncClient instead"
            raise RuntimeError(message)

    # In the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._stopping)
        except (SystemExit, KeyboardInterrupt) as error:  # these leave the loop from anywhere
            self.problem = f"{type(error).__name__} has ended its event loop"
            self._cancel()
        self._ending = ending = self.loop.create_task(self._end())
        ending.add_done_callback(lambda _: self.loop.stop())
        while not ending.done():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                self._cancel()
        for answer in tuple(self._open):
            answer.cancel()
        self.loop.close()
        self._ended.set_exception(None if ending.cancelled() else ending.exception())

    # Not `asyncio.run_coroutine_threadsafe`: it logs unread answers when the loop ends.
    def _start(self, call: Callable[[], Awaitable[_Result]], answer: Future[_Result]) -> None:
        if answer.cancelled() or self._ending is not None:
            answer.cancel()
            return
        task = self.loop.create_task(_run(call))
        task.add_done_callback(partial(_pass_on, answer))
        answer.add_done_callback(lambda _: self._cancel_left(answer, task))

    def _cancel_left(self, answer: Future[Any], task: asyncio.Task[Any]) -> None:
        if answer.cancelled():
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(task.cancel)

    def _stop(self) -> None:
        if not self._stopping.done():
            self._stopping.set_result(None)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self.loop) - {self._ending}:
            task.cancel()

    async def _end(self) -> None:
        try:
            await self.client.aclose()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            self._cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self.loop.shutdown_asyncgens()


async def _done(call: Callable[[], _Result]) -> _Result:
    return call()


async def _run(call: Callable[[], Awaitable[_Result]]) -> _Result:
    return await call()


def _pass_on(answer: Future[_Result], task: asyncio.Task[_Result]) -> None:
    error = None if task.cancelled() else task.exception()  # read in any case, or asyncio logs it
    if task.cancelled():
        answer.cancel()
    elif answer.set_running_or_notify_cancel():
        if error is None:
            answer.set_result(task.result())
        else:
            answer.set_exception(error)


if TYPE_CHECKING:

    def _blocking(
        method: Callable[Concatenate[AsyncClient, _Given], Coroutine[Any, Any, _Result]],
    ) -> Callable[[object], Callable[Concatenate["Client", _Given], _Result]]: ...

    def _blocking_iterator(
        method: Callable[Concatenate[AsyncClient, _Given], AbstractAsyncContextManager[AsyncIterator[_Result]]],
    ) -> Callable[[object], Callable[Concatenate["Client", _Given], AbstractContextManager[Iterator[_Result]]]]: ...

else:  # jedi reads these: it follows a function and a `Coroutine`, but neither a lambda nor `Concatenate`

    def _blocking(method):  # noqa: ANN001, ANN202
        @wraps(method)
        def wait(self: "Client", /, *args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            def call():  # noqa: ANN202
                return method(self._client, *args, **kwargs)

            return self._thread.wait(call)

        return lambda _: wait

    def _blocking_iterator(method):  # noqa: ANN001, ANN202
        @wraps(method)
        def iterate(self: "Client", /, *args, **kwargs):  # noqa: ANN002, ANN003, ANN202
            def make():  # noqa: ANN202
                return method(self._client, *args, **kwargs)

            return _items(self._thread, make)

        return lambda _: iterate


def _items(
    thread: LoopThread, make: Callable[[], AbstractAsyncContextManager[AsyncIterator[_Result]]]
) -> AbstractContextManager[Iterator[_Result]]:
    return _Items(thread, make)


class _Items(Iterator[_Result], Generic[_Result]):
    """The block of a stream, and the iterator in it."""

    def __init__(
        self, thread: LoopThread, make: Callable[[], AbstractAsyncContextManager[AsyncIterator[_Result]]]
    ) -> None:
        self._thread = thread
        self._make = make
        self._is_read = False

    def __enter__(self) -> Self:
        self._thread.wait(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ClientClosedError):  # closing has ended the block
            self._thread.wait(lambda: self._block.__aexit__(None, None, None))

    def __iter__(self) -> Self:
        self._check_open()
        if self._is_read:
            raise RuntimeError("this iterator has been read to its end: open another one")
        return self

    def __next__(self) -> _Result:
        self._check_open()
        if (item := self._thread.wait(lambda: anext(self._items, _END))) is _END:
            self._is_read = True
            raise StopIteration
        return item  # type: ignore[return-value]  # not the end

    def _check_open(self) -> None:
        if not hasattr(self, "_items"):
            raise TypeError("read a stream in its block: `with client.stream_transactions(...) as outcomes:`")

    async def _enter(self) -> None:
        self._block = self._make()
        self._items = await self._block.__aenter__()


def _check_threads() -> None:
    for name, module, is_replaced, parts in _GREEN_THREADS:
        if (patches := sys.modules.get(f"{name}.{module}")) and any(map(getattr(patches, is_replaced), parts)):
            message = f"payclient.blocking needs threads of the operating system, which {name} has replaced"
            raise ConfigurationError(f"{message}: use a worker with them: gunicorn -k gthread, celery -P threads")


class Client(Shared):
    """
    Looks up transactions, for any number of threads.

    Create one per process, after a fork, and close it at the end.

    Args:
        client: A client that nothing else uses. It is closed with this one. Created with *options* if not given.
        options: The options of `AsyncClient`, as in `Client(deadline=5.0)`.

    Note:
        `stream_transactions` gives a plain iterator, for `with` and `for`. Its references are read in the client's own
        thread, lazily. An input that blocks stops all calls.

    Raises:
        ConfigurationError: When the client cannot be created, such as in a process that gevent or eventlet has patched.
    """

    def __init__(self, client: AsyncClient | None = None, **options: Unpack[ClientOptions]) -> None:
        has_options = bool(options)
        try:
            _check_threads()
            made = cast("object", AsyncClient(**options) if client is None else client)
        finally:
            del options  # a traceback with locals would show the key when any option is refused
        if not isinstance(made, AsyncClient):
            raise ConfigurationError(f"client must be an AsyncClient, got {type(made).__name__}: pass options by name")
        if client is not None and has_options:
            raise ConfigurationError("pass a client or its options, not both")
        self._client, self._thread = made, LoopThread(made)

    @_blocking(AsyncClient.get_transaction)
    def get_transaction(self) -> None:
        """Look up one transaction."""

    @_blocking(AsyncClient.get_transactions)
    def get_transactions(self) -> None:
        """Look up a small number of transactions."""

    @_blocking_iterator(AsyncClient.stream_transactions)
    def stream_transactions(self) -> None:
        """Look up any number of transactions."""

    @_blocking(AsyncClient.wait_for)
    def wait_for(self) -> None:
        """Poll one transaction until its status is one of *until*."""

    @_blocking(AsyncClient.confirm)
    def confirm(self) -> None:
        """Check a claim about a transaction."""

    def with_options(self, **changes: Unpack[OptionChanges]) -> Self:
        """
        Return a view of this client with other options. Closing either closes both.

        Args:
            changes: Any of `timeout`, `deadline`, `retry`, `on_attempt`, `tracing` and `on_outage`.

        Raises:
            TypeError: For any other option.
            ConfigurationError: When a value is invalid.
        """
        return self._view(_client=self._client.with_options(**changes))

    def set_max_rate(self, rate: float | None, *, workers: int | None = None) -> None:
        """
        Change `max_rate` or `workers` at run time, for this client and all its views.

        Args:
            rate: Attempts per second that all clients of the key together may start. None for no limit.
            workers: Clients that share the key now. Unchanged if not given.

        Raises:
            ConfigurationError: When an argument is invalid. The limit is unchanged.
        """
        self._thread.wait(lambda: _done(partial(self._client.set_max_rate, rate, workers=workers)))

    @property
    def stats(self) -> Stats:
        """A snapshot of the counters since the client was created, for all views together."""
        return self._thread.wait(lambda: _done(lambda: self._client.stats))

    def close(self) -> None:
        """
        Refuse new calls, let those under way finish for up to `timeout` seconds, and end the thread.

        Closing twice, or in a forked process, is harmless. Ctrl-C ends the wait, and the calls under way.
        """
        self._thread.stop()
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._thread.stop(at_once=True)
            raise

    def __enter__(self) -> Self:
        self._check_entered()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        is_view = self._viewed is not None
        if not is_view and hasattr(self, "_thread") and self._thread.is_this_process and self._thread.problem is None:
            self._thread.stop()
            warn("unclosed payclient.blocking.Client: use it in `with`, or call close()", ResourceWarning, source=self)
