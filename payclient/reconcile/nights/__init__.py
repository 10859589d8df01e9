"""Internal: breaks and decisions of earlier runs."""

from payclient.reconcile.nights._decisions import FIRST as FIRST
from payclient.reconcile.nights._decisions import UNRESOLVED as UNRESOLVED
from payclient.reconcile.nights._decisions import Decision as Decision
from payclient.reconcile.nights._decisions import Decisions as Decisions
from payclient.reconcile.nights._decisions import Key as Key
from payclient.reconcile.nights._decisions import Resolution as Resolution
from payclient.reconcile.nights._decisions import decision_line as decision_line
from payclient.reconcile.nights._decisions import latest as latest
from payclient.reconcile.nights._decisions import read_decisions as read_decisions
from payclient.reconcile.nights._decisions import read_resolution as read_resolution
from payclient.reconcile.nights._decisions import with_decisions as with_decisions
from payclient.reconcile.nights._records import MAX_GONE_FOR as MAX_GONE_FOR
from payclient.reconcile.nights._records import BreakChange as BreakChange
from payclient.reconcile.nights._records import BreakRecord as BreakRecord
from payclient.reconcile.nights._records import PreviousRun as PreviousRun
from payclient.reconcile.nights._records import Records as Records
from payclient.reconcile.nights._records import ReferenceRecord as ReferenceRecord
from payclient.reconcile.nights._records import breaks_of as breaks_of
from payclient.reconcile.nights._records import changes_of as changes_of
from payclient.reconcile.nights._records import observed_at as observed_at
from payclient.reconcile.nights._records import record_cell as record_cell
from payclient.reconcile.nights._records import record_from as record_from
from payclient.reconcile.nights._records import reversal as reversal
from payclient.reconcile.nights._records import with_history as with_history
from payclient.reconcile.nights._since import SincePrevious as SincePrevious
