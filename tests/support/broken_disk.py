"""
A reconciliation on a disk that fails, in a process of its own: `python broken_disk.py FAULT PATH`.

It asks for `REFERENCES` and prints, as JSON, how it ended and how often it asked. From the 100th lookup on the system
itself lets the disk fail: no file may grow any more (`growth`), or fsync gives an error (`fsync`); with `none`, the
disk does what it does.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import platform
import resource
import struct
import sys
from pathlib import Path

from payclient import Transaction
from payclient.reconcile import Journal, JournalWriteError, reconcile
from payclient.reconcile.ledger import Entry
from support.reconciling import NOON

CONCURRENCY = 6
REFERENCES = [f"T{number}" for number in range(600)]
FSYNC = {"x86_64": (74, 75), "aarch64": (82, 83)}
"""The numbers of fsync and fdatasync, by machine; Linux."""


def entries():
    return (Entry(line=line, reference=name, amount=5) for line, name in enumerate(REFERENCES, 2))


def stop_growth(path):
    largest = max(file.stat().st_size for file in path.parent.iterdir())
    sys.dont_write_bytecode = True  # it would be cut too, and no longer load
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))  # Python ignores the signal, so the write fails


def fail_fsync(_path):
    """Have the kernel answer fsync with an error, by a filter of system calls that lets all others through."""
    load, equal, answer = 0x20, 0x15, 0x06
    one, other = FSYNC[platform.machine()]
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (load, 0, 0, 0),
            (equal, 1, 0, one),
            (equal, 0, 1, other),
            (answer, 0, 0, 0x0005_0000 | errno.EIO),
            (answer, 0, 0, 0x7FFF_0000),
        )
    )
    steps = ctypes.create_string_buffer(program)
    filter_ = ctypes.create_string_buffer(struct.pack("HP", 5, ctypes.addressof(steps)))
    call = ctypes.CDLL(None, use_errno=True).prctl
    if call(38, 1, 0, 0, 0) or call(22, 2, ctypes.c_void_p(ctypes.addressof(filter_)), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


FAULTS = {"growth": stop_growth, "fsync": fail_fsync, "none": lambda _path: None}


async def run(path, on_call, *, is_durable=False):
    """Reconcile, and return the rows."""

    async def lookup(reference):
        on_call(reference)
        await asyncio.sleep(0)
        return Transaction(reference=reference, amount=5 + (reference[-1] == "7"), status="Paid")

    with Journal(path, is_durable=is_durable) as journal:
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
        asyncio.run(run(Path(path), on_call, is_durable=fault == "fsync"))
    except JournalWriteError as error:
        ended_by = str(error)
    print(json.dumps({"asked": len(calls), "ended_by": ended_by}))


if __name__ == "__main__":
    main(*sys.argv[1:])
