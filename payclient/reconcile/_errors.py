"""What goes wrong with our own sums, rather than with a ledger or a lookup."""

from __future__ import annotations


class TieOutError(AssertionError):
    """The sums of a report do not tie, which is a bug of payclient and never of the ledger."""
