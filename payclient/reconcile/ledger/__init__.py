"""Read a ledger: a file in, one frozen entry per row out, strictly and lazily."""

from payclient.reconcile._atomic import Fingerprint
from payclient.reconcile.ledger._cells import CellProblem as CellProblem
from payclient.reconcile.ledger._cells import LedgerChangedError, LedgerError
from payclient.reconcile.ledger._cells import as_option as as_option
from payclient.reconcile.ledger._cells import as_word as as_word
from payclient.reconcile.ledger._columns import FIELDS as FIELDS
from payclient.reconcile.ledger._columns import Columns
from payclient.reconcile.ledger._columns import column_names as column_names
from payclient.reconcile.ledger._columns import find_columns as find_columns
from payclient.reconcile.ledger._dialect import PLAIN as PLAIN
from payclient.reconcile.ledger._dialect import Dialect, Grouping, Negative, Thousands
from payclient.reconcile.ledger._dialect import Profile as Profile
from payclient.reconcile.ledger._dialect import dialect_as_json as dialect_as_json
from payclient.reconcile.ledger._dialect import profiles as profiles
from payclient.reconcile.ledger._entry import ABSENT, Absent, Entry, RejectedEntry
from payclient.reconcile.ledger._entry import COMPARED as COMPARED
from payclient.reconcile.ledger._entry import Text as Text
from payclient.reconcile.ledger._money import MoneyReader as MoneyReader
from payclient.reconcile.ledger._open import Ledger, LedgerFile, LedgerFormat, open_ledger
from payclient.reconcile.ledger._open import check_use as check_use
from payclient.reconcile.ledger._rows import KINDS as KINDS
from payclient.reconcile.ledger._rows import RowReader as RowReader
from payclient.reconcile.ledger._scope import Excluded
from payclient.reconcile.ledger._sign import SignLaw as SignLaw
from payclient.reconcile.ledger._suggestion import Reading, Suggestion
from payclient.reconcile.ledger._unused import UnusedColumn
from payclient.reconcile.ledger._xlsx import FORMULA as FORMULA
from payclient.reconcile.ledger._xlsx import read_cells as read_cells

# What is imported `as` itself is for packages above, and not public.
__all__ = [
    "ABSENT",
    "Absent",
    "Columns",
    "Dialect",
    "Entry",
    "Excluded",
    "Fingerprint",
    "Grouping",
    "Ledger",
    "LedgerChangedError",
    "LedgerError",
    "LedgerFile",
    "LedgerFormat",
    "Negative",
    "Reading",
    "RejectedEntry",
    "Suggestion",
    "Thousands",
    "UnusedColumn",
    "open_ledger",
]
