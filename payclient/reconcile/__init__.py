"""Reconcile ledger entries with the service: entries in, one judged row per entry out."""

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.reconcile._atomic import AtomicFiles as AtomicFiles
    from payclient.reconcile._atomic import read_own as read_own
    from payclient.reconcile._replay import break_changes as break_changes
    from payclient.reconcile._replay import judge_again as judge_again
    from payclient.reconcile._replay import judging as judging
    from payclient.reconcile._replay import replay as replay
    from payclient.reconcile._run import Entries, reconcile
    from payclient.reconcile._run import OnProgress as OnProgress
    from payclient.reconcile._run import Phase as Phase
    from payclient.reconcile._run import Progress as Progress
    from payclient.reconcile.journal import Journal
    from payclient.reconcile.journal import Reuse as Reuse
    from payclient.reconcile.journal import copy_journal as copy_journal
    from payclient.reconcile.journal import verify_journal as verify_journal
    from payclient.reconcile.judgement import Case, compare, judge
    from payclient.reconcile.judgement import expiry_rule as expiry_rule
    from payclient.reconcile.judgement import needs_confirmation as needs_confirmation
    from payclient.reconcile.nights import Decision as Decision
    from payclient.reconcile.nights import Resolution as Resolution
    from payclient.reconcile.nights import with_decisions as with_decisions
    from payclient.reconcile.result import EXIT_STATUSES as EXIT_STATUSES
    from payclient.reconcile.result import Compared as Compared
    from payclient.reconcile.result import Leakage as Leakage
    from payclient.reconcile.result import OpenFindings as OpenFindings
    from payclient.reconcile.result import Pattern as Pattern
    from payclient.reconcile.result import Settlement as Settlement
    from payclient.reconcile.result import SettlementStep as SettlementStep
    from payclient.reconcile.result import StateTotal as StateTotal
    from payclient.reconcile.result import Summary, Verdict
    from payclient.reconcile.result import Tally as Tally
    from payclient.reconcile.result import TieOut as TieOut
    from payclient.reconcile.result import Total as Total
    from payclient.reconcile.result import moved_by as moved_by
    from payclient.reconcile.result import step_of as step_of
    from payclient.reconcile.rules import (
        STRICT,
        Accepted,
        BusinessDays,
        Calendar,
        FeeSchedule,
        Kinds,
        Lines,
        Rounding,
        Rules,
        StatementRules,
        Tolerance,
        parse_rules,
        read_rules,
    )
    from payclient.reconcile.rules import IgnoredLines as IgnoredLines
    from payclient.reconcile.rules import Kind as Kind
    from payclient.reconcile.rules import Meta as Meta
    from payclient.reconcile.rules import RepeatedReference as RepeatedReference
    from payclient.reconcile.rules import as_json as as_json
    from payclient.reconcile.rules import changed_rules as changed_rules
    from payclient.reconcile.rules import check_currencies as check_currencies
    from payclient.reconcile.rules import duration_text as duration_text
    from payclient.reconcile.rules import from_json as from_json
    from payclient.reconcile.rules import read_duration as read_duration
    from payclient.reconcile.rules import read_limit as read_limit
    from payclient.reconcile.rules import rules_as_json as rules_as_json
    from payclient.reconcile.rules import rules_from_json as rules_from_json
    from payclient.reconcile.rules import with_reading_of as with_reading_of
    from payclient.reconcile.values import (
        Answer,
        Bucket,
        Code,
        DecisionError,
        Difference,
        Finding,
        JournalError,
        JournalWriteError,
        Origin,
        PastRunError,
        Row,
        RulesError,
        Settled,
        Severity,
        Status,
        StoppedError,
        read_status,
    )
    from payclient.reconcile.values import Assumed as Assumed
    from payclient.reconcile.values import BreakState as BreakState
    from payclient.reconcile.values import History as History
    from payclient.reconcile.values import Observation as Observation
    from payclient.reconcile.values import PatternKind as PatternKind
    from payclient.reconcile.values import ResolvedBy as ResolvedBy
    from payclient.reconcile.values import StatementSide as StatementSide
    from payclient.reconcile.values import StatementTotals as StatementTotals
    from payclient.reconcile.values import Step as Step
    from payclient.reconcile.values import TieOutError as TieOutError
    from payclient.reconcile.values import UnknownCanaryError as UnknownCanaryError
    from payclient.reconcile.values import ask_canary as ask_canary
    from payclient.reconcile.values import observe as observe
    from payclient.reconcile.values import utc_now as utc_now

# Names that are imported `as` themselves are for packages above, and not public.
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
    "Origin",
    "PastRunError",
    "Rounding",
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

_HOME = {
    "payclient.reconcile._atomic": ("AtomicFiles", "read_own"),
    "payclient.reconcile._replay": ("break_changes", "judge_again", "judging", "replay"),
    "payclient.reconcile._run": ("Entries", "OnProgress", "Phase", "Progress", "reconcile"),
}
_ROOMS = ("values", "rules", "nights", "judgement", "journal", "result")
"""From the lowest up, so that the search of a name loads what its own room needs anyway."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__, __dir__ = load_at_first_use(__name__, _HOME, _ROOMS)
