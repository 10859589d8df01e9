"""
CPU per lookup of the kernel over batches of Arrow, beside the plain stream in the same rounds.

The stream is what the kernel is made of, so what it costs more is all there is to save. `kernel=ROWS` takes
another number of rows.
"""

import asyncio
import resource
import statistics
import time

import pyarrow as pa

from bench import cost, instant
from payclient.blocking import LoopThread
from payclient.engines import LookupSpec, ReconcileSpec, arrow
from support.background import answered_by

ROUNDS = 15
ROWS = 6_000
BATCH = 2_000
CONCURRENCY = 64
ALLOWED = 1.35


def batches(rows, **columns):
    for start in range(0, rows, BATCH):
        names = [f"T{n}" for n in range(start, min(rows, start + BATCH))]
        yield pa.record_batch({"reference": names, **{name: [value] * len(names) for name, value in columns.items()}})


async def streamed(rows):
    async with instant.client(max_concurrency=CONCURRENCY) as pay:
        await cost.streamed(pay, rows, CONCURRENCY)


def looked_up(rows):
    run(arrow.lookup_batches, LookupSpec(base_url="https://pay.example"), batches(rows))


def reconciled(rows):
    run(
        arrow.reconcile_batches,
        ReconcileSpec(base_url="https://pay.example"),
        batches(rows, amount=15000, status="Canceled"),
    )


def run(work, spec, source):
    resident = LoopThread(instant.client(max_concurrency=CONCURRENCY))
    with answered_by(resident, spec):
        for _ in work(source, spec):
            pass
    resident.stop()
    resident.join()


STEPS = {
    "plain stream": lambda rows: asyncio.run(streamed(rows)),
    "lookup_batches": looked_up,
    "reconcile_batches": reconciled,
}


def measure(step, rows):
    began = time.process_time()
    STEPS[step](rows)
    return (time.process_time() - began) / rows * 1e6


def main(rows=ROWS):
    for step in STEPS:
        measure(step, BATCH)
    rounds = [{step: measure(step, rows) for step in STEPS} for _ in range(ROUNDS)]
    medians = {step: statistics.median(each[step] for each in rounds) for step in STEPS}
    for step, median in medians.items():
        figures = [each[step] for each in rounds]
        print(f"kernel: {step:17} {median:5.1f} µs a row ({min(figures):.1f} to {max(figures):.1f})")
    ratio = medians["lookup_batches"] / medians["plain stream"]
    print(f"kernel: lookup_batches / plain stream: {ratio:.2f}, allowed are {ALLOWED}")
    print(f"kernel: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    return int(ratio > ALLOWED)
