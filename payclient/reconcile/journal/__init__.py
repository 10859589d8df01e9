"""Internal: the ledger, the statement and the observations of a run on disk, and resuming."""

from payclient.reconcile.journal._database import copy_journal as copy_journal
from payclient.reconcile.journal._database import verify_journal as verify_journal
from payclient.reconcile.journal._journal import REUSED as REUSED
from payclient.reconcile.journal._journal import Journal as Journal
from payclient.reconcile.journal._journal import Reuse as Reuse
from payclient.reconcile.journal._journal import break_changes as break_changes
from payclient.reconcile.journal._journal import judge_again as judge_again
from payclient.reconcile.journal._journal import judging as judging
from payclient.reconcile.journal._journal import replay as replay
from payclient.reconcile.journal._journal import take_over as take_over
