"""
Flip one bit of a journal at a time and see what becomes of its report.

Same: the report is what it was. Refused: a `JournalError` says so. Killed earlier: a damaged log gives the report of
a run that was killed before the damaged frame, whose later answers are looked up again. Anything else is a defect.
"""

import asyncio
import os
import random
import shutil

import attrs

from payclient import Transaction, errors
from payclient.reconcile import Journal, JournalError, reconcile, replay, verify_journal
from payclient.reconcile._judgement.records import PreviousRun, ReferenceRecord
from payclient.reconcile.ledger import Entry, RejectedEntry
from support.reconciling import NOON

ROWS = 60
LOG_HEADER, FRAME = 32, 24 + 4096
"""Of SQLite's write-ahead log, in bytes."""


def _entry(line):
    if line % 17 == 0:
        return RejectedEntry(line=line, reason="no reference")
    reference = f"T{line // 9 * 9 if line % 9 == 1 else line}"
    return Entry(line=line, reference=reference, merchant_reff=f"INV-{line % 50}", amount=1000 + line, status="paid")


async def _ask(reference):
    number = int(reference[1:])
    if number % 7 == 0:
        raise errors.TransactionNotFoundError("no such transaction: not found")
    if number % 11 == 0:
        raise errors.RejectedError("no")
    await asyncio.sleep(0)
    return Transaction(
        reference=reference, merchant_reff=f"INV-{number % 50}", amount=1000 + number - (number % 5 == 0), status="Paid"
    )


def _records(_is_listed, _on_row):
    """Yield what the previous run says about some references, and a row that is not in the ledger any more."""
    for number in range(3, 12):
        carried = [Entry(line=number, reference=f"O{1000 + number}", amount=5, status="paid")] if number < 6 else []
        reference = carried[0].reference if carried else f"T{number}"
        yield ReferenceRecord(reference=reference, is_paid=True), carried


async def _write(path, copy, rows):
    """Write a journal, and into *copy* what a process that is killed before its end leaves behind."""
    with Journal(path, identity={"service": "https://pay.example"}) as journal:
        journal.set_note("about", "x" * 300)
        previous = PreviousRun(run="night-1", folder="night-1", last_observed_at=NOON), _records
        statement = [Entry(line=line, reference=f"T{line}", amount=1000 + line) for line in range(2, 9)]
        async for _ in reconcile(
            map(_entry, range(2, rows)),
            _ask,
            journal=journal,
            clock=lambda: NOON,
            previous=previous,
            statement=statement,
        ):
            pass
        shutil.copytree(path.parent, copy)


def make(folder, rows=ROWS):
    """Return the journals of three runs: one that ended, one that was killed, and one that was killed later on."""
    ended, killed, resumed = (folder / name / "journal.sqlite" for name in ("ended", "killed", "resumed"))
    asyncio.run(_write(ended, killed.parent, rows))
    with Journal(ended) as journal:
        for number in range(30):
            journal.set_note(f"n{number}", "x" * 300)
        shutil.copytree(ended.parent, resumed.parent)
        for number in range(30):  # leaves free pages behind
            journal.set_note(f"n{number}", None)
    return ended, killed, resumed


def report(path):
    """Return all that a report is made from."""
    with Journal(path, must_exist=True) as journal:
        return [*map(attrs.astuple, replay(journal)), journal.note("about"), journal.note("identity"), journal.rows]


def outcome(path, file, place, expected, folder):
    """Flip the bit at *place* of *file*, which stands beside the journal *path*; say what becomes of the report."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(path.parent, folder)
    copy, flipped = folder / path.name, folder / file
    content = bytearray(flipped.read_bytes())
    content[place // 8] ^= 1 << place % 8
    flipped.write_bytes(content)
    try:
        verify_journal(copy)
        is_found = False
    except JournalError:
        is_found = True
    except Exception as error:  # noqa: BLE001  what is counted
        return f"crash of verify: {error!r}"
    try:
        found = report(copy)
    except JournalError:
        return "refused" if is_found else "refused, and verify finds nothing"
    except Exception as error:  # noqa: BLE001  what is counted
        return f"crash: {error!r}"
    if found != expected:
        is_earlier = file.endswith("-wal") and found == _killed_before(path, file, place // 8, folder)
        return "killed earlier" if is_earlier else "another report in silence"
    return "same" if not is_found else "same, and verify finds it"


def _killed_before(path, file, place, folder):
    """Return the report of the run whose log ends before the frame at *place*."""
    shutil.rmtree(folder)
    shutil.copytree(path.parent, folder)
    os.truncate(folder / file, max(LOG_HEADER + (place - LOG_HEADER) // FRAME * FRAME, 0))
    return report(folder / path.name)


def flip(folder, flips, seed):
    """Yield the file, the place and what became of each of so many flips, spread over the journals."""
    chance = random.Random(seed)
    for path in make(folder):
        expected = report(shutil.copytree(path.parent, folder / "whole", dirs_exist_ok=True) / path.name)
        files = sorted(path.parent.iterdir())
        for _ in range(flips // 3):
            file = chance.choice(files)
            place = chance.randrange(8 * file.stat().st_size)
            yield path.parent.name, file.name, place, outcome(path, file.name, place, expected, folder / "flipped")
        shutil.rmtree(folder / "whole")
