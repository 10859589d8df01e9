"""`payclient verify`: is a report still what was written?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient._visible import visible
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.report import verify as verify_manifest

EXAMPLES = """
```console
$ payclient verify report
```

Exit status: 0 every file is as it was written. 1 one is missing or changed.
"""


def verify(folder: Path, /, *, streams: Annotated[Streams, Parameter(parse=False)]) -> int:
    """
    Compare every file of a report with its manifest.

    Args:
        folder: Of the report.
        streams: Of the process.

    Returns:
        The exit status.
    """
    problems = verify_manifest(folder)
    for problem in problems:
        streams.write(f"{visible(problem.file)}: {visible(problem.what)}")
    if problems:
        return Exit.DIFFERENT
    streams.write(f"every file in {folder} is as {folder / 'manifest.json'} says")
    return Exit.DONE
