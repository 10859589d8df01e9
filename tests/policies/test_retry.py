"""What an error means to the policies, and the waits between attempts."""

from __future__ import annotations

import math

import attrs
import pytest

from payclient import RetryPolicy, errors
from payclient.policies._retry import Again, Classification, Retries, Signal, classify

ANSWERED = Classification(Signal.ACCEPTED, Again.NEVER)
OURS = Classification(Signal.SILENT, Again.NEVER)
FATAL = Classification(Signal.SILENT, Again.NEVER, is_fatal=True)
BROKEN = Classification(Signal.OVERLOADED, Again.COUNTED)
GARBLED = Classification(Signal.OVERLOADED, Again.ONCE)
THROTTLED = Classification(Signal.THROTTLED, Again.UNCOUNTED)


def odd(status):
    return errors.UnexpectedResponseError("odd", status_code=status)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        pytest.param(errors.TransactionNotFoundError("x"), ANSWERED, id="not-found"),
        pytest.param(errors.RejectedError("x"), ANSWERED, id="rejected"),
        pytest.param(errors.RateLimitedError("x"), THROTTLED, id="429"),
        pytest.param(errors.RateLimitedError("x", retry_after=5.0), THROTTLED, id="429-told"),
        pytest.param(errors.ServiceError("x"), BROKEN, id="503"),
        pytest.param(
            errors.ServiceError("x", retry_after=5.0),
            Classification(Signal.THROTTLED, Again.COUNTED),
            id="503-retry-after",
        ),
        pytest.param(
            errors.ServiceError("x", retry_after=0.0),
            Classification(Signal.THROTTLED, Again.COUNTED),
            id="503-retry-now",
        ),
        pytest.param(errors.AuthenticationError("x"), FATAL, id="401"),
        pytest.param(errors.PermissionDeniedError("x"), OURS, id="403"),
        pytest.param(errors.ConnectionFailedError("x"), BROKEN, id="connection"),
        pytest.param(errors.AttemptTimeoutError("x"), BROKEN, id="attempt-timeout"),
        pytest.param(errors.TransportError("x"), BROKEN, id="transport"),
        pytest.param(errors.TLSVerificationError("x"), FATAL, id="tls"),
        pytest.param(errors.ReferenceMismatchError("x", status_code=200), GARBLED, id="mismatch"),
        pytest.param(odd(200), GARBLED, id="odd-200"),
        pytest.param(odd(204), GARBLED, id="odd-204"),
        pytest.param(odd(300), FATAL, id="first-redirect"),
        pytest.param(odd(302), FATAL, id="redirect"),
        pytest.param(odd(399), FATAL, id="last-redirect"),
        pytest.param(odd(404), FATAL, id="404-page"),
        pytest.param(odd(400), OURS, id="400-page"),
        pytest.param(odd(499), OURS, id="499-page"),
        pytest.param(odd(500), GARBLED, id="odd-500"),
        pytest.param(errors.DeadlineExceededError("x"), Classification(Signal.SILENT, Again.COUNTED), id="deadline"),
        pytest.param(errors.KeySourceError("x"), Classification(Signal.SILENT, Again.COUNTED), id="key-source"),
        pytest.param(errors.InvalidReferenceError("x"), OURS, id="reference"),
        pytest.param(errors.ClientClosedError("x"), FATAL, id="closed"),
        pytest.param(errors.ConfigurationError("x"), FATAL, id="configuration"),
        pytest.param(errors.PayClientError("x"), OURS, id="root"),
    ],
)
def test_judge(error, verdict):
    """Each error has one meaning for limiter, retry and stream."""
    assert classify(error) == verdict


def test_every_class_is_judged():
    """Every error class that is raised has a classification of its own or of its parent."""
    from payclient.policies._retry import _CLASSIFICATIONS  # noqa: PLC0415  the table itself is what is looked at

    covered = (*dict(_CLASSIFICATIONS), errors.ServiceError, errors.UnexpectedResponseError)
    kinds = {getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    missing = {kind for kind in kinds if not issubclass(kind, covered)}
    assert missing == {errors.PayClientError, errors.ResponseError}


@pytest.mark.parametrize("again", list(Again), ids=lambda again: again.value)
def test_passing(again):
    """Every error that is retried may also succeed some minutes later."""
    assert Classification(Signal.SILENT, again).is_passing is (again is not Again.NEVER)


def delays(policy, verdicts, *, chance=1.0):
    retries = Retries(policy, random=lambda: chance)
    return [retries.delay(verdict) for verdict in verdicts]


def test_defaults():
    """The defaults are four attempts, waits of at most 0.25 s to 8 s, and pauses of up to 900 s."""
    assert attrs.astuple(RetryPolicy()) == (4, 0.25, 8.0, 900.0)


def test_delays_double():
    """The bound of the wait doubles with each attempt, up to `max_backoff`."""
    policy = RetryPolicy(max_attempts=6, initial_backoff=0.5, max_backoff=3.0)
    assert delays(policy, [BROKEN] * 6) == [0.5, 1.0, 2.0, 3.0, 3.0, None]


def test_delays_are_drawn_evenly():
    """The wait is drawn from 0 to its bound: full jitter."""
    policy = RetryPolicy(initial_backoff=0.5)
    assert [delays(policy, [BROKEN], chance=chance) for chance in (0.0, 0.25, 1.0)] == [[0.0], [0.125], [0.5]]


def test_many_attempts():
    """A policy of a thousand attempts does not overflow while doubling."""
    policy = RetryPolicy(max_attempts=2000, max_backoff=8.0)
    assert delays(policy, [BROKEN] * 1999)[-1] == 8.0


@pytest.mark.parametrize("verdict", [ANSWERED, OURS, FATAL], ids=["answered", "ours", "fatal"])
def test_never_again(verdict):
    """An error that will not change is not retried."""
    assert delays(RetryPolicy(), [verdict]) == [None]


def test_garbled_once():
    """A malformed body is retried once, even with other errors in between."""
    assert [delay is None for delay in delays(RetryPolicy(), [GARBLED, BROKEN, GARBLED])] == [False, False, True]


def test_throttled_is_not_counted():
    """A throttled attempt is not counted, and has no separate wait."""
    policy = RetryPolicy(max_attempts=2, initial_backoff=1.0)
    assert delays(policy, [*[THROTTLED] * 20, BROKEN, THROTTLED, BROKEN]) == [*[0.0] * 20, 1.0, 0.0, None]


def test_throttled_ends():
    """A reference that is always throttled is given up in the end."""
    assert delays(RetryPolicy(), [THROTTLED] * 51) == [*[0.0] * 50, None]


@pytest.mark.parametrize("verdict", [BROKEN, GARBLED, THROTTLED], ids=["broken", "garbled", "throttled"])
def test_switched_off(verdict):
    """With `max_attempts=1` nothing is retried, throttled or not."""
    assert delays(RetryPolicy(max_attempts=1), [verdict]) == [None]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        pytest.param({"max_attempts": 0}, "max_attempts must be an integer of at least 1, got 0", id="none"),
        pytest.param({"max_attempts": True}, "max_attempts must be an integer of at least 1, got True", id="true"),
        pytest.param({"max_attempts": 1.5}, "max_attempts must be an integer of at least 1, got 1.5", id="fraction"),
        pytest.param({"max_attempts": "3"}, "max_attempts must be an integer of at least 1, got '3'", id="text"),
        pytest.param(
            {"initial_backoff": -1}, "initial_backoff must be a number of seconds, 0 or more, got -1", id="minus"
        ),
        pytest.param(
            {"max_backoff": math.nan},
            "max_backoff must be a number of seconds, 0 or more, got nan",
            id="nan",
        ),
        pytest.param(
            {"max_retry_after": math.inf},
            "max_retry_after must be a number of seconds, 0 or more, got inf",
            id="inf",
        ),
        pytest.param(
            {"initial_backoff": "1"}, "initial_backoff must be a number of seconds, 0 or more, got '1'", id="str"
        ),
    ],
)
def test_policy_is_checked(option, message):
    """An invalid policy is refused at construction, with a clear message."""
    with pytest.raises(errors.ConfigurationError) as caught:
        RetryPolicy(**option)
    assert str(caught.value) == message
