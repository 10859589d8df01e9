"""Responses that come after their caller has left."""

import asyncio

import pytest

from payclient import AsyncClient
from payclient.transports import HttpxTransport
from payclient.transports.fast import FastTransport
from pools import connections, idle, late
from support.fakes import KEY, document
from support.raw_server import RawServer, http

THROTTLED = http(b"{}", "429 Too Many Requests", "Retry-After: 60")

pytestmark = pytest.mark.parametrize("kind", [HttpxTransport, FastTransport])


class Held:
    """Answers a request after `release`."""

    def __init__(self, answer):
        self.answer, self.asked, self.is_released = answer, asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, connection):
        while (reference := await connection.request()) is not None:
            self.asked.release()
            await self.is_released.wait()
            await connection.write(self.answer or http(document(reference)))

    async def leave(self, pay, *references):
        """Ask for *references*, and leave when all requests have come."""
        callers = [asyncio.create_task(pay.get_transaction(each)) for each in references]
        for _ in callers:
            await self.asked.acquire()
        for each in callers:
            each.cancel()
        await asyncio.wait(callers)


async def until(holds):
    """Return when *holds* is true."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0)


def asking(server, transport, **options):
    return AsyncClient(api_key=KEY, base_url=server.url, environment="live", transport=transport, **options)


async def test_refusal_is_learnt_from(kind):
    """A pause that the service asks for holds, although nobody waited for that response."""
    held, transport = Held(THROTTLED), kind()
    async with RawServer(held) as server, asking(server, transport) as pay:
        await held.leave(pay, "T1")
        held.is_released.set()
        await until(lambda: pay.stats.paused_seconds > 0)
    await transport.aclose()


async def test_connection_stays(kind):
    """The next lookup uses the connection, and gets its own answer."""
    held, transport = Held(None), kind()
    async with RawServer(held) as server, asking(server, transport) as pay:
        await held.leave(pay, "T1")
        held.is_released.set()
        await until(lambda: idle(transport))
        assert (await pay.get_transaction("T2")).reference == "T2"
        assert (len(server.connections), late(transport)) == (1, set())
    await transport.aclose()


async def test_few_are_read_on(kind, monkeypatch):
    """No more than 32 such responses are awaited, and each for five seconds."""
    held, transport, loop = Held(None), kind(), asyncio.get_running_loop()
    set_timer, timers = loop.call_later, []

    def call_later(delay, call, *arguments, **context):
        if getattr(call, "__self__", None) in connections(transport):
            timers.append((delay, call))
        return set_timer(delay, call, *arguments, **context)

    async with RawServer(held) as server, asking(server, transport, max_concurrency=100) as pay:
        for name in ("_slow_start", "_initial"):  # the second for what it forgets as it begins
            monkeypatch.setattr(pay._session._limiter.capacity, name, 100.0)
        monkeypatch.setattr(loop, "call_later", call_later)
        await held.leave(pay, *(f"T{number}" for number in range(40)))
        assert (len(late(transport)), connections(transport)) == (32, late(transport))
        assert [delay for delay, _ in timers] == 32 * [5.0]
        for _, end in timers:
            end()
        await until(lambda: not late(transport))
        assert connections(transport) == set()
    await transport.aclose()


async def test_suspect_is_closed(kind, monkeypatch):
    """A reused connection that is silent for too long may be dead: it is closed with its caller, and not read on."""
    held, transport = Held(None), kind()
    async with RawServer(held) as server, asking(server, transport) as pay:
        held.is_released.set()
        await pay.get_transaction("T1")
        await held.asked.acquire()
        held.is_released.clear()
        monkeypatch.setattr("payclient.transports._connections._MAX_SILENCE", -1.0)
        await held.leave(pay, "T2")
        assert (late(transport), len(server.connections)) == (set(), 1)
    await transport.aclose()


async def test_close_waits_for_none(kind):
    """Closing ends them at once."""
    held, transport = Held(None), kind()
    async with RawServer(held) as server, asking(server, transport) as pay:
        await held.leave(pay, "T1")
        assert len(late(transport)) == 1
        await pay.aclose()
        await transport.aclose()
        assert connections(transport) == set()
        held.is_released.set()
        assert await server.deserted() == 0
