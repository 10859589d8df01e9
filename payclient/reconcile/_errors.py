"""What goes wrong with our own sums or with the journal, rather than with a ledger or a lookup."""

from __future__ import annotations

from payclient.errors import ConfigurationError, PayClientError


class TieOutError(AssertionError):
    """The sums of a report do not tie, which is a bug of payclient and never of the ledger."""


class StoppedError(PayClientError):
    """The caller asked for an end; what was answered is in the journal, and the run can be gone on with."""


class JournalError(PayClientError, ValueError):
    """The journal cannot be used for this run: it is another's, damaged or in use; the message says which."""


class JournalWriteError(OSError):
    """
    The journal cannot be written any more; the message says why.

    What was committed before is kept, and the same run can be gone on with. It is no `PayClientError`, because it says
    nothing about the reference under way: a stream ends at once instead of going on with the next one.
    """


class RulesError(ConfigurationError):
    """
    A rule cannot be used; the message names the key, and the line where rules came from a file.

    Attributes:
        key: The parts of the key's name, from the outermost table on; a number for one of a list, from 0.
        line: Line of the file, from 1; 0 when there is no file, or the fault has no line.
    """

    def __init__(self, message: str = "", *, attempts: int = 0, key: tuple[str | int, ...] = (), line: int = 0) -> None:
        super().__init__(message, attempts=attempts)
        self.key = key
        self.line = line
