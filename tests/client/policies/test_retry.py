"""What an error means to the policies, and the waits between attempts."""

import math

import attrs

import payclient
from payclient import RetryPolicy, errors
from payclient.client.policies._retry import Retries
from payclient.errors import Again, Classification, Signal, classify
from support.misses import check_table, refusal

ANSWERED = Classification(Signal.ACCEPTED, Again.NEVER)
OURS = Classification(Signal.SILENT, Again.NEVER)
FATAL = Classification(Signal.SILENT, Again.NEVER, is_fatal=True)
BROKEN = Classification(Signal.OVERLOADED, Again.COUNTED)
UNAVAILABLE = Classification(Signal.OVERLOADED, Again.LATER)
GARBLED = Classification(Signal.OVERLOADED, Again.ONCE)
THROTTLED = Classification(Signal.THROTTLED, Again.UNCOUNTED)
NOT_ANSWERED = Classification(Signal.SILENT, Again.COUNTED)


def odd(status):
    return errors.UnexpectedResponseError("odd", status_code=status)


VERDICTS = {
    "not-found": (errors.TransactionNotFoundError("x"), ANSWERED),
    "rejected": (errors.RejectedError("x"), ANSWERED),
    "429": (errors.RateLimitedError("x"), THROTTLED),
    "429-told": (errors.RateLimitedError("x", asked_pause=5.0), THROTTLED),
    "502": (errors.ServiceError("x", status_code=502), BROKEN),
    "503": (errors.ServiceError("x", status_code=503), UNAVAILABLE),
    "503-retry-after": (errors.ServiceError("x", asked_pause=5.0), Classification(Signal.THROTTLED, Again.LATER)),
    "503-retry-now": (errors.ServiceError("x", asked_pause=0.0), Classification(Signal.THROTTLED, Again.LATER)),
    "401": (errors.AuthenticationError("x"), FATAL),
    "403": (errors.PermissionDeniedError("x"), OURS),
    "connection": (errors.ConnectionFailedError("x"), BROKEN),
    "attempt-timeout": (errors.AttemptTimeoutError("x"), BROKEN),
    "transport": (errors.TransportError("x"), BROKEN),
    "tls": (errors.TLSVerificationError("x"), FATAL),
    "mismatch": (errors.ReferenceMismatchError("x", status_code=200), GARBLED),
    "odd-200": (odd(200), GARBLED),
    "odd-204": (odd(204), GARBLED),
    "first-redirect": (odd(300), FATAL),
    "redirect": (odd(302), FATAL),
    "last-redirect": (odd(399), FATAL),
    "404-page": (odd(404), FATAL),
    "400-page": (odd(400), OURS),
    "499-page": (odd(499), OURS),
    "odd-500": (odd(500), GARBLED),
    "deadline": (errors.DeadlineExceededError("x"), NOT_ANSWERED),
    "outage": (errors.OutageError("x"), NOT_ANSWERED),
    "queue": (errors.OverloadedError("x"), NOT_ANSWERED),
    "proxy": (errors.ProxyRefusedError("x"), FATAL),
    "wait": (errors.WaitError("x"), OURS),
    "wait-in-vain": (errors.UnreachableStatusError("x"), OURS),
    "wait-too-long": (errors.WaitDeadlineError("x"), OURS),
    "key-source": (errors.KeySourceError("x"), NOT_ANSWERED),
    "reference": (errors.InvalidReferenceError("x"), OURS),
    "closed": (errors.ClientClosedError("x"), FATAL),
    "configuration": (errors.ConfigurationError("x"), FATAL),
    "root": (errors.PayClientError("x"), OURS),
}


def test_judge():
    """Each error has one meaning for limiter, retry and stream."""
    check_table(VERDICTS.values(), classify)


def test_every_class_is_judged():
    """Every error class that is raised has its row above."""
    kinds = {getattr(errors, name) for name in payclient.__all__ if name.endswith("Error")}
    missing = kinds - {type(error) for error, _ in VERDICTS.values()}
    assert missing == {errors.CouldNotAskError, errors.ResponseError, errors.WaitUnansweredError}


def test_retryable(subtests):
    """An error that is retried may also succeed some minutes later, and no other."""
    for case, (error, verdict) in VERDICTS.items():
        with subtests.test(case):
            assert error.is_retryable == (verdict.again is not Again.NEVER)


def delays(policy, verdicts, *, chance=1.0, is_timed=False):
    retries = Retries(policy, lambda: chance, is_timed)
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


def test_never_again():
    """An error that will not change is not retried, and none is with `max_attempts=1`, throttled or not."""
    assert [delays(RetryPolicy(), [verdict]) for verdict in (ANSWERED, OURS, FATAL)] == [[None]] * 3
    once = RetryPolicy(max_attempts=1)
    assert [delays(once, [verdict]) for verdict in (BROKEN, GARBLED, THROTTLED)] == [[None]] * 3


def test_garbled_once():
    """A malformed body is retried once, even with other errors in between."""
    assert [delay is None for delay in delays(RetryPolicy(), [GARBLED, BROKEN, GARBLED])] == [False, False, True]


def test_throttled_is_not_counted():
    """A throttled attempt is not counted, and has no separate wait."""
    policy = RetryPolicy(max_attempts=2, initial_backoff=1.0)
    assert delays(policy, [*[THROTTLED] * 20, BROKEN, THROTTLED, BROKEN]) == [*[0.0] * 20, 1.0, 0.0, None]


def test_throttled_ends():
    """A reference that is always throttled is given up in the end, or backs off if the lookup has a deadline."""
    assert delays(RetryPolicy(), [THROTTLED] * 51) == [*[0.0] * 50, None]
    assert delays(RetryPolicy(), [THROTTLED] * 10, is_timed=True) == [*[0.0] * 8, 0.25, 0.5]


def test_refused_for_now():
    """With a deadline, attempts that are refused for now are not counted, and those that fail are."""
    verdicts = [*[UNAVAILABLE] * 5, BROKEN, UNAVAILABLE, BROKEN]
    policy = RetryPolicy(max_attempts=2, max_backoff=1.0)
    assert delays(policy, verdicts, is_timed=True) == [0.25, 0.5, *[1.0] * 5, None]
    assert delays(RetryPolicy(max_attempts=2), [UNAVAILABLE] * 2) == [0.25, None]


def test_policy_is_checked():
    """An invalid policy is refused at construction, with a clear message."""
    cases = {
        "none": ({"max_attempts": 0}, "max_attempts must be an integer of at least 1, got 0"),
        "true": ({"max_attempts": True}, "max_attempts must be an integer of at least 1, got True"),
        "fraction": ({"max_attempts": 1.5}, "max_attempts must be an integer of at least 1, got 1.5"),
        "text": ({"max_attempts": "3"}, "max_attempts must be an integer of at least 1, got '3'"),
        "minus": ({"initial_backoff": -1}, "initial_backoff must be a number of seconds, 0 or more, got -1"),
        "nan": ({"max_backoff": math.nan}, "max_backoff must be a number of seconds, 0 or more, got nan"),
        "inf": ({"max_retry_after": math.inf}, "max_retry_after must be a number of seconds, 0 or more, got inf"),
        "str": ({"initial_backoff": "1"}, "initial_backoff must be a number of seconds, 0 or more, got '1'"),
    }
    check_table(cases.values(), lambda option: refusal(errors.ConfigurationError, RetryPolicy, **option))
