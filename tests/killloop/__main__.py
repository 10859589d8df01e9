"""
Kill reconciliations, go on with them, and compare: `python -m killloop [KILLS] [SEED]`.

Each run asks a service in another process, over HTTP, which fails now and then. It dies without a warning: of so many
questions at the service, of calls of a function, before it touches a file, at a row, or in the middle of a write.

Exits with 1 when an answer was lost, more lookups than were under way were repeated, or a report is not, byte for byte,
that of a run that nothing broke.
"""

import sys
import time

from killloop.loop import kill_often

KILLS, SEED = 200, 1


def main(kills=KILLS, seed=SEED):
    print(f"killloop: {kills} kills, seed {seed}", flush=True)
    started_at = time.perf_counter()
    tally = kill_often(int(kills), int(seed))
    print(*tally.lines(), f"killloop: {time.perf_counter() - started_at:.0f} s", sep="\n")
    return bool(tally.problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
