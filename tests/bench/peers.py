"""
One client under measurement, as a process of its own: `python peers.py NAME CPU`.

It reads one task per line, `{"url", "concurrency", "seconds", "certificate"}`, does it, and answers with a line:
lookups per second, and microseconds of CPU per lookup. It imports nothing but what its client needs, so that
it also runs in an environment that has only that.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count

KEY = "bench-key-0123456789"
HEADERS = {"Authorization": f"Bearer {KEY}"}
PATH = "/api/transaction/detail"
LEAST = 3  # lookups per concurrency; fewer would show how a crowd begins and ends


def trust(certificate):
    return ssl.create_default_context(cafile=certificate) if certificate else ssl.create_default_context()


def with_httpx(name):
    @asynccontextmanager
    async def make(url, concurrency, certificate):
        library = import_module(name)
        async with library.AsyncClient(headers=HEADERS, verify=trust(certificate)) as client:

            async def call(reference):
                return (await client.post(url + PATH, json={"reference": reference})).json()

            yield call

    return make


@asynccontextmanager
async def raw_aiohttp(url, concurrency, certificate):
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0, ssl=trust(certificate))
    async with aiohttp.ClientSession(headers=HEADERS, connector=connector) as session:

        async def call(reference):
            async with session.post(url + PATH, json={"reference": reference}) as answer:
                return await answer.json()

        yield call


@asynccontextmanager
async def raw_pyreqwest(url, concurrency, certificate):
    from pathlib import Path

    from pyreqwest.client import ClientBuilder

    builder = ClientBuilder().default_headers(HEADERS).no_proxy()
    if certificate:
        builder = builder.add_root_certificate_pem(Path(certificate).read_bytes())
    async with builder.build() as client:

        async def call(reference):
            answer = await client.post(url + PATH).body_json({"reference": reference}).build().send()
            return await answer.json()

        yield call


def with_payclient(name):
    @asynccontextmanager
    async def make(url, concurrency, certificate):
        from payclient import AsyncClient
        from payclient.transports import HttpxTransport
        from payclient.transports.fast import FastTransport

        transport = {"httpx": HttpxTransport, "fast": FastTransport}[name](ssl_context=trust(certificate))
        async with AsyncClient(api_key=KEY, base_url=url, transport=transport, max_concurrency=concurrency) as pay:
            yield pay.get_transaction
        await transport.aclose()

    return make


CLIENTS = {
    "httpx": with_httpx("httpx"),
    "httpx2": with_httpx("httpx2"),
    "aiohttp": raw_aiohttp,
    "pyreqwest": raw_pyreqwest,
    "payclient": with_payclient("httpx"),
    "payclient-fast": with_payclient("fast"),
}


def references(concurrency, seconds):
    """Give names until the time is over, and at least some for each of those who ask at once."""
    until = time.perf_counter() + seconds
    for number in count():
        if number >= LEAST * concurrency and time.perf_counter() >= until:
            return
        yield f"T{number:015}"


async def spread(call, concurrency, seconds):
    """Call *concurrency* at a time until the time is over, and return how often that was."""
    done, names = count(), references(concurrency, seconds)

    async def worker():
        for name in names:
            await call(name)
            next(done)

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return next(done)


async def streamed(url, concurrency, seconds, certificate, name):
    """The same through `stream_transactions`."""
    from payclient import AsyncClient
    from payclient.transports import HttpxTransport
    from payclient.transports.fast import FastTransport

    transport = {"httpx": HttpxTransport, "fast": FastTransport}[name](ssl_context=trust(certificate))

    async def run(pay, seconds):
        done = 0
        async with pay.stream_transactions(references(concurrency, seconds)) as outcomes:
            async for _ in outcomes:
                done += 1
        return done

    async with AsyncClient(api_key=KEY, base_url=url, transport=transport, max_concurrency=concurrency) as pay:
        await run(pay, 0.1)
        measured = await timed(run(pay, seconds))
    await transport.aclose()
    return measured


async def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    done = await work
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"per_second": done / wall, "micros": cpu / done * 1e6}


async def measure(name, task):
    url, concurrency, seconds, certificate = (task[key] for key in ("url", "concurrency", "seconds", "certificate"))
    client, _, way = name.partition(":")
    if way == "streamed":
        return await streamed(url, concurrency, seconds, certificate, "fast" if client.endswith("fast") else "httpx")
    async with CLIENTS[client](url, concurrency, certificate) as call:
        await spread(call, concurrency, 0.1)  # connects, and opens the limiter
        return await timed(spread(call, concurrency, seconds))


def main(name, cpu):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu)})
    name, _, loop = name.partition("@")
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    for line in sys.stdin:
        with asyncio.Runner(loop_factory=factory) as runner:
            print(json.dumps(runner.run(measure(name, json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
