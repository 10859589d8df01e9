"""Write the findings of a reconciliation into files that a person can sign."""

from payclient.reconcile.report._files import ReportFiles
from payclient.reconcile.report._files import open_findings_as_json as open_findings_as_json
from payclient.reconcile.report._integrity import DECISIONS as DECISIONS
from payclient.reconcile.report._integrity import MANIFEST as MANIFEST
from payclient.reconcile.report._integrity import WORK_LIST as WORK_LIST
from payclient.reconcile.report._integrity import add_decisions as add_decisions
from payclient.reconcile.report._integrity import carry_log as carry_log
from payclient.reconcile.report._integrity import earlier_decisions as earlier_decisions
from payclient.reconcile.report._integrity import read_log as read_log
from payclient.reconcile.report._integrity import read_signatures as read_signatures
from payclient.reconcile.report._integrity import sign as sign
from payclient.reconcile.report._integrity import state_of as state_of
from payclient.reconcile.report._integrity import verify
from payclient.reconcile.report._integrity import verify_decisions as verify_decisions
from payclient.reconcile.report._integrity import verify_signatures as verify_signatures
from payclient.reconcile.report._model import FORMATS as FORMATS
from payclient.reconcile.report._model import HISTORY as HISTORY
from payclient.reconcile.report._model import About, LedgerAbout, Report
from payclient.reconcile.report._model import BreakItem as BreakItem
from payclient.reconcile.report._model import BridgeLine as BridgeLine
from payclient.reconcile.report._model import JudgedAgain as JudgedAgain
from payclient.reconcile.report._model import StatementAbout as StatementAbout
from payclient.reconcile.report._model import about_as_json as about_as_json
from payclient.reconcile.report._model import run_name as run_name
from payclient.reconcile.report._rows import ROWS as ROWS
from payclient.reconcile.report._rows import RowLine as RowLine
from payclient.reconcile.report._rows import change_as_json as change_as_json
from payclient.reconcile.report._rows import memory_line as memory_line
from payclient.reconcile.report._rows import open_rows as open_rows
from payclient.reconcile.report._rows import read_time as read_time
from payclient.reconcile.report._rows import row_from_json as row_from_json
from payclient.reconcile.report._rows import row_lines_of as row_lines_of
from payclient.reconcile.report._rows import settled_from as settled_from
from payclient.reconcile.report._wording import in_words as in_words
from payclient.reconcile.report._wording import moves as moves
from payclient.reconcile.report._wording import pattern_words as pattern_words
from payclient.reconcile.report._wording import roll_forward_lines as roll_forward_lines
from payclient.reconcile.report._wording import rules_sentences as rules_sentences

# Names that are imported `as` themselves are for packages above, and not public.
__all__ = ["About", "LedgerAbout", "Report", "ReportFiles", "verify"]
