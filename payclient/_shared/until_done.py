"""Wait until tasks or a thread are done, even if the wait is cancelled repeatedly, or leave a thread to itself."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

_Result = TypeVar("_Result")


async def until_done(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Return when all *tasks* are done. They are not cancelled, and their results are not read."""
    interruption: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        raise interruption


async def shielded(work: Awaitable[_Result]) -> _Result:
    """Await *work* to its end, even if this task is cancelled, and return its result."""
    running = asyncio.ensure_future(work)
    try:
        await until_done([running])
    except asyncio.CancelledError as interruption:
        raise interruption from running.exception()
    return running.result()


async def in_thread(step: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call *step* in a thread, and wait for its end, so that one thread at a time uses its arguments."""
    return await shielded(asyncio.to_thread(step, *arguments))


def in_new_thread(name: str, step: Callable[..., _Result], *arguments: Any) -> asyncio.Future[_Result]:
    """Call *step* in a daemon thread. Its caller may stop waiting: the thread is never joined."""
    # Not the event loop's default executor: jobs of the application may fill it. Nor another pool: Python waits at
    # its end for the threads of pools, and after that, as in `atexit`, a pool takes no more calls.
    done = Future[_Result]()

    def run() -> None:
        with suppress(InvalidStateError):  # cancelled in between
            try:
                done.set_result(step(*arguments))
            except Exception as error:  # noqa: BLE001  raised where the result is awaited
                done.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)
