"""The exit statuses, and which one an error deserves."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from payclient import errors


class Exit(IntEnum):
    """
    What a command tells the shell.

    Attributes:
        DONE: All is as it should be.
        DIFFERENT: The service answered, and something is not as it should be.
        USAGE: The command cannot be run like this; nothing was asked.
        REFUSED: The service refuses this caller, or is not at this address: the same for every reference.
        BUG: A fault of payclient itself.
        AGAIN: Something could not be asked; the same command may well succeed later.
        INTERRUPTED: By the user.
        CLOSED: The reader of the output has gone.

    Source:
        sysexits.h for 70 and 75, the shells' 128 + signal number for 130 and 141.
    """

    DONE = 0
    DIFFERENT = 1
    USAGE = 2
    REFUSED = 3
    BUG = 70
    AGAIN = 75
    INTERRUPTED = 130
    CLOSED = 141


_ABOUT_THE_REFERENCE = (errors.TransactionNotFoundError, errors.RejectedError, errors.InvalidReferenceError)
_BY_URGENCY = (Exit.DONE, Exit.DIFFERENT, Exit.AGAIN, Exit.REFUSED, Exit.BUG)


def status_of(error: errors.PayClientError) -> Exit:
    """Return the exit status for a command, or for one row, that ended with *error*."""
    if isinstance(error, errors.ConfigurationError):
        return Exit.USAGE if type(error) is errors.ConfigurationError else _status_of_run(error)
    if isinstance(error, errors.ClientClosedError):
        return Exit.BUG
    if isinstance(error, _ABOUT_THE_REFERENCE):
        return Exit.DIFFERENT
    from payclient.policies import classify  # noqa: PLC0415  see below

    if isinstance(error, errors.PermissionDeniedError) or classify(error).is_fatal:
        return Exit.REFUSED
    if isinstance(error, errors.ResponseError | errors.TransportError | errors.DeadlineExceededError):
        return Exit.AGAIN
    return _status_of_run(error)


def _status_of_run(error: errors.PayClientError) -> Exit:
    # Imported late, so that `get` starts without the ledger and SQLite, and `--help` without the client.
    from payclient.ledger import LedgerError  # noqa: PLC0415
    from payclient.reconcile import JournalError, PastRunError, StoppedError  # noqa: PLC0415
    from payclient.reconcile.values import UnknownCanaryError  # noqa: PLC0415

    if isinstance(error, StoppedError):
        return Exit.INTERRUPTED
    if isinstance(error, UnknownCanaryError):
        return Exit.REFUSED
    is_usage = isinstance(error, errors.ConfigurationError | LedgerError | JournalError | PastRunError)
    return Exit.USAGE if is_usage else Exit.AGAIN


def most_urgent(statuses: Iterable[Exit]) -> Exit:
    """Return the one that the user has to act on first."""
    return max(statuses, key=_BY_URGENCY.index, default=Exit.DONE)
