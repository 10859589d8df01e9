"""Internal: one case in, one judged row out. Pure functions."""

from payclient.reconcile.judgement._case import Case as Case
from payclient.reconcile.judgement._case import PendingLookup as PendingLookup
from payclient.reconcile.judgement._case import are_parts as are_parts
from payclient.reconcile.judgement._case import judged_entries as judged_entries
from payclient.reconcile.judgement._case import why_not_summed as why_not_summed
from payclient.reconcile.judgement._compare import compare as compare
from payclient.reconcile.judgement._compare import expiry_rule as expiry_rule
from payclient.reconcile.judgement._compare import reff_key as reff_key
from payclient.reconcile.judgement._judge import differing as differing
from payclient.reconcile.judgement._judge import judge as judge
from payclient.reconcile.judgement._judge import needs_confirmation as needs_confirmation
from payclient.reconcile.judgement._judge import paid_reff_of as paid_reff_of
from payclient.reconcile.judgement._statement import StatementSum as StatementSum
from payclient.reconcile.judgement._statement import settled_by as settled_by
from payclient.reconcile.judgement._statement import stated_money as stated_money
from payclient.reconcile.judgement._statement import usable_line as usable_line
