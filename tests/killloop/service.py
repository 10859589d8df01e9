"""The service of the kill loop: a process of its own that counts its answers, fails, and kills."""

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
    A fake service that counts what it answers for each reference that it knows.

    Faults are no answers, and not counted. Nor is *not found*: a lookup asks twice before it believes that.

    When it is told so, it kills a process at the n-th question from then on, before or after that is answered.
    """

    def __init__(self, transactions, *, seed):
        self._fake = FakeService(latency=Latency(seconds=LATENCY), seed=seed)
        self._fake.load(transactions)
        self._known = {transaction["reference"] for transaction in transactions}
        self._random = Random(seed)
        self._answers, self._under_way = Counter(), 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._victim, self._left = 0, 0

    def kill(self, victim, at):
        self._victim, self._left = victim, at

    async def counts(self):
        """Return how many answers each reference got, when none is under way any more."""
        await self._at_rest.wait()
        return dict(self._answers)

    async def __call__(self, scope, receive, send):
        self._under_way += 1
        self._at_rest.clear()
        try:
            await self._answer(scope, receive, send)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._at_rest.set()

    async def _answer(self, scope, receive, send):
        message = await receive()
        if message["type"] == "http.disconnect":  # killed while it asked
            return
        if self._random.random() < FAULT_SHARE:
            await self._random.choice([_fail, _throttle, _cut, _garble])(send)
            return
        victim = 0
        if (reference := json.loads(message["body"])["reference"]) in self._known:
            self._answers[reference] += 1
            victim = self._due()
        if victim and self._random.random() < 0.5:
            _end(victim)
            victim = 0
        messages = [message]

        async def with_body():
            return messages.pop() if messages else await receive()

        await self._fake(scope, with_body, send)
        if victim:
            _end(victim)

    def _due(self):
        """Return the process that is to be killed at this question, or 0."""
        self._left -= 1
        victim = self._victim if self._left <= 0 else 0
        if victim:
            self._victim = 0
        return victim


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
