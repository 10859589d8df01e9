"""Reconcile ledger entries with the service: entries in, one judged row per entry out."""

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.reconcile._atomic import AtomicFiles as AtomicFiles
    from payclient.reconcile._atomic import read_own as read_own
    from payclient.reconcile._journal.journal import Journal
    from payclient.reconcile._journal.journal import Reuse as Reuse
    from payclient.reconcile._journal.journal import judge_again as judge_again
    from payclient.reconcile._journal.journal import judging as judging
    from payclient.reconcile._journal.tables import copy_journal as copy_journal
    from payclient.reconcile._judgement.causes import moved_by as moved_by
    from payclient.reconcile._judgement.causes import step_of as step_of
    from payclient.reconcile._judgement.codes import Assumed as Assumed
    from payclient.reconcile._judgement.codes import Code, Difference, Severity, Status, read_status
    from payclient.reconcile._judgement.compare import compare
    from payclient.reconcile._judgement.compare import expiry_rule as expiry_rule
    from payclient.reconcile._judgement.decisions import Decision as Decision
    from payclient.reconcile._judgement.decisions import with_decisions as with_decisions
    from payclient.reconcile._judgement.errors import (
        DecisionError,
        JournalError,
        JournalWriteError,
        PastRunError,
        RulesError,
        StoppedError,
    )
    from payclient.reconcile._judgement.errors import UnknownCanaryError as UnknownCanaryError
    from payclient.reconcile._judgement.findings import BreakState as BreakState
    from payclient.reconcile._judgement.findings import Bucket, Finding, Row
    from payclient.reconcile._judgement.findings import ResolvedBy as ResolvedBy
    from payclient.reconcile._judgement.judge import Case, judge
    from payclient.reconcile._judgement.judge import needs_confirmation as needs_confirmation
    from payclient.reconcile._judgement.rules import (
        STRICT,
        Accepted,
        BusinessDays,
        Calendar,
        FeeSchedule,
        Kinds,
        Lines,
        Rules,
        StatementRules,
        Tolerance,
        parse_rules,
        read_rules,
    )
    from payclient.reconcile._judgement.rules import UnknownWords as UnknownWords
    from payclient.reconcile._judgement.rules import changed_rules as changed_rules
    from payclient.reconcile._judgement.rules import check_currencies as check_currencies
    from payclient.reconcile._judgement.rules import dialect_as_json as dialect_as_json
    from payclient.reconcile._judgement.rules import duration_text as duration_text
    from payclient.reconcile._judgement.rules import read_duration as read_duration
    from payclient.reconcile._judgement.rules import rule_changes as rule_changes
    from payclient.reconcile._judgement.rules import rules_as_json as rules_as_json
    from payclient.reconcile._judgement.rules import rules_from_json as rules_from_json
    from payclient.reconcile._judgement.rules import with_reading_of as with_reading_of
    from payclient.reconcile._judgement.sides import Answer, Settled
    from payclient.reconcile._judgement.sides import Observation as Observation
    from payclient.reconcile._judgement.sides import ask_canary as ask_canary
    from payclient.reconcile._judgement.sides import observe as observe
    from payclient.reconcile._judgement.sides import utc_now as utc_now
    from payclient.reconcile._judgement.summary import Condition as Condition
    from payclient.reconcile._judgement.summary import OpenFindings as OpenFindings
    from payclient.reconcile._judgement.summary import Summary, Verdict
    from payclient.reconcile._judgement.summary import Total as Total
    from payclient.reconcile._run import OnProgress as OnProgress
    from payclient.reconcile._run import Phase as Phase
    from payclient.reconcile._run import Progress as Progress
    from payclient.reconcile._run import reconcile as reconcile

# The other imports are for packages above, and not public.
__all__ = [
    "STRICT",
    "Accepted",
    "Answer",
    "Bucket",
    "BusinessDays",
    "Calendar",
    "Case",
    "Code",
    "DecisionError",
    "Difference",
    "Entries",
    "FeeSchedule",
    "Finding",
    "Journal",
    "JournalError",
    "JournalWriteError",
    "Kinds",
    "Lines",
    "PastRunError",
    "Row",
    "Rules",
    "RulesError",
    "Settled",
    "Severity",
    "StatementRules",
    "Status",
    "StoppedError",
    "Summary",
    "Tolerance",
    "Verdict",
    "compare",
    "judge",
    "parse_rules",
    "read_rules",
    "read_status",
    "reconcile",
]

_PURE = "codes errors sides findings rules decisions records compare judge causes summary"
_ROOMS = ("_atomic", *(f"_judgement.{each}" for each in _PURE.split()), "_journal.tables", "_journal.journal", "_run")
"""From the lowest up, so that the search of a name loads what its own room needs anyway."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__, __dir__ = load_at_first_use(__name__, *_ROOMS, is_internal=True)
