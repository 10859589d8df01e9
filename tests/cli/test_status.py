"""Each error has the exit status that tells a shell script what to do next."""

from __future__ import annotations

import pytest

from payclient import errors
from payclient.cli._streams import Exit, most_urgent, status_of
from payclient.ledger import LedgerChangedError, LedgerError
from payclient.reconcile import RulesError
from payclient.reconcile.values import UnknownCanaryError


def test_status(subtests):
    """Refused, unanswered, answered with no, and used wrongly are four different things."""
    for error, status in [
        (errors.ConfigurationError("x"), Exit.USAGE),
        (LedgerError("x"), Exit.USAGE),
        (RulesError("x"), Exit.USAGE),
        (UnknownCanaryError("x"), Exit.REFUSED),
        (LedgerChangedError("x"), Exit.USAGE),
        (errors.TransactionNotFoundError("x"), Exit.DIFFERENT),
        (errors.RejectedError("x"), Exit.DIFFERENT),
        (errors.InvalidReferenceError("x"), Exit.DIFFERENT),
        (errors.AuthenticationError("x"), Exit.REFUSED),
        (errors.PermissionDeniedError("x"), Exit.REFUSED),
        (errors.TLSVerificationError("x"), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=302), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=404), Exit.REFUSED),
        (errors.UnexpectedResponseError("x", status_code=200), Exit.AGAIN),
        (errors.ReferenceMismatchError("x", status_code=200), Exit.AGAIN),
        (errors.ServiceError("x"), Exit.AGAIN),
        (errors.RateLimitedError("x"), Exit.AGAIN),
        (errors.ConnectionFailedError("x"), Exit.AGAIN),
        (errors.AttemptTimeoutError("x"), Exit.AGAIN),
        (errors.DeadlineExceededError("x"), Exit.AGAIN),
        (errors.ClientClosedError("x"), Exit.BUG),
    ]:
        with subtests.test(error=error):
            assert status_of(error) is status


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], Exit.DONE),
        ([Exit.DONE, Exit.DIFFERENT], Exit.DIFFERENT),
        ([Exit.AGAIN, Exit.DIFFERENT], Exit.AGAIN),
        ([Exit.AGAIN, Exit.REFUSED, Exit.DIFFERENT], Exit.REFUSED),
    ],
)
def test_most_urgent(statuses, expected):
    """Of several rows the one decides that the user has to act on first."""
    assert most_urgent(statuses) is expected
