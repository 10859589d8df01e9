"""Wait until tasks or a thread are done, even if the wait is cancelled repeatedly."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
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
