"""The sample of rows that are looked up again."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

from payclient.reconcile.nights import Recheck
from payclient.reconcile.report._past_run import MATCHED_TABLE, Selection, temporary_database
from payclient.reconcile.report._rows_file import RowLine

START = datetime(2026, 11, 1, 2, tzinfo=UTC)


def line(reference, at, amount, **matched):
    row = {
        "reference": reference,
        "findings": [],
        "observed_at": at.isoformat(),
        "confirmed_at": None,
        "service": {"amount": amount},
    }
    row |= {"matched": {"at": at.isoformat(), **matched}} if matched else {}
    return RowLine(reference, "matched", row, json.dumps(row).encode())


def select(rows, remembered, *, since, sample, seed=0, salt="", listed=()):
    """Return the rows that are looked up again, and what is remembered."""
    with temporary_database(MATCHED_TABLE) as database:
        recheck = Recheck(max_age=timedelta(days=20), sample=sample, seed=seed)
        started = since + timedelta(days=20)
        selection = Selection(database, recheck, started, salt, set(listed).__contains__)
        selection.add_rows(rows)
        selection.add_remembered(iter(remembered))
        found = list(selection.chosen())
        kept = [selection.header.encode(), *(text for _, text, again in found if not again)]
        return {reference: text for reference, text, again in found if again}, kept


def _read(chosen):
    return [(reference, json.loads(text)) for reference, text in chosen.items()]


def _at(row):
    return datetime.fromisoformat(row["observed_at"])


def test_many_nights():
    """Over many nights the sample has its size, the population is exact, and what is remembered stays small."""
    size, sample, days = 60, 20, 20
    rows, kept = [], []
    for night in range(30):
        at = START + timedelta(days=night)
        chosen, kept = select(rows, kept, since=at - timedelta(days=days), sample=sample, salt=str(night))
        earlier = min(night, days) * size
        assert json.loads(kept[0])["rows"] == earlier
        assert len(chosen) == min(sample, earlier)
        assert len(kept) <= days * (sample + 3 * 2) + 1
        again = [line(each, _at(row), row["service"]["amount"], is_chosen=True) for each, row in _read(chosen)]
        fresh = [line(f"N{night}-{each}", at, 10 ** (each % 3 + 2)) for each in range(size)]
        rows = [*again, *fresh]


def test_same_chance():
    """Each row has the same chance, in the small strata as in the large one, and each stratum its share."""
    rows = [line(f"S{each}", START, 100) for each in range(60)]
    rows += [line(f"L{each}", START, 10**6) for each in range(3)] + [line("X", START, 10**9)]
    counts, large = Counter(), set()
    for seed in range(400):
        chosen, _ = select(rows, [], since=START, sample=16, seed=seed)
        counts.update(chosen.keys())
        large.add(sum(reference.startswith("L") for reference in chosen))
        assert len(chosen) == 16
    assert large <= {0, 1}
    # A quarter of 400, within five standard deviations.
    assert all(57 <= counts[json.loads(row.text)["reference"]] <= 143 for row in rows), counts


def test_reproducible():
    """The same files and the same seed give the same sample, in any order of the rows; another night has another."""
    rows = [line(f"S{each}", START, 100) for each in range(500)]
    given = {"since": START, "sample": 50}
    one, other = (sorted(select(some, [], **given)[0]) for some in (rows, rows[::-1]))
    assert one == other
    assert one != sorted(select(rows, [], **given, salt="another night")[0])
    assert one != sorted(select(rows, [], **given, seed=1)[0])
    everything, kept = select(rows, [], since=START, sample=None)
    assert (len(everything), len(kept)) == (500, 1)
    assert not select(rows, [], since=START + timedelta(days=1), sample=None)[0]


def test_larger_later():
    """A sample that is larger than that of earlier nights is in proportion to what these remember."""
    rows = [line(f"S{each}", START, 100) for each in range(400)]
    first, kept = select(rows, [], since=START, sample=20)
    again = [line(each, START, 100, is_chosen=True) for each in first]
    fresh = [line(f"T{each}", START + timedelta(days=1), 100) for each in range(100)]
    for sample in (200, None):
        chosen, _ = select([*again, *fresh], kept, since=START, sample=sample, salt="next")
        old = sum(reference.startswith("S") for reference in chosen)
        assert (old in (20, 21), len(chosen) - old in (4, 5, 6)) == (True, True), chosen.keys()
