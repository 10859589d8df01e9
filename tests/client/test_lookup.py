"""The account of one lookup: what bounds it, and what it says about where the time went."""

import asyncio
import math

import pytest

from payclient import (
    Attempt,
    AttemptTimeoutError,
    DeadlineExceededError,
    OutageError,
    RejectedError,
    ServiceError,
    TransactionNotFoundError,
)
from payclient.client._lookup import Lookup, LookupPhase, is_believed
from payclient.client.policies._timeouts import Clock
from payclient.transports import Progress

pytestmark = pytest.mark.virtual_time


def make(*, until=math.inf, budget=None, observers=()):
    return Lookup("R", clock=Clock(asyncio.get_running_loop()), until=until, budget=budget, observers=observers)


async def spend(lookup, *phases):
    """Spend the given seconds in each phase."""
    for phase, seconds in phases:
        with LookupPhase(lookup, phase):
            await asyncio.sleep(seconds)
    return "done"


async def exceeded(lookup, *phases):
    with pytest.raises(DeadlineExceededError) as caught:
        await spend(lookup, *phases)
    return caught.value


@pytest.mark.parametrize(
    ("until", "budget"), [(math.inf, None), (11.0, None), (math.inf, 10.0)], ids=["none", "until", "budget"]
)
async def test_in_time(until, budget):
    """A block that finishes in time is not ended."""
    lookup = make(until=until, budget=budget)
    assert await spend(lookup, ("attempts", 9), ("backoff", 0.5)) == "done"


async def test_rejected_once():
    """An outage does not reject a lookup again in the turn in which it has rejected it: its task is cancelled once."""
    lookup = make(until=10.0)
    lookup.is_rejectable = True
    task = asyncio.create_task(spend(lookup, ("queued", 100)))
    await asyncio.sleep(1)
    assert lookup.rejected_at(0.5) == -math.inf
    lookup.reject(OutageError("the service is down", sent="no"))
    assert lookup.rejected_at(0.5) == math.inf
    with pytest.raises(OutageError):
        await task
    assert task.cancelling() == 0


async def test_until_covers_the_queue():
    """A lookup with a deadline ends at it, in every phase."""
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
    expected += "; the last failure was ServiceError: down"
    assert (str(error), error.attempts, error.__cause__) == (expected, 2, lookup.last_error)


@pytest.mark.parametrize("bounds", [{}, {"until": 10.0}, {"budget": 10.0}], ids=["none", "until", "budget"])
async def test_attempt_is_bounded(bounds):
    """A piece of work may take no longer than it is given, and after that the lookup goes on."""
    lookup = make(**bounds)
    with pytest.raises(AttemptTimeoutError, match=r"no whole answer within 2\.5 s"):
        with LookupPhase(lookup, "attempts", at_most=2.5):
            await asyncio.sleep(100)
    assert (lookup.clock.now(), await spend(lookup, ("attempts", 7))) == (2.5, "done")


@pytest.mark.parametrize("at_most", [10.0, 11.0], ids=["as-long", "longer"])
async def test_the_lookup_ends_first(at_most):
    """A phase with more time than the lookup ends with the lookup's deadline."""
    with pytest.raises(DeadlineExceededError):
        with LookupPhase(make(until=10.0), "attempts", at_most=at_most):
            await asyncio.sleep(100)


@pytest.mark.parametrize("at_most", [None, 2.5], ids=["deadline", "attempt"])
async def test_no_context(at_most):
    """The error of a time-out carries nothing of the work that was cancelled, whose frames may hold the request."""
    with pytest.raises((DeadlineExceededError, AttemptTimeoutError)) as caught:
        with LookupPhase(make(until=10.0), "attempts", at_most=at_most):
            await asyncio.sleep(100)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


async def test_time_that_is_over():
    """When the time is over already, what is begun ends at its first wait."""
    lookup = make(until=10.0)
    await asyncio.sleep(11)
    await exceeded(lookup, ("attempts", 1))
    assert lookup.clock.now() == 11


async def test_notify():
    """Every observer gets every record, one that came later too."""
    one, other = [], []
    lookup = make(observers=(one.append,))
    lookup.add_observer(other.append)
    record = Attempt(reference="R", number=1, status=200, seconds=0.1, error=None)
    lookup.notify(record)
    assert (one, other) == ([record], [record])


@pytest.mark.parametrize(
    ("at_most", "expected"),
    [
        (None, "no answer within the deadline after 0 attempts{} (queued 0.0 s, attempts 10.0 s, backoff 0.0 s){}"),
        (2.5, "no whole answer within 2.5 s{}{}"),
    ],
    ids=["deadline", "attempt"],
)
@pytest.mark.parametrize(("proxy", "through"), [("", ""), ("proxy:1", " through the proxy proxy:1")], ids=["", "proxy"])
async def test_where_it_ended(at_most, expected, proxy, through):
    """The error of a time-out says through which proxy, how far and with whom the attempt had come."""
    progress = Progress(proxy)
    progress.step, progress.address = "connect", "192.0.2.7:443"
    with pytest.raises((DeadlineExceededError, AttemptTimeoutError)) as caught:
        with LookupPhase(make(until=10.0), "attempts", at_most=at_most):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError as error:
                progress.attach_to(error)
                raise
    assert str(caught.value) == expected.format(through, " [step connect, 192.0.2.7:443]")
    assert getattr(caught.value, "sent", "no") == "no"


async def test_headers_of_an_observer():
    """The headers of an observer are sent; one without any, such as a function, has none."""
    lookup, found = make(), []
    for observer in (type("", (), {"headers": {"traceparent": "00"}, "__call__": print})(), print):
        lookup.add_observer(observer)
        found.append(lookup.headers)
    assert found == [{"traceparent": "00"}, None]


NOT_FOUND, BARE = TransactionNotFoundError("x"), TransactionNotFoundError("x", is_conclusive=False)
REJECTED = RejectedError("x")


async def test_is_believed(subtests):
    """A refusal that may be of another request is believed from a fresh connection, a bare "not found" from two."""
    cases = {
        "not-final": (ServiceError("x"), None, False, True),
        "fresh": (NOT_FOUND, None, True, True),
        "reused": (NOT_FOUND, None, False, False),
        "second": (NOT_FOUND, (REJECTED, False), False, True),
        "rejected-reused": (REJECTED, None, False, False),
        "rejected-fresh": (REJECTED, None, True, True),
        "bare-once": (BARE, None, True, False),
        "bare-twice": (BARE, (BARE, True), True, True),
        "bare-first-reused": (BARE, (BARE, False), True, False),
        "bare-no-connections": (BARE, (BARE, False), False, True),
        "bare-after-another": (BARE, (REJECTED, True), True, False),
    }
    for case, (error, unconfirmed, is_fresh, expected) in cases.items():
        with subtests.test(case):
            assert is_believed(error, unconfirmed, is_fresh=is_fresh) is expected


async def test_error_of_the_work():
    """Exceptions in a phase propagate unchanged, also another deadline."""
    error = DeadlineExceededError("theirs")
    with pytest.raises(DeadlineExceededError) as caught, LookupPhase(make(until=10.0), "attempts"):
        raise error
    assert caught.value is error
