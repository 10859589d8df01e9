"""Reconcile ledger entries with what the service says: entries in, one judged row per entry out."""

from payclient.reconcile._acceptances import AcceptanceNotice, AcceptanceState
from payclient.reconcile._accepted import Accepted, Approval
from payclient.reconcile._break_state import BreakState, History, ResolvedBy
from payclient.reconcile._break_state import FindingTotal as FindingTotal
from payclient.reconcile._calendar import BusinessDays, Calendar
from payclient.reconcile._calendar import read_holidays as read_holidays
from payclient.reconcile._calendar import read_limit as read_limit
from payclient.reconcile._case import Case
from payclient.reconcile._code import Code, PatternKind, Severity
from payclient.reconcile._compare import compare
from payclient.reconcile._compare import reff_key as reff_key
from payclient.reconcile._compared import Compared
from payclient.reconcile._database import copy_journal as copy_journal
from payclient.reconcile._database import verify_journal
from payclient.reconcile._decisions import FIRST as FIRST
from payclient.reconcile._decisions import UNRESOLVED as UNRESOLVED
from payclient.reconcile._decisions import Decision, Resolution
from payclient.reconcile._decisions import Decisions as Decisions
from payclient.reconcile._decisions import decision_line as decision_line
from payclient.reconcile._decisions import latest as latest
from payclient.reconcile._decisions import read_decisions as read_decisions
from payclient.reconcile._decisions import read_resolution as read_resolution
from payclient.reconcile._decisions import with_decisions as with_decisions
from payclient.reconcile._difference import Difference
from payclient.reconcile._earlier import Earlier as Earlier
from payclient.reconcile._earlier import PreviousRun as PreviousRun
from payclient.reconcile._earlier import Records as Records
from payclient.reconcile._errors import (
    DecisionError,
    JournalError,
    JournalWriteError,
    PastRunError,
    RulesError,
    StoppedError,
    TieOutError,
)
from payclient.reconcile._errors import UnknownCanaryError as UnknownCanaryError
from payclient.reconcile._finding import Bucket, Finding, Row
from payclient.reconcile._history import BreakChange as BreakChange
from payclient.reconcile._history import KnownBreak as KnownBreak
from payclient.reconcile._history import Seen as Seen
from payclient.reconcile._history import changes_of as changes_of
from payclient.reconcile._history import seen_of as seen_of
from payclient.reconcile._journal import Journal
from payclient.reconcile._json import as_json as as_json
from payclient.reconcile._json import from_json as from_json
from payclient.reconcile._judge import judge
from payclient.reconcile._judge import needs_confirmation as needs_confirmation
from payclient.reconcile._leakage import OTHER as OTHER
from payclient.reconcile._leakage import Leakage
from payclient.reconcile._line_rules import IgnoredLines, InvoiceAmount, Invoices, Kind, Kinds, Lines, OfOneReference
from payclient.reconcile._observation import Answer, Observation
from payclient.reconcile._observation import Matched as Matched
from payclient.reconcile._observation import ask_canary as ask_canary
from payclient.reconcile._observation import observe as observe
from payclient.reconcile._observation import utc_now as utc_now
from payclient.reconcile._open_findings import OpenFindings as OpenFindings
from payclient.reconcile._open_findings import OpenTally as OpenTally
from payclient.reconcile._patterns import Pattern
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._recheck import CONFIDENCE as CONFIDENCE
from payclient.reconcile._recheck import Recheck as Recheck
from payclient.reconcile._recheck import Rechecked as Rechecked
from payclient.reconcile._replay import break_changes as break_changes
from payclient.reconcile._replay import judge_again as judge_again
from payclient.reconcile._replay import replay
from payclient.reconcile._reuse import EarlierAnswers as EarlierAnswers
from payclient.reconcile._reuse import Reuse as Reuse
from payclient.reconcile._rule_values import duration_text as duration_text
from payclient.reconcile._rule_values import read_duration as read_duration
from payclient.reconcile._rules import STRICT, FeeSchedule, Rounding, Rules, Tolerance, rules_as_json, with_profiles
from payclient.reconcile._rules import changed_rules as changed_rules
from payclient.reconcile._rules import keep_reading as keep_reading
from payclient.reconcile._rules_file import parse_rules, read_rules, rules_from_json
from payclient.reconcile._run import Entries, reconcile
from payclient.reconcile._settled import OtherSide, Settled, StatementTotals
from payclient.reconcile._settlement import Settlement, SettlementStep
from payclient.reconcile._since import SincePrevious as SincePrevious
from payclient.reconcile._statement_rules import StatementRules
from payclient.reconcile._status import Assumed, Status, read_status
from payclient.reconcile._status_finding import expiry_rule
from payclient.reconcile._summary import COMPLETENESS, Summary, Tally, Total, Verdict
from payclient.reconcile._tie_out import StateTotal, Step, TieOut, moved_by, step_of
from payclient.reconcile._tie_out import paid_by as paid_by

# What is imported `as` itself is for packages above, and not public.
__all__ = [
    "COMPLETENESS",
    "STRICT",
    "AcceptanceNotice",
    "AcceptanceState",
    "Accepted",
    "Answer",
    "Approval",
    "Assumed",
    "BreakState",
    "Bucket",
    "BusinessDays",
    "Calendar",
    "Case",
    "Code",
    "Compared",
    "Decision",
    "DecisionError",
    "Difference",
    "Entries",
    "FeeSchedule",
    "Finding",
    "History",
    "IgnoredLines",
    "InvoiceAmount",
    "Invoices",
    "Journal",
    "JournalError",
    "JournalWriteError",
    "Kind",
    "Kinds",
    "Leakage",
    "Lines",
    "Observation",
    "OfOneReference",
    "OnProgress",
    "OtherSide",
    "PastRunError",
    "Pattern",
    "PatternKind",
    "Phase",
    "Progress",
    "Resolution",
    "ResolvedBy",
    "Rounding",
    "Row",
    "Rules",
    "RulesError",
    "Settled",
    "Settlement",
    "SettlementStep",
    "Severity",
    "StateTotal",
    "StatementRules",
    "StatementTotals",
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
    "moved_by",
    "parse_rules",
    "read_rules",
    "read_status",
    "reconcile",
    "replay",
    "rules_as_json",
    "rules_from_json",
    "step_of",
    "verify_journal",
    "with_profiles",
]
