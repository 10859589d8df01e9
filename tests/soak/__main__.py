"""
Run lookups for a long time against a service that fails at random, over real sockets: `python -m soak [SECONDS]`.

Exits with 1 when an answer is wrong, a lookup fails with a class that its faults do not explain, or memory,
descriptors or tasks have grown at the end.
"""

import asyncio
import gc
import os
import random
import sys
from collections import Counter
from pathlib import Path

from payclient import (
    AsyncClient,
    AttemptTimeoutError,
    ConnectionFailedError,
    DeadlineExceededError,
    Found,
    OutageError,
    OverloadedError,
    RateLimitedError,
    RetryPolicy,
    ServiceError,
    UnexpectedResponseError,
)
from support.fakes import KEY, document
from support.raw_server import RawServer, http

SECONDS = 900
FAULT_SHARE = 0.1
ALLOWED_MIB = 8
EXPLAINED = (
    AttemptTimeoutError,
    ConnectionFailedError,
    DeadlineExceededError,
    OverloadedError,  # after a halt of this process, which makes answers look slow
    RateLimitedError,
    ServiceError,
    UnexpectedResponseError,
)


async def reset(connection, reference):
    connection.reset()
    return False


async def cut(connection, reference):
    await connection.write(http(document(reference))[: random.randrange(1, 300)])
    return False


async def stall(connection, reference):
    await connection.request()  # until the client has enough
    return False


async def drip(connection, reference):
    await connection.drip(http(document(reference)), 0.01)
    return True


async def fail(connection, reference):
    await connection.write(http(b"<html>", random.choice(["500 Oops", "502 Bad Gateway", "503 Busy"])))
    return True


async def throttle(connection, reference):
    await connection.write(http(b"slow down", "429 Too Many", "Retry-After: 0.1"))
    return True


async def garble(connection, reference):
    body = bytearray(document(reference))
    body[random.randrange(len(body))] = 0
    await connection.write(http(bytes(body)))
    return True


async def one_too_many(connection, reference):
    await connection.write(http(document(reference)) + http(document("somebody else's")))
    return True


FAULTS = (reset, cut, stall, drip, fail, throttle, garble, one_too_many)


async def unreliable(connection):
    while (reference := await connection.request()) is not None:
        connection.requests.clear()  # a long run must not remember it all
        if random.random() >= FAULT_SHARE:
            await connection.write(http(document(reference)))
        elif not await random.choice(FAULTS)(connection, reference):
            return


def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def state(server):
    server.connections[:] = server.connections[-1:]
    gc.collect()
    return resident_mib(), len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks())


async def bulk(pay, seen, names):
    """Stream lookups, and check each outcome."""
    async with pay.stream_transactions(names) as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome, Found):
                assert outcome.transaction.reference == outcome.reference, outcome
                seen["found"] += 1
            else:
                assert isinstance(outcome.error, EXPLAINED), outcome
                seen[type(outcome.error).__name__] += 1


async def impatient(pay, seen, stop):
    """Look single transactions up, and give up most of them, as web handlers do."""
    number = 0
    while not stop.is_set():
        number += 1
        try:
            async with asyncio.timeout(random.random() * 0.02):
                await pay.get_transaction(f"web-{number}")
            seen["web found"] += 1
        except OutageError as error:
            seen["web OutageError"] += 1
            await asyncio.sleep(error.retry_after)
        except EXPLAINED as error:
            seen[f"web {type(error).__name__}"] += 1
        except TimeoutError:
            seen["web gave up"] += 1


async def run(seconds):
    loop, seen, stop = asyncio.get_running_loop(), Counter(), asyncio.Event()

    def names():
        number, ends_at = 0, loop.time() + seconds
        while loop.time() < ends_at:
            number += 1
            yield f"bulk-{number}"

    async with RawServer(unreliable) as server:
        options = {"timeout": 1.0, "deadline": 10.0, "max_concurrency": 16, "retry": RetryPolicy(initial_backoff=0.05)}
        async with AsyncClient(api_key=KEY, base_url=server.url, **options) as pay:
            web = [asyncio.create_task(impatient(pay, seen, stop)) for _ in range(4)]
            await bulk(pay, seen, (f"warm-{n}" for n in range(500)))
            before = state(server)
            await bulk(pay, seen, names())
            after = state(server)
            stop.set()
            await asyncio.gather(*web)
            assert pay.stats.in_flight == 0, pay.stats
    print(f"soak: {sum(seen.values()):,} lookups in {seconds} s: {dict(seen.most_common())}")
    for name, first, last in zip(("MiB", "descriptors", "tasks"), before, after, strict=True):
        print(f"soak: {name}: {first:.1f} before, {last:.1f} after")
    return after[0] - before[0] <= ALLOWED_MIB and after[1] - before[1] <= 64 and after[2] - before[2] <= 64


if __name__ == "__main__":
    sys.exit(not asyncio.run(run(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)))
