"""Write the findings of a reconciliation into files that a person can sign."""

from payclient.reconcile.report._files import ReportFiles
from payclient.reconcile.report.integrity import verify
from payclient.reconcile.report.model import About, LedgerAbout, Report

__all__ = ["About", "LedgerAbout", "Report", "ReportFiles", "verify"]
