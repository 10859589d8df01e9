"""What goes wrong with our own sums or with the journal, rather than with a ledger or a lookup."""

from __future__ import annotations

from payclient.errors import PayClientError


class TieOutError(AssertionError):
    """The sums of a report do not tie, which is a bug of payclient and never of the ledger."""


class JournalError(PayClientError, ValueError):
    """The journal cannot be used for this run: it is another's, damaged or in use; the message says which."""


class JournalWriteError(OSError):
    """
    The journal cannot be written any more; the message says why.

    What was committed before is kept, and the same run can be gone on with. It is no `PayClientError`, because it says
    nothing about the reference under way: a stream ends at once instead of going on with the next one.
    """
