"""Internal: errors of the sums, the journal and the rules, rather than of a ledger or a lookup."""

from pathlib import Path

from payclient.errors import ConfigurationError, PayClientError


class TieOutError(AssertionError):
    """The sums of a report do not tie: a bug in payclient, never in the ledger."""


class StoppedError(PayClientError):
    """The caller stopped the run. The answers are in the journal, and the run can be resumed."""


class JournalError(PayClientError, ValueError):
    """
    The journal cannot be used: it belongs to another run, is damaged or is in use. The message names the reason.

    Attributes:
        rules: The rules that differ, if the journal belongs to another run and nothing else differs.
        is_busy: Whether another process uses it.
    """

    rules: tuple[str, ...] = ()
    is_busy: bool = False


class JournalWriteError(OSError):
    """
    The journal can no longer be written. The message has the reason.

    Committed answers are kept, and the run can be resumed. It is not a `PayClientError`, because it is not about
    the current reference: a stream ends at once instead of continuing with the next.
    """


class PastRunError(PayClientError, ValueError):
    """
    The report of an earlier run cannot be used: it was changed, has not ended, or is of another service or key.

    Attributes:
        folder: Its folder, if its files are at fault. None for a report of another service or key.
        canary: A reference that it found with another key. Empty without one.
    """

    folder: Path | None = None
    canary: str = ""


class UnknownCanaryError(ConfigurationError):
    """The service does not know the canary: the key or the environment is not the ledger's."""


class DecisionError(ConfigurationError):
    """Decisions cannot be used: the message names the row or the line, and the problem."""


class RulesError(ConfigurationError):
    """
    A rule cannot be used. The message names the key, and the line of a rules file.

    Attributes:
        key: The path to the key, from the outermost table. A number is a position in a list, from 0.
        line: Line of the file, from 1. 0 without a file, or if the fault is not in a line.
        needs_column: Whether the ledger lacks the column that a rule needs.
    """

    key: tuple[str | int, ...] = ()
    line: int = 0
    needs_column: bool = False
