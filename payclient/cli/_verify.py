"""`payclient verify`: check a report against its checksums."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient._escape import escape_unprintable
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.reconcile import JournalError, JournalWriteError, verify_journal
from payclient.report import DECISIONS, JOURNAL, WORK_LIST, verify_decisions
from payclient.report import verify as verify_manifest

EXAMPLES = """
```console
$ payclient verify report
```

Exit status: 0 everything is unchanged. 1 a file is missing or changed, or the journal is damaged.
"""


def verify(
    folder: Path,
    /,
    *,
    allow_edits: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Check the files of a report and the rows of its journal against their checksums.

    Args:
        folder: Folder of the report.
        allow_edits: Accept that `report.xlsx`, the work list, was edited or moved away; no other command reads it,
            but for the decisions in it.
        streams: Of the process.
    """
    found = verify_manifest(folder)
    is_edited = allow_edits and any(problem.file == WORK_LIST for problem in found)
    problems = [f"{problem.file}: {problem.what}" for problem in found if not is_edited or problem.file != WORK_LIST]
    problems += [f"{problem.file}: {problem.what}" for problem in verify_decisions(folder)]
    journal = folder / JOURNAL
    if has_journal := os.path.lexists(journal):  # a report may be kept without it
        try:
            verify_journal(journal)
        except (JournalError, JournalWriteError) as error:
            problems.append(f"{journal.name}: {error}")
    for problem in problems:
        streams.write(escape_unprintable(problem))
    if problems:
        return Exit.DIFFERENT
    which = f"every file but {WORK_LIST}" if is_edited else "every file"
    streams.write(escape_unprintable(f"{which} in {folder} matches {folder / 'manifest.json'}"))
    if os.path.lexists(folder / DECISIONS):
        streams.write(escape_unprintable(f"every line of {folder / DECISIONS} follows the one before"))
    if has_journal:
        streams.write(escape_unprintable(f"every row of {journal} matches its checksum"))
    return Exit.DONE
