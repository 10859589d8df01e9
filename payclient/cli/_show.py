"""`payclient show`: the result of a report in a few lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from payclient._checks import check_count
from payclient._own_file import read_own
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.report import GZIP_ROWS, MANIFEST, ROWS, markdown_lines, open_rows, rows_file, worst_breaks
from payclient.report import verify as verify_manifest

EXAMPLES = """
```console
$ payclient show reports/2026-11-21
$ payclient show reports/2026-11-21 --markdown >> "$GITHUB_STEP_SUMMARY"
```

Exit status: 0, whatever the verdict; 2 when there is no report, or it was changed.
"""

_MARKS = re.compile(r"\*\*|`")


def show(
    folder: Path,
    /,
    *,
    markdown: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    worst: int = 10,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Show the result of a report in a few lines: the verdict, the money, and the worst breaks.

    Only files of the report are read, so a copy without its journal will do.

    Args:
        folder: Folder of the report.
        markdown: Write Markdown, for a chat message or the summary of a job. Nothing in the ledger or in an answer
            can become markup in it.
        worst: Breaks to show at most.
        streams: Streams of the process.
    """
    check_count("worst", worst)
    summary = unchanged_summary(folder, "cannot be shown", ConfigurationError)
    with open_rows(rows_file(folder)) as file:
        lines = markdown_lines(summary, worst_breaks(file, worst))
    for line in lines:
        streams.write(line if markdown else _MARKS.sub("", line))
    return Exit.DONE


def unchanged_summary(folder: Path, what: str, refusal: type[ConfigurationError]) -> dict[str, Any]:
    """Return the summary of a report, or refuse it because its summary, its rows or its manifest were changed."""
    for problem in verify_manifest(folder):
        if problem.file in ("summary.json", ROWS, GZIP_ROWS, MANIFEST):
            message = f"{folder} {what}: {problem.file}: {problem.what}"
            raise refusal(message)
    summary: dict[str, Any] = json.loads(read_own(folder / "summary.json"))
    return summary
