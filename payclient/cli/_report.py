"""`payclient report`: rewrite a report from its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient.cli._options import OutputOptions
from payclient.cli._reconciliation import write_again
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines

EXAMPLES = """
```console
$ payclient report report
$ payclient report report --json --quiet | jq .buckets
```

The same journal gives the same bytes. Exit status: that of `payclient reconcile` for the same rows.
"""


def report(
    folder: Path,
    /,
    *,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Rewrite every file of a report from its journal, without a network or a key.

    Args:
        folder: Folder of the report.
        output: What is written and printed, and what sets the exit status.
        streams: Of the process.
    """
    worst = Worst()
    summary, rules = write_again(folder, worst.add, output=output)
    lines = [*verdict_lines(summary, worst, rules=rules), "", f"Report: {folder / 'report.html'}"]
    output.write(lines, folder, streams)
    return output.exit_status(summary)
