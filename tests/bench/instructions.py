"""
Instructions per lookup, counted by valgrind: the same number twice on a busy machine, where times differ by a third.

The kernel's part is not counted. Two runs of different length are compared, so that starting up is not counted either.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import peers, serving
from conformance.clients import CLIENTS as ALL

CONCURRENCY = 10
FEW, MANY = 300, 900
CLIENTS = ("httpx", "aiohttp", "payclient", "payclient-fast")


async def run(name, url, lookups):
    async with ALL[name](url, places=CONCURRENCY, timeout=60) as call:
        await peers.spread(call, CONCURRENCY, (f"T{number:015}" for number in range(lookups)))


def counted(name, url, lookups):
    program = f"import asyncio; from bench import instructions as i; asyncio.run(i.run({name!r}, {url!r}, {lookups}))"
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", program]
    done = subprocess.run(
        command,
        stderr=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    return int(re.search(r"refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))


def main():
    if shutil.which("valgrind") is None:
        sys.exit("instructions are counted by valgrind, which is not installed")
    with tempfile.TemporaryDirectory() as name:
        program, _ = serving.compiled(Path(name))
        with serving.serving(program, cpu=max(os.sched_getaffinity(0))) as port:
            url = f"http://127.0.0.1:{port}"
            for client in CLIENTS:
                asyncio.run(run(client, url, 1))  # compiles the modules, which would be counted as well
                each = (counted(client, url, MANY) - counted(client, url, FEW)) / (MANY - FEW)
                print(f"instructions: {client}: {each / 1000:.0f} thousand a lookup, {CONCURRENCY} at once", flush=True)
    return 0
