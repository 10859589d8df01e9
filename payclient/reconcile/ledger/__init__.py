"""Read a ledger: a file in, one frozen entry per row out, strictly and lazily."""

from payclient.reconcile._fields import ABSENT, Entry, RejectedEntry
from payclient.reconcile._fields import COMPARED as COMPARED
from payclient.reconcile._fields import COMPARED_FIELDS as COMPARED_FIELDS
from payclient.reconcile._fields import FIELDS as FIELDS
from payclient.reconcile._fields import KINDS as KINDS
from payclient.reconcile.ledger._columns import CellProblem as CellProblem
from payclient.reconcile.ledger._columns import Columns, LedgerError
from payclient.reconcile.ledger._columns import LedgerChangedError as LedgerChangedError
from payclient.reconcile.ledger._columns import column_names as column_names
from payclient.reconcile.ledger._columns import find_columns as find_columns
from payclient.reconcile.ledger._columns import read_only as read_only
from payclient.reconcile.ledger._left_out import Excluded as Excluded
from payclient.reconcile.ledger._left_out import UnreadSheet as UnreadSheet
from payclient.reconcile.ledger._left_out import UnusedColumn as UnusedColumn
from payclient.reconcile.ledger._notation import Dialect
from payclient.reconcile.ledger._notation import SignLaw as SignLaw
from payclient.reconcile.ledger._notation import combined as combined
from payclient.reconcile.ledger._open import Ledger, open_ledger
from payclient.reconcile.ledger._open import LedgerFile as LedgerFile
from payclient.reconcile.ledger._open import LedgerFormat as LedgerFormat
from payclient.reconcile.ledger._open import check_use as check_use
from payclient.reconcile.ledger._rows import RowReader as RowReader
from payclient.reconcile.ledger._xlsx import FORMULA as FORMULA
from payclient.reconcile.ledger._xlsx import read_cells as read_cells

# Names that are imported `as` themselves are for packages above, and not public.
__all__ = ["ABSENT", "Columns", "Dialect", "Entry", "Ledger", "LedgerError", "RejectedEntry", "open_ledger"]
