"""`payclient report`: write a report again from its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient.cli._options import Output
from payclient.cli._reconciliation import write_again
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines

EXAMPLES = """
```console
$ payclient report report
$ payclient report report --json --quiet | jq .buckets
```

Exit status: as of `payclient reconcile`, for the same rows.
"""


def report(
    folder: Path,
    /,
    *,
    output: Output = Output(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Write every file of a report again from its journal: the same bytes, without a network and without a key.

    Args:
        folder: Of the report.
        output: What is printed, and what the exit status depends on.
        streams: Of the process.
    """
    worst = Worst()
    summary, rules = write_again(folder, worst.add, all_rows=output.all_rows)
    lines = [*verdict_lines(summary, worst, rules=rules), "", f"Report: {folder / 'report.html'}"]
    output.write(lines, folder, streams)
    return summary.exit_status(output.fail_on)
