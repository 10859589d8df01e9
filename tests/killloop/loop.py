"""
Runs that are killed and resumed, each compared with one that nothing broke.

Each run asks a service over HTTP, which fails now and then. It dies without a warning: at the n-th question at the
service, at a call of a function, before it touches a file, or in the middle of a write.
"""

import csv
import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
import threading
from collections import Counter
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from random import Random

from attrs import define, field, frozen

from killloop import child
from payclient.cli._sandbox import SandboxService, serving
from payclient.reconcile import Journal
from payclient.reconcile.report.integrity import MANIFEST
from payclient.reconcile.report.model import FORMATS
from payclient.testing import Latency
from support.in_thread import InThread
from support.seeded import COLUMNS, generate

NAMES = (*FORMATS, "history.jsonl", "payouts.csv", MANIFEST)
MOST_KILLS = 3
"""In one cycle, before it may come to its end."""
MOST_TOUCHES = 40
"""Of the report's folder, roughly, in one run."""
PATIENCE = 120
_ANSWERED = "SELECT count(*) FROM answers WHERE answer = 'found' AND reused_from IS NULL"
IMPORTED = [
    *("payclient.cli._reconcile", "payclient.reconcile.report.workbook", "payclient.reconcile.report._html"),
    *("anyio._backends._asyncio", "certifi", "h11", "httpcore"),
]
"""Before the first run; each begins in milliseconds then, and is not killed while it imports."""


class KillingService(InThread, SandboxService):
    """
    A sandbox in a thread of its own that counts its answers for each reference that it knows, and kills.

    Faults are not answers, and do not count. Nor does *not found*: a lookup asks twice before it believes that.
    """

    def __init__(self, **options):
        super().__init__(fault_share=0.06, latency=Latency(seconds=0.002), **options)
        self._answers, self._at_rest, self._in_flight = Counter(), threading.Event(), 0
        self._victim, self._left, self._due = 0, 0, []

    @asynccontextmanager
    async def served(self):
        async with serving(self) as self.url:
            yield

    def kill(self, victim, at):
        """Kill a process at the n-th answer from now on, before or after that is sent; 0 is none."""
        self._left, self._victim = at, victim

    def counts(self):
        """Return how many answers each reference got, when none is under way any more."""
        assert not self.total or self._at_rest.wait(PATIENCE)
        return dict(self._answers)

    async def __call__(self, scope, receive, send):
        self._at_rest.clear()
        self._in_flight += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._at_rest.set()

    @contextmanager
    def admit(self, started_at):
        due = self._due = []  # filled by `fault` of the same request, before anything is awaited
        with super().admit(started_at) as refusal:
            yield refusal
        for victim in due:
            _end(victim)

    def fault(self):
        reply, reference = super().fault(), self.requests[-1].reference
        if reply is None and reference in self._transactions:
            self._answers[reference] += 1
            self._left -= 1
            if self._victim and self._left <= 0:
                if self._random.random() < 0.5:
                    _end(self._victim)
                else:
                    self._due.append(self._victim)
                self._victim = 0
        return reply


def _end(process):
    with suppress(ProcessLookupError):  # it came to its end by itself
        os.kill(process, signal.SIGKILL)


@frozen
class Kill:
    """
    One kill that took place.

    Attributes:
        phase: What the run was at, by what it left behind.
        repeats: Answers that had been sent and were not kept.
    """

    phase: str
    repeats: int


@define
class Tally:
    """What came of it all."""

    kills: list[Kill] = field(factory=list)
    cycles: int = 0
    lost: int = 0
    problems: list[str] = field(factory=list)

    def lines(self):
        """Yield the figures for people."""
        phases = Counter(kill.phase for kill in self.kills)
        most = max((kill.repeats for kill in self.kills), default=0)
        yield f"killloop: {len(self.kills)} kills in {self.cycles} cycles, {self.lost} answers lost"
        yield f"killloop: by phase: {', '.join(f'{name} {number}' for name, number in sorted(phases.items()))}"
        yield f"killloop: repeats per kill: {most} at most, bound {child.CONCURRENCY}"
        same = "the same bytes as an unbroken run's" if not self.problems else f"{len(self.problems)} problems"
        yield f"killloop: {len(NAMES)} files of {self.cycles} reports: {same}"
        yield from (f"killloop: {problem}" for problem in self.problems)


class Loop:
    """
    One ledger and one service, and any number of cycles of kills.

    Args:
        folder: For temporary files.
        rows: Of the ledger.
        seed: Of ledger, faults and kills.
    """

    def __init__(self, folder, *, rows, seed):
        self.tally = Tally()
        self._folder, self._random = Path(folder), Random(seed)
        planted = generate(rows, seed=seed)
        self._rows = rows
        self._ledger = planted.ledger
        paid = [each for each in planted.transactions if each.get("status") == "Paid"]
        self._settled = self._random.sample(paid, len(paid) * 4 // 5)
        self._service = KillingService(seed=seed)
        self._service.load(planted.transactions)
        self._report = self._folder / "report"
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(IMPORTED)

    @contextmanager
    def served(self):
        """Serve for as long as the block, and make the run that nothing breaks."""
        with self._service:
            self._run_previous()
            self._run_unbroken()
            yield self

    def _run_previous(self):
        """Make the previous run of all others, of a ledger that shares two thirds of its rows with theirs."""
        quarter = self._rows // 4
        self._write_ledger(self._ledger[:-quarter])
        self._write_statement(self._settled[::2])
        self._process("none", 0)
        self._report.rename(self._folder / "previous")
        self._write_ledger(self._ledger[quarter:])
        self._write_statement([*self._settled[1::2], *self._settled[:3], {"reference": "", "amount": 7}])

    def _write_statement(self, transactions):
        """Write a settlement of *transactions*, which holds a fee back from each, and pays every tenth differently."""
        with (self._folder / "settlement.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["reference", "amount", "net"])
            for place, each in enumerate(transactions):
                amount = each["amount"] - (place % 10 == 0)
                writer.writerow([each["reference"], amount, amount - each.get("fee", 0)])

    def _write_ledger(self, rows):
        with (self._folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    def _run_unbroken(self):
        before = self._service.counts()
        self._process("count", 0)
        self._calls = int((self._folder / "calls").read_text())
        self._begin()
        self._process("none", 0)
        self._expected, self._sizes = self._files(), [path.stat().st_size for path in self._report.iterdir()]
        self._asked = sum(count > before.get(reference, 0) for reference, count in self._service.counts().items())
        self._answers = self._answered()
        self._names = sorted(path.name for path in self._report.iterdir())

    def first_cycle(self):
        """Kill a run while it asks, and as it puts the first file in its place; these two phases come each time."""
        self.cycle([("request", self._asked // 2), ("place", 1)])

    def cycle(self, kills=()):
        """Kill a run once or a few times, resume it to the end, and compare."""
        self._begin()
        self.tally.cycles += 1
        wasted = 0
        for kill in kills or [()] * self._random.randint(1, MOST_KILLS):
            kind, at = kill or self._choose()
            if self._process(kind, at) >= 0:
                break  # it came to its end before its end came
            phase, stored = self._left_behind()
            repeats = self._answered() - stored - wasted
            wasted += repeats
            self.tally.kills.append(Kill(phase, repeats))
            if not 0 <= repeats <= child.CONCURRENCY:
                self._complain(f"{repeats} repeats after a kill by {kind} {at} while {phase}")
        status = self._process("none", 0)
        _, stored = self._left_behind()
        lost = self._answered() - stored - wasted
        self.tally.lost += lost
        self._compare(status, lost, stored)

    def _compare(self, status, lost, stored):
        if status != 1 or lost or stored != self._answers:
            self._complain(f"exit status {status}, {lost} answers lost, {stored} kept of {self._answers}")
        if different := [name for name, content in self._files().items() if content != self._expected[name]]:
            self._complain(f"other bytes in {', '.join(different)}")
        if (names := sorted(path.name for path in self._report.iterdir())) != self._names:
            self._complain(f"the folder holds {names}")

    def _complain(self, text):
        self.tally.problems.append(f"cycle {self.tally.cycles}, after {len(self.tally.kills)} kills: {text}")

    # One run

    def _choose(self):
        """Return what the next run dies of, and when."""
        left = self._answers - self._left_behind()[1]
        kind = self._random.choice(["request"] * 8 * bool(left) + ["call"] * 6 + ["file"] * 4 + ["size"] * 2)
        if kind == "request":
            confirming = min(left, self._answers - self._asked)
            most = confirming if self._random.random() < 0.3 else left
            return kind, left - self._random.randrange(most)
        bounds = {"call": self._calls, "file": MOST_TOUCHES, "size": max(self._sizes)}
        return kind, self._random.randint(1, bounds[kind])

    def _process(self, kind, at):
        """Run one reconciliation to its end, whichever it is; return its exit status, negative for a signal."""
        arguments = (str(self._folder), self._service.url, self._service.api_key, kind, at)
        process = self._processes.Process(target=child.reconcile, args=arguments)
        process.start()
        if kind == "request":
            self._service.kill(process.pid, at)
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
            self._complain(f"a run did not end within {PATIENCE} s")
        self._service.kill(0, 0)
        return process.exitcode

    def _begin(self):
        shutil.rmtree(self._report, ignore_errors=True)
        self._counted_before = sum(self._service.counts().values())

    # What there is to see

    def _answered(self):
        return sum(self._service.counts().values()) - self._counted_before

    def _files(self):
        return {name: (self._report / name).read_bytes() for name in NAMES if (self._report / name).exists()}

    def _left_behind(self):
        """Return which phase a run was in, and how many found answers it kept, as seen in a copy of its journal."""
        with tempfile.TemporaryDirectory() as copy:
            for path in self._report.glob("journal.sqlite*"):
                shutil.copy(path, copy)
            path = Path(copy, "journal.sqlite")
            if not path.exists():
                return "opening", 0
            with Journal(path) as journal:
                is_read, to_ask = journal.is_ledger_complete, journal.answers.count_to_ask()
                to_confirm = journal.answers.count_to_confirm()
            with closing(sqlite3.connect(path)) as database:
                ((stored,),) = database.execute(_ANSWERED)
        if not is_read:
            return "reading", stored
        if to_ask or to_confirm:
            return "asking" if to_ask else "confirming", stored
        partial = sum(path.name in NAMES for path in self._report.glob(".*.partial/*"))
        return "writing" if partial == len(NAMES) else "placing", stored


def kill_often(kills, seed, *, rows=300):
    """Return what came of so many kills."""
    with tempfile.TemporaryDirectory() as folder, Loop(folder, rows=rows, seed=seed).served() as loop:
        loop.first_cycle()
        while len(loop.tally.kills) < kills:
            loop.cycle()
        return loop.tally
