"""The four smallest pieces, in every order in which their tasks can run."""

from functools import partial

import pytest

from simulation.controls import CONTROLS
from simulation.schedules import equal_lookups, explore, hand_over, limiter_queue, shared_timer

MOST = 30_000

PIECES = {
    "queue": limiter_queue,
    "queue, two cancelled": partial(limiter_queue, (0, 1)),
    "queue, closed": partial(limiter_queue, (), closes=True),
    "equal lookups, first cancelled": equal_lookups,
    "equal lookups, first fails": partial(equal_lookups, "fails"),
    "equal lookups": partial(equal_lookups, "succeeds"),
    "timer": shared_timer,
    "timer, none cancelled": partial(shared_timer, ()),
    "stream, read": hand_over,
    "stream, left": partial(hand_over, "leave"),
    "stream, cancelled": partial(hand_over, "cancel"),
}


LONG = frozenset({"equal lookups", "equal lookups, first cancelled", "equal lookups, first fails"})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PIECES]
)
def test_every_order(name):
    """In no order is anything lost, left behind or done twice."""
    explored = explore(PIECES[name], most=MOST)
    assert (explored.problems, explored.is_complete) == ({}, True)
    assert explored.schedules > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "guard"),
    [
        ("queue", "a slot that was granted and cancelled is given back"),
        ("queue", "a lookup that has left the queue is granted no slot"),
        ("queue", "slots are bounded by the limit"),
        ("equal lookups, first cancelled", "those who wait are woken when a call was cancelled"),
        ("equal lookups, first fails", "a failed call is no longer in flight"),
        ("timer", "the timer goes on to the next time-out"),
        ("timer", "an earlier time-out moves the timer"),
        ("stream, left", "the workers of a stream end with its block"),
        ("stream, read", "the last worker wakes the reader"),
    ],
)
def test_sees_a_missing_guard(piece, guard):
    """Without a guard, some order shows why it is there."""
    (control,) = [control for control in CONTROLS if control.name == guard]
    with control.removed():
        assert explore(PIECES[piece], most=MOST).problems != {}
