"""
A raw-socket HTTP server for tests, and the small language in which faults are written down.

A *script* is an async function of a connection. `Script` makes one of *exchanges*, each a sequence of
*steps* that are done when a request has come:

    Script([send(OK[:40]), reset], [send(OK)])    # the first answer is torn off, every later one is whole

Words that are steps: `send`, `truncate`, `reset_after`, `drip`, `slices`, `repeat`, `stall`, `close`, `reset`.
Words that make bytes: `http`, `head`, `chunked`, `garble`, `gzipped`, `bomb`.
"""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
import struct
import zlib

from support.fakes import document


def http(body, status="200 OK", *headers):
    """Return the bytes of one whole response, of JSON unless a header says otherwise."""
    lines = [f"Content-Length: {len(body)}", *headers]
    if not any(line.lower().startswith("content-type:") for line in headers):
        lines.insert(0, "Content-Type: application/json")
    return head(f"HTTP/1.1 {status}", *lines) + body


def head(*lines):
    """Return exactly these lines as the head of a response, and the empty one after them."""
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def chunked(body, size=100, trailer=b""):
    """Return a body as chunks of *size* bytes, and the chunk that ends it."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"


def garble(data, at, wrong=b"\x00\xff"):
    """Return *data* with other bytes from position *at* on, as long as before."""
    return data[:at] + wrong + data[at + len(wrong) :]


def gzipped(body, layers=1):
    """Return *body* compressed, and what is left of it compressed again for each further layer."""
    for _ in range(layers):
        body = gzip.compress(body, 9, mtime=0)
    return body


def bomb(size, layers=1):
    """Return *size* bytes of nothing, compressed in no time; its check sum is wrong, but nobody shall get that far."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)  # can stand anywhere, any number of times
    body = gzip.compress(b"", mtime=0)[:10] + block * (size >> 20) + b"\x03\0" + bytes(8)
    return gzipped(body, layers - 1)


class Connection:
    """One accepted connection: reads requests, writes what the script wants."""

    def __init__(self, reader, writer, number):
        self.reader, self.writer, self.number = reader, writer, number
        self.requests = []

    async def request(self):
        """Read one request and return its reference; None when the peer has gone, or asks for a tunnel."""
        try:
            start = await self.reader.readuntil(b"\r\n\r\n")
            lines = start.lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return None
        self.requests.append(start + body)
        return json.loads(body)["reference"] if body else start.decode()

    async def write(self, data):
        self.writer.write(data)
        with contextlib.suppress(OSError):
            await self.writer.drain()

    async def drip(self, data, seconds, size=1):
        """Write *size* bytes at a time, for as long as somebody reads."""
        for start in range(0, len(data), size):
            if self.is_gone:
                return
            await self.write(data[start : start + size])
            await asyncio.sleep(seconds)

    @property
    def is_gone(self):
        """Whether either side has ended the connection."""
        return self.writer.transport.is_closing() or self.reader.at_eof()

    async def peer_leaves(self):
        """Wait until the peer has gone, and read what else it says into the void."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass

    def reset(self):
        """End with RST instead of FIN."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Script:
    """
    Answers the n-th request that the server gets, over whatever connection, with the n-th exchange.

    The last exchange serves all later requests. With a *greeting*, its steps are done when a connection
    has been accepted, before any request.
    """

    def __init__(self, *exchanges, greeting=()):
        self._exchanges = exchanges
        self._greeting = greeting
        self.played = 0

    async def __call__(self, connection):
        for step in self._greeting:
            await step(connection)
        while await connection.request() is not None:
            exchange = self._exchanges[min(self.played, len(self._exchanges) - 1)]
            self.played += 1
            for step in exchange:
                await step(connection)


def send(data):
    """Write *data* at once."""

    async def step(connection):
        await connection.write(data)

    return step


def truncate(data, at):
    """Write *data* up to position *at*, then close."""

    async def step(connection):
        await connection.write(data[:at])
        await close(connection)

    return step


def reset_after(data, at):
    """Write *data* up to position *at*, then tear the connection down."""

    async def step(connection):
        await connection.write(data[:at])
        await reset(connection)

    return step


def drip(data, seconds, size=1):
    """Write *data* byte by byte, or *size* of them at a time, with *seconds* after each."""

    async def step(connection):
        await connection.drip(data, seconds, size)

    return step


def slices(data, size):
    """Write *data* in segments of *size* bytes, each read before the next is written."""

    async def step(connection):
        for start in range(0, len(data), size):
            await connection.write(data[start : start + size])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    return step


def repeat(data, times=None, *, seconds=0):
    """Write *data* again and again, with *seconds* after each: so many times, or until the peer has had enough."""

    async def step(connection):
        count = 0
        while not connection.is_gone and count != times:
            await connection.write(data)
            count += 1
            await asyncio.sleep(seconds)  # at least a turn, or a peer that keeps up would starve

    return step


async def stall(connection):
    """Say nothing more, until the peer goes."""
    await connection.peer_leaves()


async def close(connection):
    """End the connection with FIN."""
    connection.writer.close()


async def reset(connection):
    """End the connection with RST."""
    connection.reset()


async def well_behaved(connection):
    while (reference := await connection.request()) is not None:
        await connection.write(http(document(reference)))


def server_context(authority, *names, **validity):
    """Return the TLS side of a server whose certificate *authority* has issued for *names*."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **validity).configure_cert(context)
    return context


@contextlib.contextmanager
def refusing_port():
    """Give a port at which connections are refused, and which no other program can take until the block ends."""
    with socket.socket() as bound:
        bound.bind(("", 0))
        yield bound.getsockname()[1]


@contextlib.contextmanager
def held_ports(count):
    """Give ports for programs that cannot be told to take port 0; nobody else gets them until the block ends."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so the program can listen where we only hold
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]


class RawServer:
    """Runs a script per connection on a free loopback port; the last script serves all later ones."""

    def __init__(self, *scripts, ssl=None, host="127.0.0.1"):
        self.scripts = scripts or (well_behaved,)
        self.ssl, self.host = ssl, host
        self.connections = []
        self._tasks = set()

    @property
    def url(self):
        scheme = "https" if self.ssl else "http"
        return f"{scheme}://{'localhost' if self.ssl else self.host}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self.ssl)
        return self

    async def __aexit__(self, *_):
        for _ in range(20):  # in which uvloop accepts who has connected; otherwise it leaves their sockets open
            await asyncio.sleep(0)
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def deserted(self):
        """Wait until the peer of every connection has gone; return how many are still there after a minute."""
        if not self._tasks:
            return 0
        _, left = await asyncio.wait(self._tasks, timeout=60)
        return len(left)

    def _accept(self, reader, writer):
        # A plain function: the server would otherwise log what a cancelled script raises.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A script that is cancelled before it begins closes nothing.
        task.add_done_callback(lambda _: writer.transport.is_closing() or writer.transport.abort())

    async def _serve(self, reader, writer):
        connection = Connection(reader, writer, len(self.connections))
        self.connections.append(connection)
        try:
            await self.scripts[min(connection.number, len(self.scripts) - 1)](connection)
        except asyncio.CancelledError:
            writer.transport.abort()  # the test is over, and a client that is still there may never answer over TLS
            raise
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    @property
    def requests(self):
        return [request for connection in self.connections for request in connection.requests]
