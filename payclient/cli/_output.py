"""The options that say what a reconciliation tells, and with which exit status it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._progress import ProgressMode
from payclient.cli._streams import Streams
from payclient.reconcile import Severity

_FLAG = Parameter(negative="", show_default=False)


@Parameter(name="*", group=Group("Output", sort_key=8))
@frozen(kw_only=True)
class Output:
    """
    What is told.

    Attributes:
        fail_on: The least severe break that makes the exit status 1.
        as_json: Print `summary.json` on standard output instead of the verdict.
        quiet: Say nothing but errors; with `--json`, print that alone.
    """

    fail_on: Severity = Severity.MEDIUM
    as_json: Annotated[bool, Parameter(name="--json"), _FLAG] = False
    quiet: Annotated[bool, _FLAG] = False

    def write(self, lines: Sequence[str], folder: Path, streams: Streams) -> None:
        """Write *lines*, or what stands in their place, on standard output."""
        if self.as_json:
            streams.write((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
        elif not self.quiet:
            for line in lines:
                streams.write(line)

    def mode(self, progress: ProgressMode) -> ProgressMode:
        """Return how progress is shown."""
        return ProgressMode.NONE if self.quiet else progress
