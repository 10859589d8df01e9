"""
Compare clients that get an answer too many: `python3 noxfile.py -s conformance`; names of clients follow `--`.

It prints a table of Markdown. `README.md` in this folder says what each column means.
"""

import asyncio
import logging
import platform
import sys

from conformance.cases import COLUMNS
from conformance.clients import CLIENTS, named


def main(names):
    if unknown := {*names}.difference(CLIENTS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    logging.disable()  # of asyncio's server, which finds its clients rude
    print(f"Python {platform.python_version()}, {platform.system()}")
    print("\n| | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "--:|" * len(COLUMNS))
    for name in names or CLIENTS:
        cells = [str(asyncio.run(column(CLIENTS[name]))) for column in COLUMNS.values()]
        print(f"| {named(name)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
