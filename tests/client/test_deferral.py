"""What becomes of a lookup that failed in bulk."""

import pytest

from payclient import errors
from payclient.client._stream import Deferral, Disposition, PendingRow
from support.misses import check_table

BROKEN = errors.ServiceError("x", status_code=503)
REFUSED = errors.ConnectionFailedError("x", sent="no")
DENIED = errors.PermissionDeniedError("x", status_code=403)
NOT_FOUND = errors.TransactionNotFoundError("x", status_code=404)
MOVED = errors.UnexpectedResponseError("x", status_code=302)
LOST = errors.UnexpectedResponseError("x", status_code=404)
FINAL, FATAL, LATER = Disposition.FINAL, Disposition.FATAL, "later"


def deferral(*, is_on=True, max_pause=900.0, chance=0.5):
    """Return rules in which the middle of every wait is drawn."""
    return Deferral(is_on=is_on, max_pause=max_pause, random=lambda: chance)


def dispositions(rules, *failures):
    return [disposition(rules.decide(PendingRow(index, "R"), error)) for index, error in enumerate(failures)]


def disposition(decision):
    return LATER if isinstance(decision, float) else decision


def test_first_failure():
    """An answer is final, a failure that every lookup would have ends the stream, a temporary one is retried later."""
    cases = {
        "not-found": (NOT_FOUND, FINAL),
        "rejected": (errors.RejectedError("x"), FINAL),
        "reference": (errors.InvalidReferenceError("x"), FINAL),
        "one-denial": (DENIED, FINAL),
        "odd-400": (errors.UnexpectedResponseError("x", status_code=400), FINAL),
        "key": (errors.AuthenticationError("x"), FATAL),
        "certificate": (errors.TLSVerificationError("x"), FATAL),
        "closed": (errors.ClientClosedError("x"), FATAL),
        "redirect": (MOVED, 10.0),
        "foreign-404": (LOST, 10.0),
        "broken": (BROKEN, 10.0),
        "connection": (REFUSED, 10.0),
        "deadline": (errors.DeadlineExceededError("x"), 10.0),
        "odd-200": (errors.UnexpectedResponseError("x", status_code=200), 10.0),
        "throttled": (errors.RateLimitedError("x", asked_pause=60.0), 60.0),
        "told-to-wait": (errors.ServiceError("x", asked_pause=60.0), 60.0),
        "absurd-pause": (errors.RateLimitedError("x", asked_pause=86400.0), 300.0),
    }
    check_table(cases.values(), lambda error: deferral().decide(PendingRow(0, "R"), error))


@pytest.mark.parametrize("page", [MOVED, LOST], ids=["redirect", "foreign-404"])
def test_elsewhere(page):
    """A redirect, or a 404 of another program, is about its row; only the first three lookups make it the address."""
    assert dispositions(deferral(), page, page, page) == [LATER, LATER, FATAL]
    rules = deferral()
    assert dispositions(rules, page, page, NOT_FOUND, *[page] * 20) == [LATER, LATER, FINAL, *[LATER] * 19, FATAL]


@pytest.mark.parametrize("page", [MOVED, LOST], ids=["redirect", "foreign-404"])
def test_row_elsewhere(page):
    """A row that is always redirected is final after four passes, whether it came before the first answer or later."""
    for is_first in (True, False):
        rules, row, found = deferral(), PendingRow(0, "R"), []
        for _ in range(4):
            row.answers_when_sent = rules.answers
            if not is_first or found:
                rules.succeed()
            found.append(disposition(rules.decide(row, page)))
        assert found == ([LATER] * 4 if is_first else [LATER] * 3 + [FINAL])


def test_elsewhere_is_no_contact():
    """Rows are sent one by one until the service itself has been reached: a redirect comes from another program."""
    rules = deferral()
    rules.decide(PendingRow(0, "R"), MOVED)
    assert not rules.is_reached


@pytest.mark.parametrize(
    ("error", "passes"),
    [(errors.UnexpectedResponseError("x", status_code=200, is_about_reference=True), 2), (BROKEN, 4), (REFUSED, 4)],
    ids=["odd", "broken", "connection"],
)
def test_last_pass(error, passes):
    """A malformed answer is final after as many passes as its option says; other failures after four."""
    rules = Deferral(is_on=True, max_pause=900.0, random=lambda: 0.5, malformed_passes=2)
    rules.succeed()  # another row: only then does a failure say something of this one
    row = PendingRow(0, "R")
    found = [disposition(rules.decide(row, error)) for _ in range(passes)]
    assert (rules.passes(error), found) == (passes, [LATER] * (passes - 1) + [FINAL])


def test_answers_are_counted():
    """Successes and refusals of a reference are answers; failures are not."""
    rules = deferral()
    rules.succeed()
    dispositions(rules, NOT_FOUND, BROKEN, NOT_FOUND)
    assert rules.answers == 3


def test_pause_that_is_too_long():
    """A pause that the stream does not wait out ends it; no pause counts for more than the limiter believes."""
    for longest, decision in ((299.0, FATAL), (300.0, 300.0)):
        refusal = errors.RateLimitedError("x", asked_pause=86400.0)
        assert deferral(max_pause=longest).decide(PendingRow(0, "R"), refusal) == decision


def test_pause_of_unknown_length():
    """A refusal without `Retry-After` asks for no pause, so the stream does not end."""
    assert deferral(max_pause=0.0).decide(PendingRow(0, "R"), errors.RateLimitedError("x")) == 10.0


def test_off():
    """Without deferral a temporary failure is final; one that every lookup would have ends a small batch too."""
    assert dispositions(deferral(is_on=False), BROKEN, errors.AuthenticationError("x")) == [FINAL, FATAL]


def test_given_up_after_four_passes():
    """A row is final after four failed passes in each of which another row was answered; the waits grow."""
    rules, row, decisions = deferral(), PendingRow(0, "R"), []
    for _ in range(4):
        row.answers_when_sent = rules.answers
        rules.succeed()
        decisions.append(rules.decide(row, BROKEN))
    assert decisions == [5.0, 20.0, 80.0, FINAL]


def test_outage_costs_no_row():
    """While no row is answered, a failing row never becomes final."""
    rules, row = deferral(), PendingRow(0, "R")
    rules.succeed()
    row.answers_when_sent = rules.answers
    assert {rules.decide(row, BROKEN) for _ in range(100)} == {10.0}


def test_refusal_counts_as_answer():
    """An answer "not found" for another row shows that the service is up, so the failing row becomes final."""
    rules, row, decisions = deferral(), PendingRow(0, "R"), []
    for index in range(1, 5):
        row.answers_when_sent = rules.answers
        rules.decide(PendingRow(index, "S"), NOT_FOUND)
        decisions.append(disposition(rules.decide(row, BROKEN)))
    assert decisions == [LATER, LATER, LATER, FINAL]


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 5.0), (0.5, 10.0), (1.0, 15.0)], ids=["least", "middle", "most"])
def test_waits_are_spread(chance, wait):
    """Rows that failed together are retried at different times."""
    assert deferral(chance=chance).decide(PendingRow(0, "R"), BROKEN) == wait


def after_deadline(cause):
    """Return the error of a lookup whose deadline came after *cause*."""
    error = errors.DeadlineExceededError("x")
    error.__cause__ = cause
    return error


def test_wrong_address():
    """Lookups that cannot connect end the stream, unless the service has been reached before."""
    cases = {
        "nothing-came": (REFUSED, True),
        "not-in-time": (after_deadline(REFUSED), True),
        "no-time-to-begin": (after_deadline(None), True),
        "an-answer": (BROKEN, False),
        "an-answer-and-no-more-time": (after_deadline(BROKEN), False),
        "an-answer-and-no-connection": (errors.ConnectionFailedError("x", sent="yes"), False),
    }
    check_table(cases.values(), lambda first: dispositions(deferral(), first, REFUSED, REFUSED, REFUSED)[-1] is FATAL)


def test_denials_in_a_row():
    """The twentieth `PermissionDeniedError` in a row ends the stream; an answer or another failure ends the row."""
    assert dispositions(deferral(), *[DENIED] * 20) == [*[FINAL] * 19, FATAL]
    for between in (NOT_FOUND, BROKEN, None):
        rules = deferral()
        before = dispositions(rules, *[DENIED] * 19)
        if between is None:
            rules.succeed()
        after = dispositions(rules, *[between] * (between is not None), *[DENIED] * 19)
        assert FATAL not in before + after, between


def test_outage_after_contact():
    """After the service has been reached, failed connections are an outage that is waited out."""
    for sign in (BROKEN, NOT_FOUND, errors.ConnectionFailedError("x", sent="unknown"), None):
        rules = deferral()
        if sign is None:
            rules.succeed()
        assert FATAL not in dispositions(rules, *[sign] * bool(sign), *[REFUSED] * 50), sign


def test_rejected_in_an_outage():
    """A row that an outage rejected says nothing of the address: one that is wrong ends the stream all the same."""
    outage = errors.OutageError("x", sent="no")
    assert dispositions(deferral(), REFUSED, outage, REFUSED, outage, REFUSED) == [LATER, LATER, LATER, LATER, FATAL]
