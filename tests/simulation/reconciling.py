"""The workload of a reconciliation: killed, resumed, and compared with one that nothing disturbs."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest import mock

from payclient import errors
from payclient.ledger import Entry
from payclient.reconcile import Journal, JournalWriteError, reconcile
from payclient.report import About, ReportFiles
from simulation import oracles
from simulation.loop import KilledError
from simulation.plan import BLOWS
from simulation.service import amount_of
from simulation.world import NOON

MEMORY = "/dev/shm"
"""Where files are in memory, so that fsync takes no time; only Linux has it."""
_UNUSABLE = re.compile(
    rb"(about 'R\d+', and the answer cannot be used): [^\"]*"
    rb'|"error":"\w+"(?=,"findings":\[{"code":"unusable_answer")'
)
"""How a rejected reference was refused the second time, which a fault may have spoilt: both are unusable."""
FORMATS = ("rows.jsonl", "breaks.csv", "summary.json")


def entries(plan):
    """Yield the ledger of a plan: an entry for each reference, some with an amount that differs."""
    for line, reference in enumerate(plan.references, 2):
        number = int(reference[1:])
        yield Entry(line=line, reference=reference, amount=amount_of(reference) + (number % 5 == 3))


class _FailingDisk:
    """The connection to a journal's database, when fsync gives an error."""

    def __init__(self, connection, *, is_written):
        self._connection, self._is_written = connection, is_written

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *parameters):
        if statement != "COMMIT":
            return self._connection.execute(statement, *parameters)
        if self._is_written:
            self._connection.execute(statement)
        raise sqlite3.OperationalError("disk I/O error")


def _fail_fsync(_):
    raise OSError(errno.EIO, "Input/output error")


class _Process:
    """One run of a reconciliation, as far as it comes."""

    def __init__(self, world, folder):
        self._world, self._folder = world, folder
        self.found = set()  # references whose transaction the reconciliation has got
        self.ended_by = None  # what ended it early, or None
        self.is_complete = False  # whether it has written its report
        self.journal = None
        self._task, self._clients = None, []

    async def run(self):
        """Look up, judge, and write the report, unless something ends it early."""
        self._task = asyncio.create_task(self._run())
        await asyncio.wait([self._task])
        if self._task.cancelled():
            self.ended_by = asyncio.CancelledError()
        elif (error := self._task.exception()) is not None:
            is_of_disk = isinstance(error, JournalWriteError) or getattr(error, "errno", 0) == errno.EIO
            if not (isinstance(error, errors.PayClientError) or is_of_disk):
                raise error
            self.ended_by = error
        for client in self._clients:  # again, because the first time may have been cancelled
            await client.aclose()

    async def _run(self):
        client, also = self._world.make_client()
        self._clients = [client] if also is None else [client, also]
        async with client:
            with Journal(self._folder / "journal.sqlite") as self.journal:
                await self._reconcile(client)

    async def _reconcile(self, client):
        plan = self._world.plan
        ask = client.with_options(deadline=None).get_transaction

        async def lookup(reference, **how):
            try:
                transaction = await ask(reference, **how)
            except errors.PayClientError as error:
                oracles.check_answer(self._world, reference, error)
                raise
            oracles.check_answer(self._world, reference, transaction)
            self.found.add(reference)
            return transaction

        confirm = partial(lookup, fresh=True)
        limits = {"concurrency": plan.concurrency, "clock": lambda: NOON}
        rows = reconcile(entries(plan), lookup, confirm=confirm, journal=self.journal, **limits)
        with ReportFiles(self._folder, formats=FORMATS) as files:
            async for row in rows:
                self._world.loop.note("row", row.reference, row.bucket.value)
                files.add(row)
            files.finish(About())
        self.is_complete = True

    # What happens to it

    def cancel(self, _=None):
        """Cancel it, as Ctrl-C does."""
        if self._task is not None:
            self._task.cancel()

    def fill_disk(self, _=None):
        """Let the journal not grow any more."""
        database = None if self.journal is None else self.journal._database
        if database is not None and database._is_open:
            ((pages,),) = database.connection.execute("PRAGMA page_count").fetchall()
            database.connection.execute(f"PRAGMA max_page_count = {pages}")

    def fail_disk(self, undo, *, is_written):
        """Let fsync give an error from now on, to the journal and to the report; *undo* ends it."""
        database = None if self.journal is None else self.journal._database
        if database is not None and database._is_open:
            database.connection = _FailingDisk(database.connection, is_written=is_written)
        undo.enter_context(mock.patch.object(os, "fsync", _fail_fsync))


class _Runs:
    """The processes over one journal, one after the other."""

    def __init__(self, world, root):
        self._world, self._root = world, Path(root)
        self._count = 0
        self.folder = self._next_folder()

    def _next_folder(self):
        self._count += 1
        folder = self._root / str(self._count)
        folder.mkdir()
        return folder

    def start(self, *, at=None, kind="none", value=0.0):
        """Run one process until it ends, or until step *at*, where *kind* happens to it."""
        with ExitStack() as undo:
            process = self._start(undo, at, kind, value)
        if kind == "fsync":
            self._check_kept(process, self._stored())
        return process

    def _start(self, undo, at, kind, value):
        world, process = self._world, _Process(self._world, self.folder)
        acts = {"kill": _die, "disk full": process.fill_disk, "stop": process.cancel, "none": None}
        acts["fsync"] = lambda: process.fail_disk(undo, is_written=value > 0.5)
        if kind == "stop":
            at += world.loop.ticks
        world.schedule({"cancel": process.cancel})
        if acts[kind] is not None:
            world.loop.at_tick.setdefault(at, []).append(lambda: (world.strike(kind), acts[kind]()))
        try:
            world.run(process.run())
        except KilledError:
            self._resume_elsewhere(process)
        else:
            world.check_end()
            world.bury()
        world.count(f"processes: {kind}")
        return process

    def _resume_elsewhere(self, process):
        """Take from the disk what the dead process has written."""
        kept = self._next_folder()
        for path in self.folder.glob("journal.sqlite*"):
            shutil.copy(path, kept)
        self.folder = kept
        self._check_kept(process, self._stored())
        self._world.bury()

    def _stored(self):
        if not (self.folder / "journal.sqlite").exists():
            return 0
        with Journal(self.folder / "journal.sqlite") as journal:
            return journal.answers.count_found() if journal.is_ledger_complete else 0

    def _check_kept(self, process, stored):
        """The answers of one lookup at a time may be lost per worker; a second answer adds no found reference."""
        if stored < len(process.found) - self._world.plan.concurrency:
            self._world.fail("journal", f"{len(process.found)} transactions came, and {stored} are kept")

    def files(self):
        """Return the report, without how a rejected reference was refused."""
        return {name: _UNUSABLE.sub(rb"\1", (self.folder / name).read_bytes()) for name in FORMATS}


def _die():
    raise KilledError


def reconciliation(world):
    """Reconcile through all that the plan has, until the report is there; then compare it with an unbroken run's."""
    blows = [fault for fault in world.plan.faults if fault.kind in BLOWS]
    with tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as root:
        runs = _Runs(world, root)
        for blow in blows:
            if runs.start(kind=blow.kind, at=int(blow.at), value=blow.value).is_complete:
                break
        world.calm()
        broken = runs.start()
        if not broken.is_complete:
            # Else nothing shows that the service answers.
            if any(reference[0] == "T" for reference in world.plan.references):
                world.fail("recovers", f"a calm run ended with {broken.ended_by!r}")
            return
        files = runs.files()
        runs.folder = runs._next_folder()
        unbroken = runs.start()
        if unbroken.is_complete and (other := [name for name, data in runs.files().items() if data != files[name]]):
            world.fail("report", f"other bytes in {', '.join(other)} than those of an unbroken run")
