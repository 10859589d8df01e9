"""What a start costs: CPU of imports and commands, and how long the first lookup keeps the event loop from the rest."""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import serving

ROUNDS = 11
DEPENDENCIES = "import httpx, attrs, cattrs"
ALLOWED = {"import payclient": 25.0, "first lookup": 5.0}  # milliseconds
COMMANDS = (["--version"], ["--help"], ["get", " refused before anything is sent"])
ALLOWED_RATIO = 1.4  # of the CPU of a command, beside that of DEPENDENCIES


def cpu_of(program):
    """Return the milliseconds of CPU of a fresh interpreter that runs *program*."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {**os.environ, "PAYCLIENT_API_KEY": "bench-key-0123456789", "PAYCLIENT_BASE_URL": "http://127.0.0.1:9"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "-c", program], check=True, env=environ, **quiet)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


async def longest_gap(url, transport):
    """Return the milliseconds for which the first lookup of a client blocks the event loop at a stretch."""
    from payclient import AsyncClient

    loop, gaps = asyncio.get_running_loop(), []

    async def watch():
        last = loop.time()
        while True:
            await asyncio.sleep(0)
            now = loop.time()
            gaps.append(now - last)
            last = now

    async with AsyncClient(api_key="bench-key-0123456789", base_url=url, transport=transport) as pay:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.02)
        gaps.clear()
        await pay.get_transaction("T1")
        watching.cancel()
    return max(gaps) * 1e3


def first_lookup(url, transport, trust):
    program = f"import asyncio; from bench import start; print(asyncio.run(start.longest_gap({url!r}, {transport!r})))"
    environ = {**os.environ, "SSL_CERT_FILE": str(trust)}
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True, env=environ)
    return float(done.stdout)


def everybody(trust, folder):
    """Return a file with the authorities of the system and one more: reading them is what takes its time."""
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    both = folder / "everybody.pem"
    both.write_bytes((system.read_bytes() if system.exists() else b"") + trust.read_bytes())
    return both


def main():
    imports = {
        "import payclient": f"{DEPENDENCIES}, payclient",
        "import payclient, and everything in it": f"{DEPENDENCIES}; from payclient import *",
    }
    gaps = {}
    rounds = [
        (cpu_of(DEPENDENCIES), {name: cpu_of(program) for name, program in imports.items()}) for _ in range(ROUNDS)
    ]
    figures = {name: statistics.median(found[name] - base for base, found in rounds) for name in imports}
    for name, figure in figures.items():
        print(f"start: {name}: {figure:.0f} ms of CPU above {DEPENDENCIES!r}")
    programs = {command[0]: f"from payclient.cli import main; main({command})" for command in COMMANDS}
    ratios = {
        name: statistics.median(cpu_of(program) / cpu_of(DEPENDENCIES) for _ in range(ROUNDS))
        for name, program in programs.items()
    }
    for name, ratio in ratios.items():
        print(f"start: payclient {name}: {ratio:.2f} times the CPU of {DEPENDENCIES!r}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, knows_tls = serving.compiled(folder)
        trust, *files = serving.certificate(folder)
        with serving.serving(program, *(files if knows_tls else ()), cpu=max(os.sched_getaffinity(0))) as port:
            url = f"https://localhost:{port}" if knows_tls else f"http://127.0.0.1:{port}"
            for transport in ("httpx", "fast"):
                found = [first_lookup(url, transport, everybody(trust, folder)) for _ in range(ROUNDS)]
                gaps[transport] = statistics.median(found)
                print(f"start: first lookup over {transport} blocks the loop for {gaps[transport]:.1f} ms")
    found = {"import payclient": figures["import payclient"], "first lookup": max(gaps.values())}
    is_slow = any(ratio > ALLOWED_RATIO for ratio in ratios.values())
    return int(is_slow or any(found[name] > milliseconds for name, milliseconds in ALLOWED.items()))
