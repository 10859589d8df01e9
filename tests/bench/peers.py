"""
One client under measurement, as a process of its own: `python -m bench.peers NAME CPU`.

It reads one task per line, `{"url", "concurrency", "seconds", "certificate"}`, does it, and answers with a line:
lookups per second, and microseconds of CPU per lookup. `NAME` is one of `conformance.clients`, perhaps with
`:streamed` and `@uvloop` behind it.
"""

import asyncio
import json
import os
import sys
import time
from itertools import count

from conformance.clients import CLIENTS, payclient_options

TIMEOUT = 60
LEAST = 3  # lookups per concurrency; fewer would show how a crowd begins and ends
WARM_UP = 10  # the same before measuring: the limiter opens slowly, and a connection costs as much as ten lookups


def references(concurrency, seconds, least=LEAST):
    """Give names until the time is over, and at least *least* for each of those who ask at once."""
    until = time.perf_counter() + seconds
    for number in count():
        if number >= least * concurrency and time.perf_counter() >= until:
            return
        yield f"T{number:015}"


async def spread(call, concurrency, names):
    """Call for each of *names*, *concurrency* at a time, and return how many they were."""
    done = count()

    async def worker():
        for name in names:
            await call(name)
            next(done)

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return next(done)


async def stream(pay, names):
    async with pay.stream_transactions(names) as outcomes:
        return len([None async for _ in outcomes])


async def timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    done = await work
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"per_second": done / wall, "micros": cpu / done * 1e6}


async def measure(name, *, url, concurrency, seconds, certificate):
    """Open the limiter and all connections, and then measure."""
    client, _, way = name.partition(":")
    if way:
        from payclient import AsyncClient

        options = payclient_options(client, url, places=concurrency, timeout=TIMEOUT, authority=certificate)
        async with AsyncClient(**options) as pay:
            await stream(pay, references(concurrency, 0.1, WARM_UP))
            return await timed(stream(pay, references(concurrency, seconds)))
    async with CLIENTS[client](url, places=concurrency, timeout=TIMEOUT, authority=certificate) as call:
        await spread(call, concurrency, references(concurrency, 0.1, WARM_UP))
        return await timed(spread(call, concurrency, references(concurrency, seconds)))


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
            print(json.dumps(runner.run(measure(name, **json.loads(line)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
