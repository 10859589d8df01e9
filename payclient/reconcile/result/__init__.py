"""Internal: the figures of all rows in a report: totals, bridges, patterns."""

from payclient.reconcile.result._bridges import Settlement as Settlement
from payclient.reconcile.result._bridges import SettlementStep as SettlementStep
from payclient.reconcile.result._bridges import StateTotal as StateTotal
from payclient.reconcile.result._bridges import TieOut as TieOut
from payclient.reconcile.result._bridges import moved_by as moved_by
from payclient.reconcile.result._bridges import step_of as step_of
from payclient.reconcile.result._patterns import SETTLED as SETTLED
from payclient.reconcile.result._patterns import Pattern as Pattern
from payclient.reconcile.result._patterns import UnknownWord as UnknownWord
from payclient.reconcile.result._patterns import UnknownWords as UnknownWords
from payclient.reconcile.result._summary import EXIT_STATUSES as EXIT_STATUSES
from payclient.reconcile.result._summary import AcceptanceNotice as AcceptanceNotice
from payclient.reconcile.result._summary import AcceptanceState as AcceptanceState
from payclient.reconcile.result._summary import Compared as Compared
from payclient.reconcile.result._summary import Condition as Condition
from payclient.reconcile.result._summary import FollowUp as FollowUp
from payclient.reconcile.result._summary import Leakage as Leakage
from payclient.reconcile.result._summary import OpenFindings as OpenFindings
from payclient.reconcile.result._summary import Period as Period
from payclient.reconcile.result._summary import Summary as Summary
from payclient.reconcile.result._summary import Total as Total
from payclient.reconcile.result._summary import Verdict as Verdict
from payclient.reconcile.result._tables import temporary_database as temporary_database
from payclient.reconcile.result._tally import Tally as Tally
