"""
Calls per lookup, counted by `sys.setprofile`: the same number twice on a busy machine, where times differ by a third.

One lookup after another, after some that fill the caches, to a server in another process. Calls of Python functions and
calls into C are counted apart, by module; those that have grown since `steps_baseline.json` are marked. `steps=1`
writes that file again. Other versions of Python make other calls: the goals and the file are for CPython 3.11.

The same for a row of a ledger in three commands, before a transport that answers at once: what a ledger of 500 rows
takes more than one of 200. One row in a hundred differs.
"""

import asyncio
import io
import json
import operator
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partialmethod
from pathlib import Path

import payclient
from bench import instant, reconcile
from payclient import AsyncClient, cli
from payclient.cli._connection import ConnectionOptions
from support.fakes import KEY, SAMPLE

WARM_UP, COUNTED = 300, 200
FEW_ROWS, MANY_ROWS = 200, 500
GOALS = {
    "above the transport": (48, 34),
    "fast": (97, 77),
    "httpx": (238, 214),
    "a row of ledger": (30, 29),
    "a row of reconcile": (330, 178),
    "a row of report": (160, 78),
}
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
    """Serve every reference from another process until the block ends: give the address."""
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


@contextmanager
def profiled():
    """Count the calls of Python functions and those into C by module, in all threads until the block ends."""
    python, c = Counter(), Counter()

    def on_call(frame, event, _):
        if event == "call":
            python[module_of(frame)] += 1
        elif event == "c_call":
            c[module_of(frame)] += 1

    threading.setprofile(on_call)
    sys.setprofile(on_call)
    try:
        yield python, c
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def counted(client):
    """Return both counters of `COUNTED` lookups, one after another."""
    for number in range(WARM_UP):
        await client.get_transaction(f"W{number}")
    with profiled() as found:
        for number in range(COUNTED):
            await client.get_transaction(f"T{number}")
    return found


def run(*arguments):
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        status = cli.main(list(map(str, arguments)))
    assert status in (0, 1), said.getvalue()


def make_instant():
    """Let the commands of this process ask a transport that answers at once."""
    make_client = ConnectionOptions.client
    ConnectionOptions.client = partialmethod(make_client, transport=instant.InstantTransport())
    os.environ.update(PAYCLIENT_API_KEY=KEY, PAYCLIENT_BASE_URL="https://pay.example")


def of_rows(command, rows):
    """Return both counters of one command on a ledger of some *rows*."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger, out = folder / "ledger.csv", folder / "report"
        reconcile.write_ledger(folder, rows)
        arguments = {"ledger": (ledger,), "reconcile": (ledger, "--out", out, "--quiet"), "report": (out, "--quiet")}
        if command == "report":
            run("reconcile", *arguments["reconcile"])
        with profiled() as found:
            run(command, *arguments[command])
    return found


async def steps(name):
    """Return both counters for the client that `GOALS` names."""
    if name == "above the transport":
        async with instant.client() as client:
            return await counted(client)
    with served() as url:
        async with AsyncClient(api_key=KEY, base_url=url, transport=name) as client:
            return await counted(client)


def by_module(name):
    """Return the calls of one lookup or row by module: of Python functions, and into C."""
    command, count = name.removeprefix("a row of "), COUNTED
    if command == name:
        python, c = asyncio.run(steps(name))
    else:
        make_instant()
        of_rows(command, 100)
        few, many = of_rows(command, FEW_ROWS), of_rows(command, MANY_ROWS)
        (python, c), count = map(operator.sub, many, few), MANY_ROWS - FEW_ROWS
    modules = [module for module, calls in (python + c).most_common() if calls / count >= 0.5]
    return {module: (round(python[module] / count, 1), round(c[module] / count, 1)) for module in modules}


def check(name):
    """Print what one lookup or row calls; return whether that is within the goal."""
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
