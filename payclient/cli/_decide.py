"""The commands that write a report again from the journal of its run: as it is, or by decisions and other rules."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from payclient import reconcile
from payclient._shared.escape import plural
from payclient._shared.remedy import Way
from payclient.cli._call import Call, new_path
from payclient.cli._next import about_folder, explaining, lines_of, rejudging
from payclient.cli._options import JudgingOptions, Span, check_run, settling_within
from payclient.cli._output import OutputOptions, check_other_folder, check_own_files, verdict_lines
from payclient.cli._report import unchanged_summary
from payclient.cli._streams import Exit, OwnStreams, Streams, refuse
from payclient.reconcile import folders
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.report import integrity
from payclient.reconcile.report.model import JudgedAgain
from payclient.reconcile.report.rows import ROWS
from payclient.reconcile.report.wording import in_words

EXAMPLES: Mapping[str, str] = {
    "decisions": """
$ payclient decisions reports/2026-11-21/report.xlsx --by ana
$ payclient decisions ~/Downloads/report.xlsx --folder reports/2026-11-21 --by ana

Resolutions: `accepted until 2026-12-31`, `corrected in the ledger`, `raised with the service`.

Exit status: 0 when everything was imported. 2 if one is refused, and then none is imported.
""",
    "rejudge": """
$ payclient rejudge reports/2026-11-21 --rules new-rules.toml --out reports/2026-11-21-b
$ payclient rejudge reports/2026-11-21 --grace 2d --out reports/2026-11-21-grace

Exit status: as `payclient reconcile` for these rows.
""",
    "report": """
$ payclient report report
$ payclient report report --json --quiet | jq .buckets

The same journal gives the same bytes. Exit status: as `payclient reconcile` for the same rows.
""",
}

_MAX_CHANGES = 10


def decisions(
    workbook: Path,
    /,
    *,
    by: Annotated[str, Parameter(metavar="NAME")],
    folder: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
    streams: OwnStreams,
) -> int:
    """
    Import the decisions of an edited work list into the folder of its run.

    Owner, Resolution and Comment go into `decisions.jsonl`. The workbook may be sorted, filtered, and saved by another
    program. Taking it again adds only new decisions. They count from the next run or `payclient rejudge` on.

    Args:
        workbook: The `report.xlsx` that was worked on, or its folder.
        by: Who takes the decisions.
        folder: Folder of the run. Default: the workbook's.
        streams: Streams of the process.
    """
    from payclient.reconcile.report.workbook import decided, read_work_list  # noqa: PLC0415  it imports xlsxwriter

    workbook = workbook / integrity.WORK_LIST if workbook.is_dir() else workbook
    folder = folder or workbook.parent
    if not by.strip():
        refuse("--by must be a name")
    run = unchanged_summary(folder, "cannot be used")["run"]
    rows, now = folder / ROWS, reconcile.utc_now()
    found = decided(read_work_list(workbook, run), rows, run=run, by=by.strip(), at=now)
    added = {each.evidence for each in integrity.add_decisions(folder, found)} if found else set[str]()
    known = len({each.evidence for each in found} - added)
    taken = f"{plural(len(added), 'decision')} taken into {folder / integrity.DECISIONS}; {known:,} known before"
    streams.show([taken, *lines_of([rejudging(Call(), folder)], streams.call)])
    return Exit.DONE


def report(
    folder: Path,
    /,
    *,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Write every file of a report again from its journal.

    Args:
        folder: Folder of the report.
        output: Output and exit status.
        streams: Streams of the process.
    """
    check_run(folder, JOURNAL)
    return _written(folder, output, streams)


def _written(
    folder: Path, output: OutputOptions, streams: Streams, *, remarks: Sequence[str] = (), before: Path | None = None
) -> int:
    """Write the report of the journal in *folder*, and show it: beside the one *before*, if it was judged again."""
    done = folders.write_again(folder)
    verdict, *rest = verdict_lines(done)
    steps = explaining(folder, done.worst.references) if before is None else [about_folder("diff", before, str(folder))]
    lines = [verdict, *remarks, *rest, "", f"Report: {folder / 'report.html'}", *lines_of(steps, streams.call)]
    return output.finish(done.summary, lines, folder, streams)


def rejudge(
    folder: Path,
    /,
    *,
    out: Annotated[Path, Parameter(metavar="FOLDER")],
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008  frozen
    settles_within: Span = None,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Judge the answers of a run again by other rules, without a network or a key.

    The new report names the run and the rules that changed. A difference that only the new rules see was not looked up
    twice, so its row is unresolved. `payclient reconcile` with the same ledger and rules and the new folder makes the
    missing lookups. Nothing in FOLDER is changed.

    Args:
        folder: Folder of the run.
        out: Folder for the new report. Not FOLDER.
        judging: Judging differences. Default: the rules of the run.
        settles_within: Time until a payment is in the statement, such as `3d` or `2 business days`.
        output: Output and exit status.
        streams: Streams of the process.
    """
    settling_within(judging.rules(), settles_within)  # refuses what cannot be used before anything is copied
    check_other_folder(out, folder)
    check_own_files(out)
    check_run(folder, JOURNAL)
    remarks = _judge_copy(folder, out, judging, settles_within, streams)
    integrity.carry_log(folder, out)
    return _written(out, output, streams, remarks=remarks, before=folder)


def _judge_copy(
    folder: Path, out: Path, judging: JudgingOptions, settles_within: str | None, streams: Streams
) -> list[str]:
    """Put a copy of the journal of *folder* into *out*, judged again. Return its warnings."""
    with reconcile.AtomicFiles(out, [JOURNAL]) as new:
        reconcile.copy_journal(folder / JOURNAL, new.binary(JOURNAL))
        with reconcile.Journal(new.temporary / JOURNAL, must_exist=True) as journal:
            about = folders.about_of(journal)
            wanted = settling_within(judging.rules(without_file=about.rules), settles_within)
            as_read = reconcile.with_reading_of(wanted, about.rules)
            rules = reconcile.with_decisions(as_read, integrity.read_log(folder).decisions)
            unconfirmed = reconcile.judge_again(journal, rules=rules)
            again = JudgedAgain(
                folder=folder.resolve().name,
                run=about.run,
                rules_fingerprint=about.rules.fingerprint,
                changed_rules=reconcile.changed_rules(about.rules, rules),
            )
            folders.note_about(journal, attrs.evolve(about, rules=rules, judged_again=again))
        if not _is_there(out, again, rules):
            new.commit()
    kept = [name for name in reconcile.changed_rules(wanted, rules) if name != "accepted"]
    judging.tell_assumed(() if about.ledger is None else about.ledger.columns, streams)
    changed = [*map(in_words, reconcile.rule_changes(about.rules, rules))]
    return [in_words(again), *_remarks(changed, kept, unconfirmed, out)]


def _is_there(out: Path, again: JudgedAgain, rules: reconcile.Rules) -> bool:
    """Return whether *out* is the same run judged again alike, perhaps with more lookups. Refuse any other."""
    if not (out / JOURNAL).exists():
        return False
    with reconcile.Journal(out / JOURNAL, must_exist=True) as journal:
        about = folders.about_of(journal)
    if (about.judged_again, about.rules.fingerprint) != (again, rules.fingerprint):
        refuse(f"there is another run in {out}", Way("out", new_path(out)))
    return True


def _remarks(changed: Sequence[str], kept: Sequence[str], unconfirmed: int, out: Path) -> Iterator[str]:
    if changed:
        yield f"Changed: {'; '.join(changed[:_MAX_CHANGES])}{'; …' if changed[_MAX_CHANGES:] else ''}."
    if kept:
        names = " and ".join(kept)
        yield f"Not changed: {names}, because reading the ledger or the answers in another way takes a new run."
    if unconfirmed:
        which = f"{plural(unconfirmed, 'reference')} {'needs' if unconfirmed == 1 else 'need'}"
        yield (
            f"By these rules {which} a second lookup, which the run did not take, and cannot be judged without it. "
            f"To take it: payclient reconcile with the same files and rules, and --out {shlex.quote(str(out))}"
        )
