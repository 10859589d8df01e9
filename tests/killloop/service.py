"""The service of the kill loop: a process of its own that counts its answers, fails, and kills."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from payclient.testing import FakeService, Latency, serve

FAULT_SHARE = 0.06
LATENCY = 0.002


class KillingService:
    """
    A fake service that counts what it answers for each reference; faults are no answers, and not counted.

    When it is told so, it kills a process as soon as so many more questions have come; whether the last of them gets
    its answer first is left to chance, as with every kill.
    """

    def __init__(self, transactions, *, seed):
        self._fake = FakeService(latency=Latency(seconds=LATENCY), seed=seed)
        self._fake.load(transactions)
        self._random = Random(seed)
        self._answers, self._under_way = Counter(), 0
        self._victim, self._patience = 0, 0

    def kill(self, victim, after):
        self._victim, self._patience = victim, after

    async def counts(self):
        """Return how many answers each reference got, when none is under way any more."""
        while self._under_way:
            await asyncio.sleep(0.001)
        return dict(self._answers)

    async def __call__(self, scope, receive, send):
        self._under_way += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._under_way -= 1

    async def _answer(self, scope, receive, send):
        message = await receive()
        if message["type"] == "http.disconnect":  # killed while it asked
            return
        if self._random.random() < FAULT_SHARE:
            await self._random.choice([_fail, _throttle, _cut, _garble])(send)
            return
        self._answers[json.loads(message["body"])["reference"]] += 1
        self._kill_when_due()
        messages = [message]

        async def with_body():
            return messages.pop() if messages else await receive()

        await self._fake(scope, with_body, send)

    def _kill_when_due(self):
        if self._victim:
            self._patience -= 1
            if self._patience <= 0:
                asyncio.get_running_loop().call_later(self._random.random() * 2 * LATENCY, _end, self._victim)
                self._victim = 0


def _end(process):
    with suppress(ProcessLookupError):  # it came to its end by itself
        os.kill(process, signal.SIGKILL)


async def _reply(send, status, body, **headers):
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": body})


async def _fail(send):
    await _reply(send, 500, b"oops")


async def _throttle(send):
    await _reply(send, 429, b"slow down", retry_after="0")


async def _cut(send):  # the server sees fewer bytes than were announced, and hangs up
    await _reply(send, 200, b'{"success": true', content_length="1000")


async def _garble(send):
    await _reply(send, 200, b"<html>maintenance</html>", content_type="text/html")


async def main(transactions, seed):
    """Serve until standard input ends; each line on it is a command, and each answer one line on standard output."""
    logging.disable()  # of connections that are cut on purpose
    with Path(transactions).open(encoding="utf-8") as file:
        service = KillingService(list(map(json.loads, file)), seed=int(seed))
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with serve(service) as url:
        print(url, flush=True)
        while line := await commands.readline():
            name, *numbers = line.split()
            if name == b"kill":
                service.kill(*map(int, numbers))
            print(json.dumps(await service.counts() if name == b"counts" else None), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
