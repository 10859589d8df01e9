"""Read a ledger: a file in, one frozen entry per row out, strictly and lazily."""

from payclient.ledger._columns import Columns
from payclient.ledger._entry import ABSENT, Absent, Entry, RejectedEntry
from payclient.ledger._errors import LedgerChangedError, LedgerError
from payclient.ledger._ledger import Ledger, LedgerFormat
from payclient.ledger._open import open_ledger
from payclient.ledger._source import Fingerprint, LedgerFile

__all__ = [
    "ABSENT",
    "Absent",
    "Columns",
    "Entry",
    "Fingerprint",
    "Ledger",
    "LedgerChangedError",
    "LedgerError",
    "LedgerFile",
    "LedgerFormat",
    "RejectedEntry",
    "open_ledger",
]
