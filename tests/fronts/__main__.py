"""
Visitors in processes of their own before real nginx and HAProxy, with one key: payclient, and beside it by hand.

`python3 noxfile.py -s fronts -- no-burst 90 4` plays one front at 90 % of its limit with four processes; `stream`
behind them adds a stream in one more process. Without names, each front is played at 90 % with one process and four.

The table shows how many visitors were answered after the first seconds, requests for each answer, the share refused,
and what the others were told. It exits with 1 if a visitor before a limit is told of an outage.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fronts.gates import GATES, configured
from support.raw_server import held_ports

SECONDS, WARM_UP = 45.0, 7.5
KINDS = ("by hand", "payclient")


async def begun(*command):
    return await asyncio.create_subprocess_exec(*map(str, command), stdout=asyncio.subprocess.PIPE)


@asynccontextmanager
async def running(*command):
    """Run a program until the block ends, and give its first line if it is one of ours."""
    process = await begun(*command)
    try:
        is_ours = command[0] == sys.executable
        yield (await process.stdout.readline()).decode().strip() if is_ours else ""
    finally:
        process.terminate()
        await process.wait()


async def is_open(port):
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def visited(kind, url, rate, seed):
    """Return what the visitors, or the stream, of one process have seen."""
    process = await begun(sys.executable, "-m", "fronts.visitors", kind, url, rate, SECONDS, seed)
    said, _ = await process.communicate()
    return json.loads(said)


async def play(name, load, processes, *, has_stream):
    """Return for each kind what all processes before a front of its own have seen together."""
    gate = GATES[name]
    rate = gate.rate * load / 100 / processes
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = await stack.enter_async_context(running(sys.executable, "-m", "fronts.service"))
        ports = stack.enter_context(held_ports(len(KINDS)))
        await stack.enter_async_context(running(*configured(gate, folder, int(service), ports)))
        await asyncio.gather(*map(is_open, ports))
        works = {
            kind: [
                *(visited(kind, f"http://127.0.0.1:{port}", rate, number) for number in range(processes)),
                *([visited("stream", f"http://127.0.0.1:{port}", 0.0, 99)] if has_stream else []),
            ]
            for kind, port in zip(KINDS, ports, strict=True)
        }
        seen = await asyncio.gather(*(asyncio.gather(*work) for work in works.values()))
    return dict(zip(works, seen, strict=True))


def summary(reports):
    """Return the figures of one row: answered, requests for each answer, refused, rows, and what visitors were told."""
    visits = [visit for report in reports for visit in report["visits"] if visit[0] > WARM_UP]
    statuses = sum((Counter(report["statuses"]) for report in reports), Counter())
    told = Counter(error for _, error in visits if error)
    rows = sum(report["rows"] for report in reports)
    answered, sent = statuses["200"], statuses.total()
    share = 100 * (len(visits) - told.total()) / max(1, len(visits))
    return share, sent / max(1, answered), 100 * (statuses["429"] + statuses["503"]) / max(1, sent), rows, told


def main(arguments):
    has_stream = "stream" in arguments
    chosen = [each for each in arguments if each != "stream"]
    name, load, processes = [*chosen, *("", "90", "")[len(chosen) :]][:3]
    has_outage = False
    print("front, load, processes: visitors answered, requests for each answer, refused, rows; what others were told")
    for front in [name] if name else GATES:
        for count in [int(processes)] if processes else (1, 4):
            played = asyncio.run(play(front, float(load), count, has_stream=has_stream))
            for kind, reports in played.items():
                share, each, refused, rows, told = summary(reports)
                has_outage |= "OutageError" in told
                print(
                    f"{front:<14}{load:>4} % {count}  {kind:<10}{share:>6.1f} %{each:>7.2f}{refused:>7.1f} %{rows:>6}",
                    dict(told),
                    flush=True,
                )
    return int(has_outage)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
