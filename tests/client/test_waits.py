"""Wait for a transaction: what others got wrong, each as a test; and what a client adds to the rules of a wait."""

import asyncio
import copy
import pickle

import attrs
import pytest

from payclient import (
    ConfigurationError,
    CouldNotAskError,
    InvalidReferenceError,
    RateLimitedError,
    WaitDeadlineError,
    WaitUnansweredError,
)
from payclient.protocol import masked
from support.fakes import DOWN, NOT_FOUND, answer, client, now, throttled, timeline

pytestmark = pytest.mark.virtual_time

PAID = {"Paid"}
REJECTED = answer(b'{"success": false, "message": "the amount is missing"}', 422)
REFUSED = answer(b'{"success": false, "message": "invalid key"}', 401)


def paid_at(seconds):
    return timeline({"T1": [(0, "Pending"), (seconds, "Paid")]})


async def fails(waiting, kind):
    with pytest.raises(kind) as caught:
        await waiting
    return caught.value


# What others got wrong


async def test_waits_for_ever_by_default(subtests):
    """A wait has a deadline: it must be given, and it is a number of seconds."""
    for deadline in (None, 0, -1, float("inf"), float("nan"), "900", True):
        with subtests.test(deadline=deadline):
            pay = client(timeline())
            with pytest.raises(TypeError, match="deadline"):
                await pay.wait_for("T1", until=PAID)
            with pytest.raises(ConfigurationError, match="deadline must be a number of seconds above 0"):
                await pay.wait_for("T1", until=PAID, deadline=deadline)


@pytest.mark.parametrize("latency", [0.1, 4.0, 1000.0])
async def test_timeout_bounds_each_request_and_not_the_wait(latency):
    """The deadline bounds the wait, whatever a single attempt takes and however many there are."""
    transport = timeline(latency=latency)
    await fails(client(transport, timeout=7.0).wait_for("T1", until=PAID, deadline=60.0), WaitDeadlineError)
    assert (now(), transport.in_flight) == (pytest.approx(60.0, abs=0.01), 0)


@pytest.mark.parametrize(
    "unless", [{"Canceled"}, lambda transaction: transaction.status == "Canceled"], ids=["statuses", "predicate"]
)
async def test_terminal_failure_state_and_nothing_else(unless):
    """The error says which reference, what the service stated last, how often it was asked, and what was seen when."""
    transport = timeline({"T1": [(0, "Pending"), (20, "Canceled")]})
    error = await fails(client(transport).wait_for("T1", until=PAID, unless=unless, deadline=900.0), Exception)
    assert str(error) == "'T1' is 'Canceled', so the awaited status is out of reach"
    assert (error.transaction.reference, error.transaction.status) == ("T1", "Canceled")
    assert error.lookups == len(transport.times())
    assert error.waited == pytest.approx(now())
    assert error.statuses == {"Pending": pytest.approx(0.1), "Canceled": pytest.approx(now())}


async def test_error_masks_the_payment_code():
    """The transaction of an error is the one of the service, and no form of the error has its payment code."""
    transport = timeline()
    pay = client(transport)
    stated = await pay.get_transaction("T1")
    error = await fails(pay.wait_for("T1", until=PAID, deadline=10.0), WaitDeadlineError)
    assert stated.payment_code.endswith("1234")
    assert error.transaction == attrs.evolve(stated, payment_code=masked(stated.payment_code))
    for duplicate in (error, copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert vars(duplicate) == vars(error)
        shown = (repr(duplicate), str(duplicate), repr(vars(duplicate)), str(duplicate.transaction.as_json()))
        kept = (repr(dict(duplicate.transaction.raw)), str(pickle.dumps(duplicate)))
        assert [text for text in (*shown, *kept) if stated.payment_code in text] == []


# How a wait ends


async def test_outage():
    """An outage in the middle is waited out."""
    transport = timeline({"T1": [(0, "Pending"), (10, DOWN), (200, "Paid")]})
    await client(transport).wait_for("T1", until=PAID, deadline=900.0)
    assert 200 < now() < 240


async def test_outage_to_the_end():
    """The error of a deadline has the last failure as its cause, and what was seen before."""
    transport = timeline({"T1": [(0, "Pending"), (10, DOWN)]})
    error = await fails(client(transport).wait_for("T1", until=PAID, deadline=100.0), WaitUnansweredError)
    assert (error.__cause__.status_code, error.transaction.status) == (503, "Pending")
    text = f"'T1' is 'Pending' after 100 s and {error.lookups} lookups, and at the end the service could not be asked"
    assert (str(error), error.is_retryable, error.is_first) == (text, True, True)


RARELY = {"interval": 45.0, "max_interval": 45.0}


@pytest.mark.parametrize(
    ("statuses", "terms", "latency", "http_status"),
    [
        ([], {}, 0.1, 409),
        ([(0, NOT_FOUND)], {"appear": 900.0}, 0.1, 409),
        ([(0, DOWN), (10, "Pending")], {}, 0.1, 409),
        ([(0, DOWN)], {}, 0.1, 503),
        ([(0, "Pending"), (10, DOWN)], RARELY, 0.1, 503),
        ([(0, "Pending"), (10, DOWN)], {**RARELY, "deadline": 45.5}, 0.1, 503),
        ([], {"deadline": 5.0}, 1000.0, 503),
        ([], {}, 1000.0, 503),
    ],
    ids=["answered", "not found", "back", "down", "down at last", "down as it ends", "silent", "silent for long"],
)
async def test_web_answer(statuses, terms, latency, http_status):
    """A wait is a 503 with `Retry-After` if its last lookup had no answer, and a 409 if it was answered."""
    transport = timeline({"T1": statuses}, latency=latency)
    waiting = client(transport).wait_for("T1", **{"until": PAID, "deadline": 60.0, **terms})
    error = await fails(waiting, WaitDeadlineError)
    could_not_ask = isinstance(error, CouldNotAskError)
    headers = {"Retry-After": "5"} if could_not_ask else {}
    assert (could_not_ask, error.http_status, error.http_headers) == (http_status == 503, http_status, headers)
    assert isinstance(error.__cause__, CouldNotAskError) == could_not_ask


async def test_pause_stops_every_poll():
    """A pause that the service asks for stops the polls of all waits, no matter which was told."""
    transport = timeline({"T1": [(0, "Pending"), (5, throttled(250)), (500, "Pending")]})
    pay = client(transport)
    waits = [pay.wait_for(f"T{number}", until=PAID, deadline=700.0) for number in range(1, 30)]
    await asyncio.gather(*waits, return_exceptions=True)
    told = next(at for at in transport.times("T1") if at + transport.latency >= 5) + transport.latency
    assert [at for at in transport.times() if told < at < told + 250 - 1e-6] == []
    assert max(transport.times()) > told + 250


async def test_pause_beyond_the_longest():
    """A pause longer than a lookup would wait is waited out as long as the wait itself has time."""
    transport = timeline({"T1": [(0, throttled(2000)), (1, "Paid")]})
    assert (await client(transport).wait_for("T1", until=PAID, deadline=5000.0)).status == "Paid"
    assert len(transport.sent) == 2


async def test_pause_beyond_the_deadline():
    """A pause that ends after the deadline ends the wait at its deadline, with the pause as cause."""
    transport = timeline({"T1": [(0, throttled(2000))]})
    error = await fails(client(transport).wait_for("T1", until=PAID, deadline=900.0), WaitUnansweredError)
    assert (now(), type(error.__cause__)) == (pytest.approx(900.0), RateLimitedError)


async def test_no_reference():
    """What cannot be a reference is refused before anything is sent."""
    await fails(client(timeline()).wait_for(" ", until=PAID, deadline=900.0), InvalidReferenceError)


# What a client adds


async def test_views_share_polls():
    """All views of a client share the polls for one reference."""
    transport = paid_at(60)
    pay = client(transport)
    views = [pay, *(pay.with_options(timeout=5.0 + number) for number in range(20))]
    alone = paid_at(60)
    await client(alone).wait_for("T1", until=PAID, deadline=900.0)
    found = await asyncio.gather(*(view.wait_for("T1", until=PAID, deadline=900.0) for view in views))
    assert {transaction.status for transaction in found} == {"Paid"}
    assert len(transport.sent) <= len(alone.sent) + 2  # the jitter of the quickest counts


async def test_polls_are_observed():
    """Polls are attempts like others: counted, and told to `on_attempt`."""
    attempts = []
    pay = client(paid_at(20), on_attempt=attempts.append)
    await pay.wait_for("T1", until=PAID, deadline=900.0)
    assert len(attempts) == pay.stats.attempts == pay.stats.lookups > 3
