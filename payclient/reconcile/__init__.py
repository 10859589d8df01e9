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
    from payclient.reconcile._run import OnProgress as OnProgress
    from payclient.reconcile._run import Phase as Phase
    from payclient.reconcile._run import Progress as Progress
    from payclient.reconcile._run import reconcile as reconcile
    from payclient.reconcile.journal import *
    from payclient.reconcile.judgement import *
    from payclient.reconcile.nights import *
    from payclient.reconcile.result import *
    from payclient.reconcile.rules import *
    from payclient.reconcile.values import *

# The rest of what is imported is for packages above, and not public.
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

_ROOMS = ("_atomic", "values", "rules", "nights", "judgement", "journal", "result", "_replay", "_run")
"""From the lowest up, so that the search of a name loads what its own room needs anyway."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__, __dir__ = load_at_first_use(__name__, {}, _ROOMS)
