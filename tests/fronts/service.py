"""A service that answers every reference after 0.15 s on average; prints its port."""

import asyncio
import json
import math
import random

from support.fakes import document


async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.lower().split(b"\r\n")
            size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            body = document(json.loads(await reader.readexactly(size))["reference"])
            await asyncio.sleep(math.exp(random.gauss(math.log(0.15), 0.4)))
            form = b"Content-Type: application/json"
            writer.write(b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: %d\r\n\r\n%b" % (form, len(body), body))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
