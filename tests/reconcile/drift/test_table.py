"""Tables of counts are merged in any order, and stay small."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile.drift._profile import KINDS, MAX_BYTES, Table, bounded, table_from_json

cells = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.text("abc", min_size=1, max_size=3)),
    st.tuples(st.integers(1, 9), st.integers(0, 9)),
    max_size=12,
)


def flood(begin, end):
    """Return a table with many long names; three of them do not fit into one."""
    return bounded({("name", f"{number:0200}"): (1, number) for number in range(begin, end)})


@given(cells, cells, cells)
def test_merging(one, two, three):
    """The order of merging changes nothing, and nothing is lost."""
    a, b, c = Table(one), Table(two), Table(three)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Table() == a
    assert sum(count for count, _ in (a + b).cells.values()) == sum(
        count for each in (one, two) for count, _ in each.values()
    )


def test_merging_of_large_tables():
    """The laws hold where cells are left out, and those that stay have exact counts."""
    a, b, c = flood(0, 250), flood(100, 350), flood(200, 450)
    together = (a + b) + c
    assert together == a + (b + c) == (c + a) + b
    assert len(together.cells) < 450
    assert all(
        count == sum(begin <= int(key[1]) < begin + 250 for begin in (0, 100, 200))
        for key, (count, _) in together.cells.items()
    )


def test_size():
    """A table has at most 64 KiB as JSON, and the names that a flood brings are the first to go."""
    table = flood(0, 3_000) + Table({("answers",): (3_000, 0), ("word", "status", "Paid"): (3_000, 0)})
    text = json.dumps(table.as_json(), separators=(",", ":"))
    assert MAX_BYTES - 6_000 < len(text) <= 64 * 1024
    assert table.answers == table.cells["word", "status", "Paid"][0] == 3_000


@given(cells)
def test_json(one):
    """A table is the same after JSON."""
    table = Table(one)
    assert table_from_json(json.loads(json.dumps(table.as_json()))) == table
    cut = flood(0, 450)
    assert table_from_json(cut.as_json()) == cut
