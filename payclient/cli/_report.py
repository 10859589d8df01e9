"""The report of a run in a terminal: its result, and the commands that read it or write it again."""

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from payclient import reconcile
from payclient._shared.escape import escape_unprintable, plural
from payclient._shared.remedy import Way
from payclient.cli._next import about_folder, explaining, rejudging
from payclient.cli._options import SEVERITY, JudgingOptions, OutputOptions, Span, check_out, check_run, settling_within
from payclient.cli._process import Call, Exit, Flag, JsonFlag, OwnStreams, Streams, aligned, new_path, refuse
from payclient.protocol import ATTRIBUTES, masked
from payclient.reconcile import BreakState, Bucket, Row, Severity, folders
from payclient.reconcile.ledger import ABSENT, COMPARED_FIELDS, Entry
from payclient.reconcile.report import JudgedAgain, Report, integrity, rows
from payclient.reconcile.report.model import BreakItem, BridgeLine
from payclient.reconcile.report.wording import in_words, moves, roll_forward_lines, rules_sentences

_MAX_BREAKS = 10
_MAX_CHANGES = 10
_FIELDS = {
    **{field.name: field.is_masked for field in COMPARED_FIELDS},
    **{name: False for field in COMPARED_FIELDS for name in field.also},
}


def show(folder: Path, /, *, streams: OwnStreams) -> int:
    """
    Show the result in a few lines: the verdict, the money and the worst breaks.

    Only files of the report are read, so a copy without its journal will do.

    Args:
        folder: Folder of the report.
        streams: Streams of the process.

    Examples:
        $ payclient show reports/2026-11-21
        $ (echo '~~~'; payclient show reports/2026-11-21; echo '~~~') >> "$GITHUB_STEP_SUMMARY"

        Exit status: 0 for any verdict. 2 when the report is missing or was changed.
    """
    summary = unchanged_summary(folder, "cannot be shown")
    breaks = (row for row, _ in rows.rows_of(folder / rows.ROWS) if row.bucket is Bucket.BREAK)
    worst = nlargest(_MAX_BREAKS, breaks, key=attrgetter("rank"))
    steps = explaining(folder, [row.reference for row in worst if row.reference])
    head = f"{summary['verdict'].upper()}: {summary['sentence']}"
    streams.show([head, "", *_about(summary), *_worst(summary, worst)], steps)
    return Exit.DONE


# Each line begins with a fixed word, so that nothing in a ledger ends the Markdown block that the lines are put into.


def _about(summary: Mapping[str, Any]) -> Iterator[str]:
    bridge, ledger, again = summary["tie_out"], summary["ledger"], summary["judged_again"]
    side, since, breaks = summary["settlement"], summary["since"], summary["buckets"]["break"]["rows"]
    payout = "" if side is None or side["payout"] is None else f", payout {side['payout']:,}"
    more = breaks - since["buckets"].get("break", 0) if since else 0
    signed = f"{more:+,}" if more else "\N{PLUS-MINUS SIGN}0"
    facts: dict[str, str | None] = {
        "Paid": (
            f"{bridge['ledger_paid_total']:,} in the ledger, {bridge['service_paid_total']:,} at the service; "
            f"residual {bridge['residual']:,}"
        ),
        "Statement": side and f"{side['statement_total']:,}{payout}; residual {side['residual']:,}",
        "Breaks": since and f"{breaks:,} ({signed} since the previous run, {since['folder']})",
        "Ledger": ledger and (ledger["name"] or "standard input"),
        "Service": summary["service"]["environment"],
        "Last answer": (summary["last_observed_at"] or "")[:19].replace("T", " "),
        "Run": summary["run"],
        "Answers of the run in": again and again["folder"],
        "Ended early": summary["ended_by"],
    }
    lines = (f"{term}: {fact}" for term, fact in facts.items() if fact)
    yield from (f"- {line}" for line in (*lines, summary["compared"]["remark"]) if line)


def _worst(summary: Mapping[str, Any], worst: Sequence[Row]) -> Iterator[str]:
    if worst:
        breaks = summary["buckets"]["break"]["rows"]
        heading = plural(breaks, "break") if breaks == len(worst) else f"The worst of {plural(breaks, 'break')}"
        yield from ("", f"{heading}:", "")
    for number, row in enumerate(worst, 1):
        first = row.findings[0]
        yield f"{number}. {first.severity.word} {first.code} {row.reference or 'none'}: {first.sentence}"


def unchanged_summary(folder: Path, what: str) -> dict[str, Any]:
    check_run(folder, integrity.MANIFEST)
    for problem in integrity.verify(folder, only={"summary.json", rows.ROWS, integrity.MANIFEST}):
        raise reconcile.PastRunError(f"{folder} {what}: {problem.file}: {problem.what}", folder=folder)
    summary: dict[str, Any] = json.loads(reconcile.read_own(folder / "summary.json"))
    return summary


def explain(folder: Path, reference: str, /, *, streams: OwnStreams) -> int:
    """
    Show one reference in full: the ledger, the answers and the findings.

    If a payment was paid twice, the other references are shown too.

    Args:
        folder: Folder of the report.
        reference: Reference as written in the ledger.
        streams: Streams of the process.

    Examples:
        $ payclient explain report T0000000001DEMO

        Exit status: 0 if the ledger has the reference, 1 if it does not.
    """
    check_run(folder, folders.JOURNAL)
    reference = reference.encode(errors="replace").decode()  # ledgers are UTF-8 once read
    with reconcile.Journal(folder / folders.JOURNAL, must_exist=True) as journal:
        rules = folders.about_of(journal).rules
        judged = reconcile.judging(journal, rules)
        cases = list(journal.cases(reference, rules=rules))
        others = dict.fromkeys(other for case in cases for other in case.paid_with)
        for case in (*cases, *(case for other in others for case in journal.cases(other, rules=rules))):
            streams.show(_explained(case, judged(case)))
        spelt = {reference.upper(), reference.lower(), reference.strip()} - {reference}
        alike = [] if cases else sorted(each for each in spelt if any(journal.cases(each, rules=rules)))
    if not cases:
        steps = [about_folder("explain", folder, each) for each in alike] or [about_folder("show", folder)]
        streams.show([f"the reference {reference} is not in the ledger"], steps)
        return Exit.DIFFERENT
    return Exit.DONE


def _explained(case: reconcile.Case, row: Row) -> Iterator[str]:
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
            yield f"    {in_words(age.state)}; first seen {age.first_seen:%Y-%m-%d} in the run {age.first_run}"
        if finding.waived:
            yield f"    does not count: {finding.waived}"
    yield f"  bridge: {in_words(reconcile.step_of(row))}, {reconcile.moved_by(row):+,}"
    if row.other_side is not None:
        yield f"  settled: {_settled(row.other_side.settled)}"
    if case.rows > 1:
        yield f"  rows with this reference: {case.rows}" + ("; this is not the first" if case.is_repeat else "")
    yield from aligned([*_table(case)], indent="  ")
    yield ""


def _settled(settled: reconcile.Settled | None) -> str:
    if settled is None:
        return "no"
    amounts = {"amount": settled.amount, "amount_received": settled.amount_received}
    stated = "".join(f", {name} {amount:,}" for name, amount in amounts.items() if amount is not None)
    return f"on {settled.where}{stated}"


def _table(case: reconcile.Case) -> Iterator[tuple[str, ...]]:
    lookups = [each for each in (case.first, case.second) if each]
    entry = case.entry if isinstance(case.entry, Entry) else None
    yield ("", "ledger", *("first lookup", "second lookup")[: len(lookups)])
    yield ("at", "", *(each.at.isoformat(" ", "seconds") for each in lookups))
    yield ("answer", "", *(each.answer.value if each.transaction else each.message for each in lookups))
    for name, is_masked in _FIELDS.items():
        theirs = [getattr(each.transaction, ATTRIBUTES[name], ABSENT) for each in lookups]
        if any(row := [_text(each, is_masked) for each in (getattr(entry, name, ABSENT), *theirs)]):
            yield (name, *row)


def _text(value: Any, is_masked: bool) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "(empty)"
    return escape_unprintable(masked(value) if is_masked else str(value), max_length=60)


def verify(folder: Path, /, *, allow_edits: Flag = False, streams: OwnStreams) -> int:
    """
    Check the files and the journal of a report against their checksums.

    Args:
        folder: Folder of the report.
        allow_edits: Ignore changes to `report.xlsx`, which people edit, and since a signature.
        streams: Streams of the process.

    Examples:
        $ payclient verify report

        Exit status: 0 everything is unchanged. 1 a file is missing or changed, or the journal is damaged.
    """
    check_run(folder)
    problems, (journal, decided) = folders.problems_of(folder), (folder / folders.JOURNAL, folder / integrity.DECISIONS)
    files = {problem.file for problem in problems}
    is_edited = integrity.WORK_LIST in files and os.path.lexists(folder / integrity.WORK_LIST)
    ignored = {integrity.WORK_LIST, integrity.SIGNATURES} if allow_edits else set[str]()
    if lines := [str(problem) for problem in problems if problem.file not in ignored]:
        # Decisions and answers cannot be written again, and `report` would replace what people filled in.
        is_lost = is_edited or not journal.exists() or not files.isdisjoint((integrity.DECISIONS, folders.JOURNAL))
        steps = [about_folder("report", folder)] if files - {integrity.SIGNATURES} and not is_lost else []
        if is_edited and not allow_edits:
            steps.append(about_folder("verify", folder).having(("--allow-edits", None)))
        streams.show(lines, steps)
        return Exit.DIFFERENT
    which = " but ".join(["every file", *{integrity.WORK_LIST} & files])
    streams.show([f"{which} in {folder} matches {folder / integrity.MANIFEST}"])
    streams.show([f"every line of {decided} follows the one before"] * decided.exists())
    streams.show([f"every row of {journal} matches its checksum"] * journal.exists())
    streams.show(map(str, integrity.read_signatures(folder)))
    return Exit.DONE


def sign(
    folder: Path,
    /,
    *,
    prepared: Annotated[str | None, Parameter(metavar="NAME")] = None,
    reviewed: Annotated[str | None, Parameter(metavar="NAME")] = None,
    streams: OwnStreams,
) -> int:
    """
    Sign an unchanged report, as its preparer or its reviewer.

    The signature covers every file and the imported decisions. `payclient verify` shows the last signature of each
    role, and reports what was changed after it.

    Args:
        folder: Folder of the report.
        prepared: Name of the preparer.
        reviewed: Name of the reviewer: another person.
        streams: Streams of the process.

    Examples:
        $ payclient sign report --prepared "Ana Pratama"
        $ payclient sign report --reviewed "Budi Santoso"

        Exit status: 0 signed. 1 not signed: a file is missing or changed, or the journal is damaged.
    """
    check_run(folder, integrity.MANIFEST)
    given = {"prepared": (prepared or "").strip(), "reviewed": (reviewed or "").strip()}
    if len(names := {role: name for role, name in given.items() if name}) != 1:
        refuse("give the name of one person, with --prepared or --reviewed")
    problems = {problem.file: str(problem) for problem in folders.problems_of(folder)}
    problems.pop(integrity.SIGNATURES, "")
    is_edited = problems.pop(integrity.WORK_LIST, None) is not None and os.path.lexists(folder / integrity.WORK_LIST)
    if problems:
        streams.show([*problems.values(), "the report was not signed"])
        return Exit.DIFFERENT
    ((role, by),) = names.items()
    streams.show([str(integrity.sign(folder, role, by, reconcile.utc_now()))])
    _show_other_decisions(folder, by, is_edited, streams)
    return Exit.DONE


def _show_other_decisions(folder: Path, by: str, is_edited: bool, streams: Streams) -> None:
    """Show the decisions that a signed report lacks, or its signature does not cover."""
    log, written = integrity.read_log(folder), integrity.of_manifest(folder, "decisions") or {"lines": 0}
    if later := len(log.decisions) - written["lines"]:
        streams.show([f"not in the report: {plural(later, 'decision')} imported since it was written"])
    try:
        new = integrity.new_decisions(log, _decided(folder / integrity.WORK_LIST, folder, by)) if is_edited else ()
    except reconcile.DecisionError as error:
        streams.show([f"not signed: {integrity.WORK_LIST}: {error}"])
        return
    if number := len({decision.evidence for decision in new}):
        steps = [about_folder("decisions", folder).having(("--by", by))]
        problem = f"{plural(number, 'decision')} in {integrity.WORK_LIST}, which must be imported first"
        streams.show([f"not signed: {problem}"], steps)


def diff(
    earlier: Path,
    later: Path,
    /,
    *,
    fail_on: Annotated[Severity, SEVERITY] = Severity.MEDIUM,
    as_json: JsonFlag = False,
    quiet: Flag = False,
    streams: OwnStreams,
) -> int:
    """
    Compare the breaks of two reports.

    A break is a reference with a code. It is new, still open, changed, reopened, resolved (by the ledger, the service,
    a rule or an acceptance), or not known. Both reports must be as they were written, and of the same service,
    environment and key.

    Args:
        earlier: Folder of the earlier report.
        later: Folder of the later report.
        fail_on: Least severe news with exit status 1: info, low, medium, high, critical.
        as_json: Print one JSON object with everything instead.
        quiet: Print only errors. With `--json`, also the object.
        streams: Streams of the process.

    Examples:
        $ payclient diff reports/2026-11-20 reports/2026-11-21
        $ payclient diff reports/2026-11-20 reports/2026-11-21 --json | jq .counts

        Exit status: 0 no break is new, changed or reopened. 1 something at or above `--fail-on` is. 2 the reports
        cannot be compared. 75 otherwise, if the state of a break is not known.
    """
    for folder in (earlier, later):
        check_run(folder, integrity.MANIFEST)
    with folders.RunDiff(folders.open_past_run(earlier), folders.open_past_run(later)) as found:
        if as_json:
            streams.show(found.as_json())
        elif not quiet:
            news = [each for state in BreakState if state.is_news for each in found.changes(state, limit=1)]
            steps = explaining(later, [each["reference"] for each in news])
            streams.show(_compared(found), steps)
        return found.exit_status(fail_on)


def _compared(found: folders.RunDiff) -> Iterator[str]:
    yield f"{found.verdict.upper()}: {moves(found.counts, found.earlier.note.folder)}"
    if found.is_reversed:
        later, earlier = found.later.note.folder, found.earlier.note.folder
        yield f"All answers of {later} are older than the answers of {earlier}: name the earlier run first."
    if found.changed_rules:
        yield f"Rules that changed in between: {', '.join(found.changed_rules)}."
    yield from roll_forward(found.open_findings)
    for state in BreakState:
        changes = [_change(change, state) for change in found.changes(state, limit=_MAX_BREAKS)]
        yield from listed(in_words(state), changes, found.counts[state] - len(changes))


def _change(change: dict[str, Any], state: BreakState) -> str:
    what = f"{change['reference']}: {change['severity']}, {change['code']}: {change['sentence']}"
    if state is BreakState.NEW:
        return what
    notes = [f"since {change['first_seen'][:10]}, {change['age_days']} d"] if change["first_seen"] else []
    if change["was"]:
        was = [change["was"][side] for side in ("ledger", "service")]
        notes.append("was " + " and ".join(f"{each:,}" if isinstance(each, int) else str(each) for each in was))
        if change["was"]["at_stake"] != change["at_stake"]:
            notes.append(f"{change['at_stake']:,} at stake, was {change['was']['at_stake']:,}")
    if change["resolved_by"]:
        notes.append(f"by {in_words(reconcile.ResolvedBy(change['resolved_by']))}")
    if change["reason"]:
        notes.append(change["reason"])
    return f"{what} ({'; '.join(notes)})"


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
    program. Importing it again adds only new decisions. They count from the next run or `payclient rejudge` on.

    Args:
        workbook: The `report.xlsx` that was worked on, or its folder.
        by: Name of the person who decided.
        folder: Folder of the run. Default: the workbook's.
        streams: Streams of the process.

    Examples:
        $ payclient decisions reports/2026-11-21/report.xlsx --by ana
        $ payclient decisions ~/Downloads/report.xlsx --folder reports/2026-11-21 --by ana

        Resolutions: `accepted until 2026-12-31`, `corrected in the ledger`, `raised with the service`.

        Exit status: 0 when everything was imported. 2 if one is refused, and then none is imported.
    """
    workbook = workbook / integrity.WORK_LIST if workbook.is_dir() else workbook
    folder = folder or workbook.parent
    if not by.strip():
        refuse("--by must be a name")
    found = _decided(workbook, folder, by.strip())
    added = {each.evidence for each in integrity.add_decisions(folder, found)} if found else set[str]()
    known = len({each.evidence for each in found} - added)
    taken = f"{plural(len(added), 'decision')} taken into {folder / integrity.DECISIONS}; {known:,} known before"
    streams.show([taken], [rejudging(Call(), folder)])
    return Exit.DONE


def _decided(workbook: Path, folder: Path, by: str) -> tuple[reconcile.Decision, ...]:
    from payclient.reconcile.report.workbook import decided, read_work_list  # noqa: PLC0415  it imports xlsxwriter

    run = unchanged_summary(folder, "cannot be used")["run"]
    return decided(read_work_list(workbook, run), folder / rows.ROWS, run=run, by=by, at=reconcile.utc_now())


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

    Examples:
        $ payclient report report
        $ payclient report report --json --quiet | jq .buckets

        The same journal gives the same bytes. Exit status: as `payclient reconcile` for the same rows.
    """
    check_run(folder, folders.JOURNAL)
    return _written(folder, output, streams)


def _written(
    folder: Path, output: OutputOptions, streams: Streams, *, remarks: Sequence[str] = (), before: Path | None = None
) -> int:
    """Write the report of the journal in *folder*, and show it: beside the one *before*, if it was judged again."""
    done = folders.write_again(folder)
    verdict, *rest = verdict_lines(done)
    steps = explaining(folder, done.worst.references) if before is None else [about_folder("diff", before, str(folder))]
    lines = [verdict, *remarks, *rest, "", f"Report: {folder / 'report.html'}"]
    return output.finish(done.summary, lines, steps, folder, streams)


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
    twice, so its row is unresolved. To look it up, run `payclient reconcile` with the same ledger and rules, and the
    new folder. Nothing in FOLDER is changed.

    Args:
        folder: Folder of the run.
        out: Folder for the new report. Not FOLDER.
        judging: Judging differences. Default: the rules of the run.
        settles_within: Time until a payment is in the statement, such as `3d` or `2 business days`.
        output: Output and exit status.
        streams: Streams of the process.

    Examples:
        $ payclient rejudge reports/2026-11-21 --rules new-rules.toml --out reports/2026-11-21-b
        $ payclient rejudge reports/2026-11-21 --grace 2d --out reports/2026-11-21-grace

        Exit status: as `payclient reconcile` for these rows.
    """
    settling_within(judging.rules(), settles_within)  # refuses what cannot be used before anything is copied
    check_out(out, folder)
    check_run(folder, folders.JOURNAL)
    remarks = _judge_copy(folder, out, judging, settles_within, streams)
    integrity.carry_log([folder], out)
    return _written(out, output, streams, remarks=remarks, before=folder)


def _judge_copy(
    folder: Path, out: Path, judging: JudgingOptions, settles_within: str | None, streams: Streams
) -> list[str]:
    """Put a copy of the journal of *folder* into *out*, judged again. Return its warnings."""
    with reconcile.AtomicFiles(out, [folders.JOURNAL]) as new:
        reconcile.copy_journal(folder / folders.JOURNAL, new.binary(folders.JOURNAL))
        with reconcile.Journal(new.temporary / folders.JOURNAL, must_exist=True) as journal:
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
            folders.note_about(journal, attrs.evolve(about, run="", rules=rules, judged_again=again))
        if not _is_there(out, again, rules):
            new.commit()
    kept = [name for name in reconcile.changed_rules(wanted, rules) if name != "accepted"]
    judging.tell_assumed(() if about.ledger is None else about.ledger.columns, streams)
    changed = [*map(in_words, reconcile.rule_changes(about.rules, rules))]
    return [in_words(again), *_changes_of(changed, kept, unconfirmed, out)]


def _is_there(out: Path, again: JudgedAgain, rules: reconcile.Rules) -> bool:
    """Return whether *out* is the same run judged again alike, perhaps with more lookups. Refuse any other."""
    if not (out / folders.JOURNAL).exists():
        return False
    problem = f"there is another run in {out}"
    try:
        with reconcile.Journal(out / folders.JOURNAL, must_exist=True) as journal:
            about = folders.about_of(journal)
        is_same = (about.judged_again, about.rules.fingerprint) == (again, rules.fingerprint)
    except reconcile.JournalError as error:
        is_same, problem = False, str(error)
    if not is_same:
        refuse(problem, Way("out", new_path(out)))
    return True


def _changes_of(changed: Sequence[str], kept: Sequence[str], unconfirmed: int, out: Path) -> Iterator[str]:
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


# The result of a run

MAX_LINES = 45
"""Maximum of lines of the result of a run, the next steps included. What does not fit is on the page."""

_MAX_LISTED = 5
_LIST_FRAME = 3
"""Lines of a list in addition to its items: an empty one, the heading, and the number of items left out."""
_NEXT_STEPS = 4
_PAGE = "report.html"


def _named_breaks(report: Report, room: int) -> Iterator[str]:
    """Yield in at most *room* lines the new breaks, the worst of the others, and the rejected rows."""
    worst, others = report.worst, "other break" if report.worst.news.count else "break"
    rejected = worst.groups[None, Bucket.REJECTED]
    news, rest = ([(_named(item), len(item.references)) for item in top.kept] for top in (worst.news, worst.others))
    unusable = [(escape_unprintable(f"{row.place}: {row.reason}"), 1) for row in rejected.kept[:_MAX_LISTED]]
    for heading, lines, count in (
        (f"new, changed or reopened ({plural(report.news, 'finding')})", news, report.news),
        (f"the worst of {plural(worst.other_rows, others)}", rest, 0),
        ("rejected, to be corrected in the ledger, or to be skipped by its rules", unusable, rejected.count),
    ):
        if lines and room > _LIST_FRAME:
            shown = lines[: room - _LIST_FRAME]
            more = count - sum(number for _, number in shown)
            block = [*listed(heading, [line for line, _ in shown], more, where=_PAGE)]
            room -= len(block)
            yield from block


def _named(item: BreakItem) -> str:
    history, first = item.finding.history, item.finding
    marks = [in_words(history.state)] if history is not None and history.state.is_news else []
    marks += ["material"] * item.row.is_material
    references = " and ".join(map(escape_unprintable, item.references))
    where = ", ".join([*marks, escape_unprintable(item.row.place), references])
    return f"{where}: {first.severity.word}, {first.code}, {item.at_stake:,} at stake: {first.sentence}"


def verdict_lines(report: Report) -> Iterator[str]:
    """Yield the verdict, the news, the worst breaks and the money, in at most `MAX_LINES` with the next steps."""
    summary, since, unknown = report.summary, report.summary.since, report.summary.tie_out.rows_without_amount
    yield f"{summary.verdict.upper()}: {report.says}"
    if summary.verdict is reconcile.Verdict.EMPTY:
        return
    head = [*filter(None, [report.caution]), *(rules_sentences(since) if since else ())]
    figures = ["", *_totals(report)]
    figures += [f"{plural(unknown, 'row')} of the ledger without an amount"] if unknown else []
    figures += roll_forward(summary.open_findings) if since else []
    foot = ["", report.completeness]
    if summary.compared.fields["expdate"]:
        foot.append(f"Expiry: {reconcile.expiry_rule(report.about.rules.time_zone)}.")
    brief, statement = _statement(report)
    room = MAX_LINES - _NEXT_STEPS - 1 - len(head) - len(figures) - len(foot) - len(brief)
    named = [*_named_breaks(report, room)]
    room -= len(named)
    side = statement if len(statement) - len(brief) <= room else brief
    room -= len(side) - len(brief)
    yield from (*head, *named, *figures, *side)
    for block in _remarks(summary):
        if len(block) <= room:
            room -= len(block)
            yield from block
    yield from foot


def _statement(report: Report) -> tuple[list[str], list[str]]:
    """Return the bridge to the statement in a few lines, and as a table. Neither without a statement."""
    if (settlement := report.summary.settlement) is None:
        return [], []
    statement, more = settlement.statement, [*filter(None, [report.payout_sentence])]
    if payouts := report.payouts:
        names = ["gross", "refunds", "fees", *["refund_fees"] * bool(payouts[-1].refund_fees), "net"]
        sums = ", ".join(f"{name.replace('_', ' ')} {getattr(payouts[-1], name):,}" for name in names)
        is_named = any(payout.name for payout in payouts)
        more.insert(0, f"{plural(len(statement.payouts), 'payout') if is_named else 'in it'}: {sums}")
    if statement.problems:
        more.append(f"cannot be used, in the statement: {'; '.join(map(escape_unprintable, statement.problems))}")
    paid = f"statement {statement.total:,}, service, paid {settlement.service_paid_total:,}"
    return (
        ["", f"{paid}; the bridge between them is in {_PAGE}", *more],
        ["", *_bridge(report.statement_bridge), *more],
    )


def _remarks(summary: reconcile.Summary) -> Iterator[list[str]]:
    for heading, remarks in {
        "first seen at the service": summary.first_seen,
        "marked as corrected": summary.still_there,
        "acceptances to look at": summary.acceptances,
        "patterns among the breaks": summary.patterns,
        "leakage by payment method": summary.leakage,
    }.items():
        shown = [*map(in_words, remarks[:_MAX_LISTED])]
        yield [*listed(heading, shown, len(remarks) - _MAX_LISTED, where=_PAGE)]


def listed(heading: str, lines: Sequence[str], more: int = 0, *, where: str = "") -> Iterator[str]:
    if lines:
        yield from ("", f"{heading}:", *(f"  {line}" for line in lines))
    if more > 0:
        yield f"  and {more:,} more, {f'in {where}' if where else 'which --json prints'}"


def _totals(report: Report) -> list[str]:
    totals = list[tuple[str, reconcile.Total]]()
    for bucket, total in report.summary.buckets.items():
        totals += [(bucket, total)] if total.rows else []
        totals += [(f"  {label}", kind) for label, kind in report.worst.kinds()] if bucket is Bucket.BREAK else []
    totals.append(("all", sum(report.summary.buckets.values(), reconcile.Total())))
    lines = (
        (label, total.rows, total.ledger_paid, total.service_paid, _signed(total.paid_difference))
        for label, total in totals
    )
    return _numbers(("", "rows", "ledger paid", "service paid", "difference"), lines)


def roll_forward(open_findings: reconcile.OpenFindings) -> list[str]:
    """Return the roll-forward as a table below an empty line. Nothing if neither run has a finding."""
    old, once = open_findings.old, open_findings.payments
    lines = [(f"  {label.lower()}", count, amount) for label, count, amount in roll_forward_lines(open_findings)]
    lines += [("  for more than 30 days", old.count, old.amount)] if old.count else []
    lines += [("  payments, each once", once.count, once.amount)] if once != open_findings.closing else []
    return ["", *_numbers(("open findings", "number", "at stake"), lines)] if lines else []


def _bridge(lines: Iterable[BridgeLine]) -> list[str]:
    """Return the bridge as a table: the steps that move money."""
    steps = (
        (f"  {line.label.lower()}", line.step.rows, line.step.added, line.step.taken_off, f"{line.amount:+,}")
        if line.step
        else (line.label.lower(), None, None, None, line.amount)
        for line in lines
        if line.step is None or line.step.added or line.step.taken_off
    )
    return _numbers(("", "rows", "added", "taken off", "net"), steps)


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _numbers(head: Sequence[str], lines: Iterable[Sequence[str | int | None]]) -> list[str]:
    """Return *lines* of a label and numbers as a table."""
    cells = ([f"{cell:,}" if isinstance(cell, int) else cell or "" for cell in line] for line in lines)
    return aligned([head, *cells], right=range(1, len(head)))
