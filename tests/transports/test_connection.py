"""One connection over a made-up socket, and the pool that keeps connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
import traceback
from collections.abc import Callable
from typing import ClassVar

import pytest
from attrs import define

from payclient.transports._connections import BrokenError, Connection, Pool, _secure
from payclient.transports._network import Origin
from support.tls_server import Server, established, session

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


def test_read_on_what_was_sent():
    """The response to a caller who has left is read if the whole request was sent, and not if a part is left."""

    async def play(unsent):
        connection, wire = Connection(), Wire()
        wire.get_write_buffer_size = lambda: unsent
        connection.connection_made(wire)
        connection.exchange(b"POST").cancel()
        return connection.read_on() is not None

    assert (asyncio.run(play(0)), asyncio.run(play(3))) == (True, False)


def test_rest_of_a_lost_connection():
    """What a lost connection had received, and nobody has read, is read: it may say why it was closed."""

    async def play():
        peer, own = socket.socketpair()
        with peer, own:
            connection, wire = Connection(), Wire()
            wire.get_extra_info = lambda _: own
            connection.connection_made(wire)
            response = connection.exchange(b"POST")
            peer.sendall(ANSWER)
            own.setblocking(False)
            connection.connection_lost(ConnectionResetError())
            return (await response).body

    assert asyncio.run(play()) == b"{}"


def test_behind_the_handshake():
    """What a peer sends with the last bytes of the handshake is unsolicited."""

    async def usable(behind):
        server, wire = Server(), Wire()
        tls = established(server)
        tls.incoming.write(server.encrypted(behind) if behind else b"")
        connection = Connection(tls=tls)
        connection.connection_made(wire)
        return connection.is_usable, wire.is_open

    assert [asyncio.run(usable(behind)) for behind in (b"", ANSWER)] == [(True, True), (False, False)]


def test_a_handshake_that_ends():
    """What a peer sends instead of its part of the handshake, and that it leaves, is seen by the handshake."""

    async def end(received):
        peer, own = socket.socketpair()
        with peer, own:
            own.setblocking(False)
            peer.sendall(received)
            peer.close()
            async with asyncio.timeout(1):
                await _secure(own, session())

    for received, raised in ((b"HTTP/1.1 400 Bad\r\n\r\n", ssl.SSLError), (b"", ConnectionError)):
        with pytest.raises(raised):
            asyncio.run(end(received))


def test_tls_that_cannot_send():
    """An error of TLS while a request is sent breaks the exchange, and no frame of it holds the request."""

    async def shown():
        connection = Connection(tls=session())
        connection.connection_made(Wire())
        with pytest.raises(BrokenError, match="TLS failed") as caught:
            await connection.exchange(bytes([64] * 40))  # before the handshake
        return "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())

    assert "@@@@" not in asyncio.run(shown())


def test_close_notify_under_tls():
    """Closing a TLS connection sends `close_notify`, so the other side knows that nothing was truncated."""

    async def closed():
        wire, server = Wire(), Server()
        connection = Connection(tls=established(server))
        connection.connection_made(wire)
        connection.abort()
        return server.decrypted(wire.written)

    assert asyncio.run(closed()) == b""


@define(eq=False)
class Kept:
    """A connection to a pool, at a time that the test sets."""

    time: ClassVar[float]

    idle_since: float = 0.0
    on_close: Callable[[Kept], None] | None = None
    is_usable: bool = True
    is_loud: bool = False

    def now(self):
        return Kept.time

    def unread(self, timeout):
        return [(1, 1)] if self.is_loud else []

    def is_silent_since(self, began):
        return False

    def abort(self):
        self.on_close(self)


def pool_of(count, keepalive=10.0):
    """Return a pool of connections that were given back one second after the other."""
    pool, made = Pool(Origin("http", "pay.example", 80), keepalive), [Kept() for _ in range(count)]
    for connection in made:
        pool.add(connection)
    for second, connection in enumerate(made):
        Kept.time = second
        pool.give_back(connection)
    return pool, made


def test_warmest_first():
    """The connection that was used last is used next, unless there is something unread on it."""
    pool, (first, second, third) = pool_of(3)
    third.is_loud = True
    assert [pool.take(), pool.take(), pool.take()] == [second, first, None]
    assert list(pool.connections) == [first, second]


def test_cold():
    """A connection that was idle for longer than it is kept is not used, and closed when another comes back."""
    pool, (_, _) = pool_of(2)
    Kept.time = 11.5
    assert pool.take() is None
    pool.add(fresh := Kept())
    pool.give_back(fresh)
    assert list(pool.connections) == list(pool.idle) == [fresh]


def test_no_more_than_were_in_use():
    """Fresh connections take the place of idle ones: there are never more than were in use at once."""
    pool, (first,) = pool_of(1)
    pool.add(fresh := Kept())
    pool.give_back(fresh)
    assert list(pool.connections) == [fresh] != [first]


def test_not_given_back():
    """A connection that cannot be used again leaves its pool, as does each one of a closed pool."""
    pool, _ = pool_of(0)
    for is_closed, is_usable in ((False, False), (True, True)):
        pool.is_closed = is_closed
        pool.add(used := Kept(is_usable=is_usable))
        pool.give_back(used)
        assert (list(pool.connections), list(pool.idle)) == ([], [])


def test_unsolicited_bytes():
    """A connection is kept after an answer that was alone, and not when a single byte follows, at once or later."""

    async def kept(*parts):
        connection = Connection()
        connection.connection_made(Wire())
        answer = connection.exchange(b"POST")
        for part in parts:
            deliver(connection, part)
        await answer
        return connection.is_usable

    follow = [(ANSWER + b"H",), (ANSWER + b"\0",), (ANSWER, b"H"), (ANSWER, b"\r\n"), (ANSWER, ANSWER)]
    assert [asyncio.run(kept(*parts)) for parts in [(ANSWER,), *follow]] == [True, *[False] * 5]
