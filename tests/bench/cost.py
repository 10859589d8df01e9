"""payclient's own CPU per lookup, everything on, above a transport that answers at once."""

import asyncio
import statistics
import time

from bench import instant

ROUNDS = 5
LOOKUPS = 3_000


async def one_by_one(pay, count):
    for n in range(count):
        await pay.get_transaction(f"T{n}")


async def streamed(pay, count, concurrency):
    async with pay.stream_transactions((f"T{n}" for n in range(count)), concurrency=concurrency) as outcomes:
        async for _ in outcomes:
            pass


async def measure(work):
    async with instant.client(max_concurrency=1000) as pay:
        await work(pay, LOOKUPS // 10)
        began = time.process_time()
        await work(pay, LOOKUPS)
        return (time.process_time() - began) / LOOKUPS * 1e6


def main():
    ladder = {"get_transaction, one by one": one_by_one}
    for concurrency in (10, 100, 1000):
        ladder[f"stream at {concurrency}"] = lambda pay, count, c=concurrency: streamed(pay, count, c)
    rounds = [{name: asyncio.run(measure(work)) for name, work in ladder.items()} for _ in range(ROUNDS)]
    for name in ladder:
        figures = [figure[name] for figure in rounds]
        print(f"cost: {name}: {statistics.median(figures):.0f} µs ({min(figures):.0f} to {max(figures):.0f})")
    return 0
