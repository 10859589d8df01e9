"""
Kill reconciliations, resume them, and compare: `python -m killloop [KILLS] [SEED]`.

Exits with 1 when an answer was lost, more lookups than were in flight were repeated, or a report is not, byte for byte,
that of a run that nothing broke.
"""

import sys

from killloop.loop import kill_often

KILLS, SEED = 200, 1


def main(kills=KILLS, seed=SEED):
    print(f"killloop: {kills} kills, seed {seed}", flush=True)
    tally = kill_often(int(kills), int(seed))
    print(*tally.lines(), sep="\n")
    return bool(tally.problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
