"""Who is served before hidden limits: visitors and streams of 1, 4 and 8 clients of one key, beside what people write.

The real limiter on a loop of its own (`support.served`), 80 s of virtual time, of which the first 20 are counted apart;
two seeds. Half of the situations, by a checksum, and the limits of `ASIDE` are for judging: nothing was tuned on them.
"""

import itertools
import multiprocessing
from statistics import mean
from zlib import crc32

from support.served import ASIDE, LIMITS, Play, Situation, limiter

SECONDS = 80.0
SEEDS = (1, 2)
KINDS = (
    # Load, deadline, streams, seconds of silence
    *((load, 5.0, "none", 0.0) for load in (0.5, 0.9, 1.25, 4.0)),
    *((load, 1.0, "none", 0.0) for load in (0.5, 0.9)),
    *((load, 30.0, "none", 0.0) for load in (0.9, 4.0)),
    (0.0, 0.0, "each", 0.0),
    (0.3, 5.0, "each", 0.0),
    (0.7, 2.0, "each", 0.0),
    (0.5, 5.0, "apart", 0.0),
    (0.9, 5.0, "apart", 0.0),
    (0.5, 5.0, "none", 3600.0),
)
LAWS = (
    *(Situation(f"{part} % refused", 1, 0.0, 0.0, "each") for part in (1, 5, 20)),
    *(Situation(f"{part} % refused", clients, 0.9, 5.0) for part in (1, 5, 20) for clients in (1, 4)),
    *(Situation(limit, clients, 0.9, 5.0, "apart") for limit in ("bucket 20/s", "no burst 20/s") for clients in (1, 4)),
    *(Situation(limit, 4, 0.0, 0.0, "each") for limit in ("bucket 20/s", "20 a second", "8 at once")),
    *(Situation(limit, 1, 1.25, 5.0) for limit in ("bucket 20/s", "20 a second", "8 at once")),
    Situation("600 a minute", 1, 0.0, 0.0, "each"),
)
"""What the laws of visitors, bulk and fairness name, each shown alone."""
OF_EIGHT = {KINDS[0], KINDS[1], KINDS[8], KINDS[12]}
PLAYERS = {"by hand": None, "client": limiter}


def situations():
    for limit, clients, kind in itertools.product(LIMITS | ASIDE, (1, 4, 8), KINDS):
        load, deadline, streams, idle = kind
        known = (LIMITS | ASIDE)[limit]
        is_many = known.of_flight and streams != "none" and (clients > 1 or streams == "apart")  # thousands a second
        is_costly = load > 1 and (known.of_flight or known.capacity > 50)
        if is_many or is_costly or (clients == 8 and kind not in OF_EIGHT) or (clients > 1 and idle):
            continue
        yield Situation(limit, clients, load, deadline, streams, idle)


def is_aside(situation):
    return situation.limit in ASIDE or crc32(str(situation).encode()) % 2 == 0


def measure(work):
    """Play a situation with each seed; return the means."""
    situation, player, seeds = work
    limit, each = (LIMITS | ASIDE)[situation.limit], []
    seconds = 3 * situation.idle + 120 if situation.idle else SECONDS
    for seed in seeds:
        play = Play(situation, seconds, seed, PLAYERS[player]).run()
        count, found = play.count, {"seconds": seconds}
        found["requests"] = count["sent"] / max(1, count["good"])
        found["told"] = count["told"] / max(1, count["came"] + count["early came"])
        if situation.load:
            possible = min(1, 1 / situation.load)
            found["answered"] = count["answered"] / max(1, count["came"]) / possible
            if not situation.idle:
                found["early"] = count["early answered"] / max(1, count["early came"]) / possible
        if situation.streams != "none":
            streams = situation.clients if situation.streams == "each" else 1
            ideal = limit.of_flight * 64 * streams / 0.1625 if limit.of_flight else limit.capacity
            found["rows"] = count["rows"] / (seconds - 20) / max(0.05 * ideal, ideal - situation.load * limit.capacity)
        shares = play.rows if situation.streams == "each" else play.answers[: situation.clients]
        found["jain"] = sum(shares) ** 2 / max(1, len(shares) * sum(part * part for part in shares))
        if limit.failing:
            found["back"] = max(play.attempts_after, default=999.0)
        each.append(found)
    return situation, player, {name: mean(found[name] for found in each) for name in each[0]}


GROUPS = {
    "visitors": lambda each: each.streams == "none" and not each.idle,
    "- 1 client": lambda each: each.streams == "none" and each.clients == 1 and not each.idle,
    "- 4 and 8 clients": lambda each: each.streams == "none" and each.clients > 1,
    "- up to 90 %": lambda each: each.streams == "none" and each.load < 1 and not each.idle,
    "- 125 and 400 %": lambda each: each.streams == "none" and each.load > 1,
    "- no burst": lambda each: each.streams == "none" and "no burst" in each.limit,
    "- a share refused": lambda each: each.streams == "none" and "%" in each.limit,
    "- at once": lambda each: each.streams == "none" and "at once" in each.limit,
    "- refused ones count": lambda each: each.streams == "none" and "counting" in each.limit,
    "- trouble": lambda each: each.streams == "none" and each.limit.startswith(("storm", "silence")),
    "bursts after idle hours": lambda each: each.idle,
    "streams": lambda each: not each.load,
    "- a share refused ": lambda each: not each.load and "%" in each.limit,
    "- a minute": lambda each: not each.load and "minute" in each.limit,
    "- of 4 and 8 clients": lambda each: not each.load and each.clients > 1,
    "visitors beside their streams": lambda each: each.load and each.streams == "each",
    "visitors beside a stream apart": lambda each: each.streams == "apart",
}
FIGURES = ("answered", "early", "requests", "told", "rows", "jain")


def row(name, results, players):
    """Return a line of a table: how many situations, and the means of each player."""
    cells = []
    for figure in FIGURES:
        found = [[each[player][figure] for each in results if figure in each[player]] for player in players]
        cells.append(", ".join(f"{mean(values):.2f}" if values else "-" for values in found))
    return f"| {name} | {len(results)} | {' | '.join(cells)} |"


def table(results, players):
    """Return a line for each group, and for each situation of the laws."""
    yield f"| situations ({', '.join(players)}) | | {' | '.join(FIGURES)} |"
    yield "|---|--:|" + "--:|" * len(FIGURES)
    for name, holds in GROUPS.items():
        if those := [found for situation, found in results.items() if is_aside(situation) and holds(situation)]:
            yield row(name, those, players)
    for situation in LAWS:
        yield row(situation, [results[situation]], players)


def main(processes=1):
    results = {}
    played = dict.fromkeys([*filter(is_aside, situations()), *LAWS])
    with multiprocessing.Pool(processes) as pool:
        for situation, player, found in pool.imap_unordered(measure, itertools.product(played, PLAYERS, [SEEDS])):
            results.setdefault(situation, {})[player] = found
    print("who is served\n")
    print("\n".join(table(results, PLAYERS)))
    return 0
