"""A raw-socket HTTP server for tests: what it does on each connection is a script."""

import asyncio
import contextlib
import json
import socket
import struct

from fakes import document


def http(body, status="200 OK", *headers):
    """Return the bytes of one whole response."""
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Connection:
    """One accepted connection: reads requests, writes what the script wants."""

    def __init__(self, reader, writer, number):
        self.reader, self.writer, self.number = reader, writer, number
        self.requests = []

    async def request(self):
        """Read one request and return its reference; None when the peer has gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            body = await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self.requests.append(head + body)
        return json.loads(body)["reference"]

    async def write(self, data):
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def drip(self, data, seconds):
        """Write one byte at a time."""
        for byte in data:
            await self.write(bytes([byte]))
            await asyncio.sleep(seconds)

    def reset(self):
        """End with RST instead of FIN."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def well_behaved(connection):
    while (reference := await connection.request()) is not None:
        await connection.write(http(document(reference)))


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
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader, writer):
        # A plain function: the server would otherwise log what a cancelled script raises.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader, writer):
        connection = Connection(reader, writer, len(self.connections))
        self.connections.append(connection)
        try:
            await self.scripts[min(connection.number, len(self.scripts) - 1)](connection)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    @property
    def requests(self):
        return [request for connection in self.connections for request in connection.requests]
