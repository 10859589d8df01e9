"""Visitors of five seconds before hidden limits: the share answered, and the share of the requests refused.

Virtual time, Poisson arrivals, one client and four that share a key, beside what people write by hand.
"""

from functools import partial

from support.goodput import SITUATIONS, play, run

LOADS = (0.5, 0.7, 0.9, 1.25)
SECONDS = 240.0
SETTLED = 60.0


def cell(situation, load, **options):
    played = run(partial(play, situation, load, seconds=SECONDS, seed=1, **options))
    return f"{played.answered(SETTLED):.1%} ({played.refused_share:.1%})"


def main():
    print("goodput: answered (refused of all requests)\n")
    print("| hidden limit | load | possible | payclient | four clients | by hand |\n|---|--:|--:|--:|--:|--:|")
    for situation in SITUATIONS:
        for load in LOADS:
            cells = [cell(situation, load), cell(situation, load, clients=4), cell(situation, load, is_by_hand=True)]
            print(f"| {situation.name} | {load:.0%} | {min(1, 1 / load):.0%} | {' | '.join(cells)} |", flush=True)
    return 0
