"""Write what a reconciliation found into files that a person can sign."""

from payclient._visible import visible
from payclient.report._about import About, LedgerAbout
from payclient.report._about_json import about_as_json, about_from_json
from payclient.report._files import ReportFiles
from payclient.report._manifest import FORMATS, MANIFEST, Problem, verify
from payclient.report._matrix import Cell, Matrix
from payclient.report._shape import row_as_json
from payclient.report._summary_shape import summary_as_json

__all__ = [
    "FORMATS",
    "MANIFEST",
    "About",
    "Cell",
    "LedgerAbout",
    "Matrix",
    "Problem",
    "ReportFiles",
    "about_as_json",
    "about_from_json",
    "row_as_json",
    "summary_as_json",
    "verify",
    "visible",
]
