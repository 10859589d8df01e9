"""When an outage begins and ends, and who is the probe."""

import math

import pytest

from payclient import errors
from payclient.client._admission import Result
from payclient.client._outage import End, Outage
from payclient.client.policies import Limiter, Ticket

DOWN = "ServiceError: down"


class Clock:
    """A clock that is set by hand, and keeps no timer."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at

    def schedule(self, _, when): ...


def play(*steps):
    """
    Return an outage after *steps*, and its clock.

    A step is a time, the number of an attempt and its fate: `sent`, `again` (for one reference with others),
    or the name of an `End`, in lower case.
    """
    outage, clock, tickets = Outage(Limiter(max_concurrency=64)), Clock(), {}
    for clock.at, number, what in steps:
        if what in ("sent", "again"):
            tickets[number] = Ticket(number, clock.at, 1)
            outage.sent(tickets[number], f"T{number % 1000}" if what == "sent" else "T", clock)
        else:
            reference = "T" if (number, "again") in {each[1:] for each in steps} else f"T{number % 1000}"
            outage.ended(tickets[number], reference, clock.at, End[what.upper()], DOWN)
    return outage, clock


def failing(*times, seconds=0.1, again=False):
    """Return the steps of attempts that fail *seconds* after each of *times*."""
    steps = [(at, number, "again" if again else "sent") for number, at in enumerate(times)]
    return sorted([*steps, *((at + seconds, number, "failed") for number, at in enumerate(times))])


def answer(at, seconds=0.1, number=100):
    return [(at, number, "sent"), (at + seconds, number, "accepted")]


def later(steps, *, by):
    """Return *steps* of other attempts for the same references, *by* seconds later."""
    return [(at + by, number + 1000 * math.ceil(by), what) for at, number, what in steps]


SENT = [(1.0, 0, "sent"), (1.0, 1, "sent"), (1.0, 2, "sent")]
BEGINNINGS = {
    "three fail at once: 0.8 s after they were sent": (failing(0, 0, 0), 0.8),
    "two fail: never": (failing(0, 0), math.inf),
    "one reference fails alone, nine times: never": (failing(*range(9), again=True), math.inf),
    "one reference fails alone, ten times: at once": (failing(*[0.01 * n for n in range(10)], again=True), 0.8),
    "an answer among failures: it counts from new": ([*failing(0, 0, 0), *answer(0.5)], math.inf),
    "three wait: 1.8 s after the first was sent": ([*answer(0.0), *SENT[:2], (1.5, 2, "sent")], 2.8),
    "three wait: and 0.8 s after the third": ([*answer(0.0), *SENT[:2], (2.5, 2, "sent")], 3.3),
    "three wait, after an answer that took no time": ([*answer(0.0, 0.0), *SENT], 2.8),
    "three wait for a slow service: twice its slowest answer": ([*answer(0.0, 0.9), *SENT], 2.8),
    "a slow answer is soon forgotten": ([*answer(0, 3.0), *(step for n in range(30) for step in answer(5 + n))], None),
    "three wait, before the first answer: never": (SENT, math.inf),
    "three wait, and a throttle says nothing about time": ([(0.0, 9, "sent"), (0.1, 9, "refused"), *SENT], math.inf),
    "three wait, and another one is answered: from that answer on": ([*SENT, *answer(1.5)], 3.4),
    "three are for one reference: never": ([*answer(0.0), (1, 0, "again"), (1, 1, "again"), (1, 2, "again")], math.inf),
    "two fail and a third waits: 1.8 s": ([*answer(0.0), *failing(1.0, 1.0), (1.3, 7, "sent")], 2.8),
    "three were left: 1.3 s after they were sent": ([*answer(0.0), *SENT, *((1.5, n, "left") for n in range(3))], 2.3),
    "those that were left early count for nothing": (
        [*answer(0.0), *SENT, (1.2, 3, "sent"), *((1.25, n, "left") for n in range(3))],
        math.inf,
    ),
    "those that were left before twice the slowest answer count for nothing": (
        [*answer(0.0, 0.9), *SENT, (1.2, 3, "sent"), *((2.7, n, "left") for n in range(3))],
        math.inf,
    ),
    "failures have an age": ([*failing(0, 0), *later(failing(0, 0), by=6.0)], math.inf),
    "silence has none": ([*answer(0.0), *SENT[:2], (9.0, 2, "sent")], 9.8),
    "two references that fail again, and were not answered since: never": (
        [*failing(0, 0), *answer(0.5), *(step for n in range(1, 9) for step in later(failing(0, 0), by=n))],
        math.inf,
    ),
    "two references that fail again, and were answered since": (
        [*failing(0, 0), *answer(0.2, number=1000), *answer(0.3, number=1001), *later(failing(0, 0, 0), by=1.0)],
        1.8,
    ),
    "two references that fail again, and were refused since, which a live service does": (
        [
            *failing(0, 0),
            *((0.2, 1000 + n, "sent") for n in (0, 1)),
            *((0.3, 1000 + n, "refused") for n in (0, 1)),
            *later(failing(0, 0, 0), by=1.0),
        ],
        1.8,
    ),
    "a silent attempt for a reference that has failed before: never": (
        [*answer(0.0), *failing(0.2, 0.2, 0.2), *answer(0.5, number=101), *SENT],
        math.inf,
    ),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_beginning(name):
    """An outage is due when three attempts for two references have failed or are silent, and nothing was answered."""
    steps, due_at = BEGINNINGS[name]
    outage, clock = play(*steps)
    if due_at is None:
        assert outage.allowed == pytest.approx(1.3)
        return
    assert outage.due_at() == pytest.approx(due_at)
    clock.at = min(due_at, 1e9) - 0.001
    outage.fire()
    assert not outage.is_on
    if due_at < math.inf:
        clock.at = due_at + 1e-9
        outage.fire()
        assert outage.is_on


def test_trial():
    """An outage is on trial five seconds after its last attempt; then three failures begin it again at once."""
    outage, clock = play(*failing(0, 0, 0.9))
    clock.at = 5.9
    assert (outage.is_on, outage.seconds()) == (True, 2.0)  # no more was observed, but for the time to the next probe
    clock.at = 6.1
    assert (outage.is_on, outage.seconds()) == (False, 0.0)
    for number, fate in enumerate((False, False, True), 90):
        outage.sent(Ticket(number, 9.0, 1), f"T{number}", clock)
        outage.ended(Ticket(number, 9.0, 1), f"T{number}", 9.1, End.FAILED, DOWN)
        assert outage.is_on is fate


def test_began_before_the_answer():
    """What was sent before an answer and fails after it has failed since that answer: no outage is older."""
    outage, clock = play((0.0, 1, "sent"), (0.0, 2, "sent"), (0.0, 3, "sent"), *answer(0.9))
    for number, clock.at in ((1, 2.0), (2, 2.0), (3, 2.5)):
        outage.ended(Ticket(number, 0.0, 1), f"T{number}", clock.at, End.FAILED, DOWN)
    assert (outage.is_on, outage.seconds()) == (True, 1.5)


def test_late_answer():
    """An answer that comes after its caller has left shows that the service lives."""
    outage, _ = play(*failing(0, 0, 0.9), (2.0, 9, "sent"), (2.5, 9, "left"))
    assert outage.is_on
    outage.ended(Ticket(9, 2.0, 1), "T9", 4.0, End.ACCEPTED)
    assert (outage.is_on, outage.allowed) == (False, 4.0)


@pytest.mark.parametrize(
    ("status", "at", "is_load"),
    [(503, 1.0, True), (0, 1.0, True), (500, 1.0, False), (200, 1.0, False), (500, 7.0, True)],
)
def test_load(status, at, is_load):
    """A failure of the service's own program is about its reference, if others have lately been answered."""
    outage, _ = play(*answer(0.5), (at, 9, "sent"), (at, 9, "failed"))
    assert outage.is_evidence("T9", status, at) is is_load


def test_late_failure_begins_it():
    """A failure that comes after the time allowed begins the outage itself, so its lookup has its own error."""
    assert play(*failing(0, 0, 0.9))[0].is_on
    over, _ = play(*SENT, *((4.0, n, "left") for n in range(3)))
    assert (over.is_on, over.last_failure) == (True, "no answer within 3.0 s")
    assert not play(*failing(0, 0, 0))[0].is_on


def test_silence_has_a_cause():
    """If attempts are silent and none has failed, the cause is their number."""
    outage, clock = play(*answer(0.0), *SENT)
    clock.at = 2.9
    outage.fire()
    assert outage.last_failure == "no answer to 3 attempts in flight"


@pytest.mark.parametrize(("fates", "is_on"), [("final final final", False), ("final final failed final final", True)])
def test_final_failures(fates, is_on):
    """Three untrusted certificates in a row end an outage, and say nothing of the time that a response takes."""
    sent = [(2.0, number, "sent") for number in range(9, 14)]
    outage, _ = play(*failing(0, 0, 0.9), *sent, *((9.0, number, fate) for number, fate in enumerate(fates.split(), 9)))
    assert (outage.is_on, outage.allowed) == (is_on, 1.3)


def test_answer_ends_it():
    """Any answer ends an outage, and what was learnt of failures in a row is forgotten."""
    outage, _ = play(*failing(0, 0, 0.9), (2.0, 9, "sent"), (2.1, 9, "refused"))
    assert (outage.is_on, outage.last_failure, outage.seconds(), outage.due_at()) == (False, "", 0.0, math.inf)


def test_slow_start(subtests):
    """The limiter starts slowly after an outage in which lookups were rejected, and after no other."""
    for rejected in (0, 1):
        with subtests.test(rejected=rejected):
            outage, clock = play(*failing(0, 0, 0.9))
            for _ in range(rejected):
                outage.count(outage.rejection(), "T1")
            assert outage.sent(Ticket(9, clock.at, 1), "T9", clock) is None
            outage.ended(Ticket(9, clock.at, 1), "T9", clock.at + 0.1, End.ACCEPTED)
            assert outage._limiter.limit == (1.0 if rejected else 4.0)


async def test_probes():
    """The first lookup is the probe, then one a second; one that has failed before waits for every attempt."""
    outage, clock = play(*failing(0, 0, 0.9))
    sent = []
    for step in range(1, 41):
        clock.at = 2.0 + step / 10
        if clock.at > 4.0 and outage.probe("T0") is not None:
            sent.append(("failed before", round(clock.at, 1)))
            outage.sent(Ticket(100 + step, clock.at, 1), "T0", clock)
        if outage.probe(f"N{step}") is not None:
            sent.append(("first", round(clock.at, 1)))
            outage.sent(Ticket(200 + step, clock.at, 1), f"N{step}", clock)
    assert [at for what, at in sent if what == "first"] == [2.1, 3.1, 4.1, 5.1]
    assert [at for what, at in sent if what != "first"] == [4.1, 5.1]


async def test_rejection(caplog):
    """The error of a rejected lookup says since when, why, when to ask again, and how many were rejected."""
    caplog.set_level("INFO", "payclient")
    outage, clock = play(*failing(0, 0, 0.9))
    outage.probe("N")
    clock.at = 1.5
    outage.count(first := outage.rejection(), "T1")
    clock.at = 3.0
    outage.count(second := outage.rejection(), "T1")
    outage.count(failed_probe := errors.ServiceError(), "T2")
    assert (first.refused, second.refused, outage.rejected) == (1, 2, 2)
    assert (first.is_first, second.is_first, failed_probe.is_first) == (True, False, False)
    assert (first.sent, first.last_failure, first.outage_seconds, first.retry_after) == ("no", DOWN, 1.5, 0.5)
    assert second.retry_after == 1.0  # one is due, but was not allowed
    assert str(first) == (
        "the service doesn't answer: the last failure was ServiceError: down (for 1.5 s; 1 refused; next try in 0.5 s)"
    )
    outage.sent(Ticket(9, 3.0, 1), "T9", clock)
    outage.ended(Ticket(9, 3.0, 1), "T9", 3.1, End.ACCEPTED)
    told = "no answer for 1.5 s: lookups are refused until there is one; the last failure was ServiceError: down"
    assert [record.message for record in caplog.records] == [told, "lookups are sent again"]
    assert (caplog.records[0].seconds, caplog.records[0].failure) == (1.5, DOWN)
    for number in range(20, 23):
        outage.sent(Ticket(number, 4.0, 1), f"T{number}", clock)
        outage.ended(Ticket(number, 4.0, 1), f"T{number}", 5.0, End.FAILED, DOWN)
    outage.count(failed_before := errors.ServiceError(is_first=False), "T3")
    outage.count(again := outage.rejection(), "T1")
    assert (again.refused, outage.rejected, len(caplog.records)) == (1, 3, 3)
    assert (failed_before.is_first, again.is_first) == (True, True)


async def test_one_line_for_a_reference():
    """Before an outage is known, the first error about a reference is to be logged, and again after an answer."""
    outage, clock = play(*failing(0))

    def are_first(*references):
        told = [errors.ServiceError() for _ in references]
        for error, reference in zip(told, references, strict=True):
            outage.count(error, reference)
        return [error.is_first for error in told]

    assert are_first("T1", "T1", "T2", "T1", "T2") == [True, False, True, False, False]
    outage.sent(Ticket(9, 0.1, 1), "T9", clock)
    outage.ended(Ticket(9, 0.1, 1), "T9", 0.2, End.ACCEPTED)
    assert are_first("T1", "T1") == [True, False]


async def test_memory():
    """Of references that fail, or are rejected, the last thousand are known."""
    outage, clock = play()
    for number in range(1500):
        ticket = Ticket(number, 0.0, 1)
        outage.sent(ticket, f"T{number}", clock)
        outage.ended(ticket, f"T{number}", 0.1, End.FAILED, DOWN)
    assert [*outage._failing] == [f"T{number}" for number in range(500, 1500)]
    for number in range(1500, 2600):
        outage.probe(f"T{number}")
    assert [*outage._failing] == [f"T{number}" for number in range(1600, 2600)]


IS_ANSWER = (
    (errors.TransactionNotFoundError("x", status_code=404), True),
    (errors.RejectedError("x"), True),
    (errors.AuthenticationError("x"), True),
    (errors.PermissionDeniedError("x"), True),
    (errors.RateLimitedError("x", asked_pause=3.0), True),
    (errors.UnexpectedResponseError("x", status_code=400), True),
    (errors.UnexpectedResponseError("x", status_code=200), False),
    (errors.ReferenceMismatchError("x"), False),
    (errors.ServiceError("x", status_code=503), False),
    (errors.ServiceError("x", status_code=503, asked_pause=3.0), False),
    (errors.ConnectionFailedError("x"), False),
    (errors.TLSVerificationError("x"), False),
    (errors.ProxyRefusedError("x"), False),
    (errors.AttemptTimeoutError("x"), False),
)


def test_is_answer():
    """A response that only a live service gives is an answer; one of a gateway, or none, is not."""
    assert [Result.of(error).end in (End.ACCEPTED, End.REFUSED) for error, _ in IS_ANSWER] == [
        expected for _, expected in IS_ANSWER
    ]


def test_is_final():
    """A refused certificate or tunnel is final without an answer."""
    finals = [type(error) for error, _ in IS_ANSWER if Result.of(error).end is End.FINAL]
    assert finals == [errors.TLSVerificationError, errors.ProxyRefusedError]
