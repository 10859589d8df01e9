"""Lookups per second over loopback, beside raw httpx in the same rounds, at several concurrencies."""

import asyncio
import multiprocessing
import statistics
import time

import httpx

from fakes import document
from payclient import AsyncClient

ROUNDS = 5
LOOKUPS = 400
KEY = "bench-key-0123456789"


class Service(asyncio.Protocol):
    """Answers every request with the same shape of transaction; does as little as it can."""

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b'"}')) >= 0:
            request, self.buffer = self.buffer[: end + 2], self.buffer[end + 2 :]
            reference = request[request.rindex(b':"') + 2 : -2].decode()
            body = document(reference)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)


async def listen(ports):
    server = await asyncio.get_running_loop().create_server(Service, "127.0.0.1", 0)
    ports.put(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def spread(call, concurrency):
    """Call for every reference, *concurrency* at a time, and return calls per second."""
    references = iter(range(LOOKUPS))

    async def worker():
        for n in references:
            await call(f"T{n}")

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return LOOKUPS / (time.perf_counter() - began)


async def with_payclient(url, concurrency):
    async with AsyncClient(api_key=KEY, base_url=url, max_concurrency=concurrency) as pay:
        await asyncio.gather(*(pay.get_transaction(f"W{n}") for n in range(concurrency)))
        return await spread(pay.get_transaction, concurrency)


async def with_httpx(url, concurrency):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, trust_env=False) as client:

        async def call(reference):
            answer = await client.post(f"{url}/api/transaction/detail", json={"reference": reference})
            return answer.json()

        await asyncio.gather(*(call(f"W{n}") for n in range(concurrency)))
        return await spread(call, concurrency)


def main():
    ports = multiprocessing.get_context("spawn").SimpleQueue()
    service = multiprocessing.get_context("spawn").Process(target=serve, args=(ports,), daemon=True)
    service.start()
    url = f"http://127.0.0.1:{ports.get()}"
    try:
        for concurrency in (1, 10, 50, 100):
            rounds = [
                (asyncio.run(with_payclient(url, concurrency)), asyncio.run(with_httpx(url, concurrency)))
                for _ in range(ROUNDS)
            ]
            ours, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
            ratio = statistics.median(a / b for a, b in rounds)
            print(f"wire: c = {concurrency}: payclient {ours:,.0f}/s, raw httpx {theirs:,.0f}/s, ratio {ratio:.2f}")
    finally:
        service.terminate()
        service.join()
    return 0


def serve(ports):
    asyncio.run(listen(ports))
