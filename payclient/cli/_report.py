"""The commands about the folder of a report: `report`, `show`, `explain`, `verify`, `diff` and `decisions`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from payclient._checks import check_count
from payclient._escape import escape_unprintable, plural
from payclient._own_file import read_own
from payclient.cli._options import OutputOptions
from payclient.cli._reconciliation import about_of, write_again
from payclient.cli._status import Exit
from payclient.cli._streams import Streams, aligned
from payclient.cli._verdict import Worst, roll_forward, verdict_lines
from payclient.errors import ConfigurationError
from payclient.ledger import ABSENT, Entry
from payclient.protocol import masked
from payclient.reconcile import (
    BreakState,
    Case,
    DecisionError,
    Journal,
    JournalError,
    JournalWriteError,
    Observation,
    ResolvedBy,
    Row,
    Settled,
    Severity,
    judging,
    moved_by,
    rules_from_json,
    step_of,
    verify_journal,
)
from payclient.reconcile.values import utc_now
from payclient.report import (
    DECISIONS,
    GZIP_ROWS,
    JOURNAL,
    MANIFEST,
    ROWS,
    WORK_LIST,
    RunDiff,
    add_decisions,
    markdown_lines,
    open_past_run,
    open_rows,
    rows_file,
    verify_decisions,
    worst_breaks,
)
from payclient.report import verify as verify_manifest

EXAMPLES: Mapping[str, str] = {
    "report": """
```console
$ payclient report report
$ payclient report report --json --quiet | jq .buckets
```

The same journal gives the same bytes. Exit status: that of `payclient reconcile` for the same rows.
""",
    "show": """
```console
$ payclient show reports/2026-11-21
$ payclient show reports/2026-11-21 --markdown >> "$GITHUB_STEP_SUMMARY"
```

Exit status: 0, whatever the verdict; 2 when there is no report, or it was changed.
""",
    "explain": """
```console
$ payclient explain report T0000000033KGJ0D
```

Exit status: 0 when the ledger has the reference, 1 when it has not.
""",
    "verify": """
```console
$ payclient verify report
```

Exit status: 0 everything is unchanged. 1 a file is missing or changed, or the journal is damaged.
""",
    "diff": """
```console
$ payclient diff reports/2026-11-20 reports/2026-11-21
$ payclient diff reports/2026-11-20 reports/2026-11-21 --json | jq .counts
$ payclient diff reports/2026-11-20 reports/2026-11-21 --html changes.html
```

Exit status: 0 nothing is new, changed or reopened. 1 something at or above `--fail-on` is. 2 the reports cannot be
compared. 75 otherwise, when it is not known what became of a break.
""",
    "decisions": """
```console
$ payclient decisions take reports/2026-11-21/report.xlsx --by ana
$ payclient decisions take ~/Downloads/report.xlsx --folder reports/2026-11-21 --by ana --approved-by budi
```

Resolutions: `accepted until 2026-12-31`, `corrected in the ledger`, `raised with the service`.

Exit status: 0 when everything was taken; 2 when anything is refused, and then nothing was.
""",
}

_FLAG = Parameter(negative="", show_default=False)
_MARKS = re.compile(r"\*\*|`")
_MAX_SHOWN = 10
_FIELDS = (
    *("merchant_reff", "amount", "fee", "amount_received", "status"),
    *("payment_method", "payment_name", "payment_code", "expdate"),
)


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
    summary = _unchanged_summary(folder, "cannot be shown", ConfigurationError)
    with open_rows(rows_file(folder)) as file:
        lines = markdown_lines(summary, worst_breaks(file, worst))
    streams.show(line if markdown else _MARKS.sub("", line) for line in lines)
    return Exit.DONE


def _unchanged_summary(folder: Path, what: str, refusal: type[ConfigurationError]) -> dict[str, Any]:
    """Return the summary of a report, or refuse it because its summary, its rows or its manifest were changed."""
    for problem in verify_manifest(folder):
        if problem.file in ("summary.json", ROWS, GZIP_ROWS, MANIFEST):
            message = f"{folder} {what}: {problem.file}: {problem.what}"
            raise refusal(message)
    summary: dict[str, Any] = json.loads(read_own(folder / "summary.json"))
    return summary


def explain(folder: Path, reference: str, /, *, streams: Annotated[Streams, Parameter(parse=False)]) -> int:
    """
    Show one reference in full: the ledger's values, the service's answers, and the findings.

    For a payment made twice, the other references are shown too.

    Args:
        folder: Folder of the report.
        reference: Reference as written in the ledger.
        streams: Streams of the process.
    """
    with Journal(folder / JOURNAL, must_exist=True) as journal:
        rules = about_of(journal).rules
        judged = judging(journal, rules)
        cases = list(journal.cases(reference, rules=rules))
        others = dict.fromkeys(other for case in cases for other in case.paid_with)
        for case in (*cases, *(case for other in others for case in journal.cases(other, rules=rules))):
            streams.show(_explained(case, judged(case)))
    if not cases:
        streams.show([f"the ledger has no row with the reference {reference}"])
        return Exit.DIFFERENT
    return Exit.DONE


def _explained(case: Case, row: Row) -> Iterator[str]:
    yield f"{row.place}, {row.reference or 'no reference'}: {row.bucket.upper()}"
    if row.reason:
        yield f"  why: {row.reason}"
    if row.carried_from:
        is_of_ledger = row.other_side is None or row.other_side.is_in_ledger
        why = "the ledger does not list it any more" if is_of_ledger else "only the statement of that run listed it"
        yield f"  carried over from the run {row.carried_from}: {why}"
    if row.reused_from:
        yield f"  reused: the answer is from the run {row.reused_from}; this run did not look it up"
    for finding in row.findings:
        yield f"  {finding.severity.word} {finding.code}: {finding.sentence}"
        if (age := finding.history) is not None and age.first_seen is not None:
            yield f"    {age.state.label}; first seen {age.first_seen:%Y-%m-%d} in the run {age.first_run}"
        if finding.waived:
            yield f"    does not count: {finding.waived}"
    yield f"  bridge: {step_of(row).label}, {moved_by(row):+,}"
    if row.other_side is not None:
        yield f"  settled: {_settled(row.other_side.settled)}"
    if case.rows > 1:
        yield f"  rows with this reference: {case.rows}" + (
            ", of which this is not the first" if case.is_repeat else ""
        )
    lookups = [("first lookup", case.first), ("second lookup", case.second)]
    yield from ("  " + line for line in aligned(_table(case, [(name, lookup) for name, lookup in lookups if lookup])))
    yield ""


def _settled(settled: Settled | None) -> str:
    if settled is None:
        return "no"
    amounts = {"amount": settled.amount, "amount_received": settled.amount_received}
    stated = "".join(f", {name} {amount}" for name, amount in amounts.items() if amount is not None)
    return f"on {settled.where}{stated}"


def _table(case: Case, lookups: list[tuple[str, Observation]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("", "ledger", *(name for name, _ in lookups))]
    rows.append(("at", "", *(lookup.at.isoformat(" ", "seconds") for _, lookup in lookups)))
    rows.append(("answer", "", *(each.answer.value if each.transaction else each.message for _, each in lookups)))
    for name in _FIELDS:
        ours = _text(name, getattr(case.entry, name, ABSENT) if isinstance(case.entry, Entry) else ABSENT)
        theirs = [_text(name, getattr(lookup.transaction, name, ABSENT)) for _, lookup in lookups]
        if ours or any(theirs):
            rows.append((name, ours, *theirs))
    return rows


def _text(name: str, value: Any) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "(empty)"
    return escape_unprintable(masked(value) if name == "payment_code" else str(value), max_length=60)


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
    found = (*verify_manifest(folder), *verify_decisions(folder))
    is_edited = allow_edits and any(problem.file == WORK_LIST for problem in found)
    problems = [f"{problem.file}: {problem.what}" for problem in found if not is_edited or problem.file != WORK_LIST]
    journal = folder / JOURNAL
    if has_journal := os.path.lexists(journal):  # a report may be kept without it
        try:
            verify_journal(journal)
        except (JournalError, JournalWriteError) as error:
            problems.append(f"{journal.name}: {error}")
    if problems:
        streams.show(problems)
        return Exit.DIFFERENT
    which = f"every file but {WORK_LIST}" if is_edited else "every file"
    streams.show([f"{which} in {folder} matches {folder / MANIFEST}"])
    if os.path.lexists(folder / DECISIONS):
        streams.show([f"every line of {folder / DECISIONS} follows the one before"])
    if has_journal:
        streams.show([f"every row of {journal} matches its checksum"])
    return Exit.DONE


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
            from payclient.report._page import write_diff_page  # noqa: PLC0415  it imports jinja2

            write_diff_page(html, found)
        if as_json or not quiet:
            streams.show(found.as_json() if as_json else _compared(found, html))
        return found.exit_status(fail_on)


def _compared(found: RunDiff, page: Path | None) -> Iterator[str]:
    yield f"{found.verdict.upper()}: {found.sentence}"
    if found.remark:
        yield found.remark
    if found.changed_rules:
        yield f"Rules that changed in between: {', '.join(found.changed_rules)}."
    yield from ("", *roll_forward(found.open_findings))
    for state in BreakState:
        if count := found.counts[state]:
            yield from ("", f"{state.label}:")
            yield from (f"  {_change(change, state)}" for change in found.changes(state, limit=_MAX_SHOWN))
            if count > _MAX_SHOWN:
                yield f"  and {count - _MAX_SHOWN:,} more, which --json prints"
    if page is not None:
        yield from ("", f"Page: {page}")


def _change(change: dict[str, Any], state: BreakState) -> str:
    what = f"{change['reference']}: {change['severity']}, {change['code']}: {change['sentence']}"
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
    return f"{what} ({'; '.join(notes)})"


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
    from payclient.report._work_list import DecisionImporter, read_work_list  # noqa: PLC0415  it imports xlsxwriter

    assert action == "take"  # noqa: S101  the only one so far
    run_folder = workbook.parent if folder is None else folder
    for option, name in (("--by", by), ("--approved-by", approved_by or "x")):
        if not name.strip():
            message = f"{option} must be a name"
            raise ConfigurationError(message)
    summary = _unchanged_summary(run_folder, "cannot be used", DecisionError)
    run, rules = summary["run"], {name: each for name, each in summary["rules"].items() if name != "fingerprint"}
    taker = DecisionImporter(
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
    streams.show([f"{taken}; {known:,} known before"])
    return Exit.DONE
