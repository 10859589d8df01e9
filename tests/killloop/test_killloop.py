"""The short version of the kill loop."""

import os

import pytest

from killloop.child import CONCURRENCY
from killloop.loop import kill_often

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a kill without a warning is that of POSIX")


@pytest.mark.slow
def test_kills():
    """A run that is killed at any instant and resumed loses nothing, and makes the same report."""
    tally = kill_often(30, 2, rows=100)
    assert (tally.problems, tally.lost, len(tally.kills) >= 30) == ([], 0, True)
    assert max(kill.repeats for kill in tally.kills) <= CONCURRENCY
    assert {"asking", "writing"} <= {kill.phase for kill in tally.kills}
