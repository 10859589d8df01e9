"""
CPU and peak memory of a whole reconciliation, phase by phase; `reconcile=ROWS` takes another number of rows.

The service is a transport that answers at once, so all that is measured is payclient: a ledger in CSV, the journal on
disk, every report. Each step runs in a process of its own, so that its peak is its own.
"""

import asyncio
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

from bench import instant
from payclient.reconcile import Journal, reconcile, replay
from payclient.reconcile.ledger import open_ledger
from payclient.reconcile.report import About, ReportFiles
from support.fakes import SAMPLE

ROWS = 1_000_000
COPIED = ("fee", "amount_received", "status", "payment_method", "payment_code")
FORMATS = ("rows.jsonl", "breaks.csv", "summary.json", "report.xlsx", "report.html")
ALLOWED = {"above the stream": 60.0, "all reports": 120.0, "MiB": 150.0}


def write_ledger(folder, rows):
    """Write a ledger that agrees but for one row in a hundred, where the amount differs."""
    with (folder / "ledger.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("reference", "merchant_reff", "amount", *COPIED))
        for number in range(rows):
            amount = SAMPLE["amount"] + (number % 100 == 0)
            writer.writerow((f"T{number}", f"T{number}", amount, *(SAMPLE[name] for name in COPIED)))


async def bare_stream(folder, rows):
    """The references alone, looked up and thrown away; the ones that differ twice, as reconciliation does."""
    references = (f"T{n}" for turn in (range(rows), range(0, rows, 100)) for n in turn)
    async with instant.client() as pay, pay.stream_transactions(references, concurrency=64) as outcomes:
        async for _ in outcomes:
            pass


async def read_ledger(folder, rows):
    with open_ledger(folder / "ledger.csv") as ledger:
        assert sum(1 for _ in ledger) == rows


async def reconciled(folder, rows):
    with open_ledger(folder / "ledger.csv") as ledger, Journal(folder / "journal.sqlite") as journal:
        async with instant.client(deadline=None) as pay:
            got = reconcile(ledger, pay.get_transaction, concurrency=64, journal=journal)
            async with aclosing(got):
                assert len([None async for _ in got]) == rows


async def judged(folder, rows):
    with Journal(folder / "journal.sqlite", must_exist=True) as journal:
        assert sum(1 for _ in replay(journal)) == rows


def reported(*formats):
    async def report(folder, rows):
        with Journal(folder / "journal.sqlite", must_exist=True) as journal:
            with ReportFiles(folder / "report", formats=formats or FORMATS) as files:
                for row in replay(journal):
                    files.add(row)
                files.finish(About())

    return report


async def everything(folder, rows):
    """What the command does: reconcile, and write every report on the way."""
    path = folder / "second.sqlite"
    with open_ledger(folder / "ledger.csv") as ledger, Journal(path) as journal, ReportFiles(folder / "all") as files:
        async with instant.client(deadline=None) as pay:
            got = reconcile(ledger, pay.get_transaction, concurrency=64, journal=journal)
            async with aclosing(got):
                async for row in got:
                    files.add(row)
            files.finish(About())


STEPS = {
    "bare stream": bare_stream,
    "reading the ledger": read_ledger,
    "reconciliation": reconciled,
    "judging again": judged,
    **{f"with {name}": reported(name) for name in FORMATS},
    "with all reports": reported(),
    "everything": everything,
}


def run(step, folder, rows):
    began = time.process_time()
    asyncio.run(STEPS[step](Path(folder), rows))
    micros = (time.process_time() - began) / rows * 1e6
    print(json.dumps([micros, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measure(step, folder, rows):
    program = f"from bench import reconcile; reconcile.run({step!r}, {str(folder)!r}, {rows})"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    micros, mib = json.loads(done.stdout)
    print(f"reconcile: {step:22} {micros:6.1f} µs a row, {mib:6.1f} MiB at most", flush=True)
    return micros, mib


def main(rows=ROWS):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_ledger(folder, rows)
        micros, mib = {}, {}
        for step in STEPS:
            micros[step], mib[step] = measure(step, folder, rows)
    figures = {
        "above the stream": micros["reconciliation"] - micros["bare stream"] - micros["reading the ledger"],
        "all reports": micros["with all reports"] - micros["judging again"],
        "MiB": mib["everything"],
    }
    for name, figure in figures.items():
        print(f"reconcile: {name}: {figure:.1f}, allowed are {ALLOWED[name]:.0f}")
    return int(any(figure > ALLOWED[name] for name, figure in figures.items()))
