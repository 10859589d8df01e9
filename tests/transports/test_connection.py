"""One connection over a made-up socket, and the pool that keeps connections."""

import asyncio
import ssl

import pytest
from attrs import define

from payclient.transports._connection import Connection
from payclient.transports._connections import Pool
from support.tls_server import Server, session

ANSWER = b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"


class Wire:
    """What a connection believes to be its socket."""

    def __init__(self):
        self.is_open = True
        self.written = b""

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_open = False

    def is_closing(self):
        return not self.is_open

    def get_extra_info(self, _):
        return 0  # a descriptor that is there; nobody asks whether it is quiet


def deliver(connection, data):
    """Hand bytes over as asyncio does."""
    while data:
        place = connection.get_buffer(-1)
        taken, data = data[: len(place)], data[len(place) :]
        place[: len(taken)] = taken
        connection.buffer_updated(len(taken))


def test_answer_that_nobody_waits_for():
    """An answer for a caller that has just been cancelled has no effect."""

    async def play():
        connection, wire = Connection(), Wire()
        connection.connection_made(wire)
        connection.exchange(b"POST").cancel()
        deliver(connection, ANSWER)
        kept = connection.is_usable, wire.is_open
        answer = connection.exchange(b"POST")
        deliver(connection, ANSWER)
        return kept, (await answer).body

    assert asyncio.run(play()) == ((True, True), b"{}")


def test_before_the_handshake():
    """What a peer sends before the handshake is begun, and that it leaves then, is seen by the handshake."""

    async def secured(received, is_lost):
        connection = Connection(tls=session())
        connection.connection_made(Wire())
        deliver(connection, received)
        if is_lost:
            connection.connection_lost(None)
        async with asyncio.timeout(1):
            await connection.secure()

    plain = b"HTTP/1.1 400 Bad\r\n\r\n"
    for received, is_lost, raised in ((plain, False, ssl.SSLError), (plain, True, ssl.SSLError), (b"", True, OSError)):
        with pytest.raises(raised) as caught:
            asyncio.run(secured(received, is_lost))
        assert not isinstance(caught.value, TimeoutError)


def test_close_notify_under_tls():
    """Closing a TLS connection sends `close_notify`, so the other side knows that nothing was truncated."""

    async def closed():
        connection, wire, server = Connection(tls=session()), Wire(), Server()
        connection.connection_made(wire)
        secured = asyncio.create_task(connection.secure())
        while not secured.done():
            await asyncio.sleep(0)
            message, wire.written = wire.written, b""
            deliver(connection, server.answer(message) if message else b"")
        connection.abort()
        return server.decrypted(wire.written)

    assert asyncio.run(closed()) == b""


@define(eq=False)
class Kept:
    idle_since: float = 0.0
    on_close: object = None


def pool_of(count, keepalive=30.0):
    pool, made = Pool(keepalive), [Kept() for _ in range(count)]
    for connection in made:
        pool.add(connection)
    return pool, made


def test_warmest_first():
    """The connection that was used last is used next."""
    pool, (first, second) = pool_of(2)
    pool.give_back(first, 1.0)
    pool.give_back(second, 2.0)
    assert [pool.take(3.0), pool.take(3.0), pool.take(3.0)] == [second, first, None]


def test_cold():
    """A connection that was idle for longer than it is kept is not used, and is to be closed."""
    pool, (only,) = pool_of(1, keepalive=10.0)
    pool.give_back(only, 0.0)
    assert (pool.take(10.5), pool.surplus(10.5)) == (None, only)
    pool.remove(only)
    assert (pool.surplus(10.5), pool.connections, list(pool.idle)) == (None, {}, [])


def test_no_more_than_were_in_use():
    """Fresh connections take the place of idle ones: there are never more than were in use at once."""
    pool, (first,) = pool_of(1)
    pool.give_back(first, 0.0)
    fresh = Kept()
    pool.add(fresh)
    pool.give_back(fresh, 1.0)
    assert pool.surplus(1.0) is first
    pool.remove(first)
    assert pool.surplus(1.0) is None
