"""
What SDKs add to their transport: CPU per call above httpx alone, over an httpx transport that answers at once.

Beside payclient: openai and square, made by two widely used generators, each with its simplest typed call.
"""

import asyncio
import json
import statistics
import time

import httpx
from openai import AsyncOpenAI
from square import AsyncSquare

from bench.instant import HEAD, MIDDLE, TAIL
from payclient import AsyncClient

ROUNDS = 5
CALLS = 600
KEY = "bench-key-0123456789"
MODEL = json.dumps({"id": "m", "object": "model", "created": 1, "owned_by": "somebody"}).encode()
LOCATION = json.dumps({"location": {"id": "L1", "name": "Midtown", "status": "ACTIVE"}}).encode()


class Instant(httpx.AsyncBaseTransport):
    """Answers as the SDK at hand needs it."""

    def __init__(self, answer):
        self.answer = answer

    async def handle_async_request(self, request):
        body = self.answer(request)
        return httpx.Response(200, headers={"Content-Type": "application/json"}, content=body)


def transaction(request):
    reference = request.content[14:-2]
    return HEAD + reference + MIDDLE + reference + TAIL


def over(answer):
    return httpx.AsyncClient(transport=Instant(answer))


async def with_httpx(calls):
    async with over(transaction) as client:
        for n in range(calls):
            url = "https://pay.example/api/transaction/detail"
            (await client.post(url, json={"reference": f"T{n}"}, headers={"Authorization": f"Bearer {KEY}"})).json()


async def with_payclient(calls):
    async with (
        over(transaction) as client,
        AsyncClient(api_key=KEY, base_url="https://pay.example", http_client=client) as pay,
    ):
        for n in range(calls):
            await pay.get_transaction(f"T{n}")


async def with_openai(calls):
    async with AsyncOpenAI(api_key=KEY, http_client=over(lambda _: MODEL)) as client:
        for _ in range(calls):
            await client.models.retrieve("m")


async def with_square(calls):
    async with over(lambda _: LOCATION) as http_client:
        client = AsyncSquare(token=KEY, httpx_client=http_client)
        for _ in range(calls):
            await client.locations.get(location_id="L1")


async def micros(work):
    await work(CALLS // 10)
    began = time.process_time()
    await work(CALLS)
    return (time.process_time() - began) / CALLS * 1e6


def main():
    ways = {"httpx alone": with_httpx, "payclient": with_payclient, "openai": with_openai, "square": with_square}
    rounds = [{name: asyncio.run(micros(work)) for name, work in ways.items()} for _ in range(ROUNDS)]
    for name in ways:
        above = statistics.median(found[name] - found["httpx alone"] for found in rounds)
        whole = statistics.median(found[name] for found in rounds)
        print(f"overhead: {name}: {whole:.0f} µs a call, {above:.0f} above httpx alone")
    return 0
