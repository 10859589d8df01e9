"""Where a statement lists a reference."""

from __future__ import annotations

from payclient.reconcile import Settled
from payclient.reconcile.values._settled import named_lines


def test_named_lines():
    """Lines are named as people write them, and of very many the first twenty."""
    assert named_lines([2]) == "line 2"
    assert named_lines([2, 7]) == "lines 2 and 7"
    assert named_lines(range(2, 32)).endswith("20, 21 and 10 more")


def test_where():
    """What is settled says on which lines of the statement."""
    assert Settled(lines=(3, 4)).where == "lines 3 and 4 of the statement"
