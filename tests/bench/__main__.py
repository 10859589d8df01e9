"""
Measure payclient: `python3 noxfile.py -s bench -- NAME…`; all of the below if none is named.

| name | what |
|---|---|
| `speed` | lookups per second and CPU beside other clients, over HTTP and TLS; `speed=3` takes three rounds |
| `cost` | our own CPU above a transport that answers at once |
| `start` | imports, and how long the first lookup blocks the event loop |
| `steps` | calls of Python functions and into C that one lookup or one row makes, by module; each has a goal |
| `reconcile` | a million rows from ledger to report; `reconcile=30000` takes fewer |
| `goodput` | visitors before hidden limits: how many are answered, beside what people write by hand |
| `served` | visitors and streams of several clients of one key: who is served; `served=2` takes two processes |

Each figure is printed with what it is compared to, from the same run. Nothing here is a test, but what has a bound
exits with 1 beyond it.
"""

import sys
from importlib import import_module

MEASUREMENTS = ("cost", "start", "speed", "steps", "reconcile", "goodput", "served")


def main(names):
    wanted = [name.partition("=") for name in names or MEASUREMENTS]
    unknown = {name for name, _, _ in wanted}.difference(MEASUREMENTS)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    # Imported one by one: each has its own peers.
    return max(import_module(f"bench.{name}").main(*([int(size)] if size else [])) for name, _, size in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
