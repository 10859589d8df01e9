"""A FastAPI app that awaits the client in a request handler, over real sockets."""

import asyncio

import httpx
from fastapi import FastAPI

from payclient.testing import serve
from support.fakes import ScriptedTransport, client


async def test_disconnects():
    """Browsers that close their connection in the middle of a request cost no slot, attempt or lookup in flight."""
    transport, app = ScriptedTransport(latency=0.01), FastAPI()
    pay = client(transport, max_concurrency=8)

    @app.get("/payments/{reference}")
    async def payment(reference: str):
        return {"status": (await pay.get_transaction(reference)).status}

    async def leave(url, n):
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /payments/T{n} HTTP/1.1\r\nHost: app\r\n\r\n".encode())
        await writer.drain()
        writer.transport.abort()

    async with pay, serve(app) as url:
        for first in range(0, 300, 20):
            await asyncio.gather(*(leave(url, n) for n in range(first, first + 20)))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as browser:
            answers = await asyncio.gather(*(browser.get(f"/payments/H{n}") for n in range(20)))
        assert [response.status_code for response in answers] == [200] * 20
        assert len(transport.sent) > 20
        assert (transport.in_flight, pay.stats.in_flight, len(pay._calls)) == (0, 0, 0)
