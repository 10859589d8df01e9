"""The short version of the kill loop."""

from __future__ import annotations

import os

import pytest

from killloop.child import CONCURRENCY
from killloop.loop import kill_often

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a kill without a warning is that of POSIX")


@pytest.mark.parametrize(("kills", "rows"), [(3, 60), pytest.param(30, 100, marks=pytest.mark.slow)])
def test_kills(kills, rows):
    """A run that is killed at any instant and resumed loses nothing, and makes the same report."""
    tally = kill_often(kills, 2, rows=rows)
    assert (tally.problems, tally.lost, len(tally.kills) >= kills) == ([], 0, True)
    assert max(kill.repeats for kill in tally.kills) <= CONCURRENCY
    assert {"asking", "writing"} <= {kill.phase for kill in tally.kills}
