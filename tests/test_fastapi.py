"""A FastAPI app that awaits the client in a request handler, over real sockets."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from payclient import Confirmation, Outcome, Stats, Transaction
from payclient.testing import serve
from support.fakes import ScriptedTransport, client

CODE = "8800000000000001"


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


RESULTS = {
    "transaction": Transaction,
    "confirmation": Confirmation,
    "confirmations": list[Confirmation],
    "outcomes": list[Outcome],
    "stats": Stats,
}


async def results(pay):
    """Return one of each result."""
    confirmation = await pay.confirm("T1", amount=1, status={"Paid"})
    return {
        "transaction": confirmation.transaction,
        "confirmation": confirmation,
        "confirmations": [confirmation],
        "outcomes": await pay.get_transactions(["T1", "T2"]),
        "stats": pay.stats,
    }


def as_json(result):
    return [each.as_json() for each in result] if isinstance(result, list) else result.as_json()


@pytest.mark.parametrize("is_typed", [True, False])
@pytest.mark.parametrize("name", RESULTS)
async def test_returned(pay_service, pay_client, name, is_typed):
    """A handler returns any result as it is, or a list of them, and the answer is what `as_json` gives."""
    pay_service.add(reference="T1", status="Paid", amount=15000, payment_code=CODE)
    found, app = await results(pay_client), FastAPI()
    model = RESULTS[name] if is_typed else None

    @app.get("/", response_model=model)
    async def page():
        return found[name]

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as browser:
        answer = await browser.get("/")
        described = (await browser.get("/openapi.json")).text
    assert (answer.status_code, answer.json()) == (200, as_json(found[name]))
    assert CODE not in answer.text
    assert not is_typed or ("merchant_reff" in described or "paused_seconds" in described)


async def test_json_of_results(pay_service, pay_client):
    """The JSON of a result has its fields, what is computed of them, and of an error what a visitor may read."""
    pay_service.add(reference="T1", status="Paid", amount=15000, payment_code=CODE)
    found = await results(pay_client)
    confirmation, (paid, failed) = found["confirmation"].as_json(), found["outcomes"]
    assert (confirmation["is_confirmed"], confirmation["differences"]) == (
        False,
        [{"field": "amount", "expected": 1, "found": 15000}],
    )
    assert paid.as_json() == {"reference": "T1", "transaction": paid.transaction.as_json(), "index": 0}
    assert failed.as_json() == {
        "reference": "T2",
        "error": {"type": "TransactionNotFoundError", "detail": "no such payment", "http_status": 404},
        "index": 1,
    }
    assert (dict(found["stats"]), found["stats"].as_json()["is_ready"]) == (found["stats"].as_json(), True)
