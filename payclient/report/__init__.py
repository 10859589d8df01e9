"""Write what a reconciliation found into files that a person can sign."""

from payclient._visible import visible
from payclient.report._files import ReportFiles
from payclient.report._shape import row_as_json, summary_as_json

__all__ = [
    "ReportFiles",
    "row_as_json",
    "summary_as_json",
    "visible",
]
