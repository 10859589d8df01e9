"""
A raw-socket proxy for tests: what it says to CONNECT is written in the language of `raw_server`.

`relay` opens the tunnel and carries bytes; every byte that came to the proxy is kept in `RawProxy.seen`.
"""

import asyncio
import contextlib

from support.raw_server import RawServer, head

OPEN = head("HTTP/1.1 200 Connection established")


class RawProxy(RawServer):
    """Runs a script per connection, and keeps what clients sent."""

    def __init__(self, *scripts, ssl=None):
        super().__init__(*(scripts or (relay,)), ssl=ssl)
        self.seen = bytearray()

    async def _serve(self, reader, writer):
        read = reader.feed_data

        def keep(data):
            self.seen += data
            read(data)

        reader.feed_data = keep
        await super()._serve(reader, writer)

    @property
    def address(self):
        """Host and port, as errors name the proxy."""
        return self.url.partition("://")[2]

    def with_password(self, credentials):
        """Return the address with a user and a password in it."""
        return self.url.replace("://", f"://{credentials}@")


async def relay(connection, answer=OPEN):
    """
    Open one tunnel, and carry bytes until either side ends.

    Args:
        connection: Of the client.
        answer: To CONNECT.
    """
    request = await connection.request()
    if request is None:
        return
    target = request.split()[1]
    port = int(target.rpartition(":")[2])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await connection.write(head("HTTP/1.1 502 Bad Gateway", "Content-Length: 0"))
        return
    try:
        await connection.write(answer)
        directions = [_carry(connection.reader, writer), _carry(reader, connection.writer)]
        tasks = [asyncio.create_task(each) for each in directions]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _carry(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
