"""A key of a TOML file is found on the line where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.reconcile._toml_lines import line_of

TEXT = '''# rules
zone = "Asia/Jakarta"

[tolerances.amount]
below = 500   # whole units

above = 1
[tolerances]
fee = { above = 1, below = 2 }
"amount received".above = 3

[[accepted]]
code = "a"
reason = """
code = "b"
[tolerances.x]
"""
owner = "Ana"

[[accepted]]
code = "b"
list = [
  1,
  { x = 2 },
]
[accepted.more]
z = 1
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("zone",), 2),
        (("tolerances",), 4),
        (("tolerances", "amount"), 4),
        (("tolerances", "amount", "below"), 5),
        (("tolerances", "amount", "above"), 7),
        (("tolerances", "fee"), 9),
        (("tolerances", "fee", "below"), 9),
        (("tolerances", "amount received", "above"), 10),
        (("accepted",), 12),
        (("accepted", 0, "code"), 13),
        (("accepted", 0, "reason"), 14),
        (("accepted", 0, "owner"), 18),
        (("accepted", 1), 20),
        (("accepted", 1, "code"), 21),
        (("accepted", 1, "list"), 22),
        (("accepted", 1, "list", 1, "x"), 22),
        (("accepted", 1, "more", "z"), 27),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line(key, line, end):
    """Headers, dotted keys, inline tables and values of several lines are on the line where they begin."""
    assert line_of(TEXT.replace("\n", end), key) == line


@pytest.mark.parametrize(
    ("key", "line"), [(("accepted", 1, "owner"), 20), (("tolerances", "fee", "x", "y"), 9), (("zone", "x"), 2)]
)
def test_missing(key, line):
    """A key that is not there is where the table around it begins."""
    assert line_of(TEXT, key) == line


@pytest.mark.parametrize("key", [(), ("nothing",), ("accepted ", 0)])
def test_nowhere(key):
    """What is in no table has no line."""
    assert line_of(TEXT, key) == 0


@given(before=st.lists(st.sampled_from(["", "# x", "a = 1"]), max_size=40), after=st.integers(0, 40))
def test_anywhere(before, after):
    """However much stands before and behind it, a key is found on its own line."""
    lines = [f"{line.replace('a', f'a{place}')}" for place, line in enumerate(before)]
    text = "\n".join([*lines, "key = 1", *["# y"] * after])
    assert line_of(text, ("key",)) == len(lines) + 1
