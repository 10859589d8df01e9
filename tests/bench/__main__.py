"""
Measure payclient: `python3 noxfile.py -s bench -- [memory] [cost] [wire]`; all of them if none is named.

Each figure is printed with what it is compared to, from the same run; nothing here is a test, but
`memory` exits with 1 when a million references take 32 MiB more than ten thousand.
"""

import sys

from bench import cost, memory, wire

MEASUREMENTS = {"memory": memory.main, "cost": cost.main, "wire": wire.main}


def main(names):
    unknown = set(names) - MEASUREMENTS.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    return max(MEASUREMENTS[name]() for name in names or MEASUREMENTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
