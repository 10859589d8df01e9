"""When an outage begins and ends, and who is the probe."""

from __future__ import annotations

import math

import pytest

from payclient import errors
from payclient.client.policies import Outage, Ticket, is_answer, is_final

DOWN = "ServiceError: down"


def play(*steps):
    """
    Return an outage after *steps*.

    A step is a time, the number of an attempt and its fate: `sent`, `again` (for one reference with others),
    `answered`, `throttled`, `failed`, `cancelled` or `over` (the deadline of its lookup).
    """
    outage, tickets = Outage(), {}
    for now, number, what in steps:
        if what in ("sent", "again"):
            tickets[number] = Ticket(number, now, 1)
            outage.sent(tickets[number], f"T{number}" if what == "sent" else "T")
        elif what in ("answered", "throttled"):
            outage.answered(tickets[number], now, is_accepted=what == "answered")
        elif what == "failed":
            outage.failed(tickets[number], now, DOWN)
        else:
            outage.given_up(tickets[number], now, is_over=what == "over")
    return outage


def failing(*times, seconds=0.1, again=False):
    """Return the steps of attempts that fail *seconds* after each of *times*."""
    steps = [(at, number, "again" if again else "sent") for number, at in enumerate(times)]
    return sorted([*steps, *((at + seconds, number, "failed") for number, at in enumerate(times))])


def answer(at, seconds=0.1, number=100):
    return [(at, number, "sent"), (at + seconds, number, "answered")]


SENT = [(1.0, 0, "sent"), (1.0, 1, "sent"), (1.0, 2, "sent")]
BEGINNINGS = {
    "three fail at once: 0.8 s after they were sent": (failing(0, 0, 0), 0.8),
    "two fail: never": (failing(0, 0), math.inf),
    "one reference fails alone, nine times: never": (failing(*range(9), again=True), math.inf),
    "one reference fails alone, ten times: at once": (failing(*[0.01 * n for n in range(10)], again=True), 0.8),
    "an answer among failures: it counts from new": ([*failing(0, 0, 0), *answer(0.5)], math.inf),
    "three wait: 0.8 s after the third was sent": ([*answer(0.0), *SENT[:2], (1.5, 2, "sent")], 2.3),
    "three wait for a slow service: twice its slowest answer": ([*answer(0.0, 0.9), *SENT], 2.8),
    "a slow answer is soon forgotten": ([*answer(0, 3.0), *(step for n in range(30) for step in answer(5 + n))], None),
    "three wait, before the first answer: never": (SENT, math.inf),
    "three wait, and a throttle says nothing about time": (
        [(0.0, 9, "sent"), (0.1, 9, "throttled"), *SENT],
        math.inf,
    ),
    "three wait, and another one is answered: from that answer on": ([*SENT, *answer(1.5)], 2.4),
    "three are for one reference: never": ([*answer(0.0), (1, 0, "again"), (1, 1, "again"), (1, 2, "again")], math.inf),
    "two fail and a third waits": ([*answer(0.0), *failing(1.0, 1.0), (1.3, 7, "sent")], 2.1),
    "those that are cancelled early count for nothing": (
        [*answer(0.0), *SENT, (1.5, 0, "cancelled"), (1.5, 1, "cancelled")],
        math.inf,
    ),
    "before the first answer, those that are cancelled late do not count either": (
        [*SENT, *((3.0, n, "cancelled") for n in range(3))],
        math.inf,
    ),
    "those whose deadline ends them do": ([*SENT, *((1.5 + n, n, "over") for n in range(3))], math.inf),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_beginning(name):
    """An outage is due when three attempts for two references have failed or wait in vain, and nothing was answered."""
    steps, due_at = BEGINNINGS[name]
    outage = play(*steps)
    if due_at is None:
        assert outage.allowed == pytest.approx(0.8)
        return
    assert outage.due_at() == pytest.approx(due_at)
    outage.check(min(due_at, 1e9) - 0.001)
    assert not outage.is_on
    if due_at < math.inf:
        outage.check(due_at + 1e-9)
        assert outage.is_on


def test_late_failure_begins_it():
    """A failure that comes after the time allowed begins the outage itself, so its lookup has its own error."""
    assert play(*failing(0, 0, 0.9)).is_on
    assert play(*SENT, *((4.0, n, "over") for n in range(3))).is_on
    assert not play(*failing(0, 0, 0)).is_on


def test_answer_ends_it():
    """Any answer ends an outage, and what was learnt of failures is forgotten."""
    outage = play(*failing(0, 0, 0.9), (2.0, 9, "sent"), (2.1, 9, "throttled"))
    assert (outage.is_on, outage.last_failure, outage.seconds(3.0), outage.due_at()) == (False, "", 0.0, math.inf)


def test_probes():
    """A probe is due a second after the last attempt; one in ten seconds has the whole time-out."""
    outage, seconds = play(*failing(0, 0, 1.0)), []
    assert outage.probe_due_in(1.5) == 0.5
    for number in range(25):
        now = 2.0 + number
        assert outage.probe_due_in(now) == 0.0
        seconds.append(outage.probe(now))
        outage.sent(Ticket(10 + number, now, 1, is_probe=True), "T")
        assert outage.probe_due_in(now + 0.25) == 0.75
    assert [at for at, allowed in enumerate(seconds) if allowed == math.inf] == [10, 20]
    assert {allowed for allowed in seconds if allowed < math.inf} == {0.8}


def test_pause():
    """No probe is due before the end of a pause that came with a failure."""
    outage = play(*failing(0, 0), (1.0, 5, "sent"))
    outage.failed(Ticket(5, 1.0, 1), 1.1, DOWN, pause=7.0)
    assert (outage.is_on, outage.probe_due_in(2.1)) == (True, pytest.approx(6.0))


def test_refusal():
    """The error of a refused lookup says since when, why, when to ask again, and how many were refused."""
    outage = play(*failing(0, 0, 1.0))
    first, second = outage.refuse(1.5), outage.refuse(3.0)
    assert (first.refused, second.refused, outage.refused) == (1, 2, 2)
    assert (first.sent, first.last_failure, first.outage_seconds, first.retry_after) == ("no", DOWN, 1.5, 0.5)
    assert second.retry_after == 1.0  # one is due, but was not allowed
    assert str(first) == (
        "the service does not answer; the last failure was ServiceError: down "
        "(for 1.5 s; 1 refused; next try in 0.5 s: answer 503 with Retry-After)"
    )


IS_ANSWER = (
    (errors.TransactionNotFoundError("x", status_code=404), True),
    (errors.RejectedError("x"), True),
    (errors.AuthenticationError("x"), True),
    (errors.PermissionDeniedError("x"), True),
    (errors.RateLimitedError("x", retry_after=3.0), True),
    (errors.UnexpectedResponseError("x", status_code=400), True),
    (errors.UnexpectedResponseError("x", status_code=200), False),
    (errors.ReferenceMismatchError("x"), False),
    (errors.ServiceError("x", status_code=503), False),
    (errors.ServiceError("x", status_code=503, retry_after=3.0), False),
    (errors.ConnectionFailedError("x"), False),
    (errors.TLSVerificationError("x"), False),
    (errors.ProxyRefusedError("x"), False),
    (errors.AttemptTimeoutError("x"), False),
)


def test_is_answer():
    """A response that only a live service gives is an answer; one of a gateway, or none, is not."""
    assert [is_answer(error) for error, _ in IS_ANSWER] == [expected for _, expected in IS_ANSWER]


def test_is_final():
    """A refused certificate or tunnel is final without an answer."""
    finals = [type(error) for error, _ in IS_ANSWER if is_final(error)]
    assert finals == [errors.TLSVerificationError, errors.ProxyRefusedError]
