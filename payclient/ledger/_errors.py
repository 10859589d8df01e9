"""The errors of a ledger."""

from __future__ import annotations

from payclient.errors import PayClientError


class LedgerError(PayClientError, ValueError):
    """
    The ledger as a whole cannot be trusted; the message says where, and what to do.

    Attributes:
        line: Line of the file, from 1; 0 if the problem has no line.
        offset: Byte of the file, from 0; None if the problem is not about bytes.
    """

    def __init__(self, message: str = "", *, attempts: int = 0, line: int = 0, offset: int | None = None) -> None:
        super().__init__(message, attempts=attempts)
        self.line = line
        self.offset = offset


class LedgerChangedError(LedgerError):
    """The ledger file changed after it was read, so no report is written."""
