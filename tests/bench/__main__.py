"""
Measure payclient: `python3 noxfile.py -s bench -- [memory] [cost] [wire] [reconcile] [sharing] [kernel]`; all if
none is named.

Each figure is printed with what it is compared to, from the same run; nothing here is a test, but
`memory` exits with 1 when a million references take 32 MiB more than ten thousand, `reconcile` when a million
rows take more than they may, and `kernel` when batches cost too much above the stream. `reconcile=30000`
takes fewer rows, `sharing=1000` another limit per second.
"""

import sys

from bench import cost, kernel, memory, reconcile, sharing, wire

MEASUREMENTS = {
    "memory": memory.main,
    "cost": cost.main,
    "wire": wire.main,
    "reconcile": reconcile.main,
    "sharing": sharing.main,
    "kernel": kernel.main,
}


def main(names):
    wanted = [name.partition("=") for name in names or MEASUREMENTS]
    unknown = {name for name, _, _ in wanted} - MEASUREMENTS.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    return max(MEASUREMENTS[name](*([int(size)] if size else [])) for name, _, size in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
