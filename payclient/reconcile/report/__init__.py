"""Write the findings of a reconciliation into files that a person can sign."""

from payclient.reconcile._judgement.summary import About, LedgerAbout
from payclient.reconcile._judgement.summary import JudgedAgain as JudgedAgain
from payclient.reconcile._judgement.summary import StatementAbout as StatementAbout
from payclient.reconcile.report._files import ReportFiles
from payclient.reconcile.report.integrity import verify
from payclient.reconcile.report.model import Report

__all__ = ["About", "LedgerAbout", "Report", "ReportFiles", "verify"]
