"""Many workers with one key, one hidden limit, and a clock that jumps: what each way of sharing makes of it.

Every worker is a limiter of its own. Half of them leave in the middle; those that split the rate are told
so half a minute later. Printed is a table that the documentation takes.
"""

import math
from contextlib import closing

from support.sharing import limits_of, share_key
from support.virtual_time import VirtualTimeLoop

LEAVING, TOLD, END = 90.0, 120.0, 180.0
WORKERS = (1, 4, 16, 64, 256)
WAYS = {
    "split": lambda rate, workers: {"max_rate": rate, "workers": workers},
    "split of 95 %": lambda rate, workers: {"max_rate": 0.95 * rate, "workers": workers},
    "adaptive, `workers=n`": lambda _, workers: {"workers": workers},
    "adaptive, each as if alone": lambda _, __: {},
}


def measure(name, rate, count, options):
    times = {"half_leaves_at": LEAVING, "rest_is_told_at": TOLD if "max_rate" in options else math.inf}
    with closing(VirtualTimeLoop()) as loop:
        service = limits_of(rate, seed=0)[name]
        return loop.run_until_complete(
            share_key(service, rate, count=count, seed=0, until=END, **(times if count > 1 else {}), **options)
        )


def seconds(value):
    return "never" if value == math.inf else f"{value:.0f} s"


def cell(sharing, *, is_split, is_alone):
    figures = [
        f"{100 * sharing.used(0, LEAVING):.0f} %",
        f"{100 * sharing.refused(0, LEAVING):.1f} %",
        f"{sharing.fairness(0, LEAVING):.2f}",
    ]
    if not is_alone:
        figures.append(seconds(sharing.seconds_until_used(LEAVING, TOLD if is_split else END)))
        if is_split:
            figures[-1] += f", told: {seconds(sharing.seconds_until_used(TOLD, END))}"
    return " · ".join(figures)


def row(name, rate, workers):
    cells = []
    for way in WAYS.values():
        options = way(rate, workers)
        sharing = measure(name, rate, workers, options)
        cells.append(cell(sharing, is_split="max_rate" in options, is_alone=workers == 1))
    return f"| {name} | {workers} | {' | '.join(cells)} |"


def main(rate=250):
    print(f"sharing: {rate} per second; used · refused · fairness · until the rest uses 90 % when half have left\n")
    print(f"| limit | workers | {' | '.join(WAYS)} |\n|---|--:|{'---|' * len(WAYS)}", flush=True)
    for name in limits_of(rate, seed=0):
        for workers in WORKERS:
            print(row(name, rate, workers), flush=True)
    return 0
