"""One connection and whatever bytes come over it, cut anywhere."""

import asyncio
import ssl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient.transports import BODY_LIMIT
from payclient.transports._connection import BrokenError, Connection
from support.tls_server import Server, session

ANSWER = b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"
PIECES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 103 Early Hints\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n",
        b"Content-Length: 2\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Connection: close\r\n",
        b"X: \0\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"2\r\n{}\r\n",
        b"0\r\n\r\n",
        b"{}",
        ANSWER,
    ],
)


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


async def exchanged(*parts):
    """Return what one exchange comes to when these parts arrive and then the end, and if the connection was kept."""
    connection, wire = Connection(), Wire()
    connection.connection_made(wire)
    answer = connection.exchange(b"POST")
    for part in parts:
        if wire.is_open:
            deliver(connection, part)
    is_kept = connection.is_usable
    connection.connection_lost(None)
    try:
        response = await answer
    except BrokenError:
        return None, is_kept
    return (response.status_code, dict(response.headers), response.body, response.is_truncated), is_kept


@given(st.lists(PIECES | st.binary(max_size=40), max_size=12), st.booleans())
@example([b"HTTP/1.1 200 OK\r\n\r\n", b"{}"], False)
@example([b"HTTP/1.1 200 OK\r\n", b"X: \0\r\n", b"Content-Length: 2\r\n", b"\r\n", b"{}"], True)
def test_any_bytes(parts, is_at_once):
    """For any bytes, an exchange ends with a final response or as broken."""
    answer, is_kept = asyncio.run(exchanged(b"".join(parts)) if is_at_once else exchanged(*parts))
    if answer is None:
        assert not is_kept
    else:
        status, _, body, _ = answer
        assert status >= 200
        assert len(body) <= BODY_LIMIT


@given(st.lists(PIECES, max_size=12), st.lists(st.integers(1, 60), max_size=20))
@example([ANSWER, b"HTTP/1.1 103 Early Hints\r\n\r\n"], [1, 45])
def test_cut_anywhere(parts, cuts):
    """The meaning of an answer does not depend on how it is split, unless extra bytes follow it."""
    whole, pieces, rest = b"".join(parts), [], b"".join(parts)
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert asyncio.run(exchanged(*pieces, rest))[0] == asyncio.run(exchanged(whole))[0]


def test_kept():
    """A connection is kept after an answer that was whole and alone, and not when a single byte follows."""
    follow = [b"", b"H", b"\0", ANSWER]
    kept = [asyncio.run(exchanged(ANSWER + more))[1] for more in follow]
    kept += [asyncio.run(exchanged(ANSWER, more))[1] for more in (b"H", b"\r\n")]
    assert kept == [True, False, False, False, False, False]


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


def test_second_exchange():
    """Nothing of the first answer is in the second."""

    async def twice():
        connection = Connection()
        connection.connection_made(Wire())
        answers = []
        for message in (ANSWER, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"):
            answer = connection.exchange(b"POST")
            deliver(connection, message)
            answers.append(await answer)
        return [(a.status_code, dict(a.headers), a.body) for a in answers]

    assert asyncio.run(twice()) == [
        (200, {"x": "y", "content-length": "2"}, b"{}"),
        (404, {"content-length": "0"}, b""),
    ]


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
