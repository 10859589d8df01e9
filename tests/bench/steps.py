"""
Calls per lookup, counted by `sys.setprofile`: the same number twice on a busy machine, where times differ by a third.

One lookup after another, after some that fill the caches, to a server in another process. Calls of Python functions and
calls into C are counted apart, by module; those that have grown since `steps_baseline.json` are marked. `steps=1`
writes that file again. Other versions of Python make other calls: the goals and the file are for CPython 3.11.
"""

import asyncio
import json
import subprocess
import sys
import sysconfig
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import payclient
from bench import instant
from payclient import AsyncClient
from support.fakes import KEY, SAMPLE

WARM_UP, COUNTED = 300, 200
GOALS = {"above the transport": (47, 37), "fast": (95, 80), "httpx": (238, 221)}
"""Calls of Python functions, and calls into C."""
BASELINE = Path(__file__).with_name("steps_baseline.json")
SERVER = """
import asyncio, sys

class Server(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        reference = data.rpartition(b'"reference":"')[2].partition(b'"')[0].decode()
        body = sys.argv[1].replace("@", reference).encode()
        head = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n"
        self.transport.write(head % len(body) + body)

async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
PACKAGE = f"{Path(payclient.__file__).parent}/"
LIBRARY, SITE = (f"{Path(sysconfig.get_path(name)).resolve()}/" for name in ("stdlib", "purelib"))


@contextmanager
def served():
    """Serve every reference from another process until the block ends; give the address."""
    body = json.dumps({"success": True, "data": {**SAMPLE, "reference": "@"}})
    with subprocess.Popen([sys.executable, "-c", SERVER, body], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def module_of(frame):
    """Return the module of *frame* as the table names it: ours by its path, others by their package."""
    path = frame.f_code.co_filename
    if path.startswith(PACKAGE):
        return path.removeprefix(PACKAGE)
    for root in (SITE, LIBRARY):
        if path.startswith(root):
            return path.removeprefix(root).partition("/")[0].removesuffix(".py")
    return "other"


async def counted(client):
    """Return the calls of Python functions and those into C by module, in `COUNTED` lookups one after another."""
    python, c = Counter(), Counter()

    def on_call(frame, event, _):
        if event == "call":
            python[module_of(frame)] += 1
        elif event == "c_call":
            c[module_of(frame)] += 1

    for number in range(WARM_UP):
        await client.get_transaction(f"W{number}")
    sys.setprofile(on_call)
    try:
        for number in range(COUNTED):
            await client.get_transaction(f"T{number}")
    finally:
        sys.setprofile(None)
    return python, c


async def steps(name):
    """Return both counters for the client that `GOALS` names."""
    if name == "above the transport":
        async with instant.client() as client:
            return await counted(client)
    with served() as url:
        async with AsyncClient(api_key=KEY, base_url=url, transport=name) as client:
            return await counted(client)


def by_module(name):
    """Return the calls of one lookup by module: of Python functions, and into C."""
    python, c = asyncio.run(steps(name))
    modules = [module for module, calls in (python + c).most_common() if calls / COUNTED >= 0.5]
    return {module: (round(python[module] / COUNTED, 1), round(c[module] / COUNTED, 1)) for module in modules}


def check(name):
    """Print what one lookup calls; return whether that is within the goal."""
    found, before = by_module(name), json.loads(BASELINE.read_text(encoding="utf-8"))[name]
    totals, goals = [sum(calls) for calls in zip(*found.values(), strict=True)], GOALS[name]
    print(f"{name}: {totals[0]:.0f} Python calls (goal {goals[0]}), {totals[1]:.0f} calls into C (goal {goals[1]})")
    for module, calls in found.items():
        has_grown = sum(calls) > sum(before.get(module, (0, 0))) + 0.2
        grown = " has grown from {} and {}".format(*before.get(module, (0, 0))) if has_grown else ""
        print(f"    {module:<40}{calls[0]:>8.1f}{calls[1]:>8.1f}{grown}")
    return all(total <= goal + 0.2 for total, goal in zip(totals, goals, strict=True))


def main(is_new=0):
    if is_new:
        BASELINE.write_text(json.dumps({name: by_module(name) for name in GOALS}, indent=1) + "\n", encoding="utf-8")
    return int(sum(map(check, GOALS)) < len(GOALS))
