"""Reconcile ledger entries with the service: entries in, one judged row per entry out."""

from payclient._shared.lazy import load_at_first_use

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from payclient.reconcile._atomic import AtomicFiles as AtomicFiles
    from payclient.reconcile._atomic import read_own as read_own
    from payclient.reconcile._run import OnProgress as OnProgress
    from payclient.reconcile._run import Phase as Phase
    from payclient.reconcile._run import Progress as Progress
    from payclient.reconcile._run import reconcile as reconcile
    from payclient.reconcile.journal.journal import *
    from payclient.reconcile.journal.tables import *
    from payclient.reconcile.judgement.causes import *
    from payclient.reconcile.judgement.codes import *
    from payclient.reconcile.judgement.compare import *
    from payclient.reconcile.judgement.decisions import *
    from payclient.reconcile.judgement.errors import *
    from payclient.reconcile.judgement.findings import *
    from payclient.reconcile.judgement.judge import *
    from payclient.reconcile.judgement.records import *
    from payclient.reconcile.judgement.rule_values import *
    from payclient.reconcile.judgement.rules import *
    from payclient.reconcile.judgement.rules_file import *
    from payclient.reconcile.judgement.sides import *
    from payclient.reconcile.judgement.summary import *
    from payclient.reconcile.judgement.tally import *

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

_PURE = "codes errors sides findings rule_values rules rules_file decisions records compare judge causes summary tally"
_ROOMS = ("_atomic", *(f"judgement.{each}" for each in _PURE.split()), "journal.tables", "journal.journal", "_run")
"""From the lowest up, so that the search of a name loads what its own room needs anyway."""

if not TYPE_CHECKING:  # type checkers read the imports above
    __getattr__, __dir__ = load_at_first_use(__name__, {}, _ROOMS)
