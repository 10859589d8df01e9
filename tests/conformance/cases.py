"""
What a client does with an answer too many.

Each case takes a client of `clients.py`. The server runs in another thread, so that what it sends can arrive while the
event loop of the client is busy.
"""

import asyncio
import json
from functools import partial

from attrs import frozen

from support.fakes import document
from support.in_thread import serving
from support.raw_server import RawServer, http

EXTRA = http(json.dumps({"success": False, "message": "Transaction not found"}).encode(), "404 Not Found")
PLACES = 4
PATIENCE = 60.0  # seconds, where a case is not about time


@frozen
class Count:
    """
    How lookups ended of which each reference exists.

    Attributes:
        wrong: The answer was the stray one, or that to another lookup.
        failed: There was an error.
    """

    lookups: int
    wrong: int
    failed: int

    @classmethod
    def of(cls, outcomes):
        """Count pairs of a reference and what was returned or raised."""
        failed = sum(isinstance(found, Exception) for _, found in outcomes)
        wrong = sum(found != reference for reference, found in outcomes) - failed
        return cls(len(outcomes), wrong, failed)

    def __str__(self):
        return f"{self.wrong} of {self.lookups}" + (f", {self.failed} failed" if self.failed else "")


async def outcome(ask, reference):
    """Return the reference, and what a lookup returned or raised."""
    try:
        return reference, await ask(reference)
    except Exception as error:  # noqa: BLE001  each library has its own
        return reference, error


class Straying(RawServer):
    """
    Answers each reference, and sends one answer too many after the first of a pair.

    Args:
        at_once: Whether both are written together; if not, the test calls `stray`.
    """

    def __init__(self, *, at_once):
        super().__init__(self._pair)
        self._at_once = at_once

    async def _pair(self, connection):
        self._loop = asyncio.get_running_loop()
        while (reference := await connection.request()) is not None:
            extra = EXTRA if self._at_once and reference.startswith("FIRST") else b""
            await connection.write(http(document(reference)) + extra)

    def stray(self):
        """Send one answer too many over the last connection, and return when it has arrived."""
        asyncio.run_coroutine_threadsafe(self.connections[-1].write(EXTRA), self._loop).result(PATIENCE)


async def stray_answers(client, moment, *, pairs=60, pause=0.0025):
    """
    Look pairs of references up, one after the other, and count the second of each.

    Args:
        client: One of `CLIENTS`.
        moment: `same write`: the extra answer comes with the first. `idle`: between both, and the event loop has time
            to read it. `unread`: between both, while the event loop is busy.
        pairs: Each has a client of its own.
        pause: Seconds for which each of twenty turns of the event loop lasts in which an extra answer can be read.
    """
    server, outcomes = Straying(at_once=moment == "same write"), []
    with serving(server):
        for number in range(pairs):
            async with client(server.url, places=PLACES, timeout=PATIENCE) as ask:
                await ask(f"FIRST{number}")
                if moment != "same write":
                    server.stray()
                if moment == "idle":
                    for _ in range(20):
                        await asyncio.sleep(pause)
                outcomes.append(await outcome(ask, f"SECOND{number}"))
    return Count.of(outcomes)


async def stray_answers_under_load(client, *, lookups=600, workers=10):
    """Look references up, some at a time, while every fifth answer on a connection is followed by an extra one."""

    async def script(connection):
        while (reference := await connection.request()) is not None:
            await connection.write(http(document(reference)))
            if len(connection.requests) % 5 == 0:
                await asyncio.sleep(0)
                await connection.write(EXTRA)

    server, outcomes, numbers = RawServer(script), [], iter(range(lookups))
    with serving(server):
        async with client(server.url, places=workers, timeout=PATIENCE) as ask:

            async def worker():
                for number in numbers:
                    outcomes.append(await outcome(ask, f"T{number}"))

            await asyncio.gather(*(worker() for _ in range(workers)))
    return Count.of(outcomes)


MOMENTS = ("same write", "idle", "unread")


COLUMNS = {
    **{f"stray answer, {moment}": partial(stray_answers, moment=moment) for moment in MOMENTS},
    "under load": stray_answers_under_load,
}
