"""
Run the whole client under one seed, many times: `python -m simulation --seeds 10000`.

A seed that fails is printed with its plan, shrunk, and with the command that runs it again.
"""

import argparse
import contextlib
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from hashlib import blake2b
from itertools import islice

from simulation import controls
from simulation.cells import CELLS, Cells
from simulation.draws import draw, seeds_for
from simulation.plan import MUTANTS
from simulation.shrink import shrink
from simulation.world import run

TWICE = 47
"""One in so many seeds is run twice, and must give the same trace: a prime, because the last digit chooses the kind."""
AIMED = 20
"""More seeds for each cell that is empty, at most."""
ENOUGH = 10_000
"""Seeds that reach every cell."""


def main(arguments=None):
    """Run what the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    with contextlib.suppress(OSError):
        os.nice(options.nice)
    if options.seed is not None:
        return _show(options.seed)
    if options.controls is not None:
        return controls.main(options.controls, seeds=options.most, jobs=options.jobs)
    return _run_many(range(options.first, options.first + options.seeds), options)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one alone, and show its plan")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no other seed after that")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--nice", type=int, default=0, help="how much to stand back behind other processes")
    parser.add_argument("--cells", action="store_true", help="print how often each fault has met each state")
    parser.add_argument("--controls", nargs="*", help="remove guards instead, all or those named, and look for each")
    parser.add_argument("--most", type=int, default=5000, help="seeds per guard, at most")
    return parser


def _show(seed):
    plan = draw(seed)
    first, second = run(plan), run(plan)
    _print_plan(plan)
    print(f"trace {first.trace}, {first.ticks} steps, {first.requests} requests, {first.seconds:.1f} virtual seconds")
    if first.trace != second.trace:
        print(f"a second run gave another trace, {second.trace}")
        return 1
    if not first.problems:
        print("every oracle is content")
        return 0
    _explain(plan, first)
    return 1


def _print_plan(plan):
    faults = "".join(f"\n    {fault}" for fault in plan.faults)
    print(f"seed {plan.seed}: {plan.work} over {plan.transport}, {len(plan.references)} references{faults}")


def _explain(plan, result):
    for problem in dict.fromkeys(result.problems):
        print(f"  {problem}")
    smallest = shrink(plan, run)
    print(f"  of {len(plan.faults)} faults it needs {len(smallest.faults)}:")
    if smallest.order is not None:
        print(f"  of {len(result.order)} turns out of order it needs {len(smallest.order)}:")
    print(f"  {smallest}")
    for problem in run(smallest).problems[:3]:
        print(f"  {problem}")
    print(f"  again: python3 noxfile.py -s simulate -- --seed {plan.seed}")


def attempt(seed):
    """Return the result of a seed, and whether a second run gave the same trace."""
    plan = draw(seed)
    result = run(plan)
    is_same = seed % TWICE != 0 or run(plan).trace == result.trace
    return result, is_same


class _Runs:
    """What many runs came to."""

    def __init__(self, minutes):
        self._began, self._minutes = time.monotonic(), minutes
        self.failed, self.traces, self.cells = [], {}, Cells()
        self._total, self._seconds, self._ticks, self._requests = Counter(), 0.0, 0, 0

    def play(self, pool, seeds):
        """Run all seeds, as long as there is time."""
        for result, is_same in pool.imap_unordered(attempt, seeds, chunksize=5):
            self._add(result, is_same=is_same)
            if len(self.traces) % 500 == 0:
                hours = self._seconds / 3600
                print(f"{len(self.traces)} seeds, {hours:.1f} virtual hours, {len(self.failed)} failed", flush=True)
            if time.monotonic() - self._began > self._minutes * 60:
                print(f"stopped after {self._minutes:g} minutes")
                break

    def _add(self, result, *, is_same):
        self.traces[result.seed] = result.trace
        self._seconds, self._ticks = self._seconds + result.seconds, self._ticks + result.ticks
        self._requests += result.requests
        self._total.update(result.counts)
        self.cells.add(result)
        if result.problems or not is_same:
            self.failed.append(result.seed)
            print(f"seed {result.seed}: {result.problems or 'another trace at the second time'}", flush=True)

    def report(self):
        """Print what was played."""
        digest, took = blake2b(digest_size=8), time.monotonic() - self._began
        for seed in sorted(self.traces):
            digest.update(f"{seed} {self.traces[seed]}\n".encode())
        mutants = sum(seed >= MUTANTS for seed in self.traces)
        print(
            f"simulate: {len(self.traces)} seeds, {mutants} of them mutants, "
            f"{self._seconds / 3600:.1f} virtual hours, {took / 60:.1f} minutes"
        )
        hashed = digest.hexdigest()
        print(
            f"simulate: {self._requests} requests, {self._ticks} steps of the event loop, hash of all traces {hashed}"
        )
        ends = ", ".join(
            f"{name} {number}" for name, number in sorted(self._total.items()) if " by client " not in name
        )
        print(f"simulate: {ends}")


def _run_many(seeds, options):
    runs = _Runs(options.minutes)
    with multiprocessing.get_context("fork").Pool(options.jobs, gc.freeze) as pool:
        runs.play(pool, seeds)
        if len(runs.traces) == len(seeds):
            more = len(seeds) // 10
            empty = runs.cells.empty()
            aimed = [
                seed
                for cell in empty
                for seed in islice(seeds_for(cell, after=seeds.stop), min(AIMED, more // len(empty)))
            ]
            runs.play(pool, aimed)
            runs.play(pool, runs.cells.mutants(more - len(aimed)))
    runs.report()
    for seed in runs.failed[:5]:
        plan = draw(seed)
        _print_plan(plan)
        _explain(plan, run(plan))
    is_blind = _report_cells(runs.cells, is_enough=len(runs.traces) >= ENOUGH, is_whole=options.cells)
    return 1 if runs.failed or is_blind else 0


def _report_cells(cells, *, is_enough, is_whole):
    """Print which fault has met which state; return whether there is a cell that enough seeds have not reached."""
    if is_whole:
        print("\n".join(cells.lines()))
    empty = cells.empty()
    print(f"cells: {len(CELLS) - len(empty)} of {len(CELLS)} reached")
    print(f"cells: the rarest {', '.join(f'{kind} at {state} {count}' for count, (kind, state) in cells.rarest(5))}")
    for kind, state in empty if is_enough or is_whole else ():
        print(f"cells: no {kind} at {state}")
    return is_enough and bool(empty)


if __name__ == "__main__":
    sys.exit(main())
