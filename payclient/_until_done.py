"""Wait until tasks or a thread are done, even if the wait is cancelled repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, TypeVar

_Result = TypeVar("_Result")


async def until_done(tasks: Collection[asyncio.Future[Any]]) -> None:
    """
    Return when all *tasks* are done; they are not cancelled, and their results are not read.

    Raises:
        CancelledError: After all are done, if this was cancelled meanwhile: once, or at each turn of the event loop
            as by a cancel scope of anyio.
    """
    interruption: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        raise interruption


async def in_thread(step: Callable[..., _Result], *arguments: Any) -> _Result:
    """
    Call *step*, which may take seconds, in a thread and return its result; meanwhile other tasks run.

    Raises:
        CancelledError: As `until_done`: after *step* has ended, so that what it uses is used by one thread at a time.
    """
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    await until_done([running])
    return running.result()
