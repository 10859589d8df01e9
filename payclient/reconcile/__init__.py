"""Reconcile ledger entries with the service: entries in, one judged row per entry out."""

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.reconcile._atomic import AtomicFiles as AtomicFiles
    from payclient.reconcile._atomic import read_own as read_own
    from payclient.reconcile._replay import break_changes as break_changes
    from payclient.reconcile._replay import judge_again as judge_again
    from payclient.reconcile._replay import judging as judging
    from payclient.reconcile._replay import replay
    from payclient.reconcile._run import Entries, OnProgress, Phase, Progress, reconcile
    from payclient.reconcile.journal import Journal, verify_journal
    from payclient.reconcile.journal import Reuse as Reuse
    from payclient.reconcile.journal import copy_journal as copy_journal
    from payclient.reconcile.judgement import Case, compare, judge
    from payclient.reconcile.judgement import expiry_rule as expiry_rule
    from payclient.reconcile.judgement import needs_confirmation as needs_confirmation
    from payclient.reconcile.nights import Decision, Resolution
    from payclient.reconcile.nights import with_decisions as with_decisions
    from payclient.reconcile.result import EXIT_STATUSES as EXIT_STATUSES
    from payclient.reconcile.result import (
        AcceptanceNotice,
        AcceptanceState,
        Compared,
        Leakage,
        Pattern,
        Settlement,
        SettlementStep,
        StateTotal,
        Summary,
        Tally,
        TieOut,
        Total,
        Verdict,
    )
    from payclient.reconcile.result import OpenFindings as OpenFindings
    from payclient.reconcile.result import moved_by as moved_by
    from payclient.reconcile.result import step_of as step_of
    from payclient.reconcile.rules import (
        STRICT,
        Accepted,
        BusinessDays,
        Calendar,
        FeeSchedule,
        IgnoredLines,
        Kind,
        Kinds,
        Lines,
        Meta,
        RepeatedReference,
        Rounding,
        Rules,
        StatementRules,
        Tolerance,
        parse_rules,
        read_rules,
        rules_as_json,
        rules_from_json,
    )
    from payclient.reconcile.rules import as_json as as_json
    from payclient.reconcile.rules import changed_rules as changed_rules
    from payclient.reconcile.rules import check_currencies as check_currencies
    from payclient.reconcile.rules import duration_text as duration_text
    from payclient.reconcile.rules import from_json as from_json
    from payclient.reconcile.rules import read_duration as read_duration
    from payclient.reconcile.rules import read_limit as read_limit
    from payclient.reconcile.rules import with_reading_of as with_reading_of
    from payclient.reconcile.values import (
        Answer,
        Assumed,
        BreakState,
        Bucket,
        Code,
        DecisionError,
        Difference,
        Finding,
        History,
        JournalError,
        JournalWriteError,
        Observation,
        Origin,
        PastRunError,
        PatternKind,
        ResolvedBy,
        Row,
        RulesError,
        Settled,
        Severity,
        StatementSide,
        StatementTotals,
        Status,
        Step,
        StoppedError,
        TieOutError,
        read_status,
    )
    from payclient.reconcile.values import UnknownCanaryError as UnknownCanaryError
    from payclient.reconcile.values import ask_canary as ask_canary
    from payclient.reconcile.values import observe as observe
    from payclient.reconcile.values import utc_now as utc_now

# What is imported `as` itself is for packages above, and not public.
__all__ = [
    "STRICT",
    "AcceptanceNotice",
    "AcceptanceState",
    "Accepted",
    "Answer",
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
    "Journal",
    "JournalError",
    "JournalWriteError",
    "Kind",
    "Kinds",
    "Leakage",
    "Lines",
    "Meta",
    "Observation",
    "OnProgress",
    "Origin",
    "PastRunError",
    "Pattern",
    "PatternKind",
    "Phase",
    "Progress",
    "RepeatedReference",
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
    "StatementSide",
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
    "judge",
    "parse_rules",
    "read_rules",
    "read_status",
    "reconcile",
    "replay",
    "rules_as_json",
    "rules_from_json",
    "verify_journal",
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
