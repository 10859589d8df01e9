"""`payclient diff`: what became of each break between two reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from payclient._escape import escape_unprintable
from payclient.cli._streams import Streams
from payclient.cli._verdict import roll_forward
from payclient.errors import ConfigurationError
from payclient.reconcile import BreakState, ResolvedBy, Severity
from payclient.report import RunDiff, open_past_run
from payclient.report._diff_page import write_diff_page

EXAMPLES = """
```console
$ payclient diff reports/2026-11-20 reports/2026-11-21
$ payclient diff reports/2026-11-20 reports/2026-11-21 --json | jq .counts
$ payclient diff reports/2026-11-20 reports/2026-11-21 --html changes.html
```

Exit status: 0 nothing is new, changed or reopened. 1 something at or above `--fail-on` is. 2 the reports cannot be
compared. 75 otherwise, when it is not known what became of a break.
"""

_FLAG = Parameter(negative="", show_default=False)
_MAX_SHOWN = 10


def diff(
    earlier: Path,
    later: Path,
    /,
    *,
    fail_on: Severity = Severity.MEDIUM,
    as_json: Annotated[bool, Parameter(name="--json"), _FLAG] = False,
    html: Path | None = None,
    quiet: Annotated[bool, _FLAG] = False,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Show what became of each break between two reports, without a network or a key.

    A break is identified by its reference and code. It is new, still open, changed, reopened, resolved (by the ledger,
    the service, a rule or an acceptance), or not known. Both reports must be unchanged since they were written, and of
    the same service, environment and key. Nothing in them is changed.

    Args:
        earlier: Folder of the earlier report.
        later: Folder of the later report.
        fail_on: The least severe new, changed or reopened break that makes the exit status 1.
        as_json: Print one JSON object with every break instead.
        html: File for a page with the counts and the most severe breaks of each state; not in one of the folders.
        quiet: Print errors only; with `--json`, also the object.
        streams: Streams of the process.
    """
    if html is not None and any(html.resolve().is_relative_to(folder.resolve()) for folder in (earlier, later)):
        message = f"--html must be a file outside of {earlier} and {later}, which are not changed"
        raise ConfigurationError(message)
    with RunDiff(open_past_run(earlier), open_past_run(later)) as found:
        if html is not None:
            write_diff_page(html, found)
        if as_json or not quiet:
            for line in found.as_json() if as_json else _lines(found, html):
                streams.write(line)
        return found.exit_status(fail_on)


def _lines(found: RunDiff, page: Path | None) -> Iterator[str]:
    yield escape_unprintable(f"{found.verdict.upper()}: {found.sentence}")
    if found.remark:
        yield escape_unprintable(found.remark)
    if found.changed_rules:
        yield f"Rules that changed in between: {', '.join(found.changed_rules)}."
    yield from ("", *roll_forward(found.open_findings))
    for state in BreakState:
        if count := found.counts[state]:
            yield ""
            yield f"{state.label}:"
            yield from (f"  {_line(change, state)}" for change in found.changes(state, limit=_MAX_SHOWN))
            if count > _MAX_SHOWN:
                yield f"  and {count - _MAX_SHOWN:,} more, which --json prints"
    if page is not None:
        yield ""
        yield escape_unprintable(f"Page: {page}")


def _line(change: dict[str, Any], state: BreakState) -> str:
    what = f"{escape_unprintable(change['reference'])}: {change['severity']}, {change['code']}: {change['sentence']}"
    if state is BreakState.NEW:
        return what
    notes = [f"since {change['first_seen'][:10]}, {change['age_days']} d"] if change["first_seen"] else []
    if change["was"]:
        notes.append(f"was {change['was']['ledger']} and {change['was']['service']}")
        if change["was"]["at_stake"] != change["at_stake"]:
            notes.append(f"{change['at_stake']:,} at stake, was {change['was']['at_stake']:,}")
    if change["resolved_by"]:
        notes.append(f"by {ResolvedBy(change['resolved_by']).label}")
    if change["reason"]:
        notes.append(change["reason"])
    return escape_unprintable(f"{what} ({'; '.join(notes)})")
