"""A FastAPI app that awaits the client in a request handler."""

import asyncio
import contextlib

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request

from payclient import TransactionNotFoundError
from payclient.testing import serve
from support.fakes import ScriptedTransport, answer, client


def make_app(pay):
    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with pay:
            yield {"pay": pay}

    app = FastAPI(lifespan=lifespan)

    @app.get("/payments/{reference}")
    async def payment(reference: str, request: Request):
        try:
            transaction = await request.state.pay.get_transaction(reference)
        except TransactionNotFoundError:
            raise HTTPException(404) from None
        return {"status": transaction.status}

    return app


@contextlib.asynccontextmanager
async def started(app):
    """Drive the lifespan as a server would, and pass its state on to the requests."""
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope, receive, send):
            await app({**scope, "state": dict(state)}, receive, send)

        yield with_state


@contextlib.asynccontextmanager
async def running(app):
    """Start the application, and give a browser that talks to it in process."""
    async with started(app) as application:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://app") as browser:
            yield browser


async def test_handler():
    """A handler answers from the lookup, and turns "not found" into its own 404."""
    transport = ScriptedTransport(T2=[answer(b'{"success": false, "message": "Transaction not found"}', 404)])
    async with running(make_app(client(transport))) as browser:
        assert (await browser.get("/payments/T1")).json() == {"status": "Canceled"}
        assert (await browser.get("/payments/T2")).status_code == 404


async def test_disconnects():
    """Browsers that close their connection in the middle of a request cost no slot, attempt or lookup in flight."""
    transport = ScriptedTransport(latency=0.01)
    pay = client(transport, max_concurrency=8)

    async def leave(url, n):
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /payments/T{n} HTTP/1.1\r\nHost: app\r\n\r\n".encode())
        await writer.drain()
        writer.transport.abort()

    async with started(make_app(pay)) as application, serve(application) as url:
        for first in range(0, 300, 20):
            await asyncio.gather(*(leave(url, n) for n in range(first, first + 20)))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as browser:
            answers = await asyncio.gather(*(browser.get(f"/payments/H{n}") for n in range(20)))
        assert [response.status_code for response in answers] == [200] * 20
    assert len(transport.sent) > 20
    assert (transport.in_flight, pay.stats.in_flight, len(pay._calls)) == (0, 0, 0)


@pytest.mark.virtual_time
async def test_cancelled_handlers():
    """Handlers that are cancelled in the middle of a request cost no slot, attempt or lookup in flight."""
    transport = ScriptedTransport(latency=1)
    pay = client(transport, max_concurrency=8)
    async with running(make_app(pay)) as browser:
        for n in range(300):
            request = asyncio.create_task(browser.get(f"/payments/T{n}"))
            await asyncio.sleep((n % 11) / 10)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        assert (transport.in_flight, pay.stats.in_flight, len(pay._calls)) == (0, 0, 0)
        answers = await asyncio.gather(*(browser.get(f"/payments/H{n}") for n in range(20)))
        assert [response.status_code for response in answers] == [200] * 20
