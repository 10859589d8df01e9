"""Reconcile ledger entries with what the service says: entries in, one judged row per entry out."""

from payclient.reconcile._compare import compare
from payclient.reconcile._errors import JournalError, JournalWriteError, TieOutError
from payclient.reconcile._finding import Code, Finding, Severity
from payclient.reconcile._journal import Journal
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._rules import Rules
from payclient.reconcile._run import Entries, reconcile, replay
from payclient.reconcile._status import Status, read_status
from payclient.reconcile._summary import COMPLETENESS, Summary, Tally, Total, Verdict
from payclient.reconcile._tie_out import Difference, Step, TieOut

__all__ = [
    "COMPLETENESS",
    "Bucket",
    "Code",
    "Difference",
    "Entries",
    "Finding",
    "Journal",
    "JournalError",
    "JournalWriteError",
    "OnProgress",
    "Phase",
    "Progress",
    "Row",
    "Rules",
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
    "replay",
]
