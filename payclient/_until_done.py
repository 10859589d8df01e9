"""Wait until tasks are done, even if the wait is cancelled repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


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
