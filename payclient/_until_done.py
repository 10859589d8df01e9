"""Wait until tasks are done, however often the wait is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def until_done(tasks: Collection[asyncio.Future[Any]]) -> None:
    """
    Return when all *tasks* are done; they are neither cancelled nor asked for their results.

    Raises:
        CancelledError: When this was cancelled meanwhile, once or at each turn as in a cancel scope of anyio; only
            after all are done.
    """
    interruption: asyncio.CancelledError | None = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        raise interruption
