"""`payclient verify`: is a report still what was written?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient._escape import escape_unprintable
from payclient.cli._reconciliation import journal_path
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.reconcile import JournalError, JournalWriteError, verify_journal
from payclient.report import verify as verify_manifest

EXAMPLES = """
```console
$ payclient verify report
```

Exit status: 0 all is as it was written. 1 a file is missing or changed, or the journal is damaged.
"""


def verify(folder: Path, /, *, streams: Annotated[Streams, Parameter(parse=False)]) -> int:
    """
    Compare every file of a report with its manifest, and every row of its journal with the checksum of the row.

    Args:
        folder: Of the report.
        streams: Of the process.
    """
    problems = [f"{problem.file}: {problem.what}" for problem in verify_manifest(folder)]
    journal = journal_path(folder)
    if has_journal := os.path.lexists(journal):  # a report may be kept without it
        try:
            verify_journal(journal)
        except (JournalError, JournalWriteError) as error:
            problems.append(f"{journal.name}: {error}")
    for problem in problems:
        streams.write(escape_unprintable(problem))
    if problems:
        return Exit.DIFFERENT
    streams.write(escape_unprintable(f"every file in {folder} is as {folder / 'manifest.json'} says"))
    if has_journal:
        streams.write(escape_unprintable(f"every row of {journal} is what was written"))
    return Exit.DONE
