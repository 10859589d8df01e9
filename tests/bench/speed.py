"""
Lookups per second and CPU per lookup over loopback, beside the clients that people use, with everything of ours on.

The server is native and has a core of its own; each client is a process pinned to another one. Rounds are interleaved:
all clients once, then all of them again, so that a slow minute of the machine strikes them alike. What is compared is
the ratio within a round; what is reported is the median of the rounds.

`speed=ROUNDS` takes another number of rounds than fifteen, `speed=0` only checks that everything runs. The results are
written to `speed.json` and `speed.md` in the folder that BENCH_OUTPUT names, or here.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import serving

ROUNDS = 15
SECONDS = 0.2
HERE = Path(__file__).parent
BASELINE = HERE / "speed_baseline.json"
TOLERATED_DROP = 0.20

# What is run, and at which concurrencies. `@uvloop` is the event loop, `:streamed` the way to ask.
LADDER = (1, 10, 50, 100, 1000)
SHORT = (1, 10, 50, 100)
CLIENTS = {
    "httpx": SHORT,  # beyond, it does not end in reasonable time
    "httpx2": SHORT,
    "aiohttp": LADDER,
    "pyreqwest": LADDER,
    "payclient": LADDER,
    "payclient:streamed": LADDER,
    "payclient-fast": LADDER,
    "payclient-fast:streamed": LADDER,
    "aiohttp@uvloop": LADDER,
    "pyreqwest@uvloop": LADDER,
    "payclient-fast@uvloop": LADDER,
    "payclient-fast:streamed@uvloop": LADDER,
}
OVER_TLS = {"aiohttp": (1, 10, 100), **dict.fromkeys(("payclient", "payclient-fast"), (1, 10, 100, 200, 400))}

LADDERS = {"plain": {name: {*ladder, *OVER_TLS.get(name, ())} for name, ladder in CLIENTS.items()}, "tls": OVER_TLS}

# Goals as (what, client, compared to, concurrency, at least): lookups per second, as a multiple.
GOALS = [
    *(("payclient", "httpx2", c, 3.5) for c in (10, 50, 100)),
    *(("payclient", "aiohttp", c, 0.65) for c in (10, 50, 100)),
    *(("payclient-fast", "aiohttp", c, 2.0) for c in (10, 50, 100, 1000)),
    *(("payclient-fast", "pyreqwest", c, 1.0 if c < 1000 else 0.8) for c in (10, 50, 100, 1000)),
    *(("payclient-fast@uvloop", "aiohttp@uvloop", c, 2.0) for c in (10, 50, 100, 1000)),
]


class Client:
    """A client under measurement, in a process that waits for its turn."""

    def __init__(self, name, cpu):
        command = [sys.executable, "-m", "bench.peers", name, str(cpu)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, **task):
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.wait()  # whatever its status: some libraries end badly after all is done


def one_round(clients, addresses, *, seconds, certificate):
    """Return what each client does at each concurrency, all clients at one before the next; TLS right after plain."""
    found = {way: {} for way in addresses}
    for concurrency in sorted({*LADDER, *OVER_TLS["payclient"]}):
        for name, client in clients.items():
            for way, url in addresses.items():
                if concurrency in LADDERS[way].get(name, ()):
                    task = {"url": url, "concurrency": concurrency, "seconds": seconds, "certificate": certificate}
                    found[way][f"{name}, {concurrency}"] = client.measure(**task)
    return found


def rounds_of(count, seconds):
    """Return the rounds over plain HTTP, and those over TLS."""
    rounds = []
    server_cpu, client_cpu = max(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        program, knows_tls = serving.compiled(Path(name))
        trust, *files = serving.certificate(Path(name))
        addresses = {"plain": f"http://127.0.0.1:{stack.enter_context(serving.serving(program, cpu=server_cpu))}"}
        if knows_tls:
            port = stack.enter_context(serving.serving(program, *files, cpu=server_cpu))
            addresses["tls"] = f"https://localhost:{port}"
        clients = {client: Client(client, client_cpu) for client in CLIENTS}
        for client in clients.values():
            stack.callback(client.close)
        for number in range(count):
            print(f"speed: round {number + 1} of {count}", flush=True)
            rounds.append(one_round(clients, addresses, seconds=seconds, certificate=str(trust)))
    return [found["plain"] for found in rounds], [found["tls"] for found in rounds if "tls" in found]


def median_of(rounds, key, figure):
    return statistics.median(found[key][figure] for found in rounds)


def ratio_of(rounds, ours, theirs, figure="per_second", *, others=None):
    """Return the median over the rounds of one client's figure in another's."""
    pairs = zip(rounds, others or rounds, strict=True)
    return statistics.median(found[ours][figure] / other[theirs][figure] for found, other in pairs)


def summary(plain, secure):
    """Return the figures, and each goal with what was reached."""
    figures = {
        way: {
            key: {figure: round(median_of(rounds, key, figure), 1) for figure in ("per_second", "micros")}
            for key in (rounds[0] if rounds else ())
        }
        for way, rounds in (("plain", plain), ("tls", secure))
    }
    goals = [
        {
            "goal": f"throughput of `{ours}` relative to `{theirs}`, c = {c:,}",
            "at least": least,
            "reached": round(ratio_of(plain, f"{ours}, {c}", f"{theirs}, {c}"), 2),
        }
        for ours, theirs, c, least in GOALS
    ]
    goals += [
        {
            "goal": f"CPU of `{client}` at c = 1,000 relative to c = 10",
            "at most": 1.3,
            "reached": round(ratio_of(plain, f"{client}, 1000", f"{client}, 10", "micros"), 2),
        }
        for client in ("payclient", "payclient-fast", "payclient:streamed", "payclient-fast:streamed")
    ]
    goals += [
        {
            "goal": f"CPU of `{client}` with TLS relative to plain HTTP, c = {c}",
            "at most": 1.2,
            "reached": round(ratio_of(secure, f"{client}, {c}", f"{client}, {c}", "micros", others=plain), 2),
        }
        for client in ("payclient", "payclient-fast")
        for c in (OVER_TLS[client] if secure else ())
    ]
    return {"machine": machine(), "rounds": len(plain), "figures": figures, "goals": goals}


def machine():
    """Say what was measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def table(found):
    """Return the figures as a table of Markdown: lookups per second, and microseconds of CPU per lookup."""
    lines = ["| | " + " | ".join(f"c = {c:,}" for c in LADDER) + " |", "|---|" + "--:|" * len(LADDER)]
    for name in CLIENTS:
        cells = [found["figures"]["plain"].get(f"{name}, {c}") for c in LADDER]
        shown = [f"{cell['per_second']:,.0f} / {cell['micros']:.0f} µs" if cell else "" for cell in cells]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    lines += ["", "| goal | target | measured |", "|---|--:|--:|"]
    for goal in found["goals"]:
        wanted = f"at least {goal['at least']}" if "at least" in goal else f"at most {goal['at most']}"
        lines.append(f"| {goal['goal']} | {wanted} | {goal['reached']} |")
    return "\n".join(lines) + "\n"


def dropped(found, baseline):
    """Return the goals in which we are worse by a fifth than when the baseline was written."""
    before = {goal["goal"]: goal["reached"] for goal in baseline["goals"]}
    return [
        f"{goal['goal']}: {goal['reached']}, it was {before[goal['goal']]}"
        for goal in found["goals"]
        if "at least" in goal and goal["reached"] < before.get(goal["goal"], 0) * (1 - TOLERATED_DROP)
    ]


def main(rounds=ROUNDS):
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("speed is measured with two cores, on Linux")
    plain, secure = rounds_of(max(rounds, 1), SECONDS if rounds else 0.05)
    found = summary(plain, secure)
    folder = Path(os.environ.get("BENCH_OUTPUT", "."))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "speed.md").write_text(f"{found['machine']}; medians of {found['rounds']} rounds.\n\n{table(found)}")
    print((folder / "speed.md").read_text())
    worse = dropped(found, json.loads(BASELINE.read_text())) if rounds and BASELINE.exists() else []
    for line in worse:
        print(f"speed: dropped by more than a fifth: {line}")
    return int(bool(worse))
