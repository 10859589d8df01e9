"""Peak memory of streaming 10,000 and 1,000,000 references, each in a process of its own."""

import asyncio
import json
import resource
import subprocess
import sys
import time

from bench import instant

ALLOWED_MIB = 32


async def stream(count):
    async with instant.client() as pay, pay.stream_transactions(f"T{n}" for n in range(count)) as outcomes:
        return [index async for index in every(outcomes)]


async def every(outcomes, step=10**9):
    """Consume everything, and keep nothing."""
    async for outcome in outcomes:
        if outcome.index and outcome.index % step == 0:
            yield outcome.index


def run(count):
    began = time.process_time()
    asyncio.run(stream(count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"MiB": peak, "seconds": time.process_time() - began}))


def measure(count):
    program = f"from bench import memory; memory.run({count})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def main():
    small, large = measure(10_000), measure(1_000_000)
    grown = large["MiB"] - small["MiB"]
    print(f"memory: {small['MiB']:.1f} MiB for 10,000 references, {large['MiB']:.1f} MiB for 1,000,000")
    print(f"memory: grown by {grown:.1f} MiB, allowed are {ALLOWED_MIB}")
    print(f"memory: the million took {large['seconds']:.0f} s of CPU, {large['seconds']:.1f} µs a reference")
    return int(grown > ALLOWED_MIB)
