"""The roll of the workers that share a key."""

import pytest

from payclient.engines._roll import SIGNS_EVERY, Roll


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def roll(clock):
    """Give a roll that is no longer new."""
    roll = Roll(clock)
    clock.now += 100 * SIGNS_EVERY
    return roll


def test_living(roll):
    """Each worker hears how many have signed, and counts once."""
    assert [roll.sign(worker, 1) for worker in ("a", "b", "a", "c")] == [1, 2, 2, 3]


def test_struck_off(roll, clock):
    """Who has not signed three times in a row is struck off, and not before."""
    roll.sign("a", 2)
    heard = []
    for _ in range(4):
        heard.append(roll.sign("b", 2))
        clock.now += SIGNS_EVERY
    assert heard == [2, 2, 2, 1]


def test_back(roll, clock):
    """Who signs again counts again."""
    roll.sign("a", 2)
    clock.now += 100 * SIGNS_EVERY
    assert (roll.sign("b", 2), roll.sign("a", 2)) == (1, 2)


def test_new(clock):
    """While the roll is new, those who ought to be there are counted, so that the first does not take everything."""
    roll = Roll(clock)
    assert roll.sign("a", 4) == 4
    clock.now += 3 * SIGNS_EVERY
    assert roll.sign("a", 4) == 1


def test_more_than_expected(clock):
    """More than were expected are believed at once."""
    roll = Roll(clock)
    assert [roll.sign(worker, 2) for worker in "abc"] == [2, 2, 3]
