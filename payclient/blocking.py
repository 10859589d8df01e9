"""
The client for code without an event loop: scripts, notebooks, WSGI applications, tasks of a worker.

One event loop runs in one daemon thread; every method is the one of `AsyncClient`, waited for.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from threading import Lock, Thread, current_thread
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from payclient._client import AsyncClient
from payclient._session import closed, running_loop

__all__ = ["Client"]

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")


def _waited_for(
    method: Callable[Concatenate[AsyncClient, _Given], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[Client, _Given], _Result]:
    @functools.wraps(method)
    def wait(self: Client, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        call = functools.partial(method, self._client, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]  a method
        return self._wait(call)  # pyright: ignore[reportPrivateUsage]  as above

    return wait


class Client:
    """
    Looks up transactions, for any number of threads.

    Create one per process, after a fork, and close it at the end.

    Args:
        client: The client to use, which nothing else may use: `AsyncClient(deadline=5.0)`. One with
            the default options if not given. It is closed with this one.

    Raises:
        ConfigurationError: When the default client cannot be created.
    """

    def __init__(self, client: AsyncClient | None = None) -> None:
        self._client = AsyncClient() if client is None else client
        self._process = os.getpid()
        self._is_closed = False
        self._submitting = Lock()  # so that nothing is submitted after the end
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="payclient", daemon=True)
        self._thread.start()

    get_transaction: Final = _waited_for(AsyncClient.get_transaction)
    get_transactions: Final = _waited_for(AsyncClient.get_transactions)
    wait_for: Final = _waited_for(AsyncClient.wait_for)
    confirm: Final = _waited_for(AsyncClient.confirm)

    def close(self) -> None:
        """
        Refuse new calls, let those under way finish for up to `timeout` seconds, and end the thread.

        Closing twice is harmless, and so is closing in another process than the one that made it.
        """
        if self._process != os.getpid():
            return
        with self._submitting:
            if self._is_closed:
                return
            self._is_closed = True
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        try:
            ending.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        self._check_place()
        with self._submitting:
            if self._is_closed:
                raise closed()
            answer = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return answer.result()
        except CancelledError:
            pass
        finally:
            answer.cancel()  # this thread was interrupted; otherwise it is done
        raise closed()

    def _check_place(self) -> None:
        if self._process != os.getpid():  # where the thread does not exist
            raise closed("it was made in another process; make a client after the fork")
        if current_thread() is self._thread or running_loop() is not None:
            message = "payclient.blocking would block the event loop of this thread; await an AsyncClient instead"
            raise RuntimeError(message)

    async def _end(self) -> None:
        try:
            await self._client.aclose()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
