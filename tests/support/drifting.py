"""Contracts of simulated nights, made from counts: weekends, holidays, a growing method, a failing region."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from payclient.reconcile.drift import Contract, GoldenAnswer, Side
from payclient.reconcile.drift._profile import DOCUMENTED, bounded

METHODS = ("QRIS", "BRIVA", "BCAVA", "OVO", "ALFAMART")
FEATURES = {  # share, and standard deviation between nights
    "merchant_reff is null": (0.02, 0.002),
    "fee is decimal": (0.002, 0.0004),
    "payment_name is empty": (0.01, 0.001),
    "expdate is null": (0.005, 0.0005),
    "expdate is empty": (0.03, 0.002),
    "fee is absent": (0.004, 0.0004),
    "fee is null": (0.1, 0.002),
    "payment_code is empty": (0.05, 0.002),
    "payment_code is absent": (0.0005, 0.0002),
    "amount_received is null": (0.15, 0.002),
    "slower than 0.5 s": (0.01, 0.001),
    "slower than 2 s": (0.001, 0.0003),
}
STATES = {"Paid": 0.8, "Pending": 0.12, "Expired": 0.05, "Canceled": 0.03}
BEGAN = datetime(2026, 1, 1, 2, tzinfo=UTC)
HOLIDAYS = {0, 20, 47, 78, 120, 121, 150, 180, 229, 300, 358, 364}
SALT = "00" * 16


def drawn(random, count, share):
    """Return how many of *count* are drawn, each with the chance *share*."""
    mean = count * max(0.0, min(1.0, share))
    if mean < 20:
        limit, product, hits = math.exp(-mean), random.random(), 0
        while product > limit:
            product *= random.random()
            hits += 1
        return hits
    return max(0, min(count, round(random.gauss(mean, math.sqrt(mean * (1 - mean / count))))))


def golden(**parts):
    """Return three golden answers, with other *parts* than usual."""
    usual = {"found": "yes", "status code": "200", "type of amount": "integer", "status": "a", "body": "b"}
    return tuple(GoldenAnswer(reference=f"G{n}", group="QRIS Paid", parts={**usual, **parts}) for n in range(3))


def counts(day, random):
    """Return the counts of the night of *day*, by cell."""
    is_quiet = day % 7 in (2, 3) or day in HOLIDAYS  # the first was a Thursday
    cells = {}
    for method in METHODS:
        answers = round((2_000 if not is_quiet else 1_200) * random.uniform(0.9, 1.1))
        if method == "OVO":
            answers = round(answers * (0.3 + day / 365))
        cells["share", "2", method, "answers"] = answers
        for feature, (share, deviation) in FEATURES.items():
            tonight = random.gauss(share * (1.1 if is_quiet else 1), deviation)
            cells["share", "2", method, feature] = drawn(random, answers, tonight)
        for state, share in STATES.items():
            cells["state", method, state] = drawn(random, answers, share)
        cells["word", "payment_method", method] = answers
    total = sum(count for key, count in cells.items() if key[0] == "share" and key[3] == "answers")
    failed = drawn(random, total, 0.03 if random.random() < 0.05 else 0.002)
    cells["failure", "ServiceError", "503"] = cells["text", "503", "please", "retry"] = failed
    cells["share", "2", "any method", "answers"] = total + failed
    cells["share", "2", "any method", "ends with ServiceError"] = failed
    cells["answers",] = total + failed
    cells["envelope", "200", "success boolean, data object", "application/json", "no charset", "identity"] = total
    cells["header", "content-type"] = cells["header", "date"] = total + failed
    for name in DOCUMENTED:
        cells["field", name, "integer" if name in ("amount", "fee", "amount_received") else "text"] = total
    cells["text", "503", *(f"<mixed:{random.randint(1, 32)}>" for _ in range(4))] = failed
    cells.update({("word", "status", state): round(total * share) for state, share in STATES.items()})
    for state in ("any state", *STATES):
        cells["relation", "amount = fee + amount_received", state, "held"] = round(total * STATES.get(state, 1))
    for before, after, share in (("Pending", "Paid", 0.03), ("Pending", "Expired", 0.01), ("Paid", "Canceled", 5e-4)):
        count = drawn(random, total, share)
        cells["transition", before, after] = cells["took", before, after, "under a day"] = count
    return {key: count for key, count in cells.items() if count}


def night(day, random, *, version="1.0", goldens=(), plant=None):
    """Return the run of *day*; *plant* may change its counts."""
    at = BEGAN + timedelta(days=day)
    minute = int(at.timestamp()) // 60
    cells = counts(day, random)
    if plant is not None:
        plant(cells, random)
    profile = bounded({key: (count, minute + 14) for key, count in cells.items()})
    side = Side(payclient=version, environment="live", transport="fast")
    return f"night-{day:03}", Contract(at=at, side=side, profile=profile, golden=goldens, salt=SALT)


def nights(count, random):
    """Return the runs of *count* quiet nights; from the 150th on, another version of payclient asks."""
    return [night(day, random, version="1.0" if day < 150 else "1.1", goldens=golden()) for day in range(count)]
