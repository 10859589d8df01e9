"""
A reconciliation on a disk that fails, in a process of its own: `python broken_disk.py FAULT PATH`.

It asks for `REFERENCES` and prints, as JSON, how it ended and how often it asked. From the 100th lookup on the system
itself lets the disk fail: no file may grow any more (`growth`); with `none`, the disk does what it does.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from payclient import Transaction
from payclient.reconcile import Journal, JournalWriteError, reconcile
from payclient.reconcile.ledger import Entry
from support.reconciling import NOON

CONCURRENCY = 6
REFERENCES = [f"T{number}" for number in range(600)]


def entries():
    return (Entry(line=line, reference=name, amount=5) for line, name in enumerate(REFERENCES, 2))


def stop_growth(path):
    largest = max(file.stat().st_size for file in path.parent.iterdir())
    sys.dont_write_bytecode = True  # it would be cut too, and no longer load
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))  # Python ignores the signal, so the write fails


FAULTS = {"growth": stop_growth, "none": lambda _path: None}


async def run(path, on_call):
    """Reconcile, and return the rows."""

    async def lookup(reference):
        on_call(reference)
        await asyncio.sleep(0)
        return Transaction(reference=reference, amount=5 + (reference[-1] == "7"), status="Paid")

    with Journal(path) as journal:
        rows = reconcile(entries(), lookup, journal=journal, concurrency=CONCURRENCY, clock=lambda: NOON)
        return [row async for row in rows]


def main(fault, path):
    calls = []

    def on_call(reference):
        calls.append(reference)
        if len(calls) == 100:
            FAULTS[fault](Path(path))

    ended_by = None
    try:
        asyncio.run(run(Path(path), on_call))
    except JournalWriteError as error:
        ended_by = str(error)
    print(json.dumps({"asked": len(calls), "ended_by": ended_by}))


if __name__ == "__main__":
    main(*sys.argv[1:])
