"""Cancel work of httpcore through a scope, so that it can clean up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

_Value = TypeVar("_Value")


async def in_own_scope(work: Coroutine[Any, Any, _Value]) -> _Value:
    """
    Run *work* in a separate task, and cancel it through a scope instead of through the task.

    The cancellation of a task may interrupt httpcore's clean-up, which then does not give the
    connection back (encode/httpcore#1093). The cancellation of a scope respects the shields that
    httpcore puts around its clean-up. The task always ends before this returns.
    """
    scope = anyio.CancelScope()

    async def owned() -> _Value:
        with scope:
            return await work
        raise asyncio.CancelledError  # the scope has swallowed it

    task = asyncio.create_task(owned())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        scope.cancel()
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                continue  # already cancelling
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved
        raise
