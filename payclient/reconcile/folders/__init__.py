"""The folder of a run: written by it, written again from its journal, read by the next run, compared with another."""

from payclient.reconcile.folders._diff import RunDiff
from payclient.reconcile.folders._folder import JOURNAL as JOURNAL
from payclient.reconcile.folders._folder import PastRun as PastRun
from payclient.reconcile.folders._folder import about_of as about_of
from payclient.reconcile.folders._folder import finish as finish
from payclient.reconcile.folders._folder import ledger_about as ledger_about
from payclient.reconcile.folders._folder import note_about as note_about
from payclient.reconcile.folders._folder import note_statement as note_statement
from payclient.reconcile.folders._folder import open_past_run, write_again
from payclient.reconcile.folders._folder import runs_without_report as runs_without_report
from payclient.reconcile.folders._folder import started_at as started_at

# Names that are imported `as` themselves are for packages above, and not public.
__all__ = ["RunDiff", "open_past_run", "write_again"]
