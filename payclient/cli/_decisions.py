"""`payclient decisions`: take what people wrote into a work list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from payclient._escape import escape_unprintable, plural
from payclient.cli._show import unchanged_summary
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.reconcile import DecisionError, rules_from_json
from payclient.reconcile.values import utc_now
from payclient.report import DECISIONS, add_decisions, rows_file
from payclient.report._work_list import Taker, read_work_list

EXAMPLES = """
```console
$ payclient decisions take reports/2026-11-21/report.xlsx --by ana
$ payclient decisions take ~/Downloads/report.xlsx --folder reports/2026-11-21 --by ana --approved-by budi
```

Resolutions: `accepted until 2026-12-31`, `corrected in the ledger`, `raised with the service`.

Exit status: 0 when everything was taken; 2 when anything is refused, and then nothing was.
"""


def decisions(
    action: Literal["take"],
    workbook: Path,
    /,
    *,
    by: str,
    approved_by: str = "",
    folder: Path | None = None,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Take Owner, Resolution and Comment of a work list into `decisions.jsonl` beside the report.

    The workbook may be sorted, filtered, and saved by another program. Taking it again adds only what is new. The
    next report of the folder shows the decisions; they count from the next run or second judgement on.

    Args:
        action: `take`.
        workbook: The `report.xlsx` that was worked on.
        by: Who takes the decisions.
        approved_by: Who approved them, where the rules want a second person.
        folder: Folder of the run. Default: that of the workbook.
        streams: Streams of the process.
    """
    assert action == "take"  # noqa: S101  the only one so far
    run_folder = workbook.parent if folder is None else folder
    for option, name in (("--by", by), ("--approved-by", approved_by or "x")):
        if not name.strip():
            message = f"{option} must be a name"
            raise ConfigurationError(message)
    summary = unchanged_summary(run_folder, "cannot be used", DecisionError)
    run, rules = summary["run"], {name: each for name, each in summary["rules"].items() if name != "fingerprint"}
    taker = Taker(
        run=run,
        by=by.strip(),
        approved_by=approved_by.strip(),
        approval=rules_from_json(rules).approval,
        at=utc_now(),
    )
    found = taker.take(read_work_list(workbook, run), rows_file(run_folder))
    added = add_decisions(run_folder, found) if found else ()
    known = len(found) - len(added)
    taken = f"{plural(len(added), 'decision')} taken into {run_folder / DECISIONS}"
    streams.write(escape_unprintable(f"{taken}; {known:,} known before"))
    return Exit.DONE
