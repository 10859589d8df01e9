"""Read a ledger: a file in, one frozen entry per row out, strictly and lazily."""

from payclient._atomic import Fingerprint
from payclient.ledger._columns import FIELDS as FIELDS
from payclient.ledger._columns import Columns
from payclient.ledger._columns import find_columns as find_columns
from payclient.ledger._entry import ABSENT, Absent, Entry, RejectedEntry
from payclient.ledger._entry import COMPARED as COMPARED
from payclient.ledger._entry import Text as Text
from payclient.ledger._errors import LedgerChangedError, LedgerError
from payclient.ledger._ledger import Ledger, LedgerFormat
from payclient.ledger._open import open_ledger
from payclient.ledger._rows import TYPED_READERS as TYPED_READERS
from payclient.ledger._rows import RowReader as RowReader
from payclient.ledger._source import LedgerFile

# What is imported `as` itself is for packages above, and not public.
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
