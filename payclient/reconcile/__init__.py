"""Reconcile a ledger with what the service says: entries in, one row per entry out."""

from payclient.reconcile._columns import Columns
from payclient.reconcile._compare import compare
from payclient.reconcile._csv import CsvLedger
from payclient.reconcile._entry import ABSENT, Absent, Entry, RejectedEntry
from payclient.reconcile._errors import LedgerChangedError, LedgerError, TieOutError
from payclient.reconcile._finding import Code, Finding, Severity
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._report import ReportFiles
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._run import Entries, reconcile
from payclient.reconcile._shape import row_as_json, summary_as_json
from payclient.reconcile._source import Fingerprint, LedgerFile
from payclient.reconcile._status import Status, read_status
from payclient.reconcile._summary import COMPLETENESS, Summary, Tally, Total, Verdict
from payclient.reconcile._tie_out import Difference, Step, TieOut
from payclient.reconcile._visible import visible

__all__ = [
    "ABSENT",
    "COMPLETENESS",
    "Absent",
    "Bucket",
    "Code",
    "Columns",
    "CsvLedger",
    "Difference",
    "Entries",
    "Entry",
    "Finding",
    "Fingerprint",
    "LedgerChangedError",
    "LedgerError",
    "LedgerFile",
    "OnProgress",
    "Phase",
    "Progress",
    "RejectedEntry",
    "ReportFiles",
    "Row",
    "Severity",
    "Status",
    "Step",
    "Summary",
    "Tally",
    "TieOut",
    "TieOutError",
    "Total",
    "Verdict",
    "compare",
    "read_status",
    "reconcile",
    "row_as_json",
    "summary_as_json",
    "visible",
]
