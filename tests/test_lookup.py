"""The account of one lookup: what bounds it, and what it says about where the time went."""

from __future__ import annotations

import asyncio

import pytest

from payclient import Attempt, AttemptTimeoutError, DeadlineExceededError, ServiceError
from payclient._lookup import Lookup
from payclient.policies._timeouts import Clock

pytestmark = pytest.mark.virtual_time


def make(*, until=None, budget=None, observers=()):
    return Lookup("R", clock=Clock(asyncio.get_running_loop()), until=until, budget=budget, observers=observers)


async def spend(lookup, *phases):
    """Spend the given seconds in each phase."""
    for phase, seconds in phases:
        with lookup.phase(phase):
            await asyncio.sleep(seconds)
    return "done"


async def exceeded(lookup, *phases):
    with pytest.raises(DeadlineExceededError) as caught:
        await spend(lookup, *phases)
    return caught.value


@pytest.mark.parametrize(
    ("until", "budget"),
    [(None, None), (11.0, None), (None, 10.0)],
    ids=["none", "until", "budget"],
)
async def test_in_time(until, budget):
    """A block that finishes in time is not ended."""
    lookup = make(until=until, budget=budget)
    assert await spend(lookup, ("attempts", 9), ("backoff", 0.5)) == "done"


async def test_until_covers_the_queue():
    """A lookup with a deadline ends at it, in every phase."""
    error = await exceeded(make(until=10.0), ("queued", 4), ("attempts", 3), ("queued", 100))
    assert error.seconds == {"queued": 7, "attempts": 3, "backoff": 0}


async def test_budget_excludes_the_queue():
    """A budget is for attempts and back-off together; the queue takes nothing from it, before or between them."""
    lookup = make(budget=10.0)
    error = await exceeded(
        lookup,
        ("queued", 50),
        ("attempts", 4),
        ("backoff", 3),
        ("queued", 100),
        ("attempts", 1),
        ("backoff", 100),
    )
    assert error.seconds == {"queued": 150, "attempts": 5, "backoff": 5}


async def test_message():
    """The error says how many attempts there were, where the time went, and what failed last."""
    lookup = make(until=10.0)
    lookup.attempts, lookup.last_error = 2, ServiceError("down")
    error = await exceeded(lookup, ("queued", 1), ("attempts", 2.25), ("backoff", 100))
    expected = "no answer within the deadline after 2 attempts (queued 1.0 s, attempts 2.2 s, backoff 6.8 s)"
    assert (str(error), error.attempts, error.__cause__) == (expected, 2, lookup.last_error)


@pytest.mark.parametrize("bounds", [{}, {"until": 10.0}, {"budget": 10.0}], ids=["none", "until", "budget"])
async def test_attempt_is_bounded(bounds):
    """A piece of work may take no longer than it is given, and after that the lookup goes on."""
    lookup = make(**bounds)
    with pytest.raises(AttemptTimeoutError, match=r"no whole answer within 2\.5 s"):
        with lookup.phase("attempts", at_most=2.5):
            await asyncio.sleep(100)
    assert (lookup.clock.now(), await spend(lookup, ("attempts", 7))) == (2.5, "done")


@pytest.mark.parametrize("at_most", [10.0, 11.0], ids=["as-long", "longer"])
async def test_the_lookup_ends_first(at_most):
    """A phase with more time than the lookup ends with the lookup's deadline."""
    with pytest.raises(DeadlineExceededError):
        with make(until=10.0).phase("attempts", at_most=at_most):
            await asyncio.sleep(100)


@pytest.mark.parametrize("at_most", [None, 2.5], ids=["deadline", "attempt"])
async def test_no_context(at_most):
    """The error of a time-out carries nothing of the work that was cancelled, whose frames may hold the request."""
    with pytest.raises((DeadlineExceededError, AttemptTimeoutError)) as caught:
        with make(until=10.0).phase("attempts", at_most=at_most):
            await asyncio.sleep(100)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


async def test_time_that_is_over():
    """When the time is over already, what is begun ends at its first wait."""
    lookup = make(until=10.0)
    await asyncio.sleep(11)
    await exceeded(lookup, ("attempts", 1))
    assert lookup.clock.now() == 11


async def test_remaining_time_ends_with_the_lookup():
    """A lookup waits for a pause no longer than until its own end."""
    lookup = make(until=10.0)
    await asyncio.sleep(4)
    assert lookup.remaining_time(900.0) == 6.0


@pytest.mark.parametrize("budget", [None, 5.0], ids=["unbounded", "budget"])
async def test_remaining_time_without_an_end(budget):
    """A lookup without a deadline waits up to `max_retry_after`, because a pause does not use its budget."""
    assert make(budget=budget).remaining_time(900.0) == 900.0


async def test_foreign_timeout():
    """A `TimeoutError` of the work's own is not taken for the end of the time."""
    with pytest.raises(TimeoutError, match="mine") as caught, make(until=10.0).phase("attempts"):
        raise TimeoutError("mine")
    assert type(caught.value) is TimeoutError


async def test_error_of_the_work():
    """Exceptions in a phase propagate unchanged, also another deadline."""
    error = DeadlineExceededError("theirs")
    with pytest.raises(DeadlineExceededError) as caught, make(until=10.0).phase("attempts"):
        raise error
    assert caught.value is error


async def test_tell():
    """Every observer gets every record, one that came later too."""
    one, other = [], []
    lookup = make(observers=(one.append,))
    lookup.observe(other.append)
    record = Attempt(reference="R", number=1, status=200, seconds=0.1, error=None)
    lookup.tell(record)
    assert (one, other) == ([record], [record])
