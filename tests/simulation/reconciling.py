"""The workload of a reconciliation: killed, resumed, and compared with one that nothing disturbs."""

import asyncio
import errno
import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest import mock

from payclient import errors
from payclient.reconcile import Journal, JournalWriteError, reconcile
from payclient.reconcile._journal.journal import Reuse
from payclient.reconcile._judgement.rules import Rules
from payclient.reconcile.folders import open_past_run
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
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
RULES = Rules(final_statuses=["paid"])
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

    def __init__(self, world, folder, past):
        self._world, self._folder, self._past = world, folder, past
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
        options = {"concurrency": plan.concurrency, "journal": self.journal, "clock": lambda: NOON, "rules": RULES}
        if self._past is not None:
            past = open_past_run(self._past)
            options |= {
                "previous": (past.note, past.records),
                "reuse": Reuse(max_age=timedelta(days=7), answers=past.answers),
            }
        rows = reconcile(entries(plan), lookup, confirm=confirm, **options)
        with ReportFiles(self._folder, formats=FORMATS) as files:
            async for row in rows:
                self._world.loop.note("row", row.reference, row.bucket.value)
                files.add(row)
            files.finish(About(rules=RULES))
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
        self.past = None
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
        world, process = self._world, _Process(self._world, self.folder, self.past)
        acts = {"kill": _die, "disk full": process.fill_disk, "stop": process.cancel, "none": None}
        acts["fsync"] = lambda: process.fail_disk(undo, is_written=value > 0.5)
        if kind == "stop":
            at += world.loop.ticks
        world.schedule({"cancel": process.cancel})

        def strike():
            world.strike(kind)
            acts[kind]()

        def strike_later():
            # Out of a step, because a timer of the loop would keep what it raises.
            world.loop.call_later(value, lambda: world.loop.at_tick.setdefault(world.loop.ticks + 1, []).append(strike))

        if acts[kind] is not None:
            is_later = value and kind != "fsync"
            world.loop.at_tick.setdefault(at, []).append(strike_later if is_later else strike)
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
        if unbroken.is_complete:
            _second_night(world, runs)


def _second_night(world, runs):
    """Kill a run that reuses the answers of the one before, resume it, and compare it with an unbroken one."""
    runs.past, before = runs.folder, len(world.service.exchanges)
    runs.folder = runs._next_folder()
    runs.start(kind="kill", at=int(10 ** world.chance.uniform(1.0, 3.5)))
    if not runs.start().is_complete:
        return
    files, asked = runs.files(), {each.reference for each in world.service.exchanges[before:]}
    matched = {each.reference for each in entries(world.plan) if each.amount == amount_of(each.reference)}
    once = {each for each in matched if each[0] == "T" and world.plan.references.count(each) == 1}
    if len(again := asked & once) > 2:  # one for each process, to see that the service answers
        world.fail("reuse", f"{sorted(again)} matched in the night before, and were asked for again")
    runs.folder = runs._next_folder()
    if runs.start().is_complete and (other := [name for name, data in runs.files().items() if data != files[name]]):
        world.fail("report", f"other bytes in {', '.join(other)} of a second night than those of an unbroken one")
    world.count("second nights")
