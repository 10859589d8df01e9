"""payclient's own CPU per lookup, everything on, above a transport that answers at once."""

import asyncio
import statistics
import time

from bench import instant

ROUNDS = 5
LOOKUPS = 10_000
ALLOWED = {"one by one": 60.0, "awaited at 100": 45.0, "streamed at 100": 45.0}
# Of what costs more in a crowd: what, in what, at most so often.
RATIOS = [
    ("all awaited at once", "streamed at 100", 1.3),
    ("awaited at 1000", "awaited at 10", 1.3),
    ("streamed at 1000", "streamed at 10", 1.3),
]


async def one_by_one(pay, count):
    for n in range(count):
        await pay.get_transaction(f"T{n}")


async def awaited(pay, count, concurrency):
    """Await *count* lookups, so many at a time; with as many as there are, nothing else bounds them but the client."""
    references = (f"T{n}" for n in range(count))

    async def worker():
        for reference in references:
            await pay.get_transaction(reference)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


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
    ladder = {"one by one": one_by_one}
    for concurrency in (10, 100, 1000):
        ladder[f"awaited at {concurrency}"] = lambda pay, count, c=concurrency: awaited(pay, count, c)
        ladder[f"streamed at {concurrency}"] = lambda pay, count, c=concurrency: streamed(pay, count, c)
    ladder["all awaited at once"] = lambda pay, count: awaited(pay, count, count)
    rounds = [{name: asyncio.run(measure(work)) for name, work in ladder.items()} for _ in range(ROUNDS)]
    medians = {}
    for name in ladder:
        figures = [figure[name] for figure in rounds]
        medians[name] = statistics.median(figures)
        print(f"cost: {name}: {medians[name]:.0f} µs ({min(figures):.0f} to {max(figures):.0f})")
    print(f"cost: allowed are {', '.join(f'{micros:.0f} µs, {name}' for name, micros in ALLOWED.items())}")
    is_worse = any(medians[name] > micros for name, micros in ALLOWED.items())
    for ours, other, at_most in RATIOS:
        ratio = statistics.median(figures[ours] / figures[other] for figures in rounds)
        print(f"cost: {ours} in {other}: {ratio:.2f} ({at_most} allowed)")
        is_worse = is_worse or ratio > at_most
    return int(is_worse)
