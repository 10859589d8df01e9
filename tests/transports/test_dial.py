"""Name resolution and TLS trust, which wait for nothing of the application's."""

import asyncio
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial

import httpx
import pytest

from payclient import AttemptTimeoutError, ConnectionFailedError, DeadlineExceededError, Transaction
from pools import idle
from support.fakes import client, document
from support.in_thread import serving
from support.raw_server import RawServer, http

each_of_ours = pytest.mark.parametrize("transport", ["httpx", "fast"])
each_host = pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])


@contextmanager
def full_pool():
    """Have jobs of the application in all threads of the event loop's default pool."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        asyncio.get_running_loop().set_default_executor(pool)
        done = threading.Event()
        stack.callback(done.set)
        for _ in range(4):
            pool.submit(done.wait)
        yield


def url_of(server, host):
    return server.url.replace("127.0.0.1", host)


def dialing():
    return [thread for thread in threading.enumerate() if thread.name == "payclient-dial"]


def ended():
    """Return whether each thread that resolves ends: one that has answered may still be on its last line."""
    for thread in dialing():
        thread.join(10)
    return dialing() == []


@asynccontextmanager
async def hanging(monkeypatch, host="localhost"):
    """Have a name be resolved when the block ends, at the latest; gives the list of the questions, and the answer."""
    resolve, asked, answer = socket.getaddrinfo, [], threading.Event()

    def slow(name, *arguments):
        if name == host:
            asked.append(name)
            answer.wait()
        return resolve(name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", slow)
        try:
            yield asked, answer
        finally:
            answer.set()
            for thread in dialing():
                thread.join()


async def answers(pay, count, name="T"):
    return await asyncio.gather(*(pay.get_transaction(f"{name}{number}") for number in range(count)))


@each_of_ours
@each_host
async def test_full_pool(transport, host):
    """When jobs of the application fill the default thread pool, visitors are served, as with httpx by address."""
    async with RawServer() as server, httpx.AsyncClient(timeout=None, trust_env=False) as beside:
        url = url_of(server, host)
        ask = partial(beside.post, f"{url}/api/transaction/detail", json={"reference": "T1"})
        with full_pool():
            other = asyncio.create_task(ask())
            async with client(transport, base_url=url) as cold:
                assert [type(found) for found in await answers(cold, 40)] == [Transaction] * 40
                if host == "localhost" and isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
                    assert not other.done()  # it waits for the pool, which uvloop does not use for names
        assert (await other).status_code == 200


@each_of_ours
async def test_idle_meanwhile(transport, monkeypatch):
    """A lookup that waits for a new connection takes one that is given back before; the new one is kept."""
    answer = asyncio.Event()

    async def script(connection):
        while (reference := await connection.request()) is not None:
            if connection.number == 0 and reference == "T1":
                await answer.wait()
            await connection.write(http(document(reference)))

    async with RawServer(script) as server, client(transport, base_url=url_of(server, "localhost")) as pay:
        await pay.get_transaction("T0")
        first = asyncio.create_task(pay.get_transaction("T1"))
        async with hanging(monkeypatch) as (asked, resolved):
            others = [asyncio.create_task(pay.get_transaction(f"T{number}")) for number in (2, 3)]
            while not asked:
                await asyncio.sleep(0)
            answer.set()
            assert [type(found) for found in await asyncio.gather(first, *others)] == [Transaction] * 3
            assert len(server.connections) == 1
            resolved.set()
            while len(idle(pay._session._transport)) < 3:
                await asyncio.sleep(0)
        assert [type(found) for found in await answers(pay, 3)] == [Transaction] * 3
        assert len(server.connections) == 3


@each_of_ours
async def test_asked_once(transport, monkeypatch):
    """Lookups that need the same name at the same time ask for it once."""
    async with RawServer() as server, client(transport, base_url=url_of(server, "localhost")) as pay:
        async with hanging(monkeypatch) as (asked, resolved):
            lookups = asyncio.create_task(answers(pay, 4))
            while not asked:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            resolved.set()
            await lookups
        assert asked == ["localhost"]


@pytest.mark.virtual_time
async def test_asked_twice(monkeypatch):
    """A name that is not resolved within a second is asked for a second time, and not a third time."""
    loop = asyncio.get_running_loop()
    async with RawServer() as server, client("fast", base_url=url_of(server, "localhost"), retry=None) as pay:
        async with hanging(monkeypatch) as (asked, _):
            lookups = []
            for number in range(1, 6):
                lookups.append(asyncio.create_task(pay.get_transaction(f"T{number}")))
                while len(asked) < min(number, 2):
                    await asyncio.sleep(0)
                loop.advance(1.2 if number == 1 else 0.1)
            assert asked == ["localhost"] * 2
        await asyncio.gather(*lookups)


@each_of_ours
async def test_words(transport, monkeypatch):
    """An error says that the name was not resolved, rather than that the service does not answer."""
    async with RawServer() as server:
        pay = client(transport, base_url=url_of(server, "localhost"), retry=None, connect_timeout=0.01)
        async with pay, hanging(monkeypatch):
            with pytest.raises(AttemptTimeoutError) as late:
                await pay.get_transaction("T1")
            assert (late.value.step, late.value.sent) == ("name", "no")
            assert "the name was not resolved: no answer within 0.01 s" in late.value.message
            with pytest.raises(DeadlineExceededError, match=r"\[step name\]"):
                await pay.with_options(timeout=0.001, deadline=0.001).get_transaction("T2")
    async with client(transport, base_url="https://pay.invalid", retry=None) as pay:

        def unknown(*_):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(ConnectionFailedError, match="the name was not resolved: "):
            await pay.get_transaction("T1")


@each_of_ours
async def test_closed_meanwhile(transport, monkeypatch):
    """Closing ends a lookup that waits for a name; its thread ends with the answer, and Python does not wait for it."""
    async with RawServer() as server, hanging(monkeypatch) as (asked, _):
        pay = client(transport, base_url=url_of(server, "localhost"), timeout=0.01, retry=None)
        lookup = asyncio.create_task(pay.with_options(timeout=5).get_transaction("T1"))
        while not asked:
            await asyncio.sleep(0)
        await pay.aclose()
        (outcome,) = await asyncio.gather(lookup, return_exceptions=True)
        assert str(outcome) == "the transport has been closed"
        assert [thread.daemon for thread in dialing()] == [True]
    assert ended()


def test_three_loops():
    """Clients in three event loops and threads resolve names at the same time, and leave no thread."""
    found = []

    async def look_up(url):
        async with client("fast", base_url=url) as pay:
            found.extend(await answers(pay, 10))

    server = RawServer()
    with serving(server):
        runs = [threading.Thread(target=lambda: asyncio.run(look_up(url_of(server, "localhost")))) for _ in range(3)]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join()
    assert len(found) == 30
    assert ended()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_fork(monkeypatch):
    """A client of a forked process resolves names, whatever its parent was waiting for."""

    async def look_up(url):
        async with client("fast", base_url=url, deadline=20) as pay:
            return await pay.get_transaction("T1")

    async def fork_meanwhile(url):
        pay = client("fast", base_url="https://pay.invalid")
        async with pay, hanging(monkeypatch, "pay.invalid") as (asked, _):
            lookup = asyncio.create_task(pay.get_transaction("T1"))
            while not asked:
                await asyncio.sleep(0)
            if (child := os.fork()) == 0:
                asyncio.events._set_running_loop(None)
                with ThreadPoolExecutor(1) as pool:
                    os._exit(0 if pool.submit(asyncio.run, look_up(url)).result() else 1)
            status = await asyncio.to_thread(os.waitpid, child, 0)
            lookup.cancel()
            return status[1]

    server = RawServer()
    with serving(server):
        assert asyncio.run(fork_meanwhile(url_of(server, "localhost"))) == 0
