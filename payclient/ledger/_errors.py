"""What goes wrong with a ledger, rather than with a lookup."""

from __future__ import annotations

from payclient.errors import PayClientError


class LedgerError(PayClientError, ValueError):
    """
    The ledger as a whole cannot be trusted; the message names the place and the remedy.

    Attributes:
        line: Line of the file, from 1; 0 when the fault has no line.
        offset: Byte of the file, from 0; None when the fault is not one of bytes.
    """

    def __init__(self, message: str = "", *, attempts: int = 0, line: int = 0, offset: int | None = None) -> None:
        super().__init__(message, attempts=attempts)
        self.line = line
        self.offset = offset


class LedgerChangedError(LedgerError):
    """The ledger is no longer what was read, so a report would be about something that is gone."""
