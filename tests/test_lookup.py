"""The account of one lookup: what bounds it, and what it says about where the time went."""

from __future__ import annotations

import asyncio

import pytest

from payclient import Attempt, DeadlineExceededError, ServiceError
from payclient._lookup import Lookup

pytestmark = pytest.mark.virtual_time


def make(*, until=None, budget=None, observers=()):
    return Lookup("R", until=until, budget=budget, observers=observers)


def spend(lookup, *phases):
    """Return work that spends so many seconds in each phase, and then is done."""

    async def work():
        for phase, seconds in phases:
            lookup.enter(phase)
            await asyncio.sleep(seconds)
        return "done"

    return work


async def exceeded(lookup, *phases):
    with pytest.raises(DeadlineExceededError) as caught:
        await lookup.within_budget(spend(lookup, *phases))
    return caught.value


@pytest.mark.parametrize(
    ("until", "budget"), [(None, None), (11.0, None), (None, 10.0)], ids=["none", "until", "budget"]
)
async def test_in_time(until, budget):
    """Work that is done in time gives what it returns."""
    lookup = make(until=until, budget=budget)
    assert await lookup.within_budget(spend(lookup, ("attempts", 9), ("backoff", 0.5))) == "done"


async def test_until_covers_the_queue():
    """A lookup with a moment to end at ends there, in whatever phase it is."""
    error = await exceeded(make(until=10.0), ("queued", 4), ("attempts", 3), ("queued", 100))
    assert error.seconds == {"queued": 7, "attempts": 3, "backoff": 0}


async def test_budget_excludes_the_queue():
    """A budget is for attempts and back-off together; the queue takes nothing from it, before or between them."""
    lookup = make(budget=10.0)
    error = await exceeded(
        lookup, ("queued", 50), ("attempts", 4), ("backoff", 3), ("queued", 100), ("attempts", 1), ("backoff", 100)
    )
    assert error.seconds == {"queued": 150, "attempts": 5, "backoff": 5}


async def test_message():
    """The error says how many attempts there were, where the time went, and what failed last."""
    lookup = make(until=10.0)
    lookup.attempts, lookup.last_error = 2, ServiceError("down")
    error = await exceeded(lookup, ("queued", 1), ("attempts", 2.25), ("backoff", 100))
    expected = "no answer within the deadline after 2 attempts (queued 1.0 s, attempts 2.2 s, backoff 6.8 s)"
    assert (str(error), error.attempts, error.__cause__) == (expected, 2, lookup.last_error)


async def test_enter():
    """A phase that ends says how long it was."""
    lookup = make()
    await asyncio.sleep(3)
    assert [lookup.enter("attempts"), lookup.enter("backoff")] == [3.0, 0.0]


async def test_patience_ends_with_the_lookup():
    """A lookup waits for a pause no longer than until its own end."""
    lookup = make(until=10.0)
    await asyncio.sleep(4)
    assert lookup.patience(900.0) == 6.0


@pytest.mark.parametrize("budget", [None, 5.0], ids=["unbounded", "budget"])
async def test_patience_without_an_end(budget):
    """A lookup that need not end at any moment waits as long as the policy says, for a pause is no part of a budget."""
    assert make(budget=budget).patience(900.0) == 900.0


async def test_foreign_timeout():
    """A `TimeoutError` of the work's own is not taken for the end of the time."""

    async def work():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine") as caught:
        await make(until=10.0).within_budget(work)
    assert type(caught.value) is TimeoutError


async def test_error_of_the_work():
    """An error of the lookup comes out as itself, a deadline of somebody else's too."""
    error = DeadlineExceededError("theirs")

    async def work():
        raise error

    with pytest.raises(DeadlineExceededError) as caught:
        await make(until=10.0).within_budget(work)
    assert caught.value is error


async def test_tell():
    """Every observer gets every record."""
    one, other = [], []
    lookup = make(observers=(one.append, other.append))
    record = Attempt(reference="R", number=1, status=200, seconds=0.1, error=None)
    lookup.tell(record)
    assert (one, other) == ([record], [record])
