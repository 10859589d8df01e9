"""Reconcile ledger entries with what the service says: entries in, one judged row per entry out."""

from payclient.reconcile._accepted import Accepted
from payclient.reconcile._compare import compare
from payclient.reconcile._errors import JournalError, JournalWriteError, RulesError, StoppedError, TieOutError
from payclient.reconcile._expiry import expiry_rule
from payclient.reconcile._fees import FeeSchedule, Rounding
from payclient.reconcile._finding import Code, Finding, Severity
from payclient.reconcile._journal import Journal
from payclient.reconcile._judge import Case, judge
from payclient.reconcile._observation import Answer, Observation
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._row import Bucket, Row
from payclient.reconcile._rules import STRICT, Rules, rules_as_json
from payclient.reconcile._rules_file import parse_rules, read_rules, rules_from_json
from payclient.reconcile._run import Entries, reconcile, replay
from payclient.reconcile._status import Status, read_status
from payclient.reconcile._summary import COMPLETENESS, Summary, Tally, Total, Verdict
from payclient.reconcile._tie_out import Difference, Step, TieOut, step_of
from payclient.reconcile._tolerance import Tolerance

__all__ = [
    "COMPLETENESS",
    "STRICT",
    "Accepted",
    "Answer",
    "Bucket",
    "Case",
    "Code",
    "Difference",
    "Entries",
    "FeeSchedule",
    "Finding",
    "Journal",
    "JournalError",
    "JournalWriteError",
    "Observation",
    "OnProgress",
    "Phase",
    "Progress",
    "Rounding",
    "Row",
    "Rules",
    "RulesError",
    "Severity",
    "Status",
    "Step",
    "StoppedError",
    "Summary",
    "Tally",
    "TieOut",
    "TieOutError",
    "Tolerance",
    "Total",
    "Verdict",
    "compare",
    "expiry_rule",
    "judge",
    "parse_rules",
    "read_rules",
    "read_status",
    "reconcile",
    "replay",
    "rules_as_json",
    "rules_from_json",
    "step_of",
]
