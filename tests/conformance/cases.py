"""
What a client does when the other side is wrong, slow or silent, or when a caller leaves.

Each case takes a client of `clients.py`. The server runs in another thread, so that what it sends can arrive while the
event loop of the client is busy.
"""

import asyncio
import json
import random
import socket
import ssl
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import trustme
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


async def lost_places(client, *, rounds=300, timeout=2.0, seed=1):
    """
    Cancel lookups at any turn of the event loop, and return how many places of the pool are gone for good.

    As many lookups as there are places are asked at once, and answered when all of them have arrived.
    """
    held, draw = [], random.Random(seed)

    async def script(connection):
        while (reference := await connection.request()) is not None:
            if reference.startswith("HELD"):
                held.append(asyncio.get_running_loop().create_future())
                if len(held) == PLACES:
                    for future in held:
                        future.set_result(None)
                await held[-1]
            await connection.write(http(document(reference)))

    async def cancelled(ask, reference):
        task = asyncio.ensure_future(ask(reference))
        for _ in range(draw.randrange(60)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        _ = task.cancelled() or task.exception()

    server = RawServer(script)
    with serving(server):
        async with client(server.url, places=PLACES, timeout=timeout) as ask:
            for number in range(rounds):
                await asyncio.gather(*(cancelled(ask, f"T{number}-{each}") for each in range(2 * PLACES)))
            await asyncio.gather(*(outcome(ask, f"HELD{number}") for number in range(PLACES)))
    return PLACES - len(held)


async def waits_in_an_outage(client, *, callers=30, gap=0.1, timeout=2.0):
    """
    Return the seconds that callers wait for an error, one who comes every *gap* seconds, at a silent service.

    It has answered before, so that a client can know how fast it is.
    """

    async def script(connection):
        while (reference := await connection.request()) is not None:
            if reference.startswith("LATE"):
                await connection.peer_leaves()
                return
            await connection.write(http(document(reference)))

    async def wait(ask, number):
        await asyncio.sleep(number * gap)
        begin = time.perf_counter()
        await outcome(ask, f"LATE{number}")
        return time.perf_counter() - begin

    server = RawServer(script)
    with serving(server):
        async with client(server.url, places=callers, timeout=timeout) as ask:
            for number in range(10):
                await ask(f"T{number}")
            return await asyncio.gather(*(wait(ask, number) for number in range(callers)))


async def wait_for_a_drip(client, *, timeout=1.0, gap=0.1, most=8.0):
    """Return the seconds that a caller waits for an answer of which a byte comes every *gap* seconds."""

    async def script(connection):
        while (reference := await connection.request()) is not None:
            await connection.drip(http(document(reference)), gap)

    server, begin = RawServer(script), time.perf_counter()
    with serving(server):
        async with client(server.url, places=PLACES, timeout=timeout) as ask:
            await asyncio.wait_for(outcome(ask, "T1"), most)
            return time.perf_counter() - begin


async def refusals_explained(client, *, lookups=20, is_orderly=True):
    """Return in how many errors the word "certificate" is, of a server that demands one of the client."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)
    with tempfile.TemporaryDirectory() as folder, demanding(context, is_orderly=is_orderly) as port:
        trust = Path(folder, "trust.pem")
        authority.cert_pem.write_to_path(trust)
        async with client(f"https://localhost:{port}", places=PLACES, timeout=PATIENCE, authority=str(trust)) as ask:
            errors = [(await outcome(ask, f"T{number}"))[1] for number in range(lookups)]
    return sum("certificate" in text(error).lower() for error in errors)


@contextmanager
def demanding(context, *, is_orderly):
    """
    Refuse each connection as OpenSSL does, by an alert, and give the port.

    With blocking sockets, because asyncio's server closes without the alert. An orderly one reads what the client still
    sends before it closes; the other one resets the connection just behind the alert.
    """

    def refuse():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(PATIENCE)
                with suppress(OSError):
                    context.wrap_socket(connection.dup(), server_side=True)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    while is_orderly and connection.recv(65536):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # wakes `accept`
            thread.join()


def text(error):
    """Return what an error says, and those that it came from."""
    said = []
    while isinstance(error, BaseException):
        said.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    return " ".join(said)


MOMENTS = ("same write", "idle", "unread")


def seconds(value, most=None):
    return f"{most:g} s or more" if most and value >= most else f"{value:.1f} s"


async def drip_column(client):
    most = 8.0
    try:
        return seconds(await wait_for_a_drip(client, most=most))
    except TimeoutError:
        return seconds(most, most)


async def outage_column(client):
    waits = await waits_in_an_outage(client)
    return f"{statistics.median(waits):.1f} s, {max(waits):.1f} s"


async def refusal_column(client, lookups=20):
    named = [await refusals_explained(client, lookups=lookups, is_orderly=is_orderly) for is_orderly in (True, False)]
    return ", ".join(f"{number} of {lookups}" for number in named)


TABLES = (
    {
        **{f"stray answer, {moment}": partial(stray_answers, moment=moment) for moment in MOMENTS},
        "under load": stray_answers_under_load,
    },
    {
        "places lost": lost_places,
        "outage: median wait, longest": outage_column,
        "slow drip": drip_column,
        "certificate named: orderly, reset": refusal_column,
    },
)
