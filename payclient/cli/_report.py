"""The commands about the folders of reports, without a network or a key."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from heapq import nlargest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import attrs

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient._shared.remedy import Way
from payclient.cli._call import Call, new_path
from payclient.cli._next import Step, about_folder, lines_of, rejudging
from payclient.cli._options import JudgingOptions, check_run, settling_within
from payclient.cli._output import (
    SEVERITY,
    OutputOptions,
    check_other_folder,
    check_own_files,
    listed,
    roll_forward,
    verdict_lines,
)
from payclient.cli._streams import DURATION, FOLDER, NAME, Exit, Flag, JsonFlag, OwnStreams, Streams, aligned, refuse
from payclient.protocol import masked
from payclient.reconcile import (
    AtomicFiles,
    BreakState,
    Bucket,
    Case,
    Journal,
    JournalError,
    JournalWriteError,
    PastRunError,
    ResolvedBy,
    Row,
    Rules,
    Settled,
    Severity,
    changed_rules,
    copy_journal,
    judge_again,
    judging,
    moved_by,
    read_own,
    rule_changes,
    step_of,
    utc_now,
    verify_journal,
    with_decisions,
    with_reading_of,
)
from payclient.reconcile.folders import JOURNAL, RunDiff, about_of, note_about, open_past_run, write_again
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile.report import verify as verify_manifest
from payclient.reconcile.report.integrity import (
    DECISIONS,
    MANIFEST,
    WORK_LIST,
    add_decisions,
    carry_log,
    read_log,
    read_signatures,
    state_of,
    verify_decisions,
    verify_signatures,
)
from payclient.reconcile.report.integrity import sign as sign_report
from payclient.reconcile.report.model import JudgedAgain
from payclient.reconcile.report.rows import ROWS, open_rows, row_lines_of
from payclient.reconcile.report.wording import in_words, moves

EXAMPLES: Mapping[str, str] = {
    "report": """
$ payclient report report
$ payclient report report --json --quiet | jq .buckets

The same journal gives the same bytes. Exit status: as `payclient reconcile` for the same rows.
""",
    "show": """
$ payclient show reports/2026-11-21
$ (echo '~~~'; payclient show reports/2026-11-21; echo '~~~') >> "$GITHUB_STEP_SUMMARY"

Exit status: 0, whatever the verdict; 2 when there is no report, or it was changed.
""",
    "rejudge": """
$ payclient rejudge reports/2026-11-21 --rules new-rules.toml --out reports/2026-11-21-b
$ payclient rejudge reports/2026-11-21 --grace 2d --out reports/2026-11-21-grace

Exit status: as `payclient reconcile` for these rows.
""",
    "explain": """
$ payclient explain report T0000000001DEMO

Exit status: 0 if the ledger has the reference, 1 if it does not.
""",
    "verify": """
$ payclient verify report

Exit status: 0 everything is unchanged. 1 a file is missing or changed, or the journal is damaged.
""",
    "sign": """
$ payclient sign report --prepared "Ana Pratama"
$ payclient sign report --reviewed "Budi Santoso"

Exit status: 0 signed. 1 a file is missing or changed, so nothing was signed.
""",
    "diff": """
$ payclient diff reports/2026-11-20 reports/2026-11-21
$ payclient diff reports/2026-11-20 reports/2026-11-21 --json | jq .counts

Exit status: 0 nothing is new, changed or reopened. 1 something at or above `--fail-on` is. 2 the reports cannot be
compared. 75 otherwise, if the state of a break is not known.
""",
    "decisions": """
$ payclient decisions reports/2026-11-21/report.xlsx --by ana
$ payclient decisions ~/Downloads/report.xlsx --folder reports/2026-11-21 --by ana

Resolutions: `accepted until 2026-12-31`, `corrected in the ledger`, `raised with the service`.

Exit status: 0 when everything was taken; 2 when anything is refused, and then nothing was.
""",
}

_MAX_BREAKS = 10
_FIELDS = (*COMPARED, "payment_name")


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
    written = write_again(folder)
    page = f"Report: {folder / 'report.html'}"
    lines = [*verdict_lines(written), "", page, *_next(written.worst.references, folder, streams)]
    return output.finish(written.summary, lines, folder, streams)


def show(folder: Path, /, *, streams: OwnStreams) -> int:
    """
    Show the result in a few lines: the verdict, the money and the worst breaks.

    Only files of the report are read, so a copy without its journal will do.

    Args:
        folder: Folder of the report.
        streams: Streams of the process.
    """
    summary = _unchanged_summary(folder, "cannot be shown")
    with open_rows(folder / ROWS) as file:
        breaks = (line.row for line in row_lines_of(file) if line.bucket == Bucket.BREAK)
        worst = nlargest(_MAX_BREAKS, breaks, key=attrgetter("rank"))
    streams.show(
        [f"{summary['verdict'].upper()}: {summary['sentence']}", "", *_about(summary), *_worst(summary, worst)]
    )
    streams.show(_next([row.reference for row in worst if row.reference], folder, streams))
    return Exit.DONE


# Each line begins with a fixed word, so that nothing in a ledger ends the Markdown block that the lines are put into.


def _about(summary: Mapping[str, Any]) -> Iterator[str]:
    bridge, service, ledger = summary["tie_out"], summary["service"], summary["ledger"]
    yield (
        f"- Paid: {bridge['ledger_paid_total']:,} in the ledger, {bridge['service_paid_total']:,} at the service; "
        f"residual {bridge['residual']:,}"
    )
    if (settlement := summary["settlement"]) is not None:
        payout = "" if settlement["payout"] is None else f", payout {settlement['payout']:,}"
        yield f"- Statement: {settlement['statement_total']:,}{payout}; residual {settlement['residual']:,}"
    if (since := summary["since"]) is not None:
        breaks = summary["buckets"]["break"]["rows"]
        more = breaks - since["buckets"].get("break", 0)
        signed = f"{more:+,}" if more else "\N{PLUS-MINUS SIGN}0"
        yield f"- Breaks: {breaks:,} ({signed} since the previous run, {since['folder']})"
    again = summary["judged_again"]
    facts: dict[str, str | None] = {
        "Ledger": ledger and (ledger["name"] or "standard input"),
        "Service": service["environment"],
        "Last answer": (summary["last_observed_at"] or "")[:19].replace("T", " "),
        "Run": summary["run"],
        "Answers of the run in": again and again["folder"],
        "Ended early": summary["ended_by"],
    }
    yield from (f"- {term}: {fact}" for term, fact in facts.items() if fact)
    if summary["compared"]["remark"]:
        yield f"- {summary['compared']['remark']}"


def _worst(summary: Mapping[str, Any], worst: Sequence[Row]) -> Iterator[str]:
    if worst:
        breaks = summary["buckets"]["break"]["rows"]
        heading = plural(breaks, "break") if breaks == len(worst) else f"The worst of {plural(breaks, 'break')}"
        yield from ("", f"{heading}:", "")
    for number, row in enumerate(worst, 1):
        first = row.findings[0]
        yield f"{number}. {first.severity.word} {first.code} {row.reference or 'none'}: {first.sentence}"


def _next(references: Sequence[str], folder: Path, streams: Streams) -> list[str]:
    """Return the line with the command that shows the worst break of a report. None without one."""
    steps = [Step(about_folder("explain", folder, each)) for each in references[:1]]
    return lines_of(steps, streams.call)


def _unchanged_summary(folder: Path, what: str) -> dict[str, Any]:
    check_run(folder, MANIFEST)
    for problem in verify_manifest(folder, only={"summary.json", ROWS, MANIFEST}):
        raise PastRunError(f"{folder} {what}: {problem.file}: {problem.what}", folder=folder)
    summary: dict[str, Any] = json.loads(read_own(folder / "summary.json"))
    return summary


def explain(folder: Path, reference: str, /, *, streams: OwnStreams) -> int:
    """
    Show one reference in full: the ledger, the answers and the findings.

    For a payment made twice, the other references are shown too.

    Args:
        folder: Folder of the report.
        reference: Reference as written in the ledger.
        streams: Streams of the process.
    """
    check_run(folder, JOURNAL)
    reference = reference.encode(errors="replace").decode()  # ledgers are UTF-8 once read
    with Journal(folder / JOURNAL, must_exist=True) as journal:
        rules = about_of(journal).rules
        judged = judging(journal, rules)
        cases = list(journal.cases(reference, rules=rules))
        others = dict.fromkeys(other for case in cases for other in case.paid_with)
        for case in (*cases, *(case for other in others for case in journal.cases(other, rules=rules))):
            streams.show(_explained(case, judged(case)))
        spelt = {reference.upper(), reference.lower(), reference.strip()} - {reference}
        alike = [] if cases else sorted(each for each in spelt if any(journal.cases(each, rules=rules)))
    if not cases:
        calls = [about_folder("explain", folder, each) for each in alike] or [about_folder("show", folder)]
        steps = lines_of(map(Step, calls), streams.call)
        streams.show([f"the ledger has no row with the reference {reference}", *steps])
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
            yield f"    {in_words(age.state)}; first seen {age.first_seen:%Y-%m-%d} in the run {age.first_run}"
        if finding.waived:
            yield f"    does not count: {finding.waived}"
    yield f"  bridge: {in_words(step_of(row))}, {moved_by(row):+,}"
    if row.other_side is not None:
        yield f"  settled: {_settled(row.other_side.settled)}"
    if case.rows > 1:
        yield f"  rows with this reference: {case.rows}" + ("; this is not the first" if case.is_repeat else "")
    yield from (f"  {line}" for line in aligned([*_table(case)]))
    yield ""


def _settled(settled: Settled | None) -> str:
    if settled is None:
        return "no"
    amounts = {"amount": settled.amount, "amount_received": settled.amount_received}
    stated = "".join(f", {name} {amount:,}" for name, amount in amounts.items() if amount is not None)
    return f"on {settled.where}{stated}"


def _table(case: Case) -> Iterator[tuple[str, ...]]:
    lookups = [each for each in (case.first, case.second) if each]
    sides = [case.entry if isinstance(case.entry, Entry) else None, *(each.transaction for each in lookups)]
    yield ("", "ledger", *("first lookup", "second lookup")[: len(lookups)])
    yield ("at", "", *(each.at.isoformat(" ", "seconds") for each in lookups))
    yield ("answer", "", *(each.answer.value if each.transaction else each.message for each in lookups))
    for name in _FIELDS:
        row = [_text(name, getattr(side, name, ABSENT)) for side in sides]
        if any(row):
            yield (name, *row)


def _text(name: str, value: Any) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "(empty)"
    return escape_unprintable(masked(value) if name == "payment_code" else str(value), max_length=60)


def verify(folder: Path, /, *, allow_edits: Flag = False, streams: OwnStreams) -> int:
    """
    Check the files and the journal of a report against their checksums.

    Args:
        folder: Folder of the report.
        allow_edits: Ignore changes to `report.xlsx`, which people edit.
        streams: Streams of the process.
    """
    journal = folder / JOURNAL
    check_run(folder)
    found = (*verify_manifest(folder), *verify_decisions(folder), *verify_signatures(folder))
    is_edited = allow_edits and any(problem.file == WORK_LIST for problem in found)
    problems = [f"{problem.file}: {problem.what}" for problem in found if not is_edited or problem.file != WORK_LIST]
    if has_journal := os.path.lexists(journal):  # a report may be kept without it
        try:
            verify_journal(journal)
        except (JournalError, JournalWriteError) as error:
            problems.append(f"{journal.name}: {error}")
    if problems:
        steps = [Step(about_folder("report", folder))] if has_journal else []
        streams.show([*problems, *lines_of(steps, streams.call)])
        return Exit.DIFFERENT
    which = f"every file but {WORK_LIST}" if is_edited else "every file"
    streams.show([f"{which} in {folder} matches {folder / MANIFEST}"])
    if os.path.lexists(folder / DECISIONS):
        streams.show([f"every line of {folder / DECISIONS} follows the one before"])
    if has_journal:
        streams.show([f"every row of {journal} matches its checksum"])
    streams.show(map(str, read_signatures(folder)))
    return Exit.DONE


def sign(
    folder: Path,
    /,
    *,
    prepared: Annotated[str | None, NAME] = None,
    reviewed: Annotated[str | None, NAME] = None,
    streams: OwnStreams,
) -> int:
    """
    Sign an unchanged report, as the person who prepared it or another one who reviewed it.

    The signature covers every file and the decisions so far. `payclient verify` shows the last signature of each role,
    and reports what was changed after it.

    Args:
        folder: Folder of the report.
        prepared: Name of the person who prepared it.
        reviewed: Name of the person who reviewed it, who is not the one who prepared it.
        streams: Streams of the process.
    """
    check_run(folder, MANIFEST)
    given = {"prepared": (prepared or "").strip(), "reviewed": (reviewed or "").strip()}
    if len(names := {role: name for role, name in given.items() if name}) != 1:
        refuse("give the name of one person, with --prepared or --reviewed")
    problems = [each for each in (*verify_manifest(folder), *verify_decisions(folder)) if each.file != WORK_LIST]
    if problems:
        streams.show([*(f"{each.file}: {each.what}" for each in problems), "nothing was signed"])
        return Exit.DIFFERENT
    ((role, by),) = names.items()
    first = next((each for each in read_signatures(folder) if each.role == "prepared"), None)
    if role == "reviewed" and (first is None or first.sha256 != state_of(folder)):
        refuse("before a report is reviewed, it must be signed with --prepared as it is now")
    if role == "reviewed" and first is not None and first.by.casefold() == by.casefold():
        refuse(f"the report was prepared by {quote(by)}; another person must review it")
    streams.show([str(sign_report(folder, role, by, utc_now()))])
    return Exit.DONE


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
        quiet: Print errors only. With `--json`, also the object.
        streams: Streams of the process.
    """
    for folder in (earlier, later):
        check_run(folder, MANIFEST)
    with RunDiff(open_past_run(earlier), open_past_run(later)) as found:
        if as_json:
            streams.show(found.as_json())
        elif not quiet:
            streams.show(_compared(found))
            news = [each for state in BreakState if state.is_news for each in found.changes(state, limit=1)]
            streams.show(_next([each["reference"] for each in news], later, streams))
        return found.exit_status(fail_on)


def _compared(found: RunDiff) -> Iterator[str]:
    yield f"{found.verdict.upper()}: {moves(found.counts, found.earlier.note.folder)}"
    if found.is_reversed:
        later, earlier = found.later.note.folder, found.earlier.note.folder
        yield f"All answers of {later} came before the answers of {earlier}: name the earlier run first."
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
        notes.append(f"by {in_words(ResolvedBy(change['resolved_by']))}")
    if change["reason"]:
        notes.append(change["reason"])
    return f"{what} ({'; '.join(notes)})"


def decisions(
    workbook: Path, /, *, by: Annotated[str, NAME], folder: Annotated[Path | None, FOLDER] = None, streams: OwnStreams
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

    workbook = workbook / WORK_LIST if workbook.is_dir() else workbook
    run_folder = workbook.parent if folder is None else folder
    if not by.strip():
        refuse("--by must be a name")
    check_run(run_folder, MANIFEST)
    run = _unchanged_summary(run_folder, "cannot be used")["run"]
    found = decided(read_work_list(workbook, run), run_folder / ROWS, run=run, by=by.strip(), at=utc_now())
    added = {each.evidence for each in add_decisions(run_folder, found)} if found else set[str]()
    known = len({each.evidence for each in found} - added)
    taken = f"{plural(len(added), 'decision')} taken into {run_folder / DECISIONS}"
    steps = lines_of([Step(rejudging(Call(), run_folder))], streams.call)
    streams.show([f"{taken}; {known:,} known before", *steps])
    return Exit.DONE


def rejudge(
    folder: Path,
    /,
    *,
    out: Annotated[Path, FOLDER],
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008  frozen
    settles_within: Annotated[str | None, DURATION] = None,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Judge the answers of a run again by other rules, without a network or a key.

    The new report names the run and the rules that changed. A difference that only the new rules see has no second
    lookup, so its row is unresolved. `payclient reconcile` with the same ledger and rules and the new folder makes the
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
    remarks = _judge_copy(folder, out, judging, settles_within)
    carry_log(folder, out)
    written = write_again(out)
    verdict, *rest = verdict_lines(written)
    lines = [verdict, *remarks, *rest, "", f"Report: {out / 'report.html'}"]
    lines += lines_of([Step(about_folder("diff", folder, str(out)))], streams.call)
    return output.finish(written.summary, lines, out, streams)


def _judge_copy(folder: Path, out: Path, judging: JudgingOptions, settles_within: str | None) -> list[str]:
    """Put a copy of the journal of *folder* into *out*, judged again. Return its warnings."""
    with AtomicFiles(out, [JOURNAL]) as new:
        for beside in out.glob(f"{escape(new.path(JOURNAL).name)}?*"):  # left by a killed process with the same id
            beside.unlink()
        copy_journal(folder / JOURNAL, new.binary(JOURNAL))
        with Journal(new.path(JOURNAL), must_exist=True) as journal:
            about = about_of(journal)
            wanted = settling_within(judging.rules(without_file=about.rules), settles_within)
            rules = with_decisions(with_reading_of(wanted, about.rules), read_log(folder).decisions)
            unconfirmed = judge_again(journal, rules=rules)
            again = JudgedAgain(
                folder=folder.resolve().name,
                run=about.run,
                rules_fingerprint=about.rules.fingerprint,
                changed_rules=changed_rules(about.rules, rules),
            )
            note_about(journal, attrs.evolve(about, rules=rules, judged_again=again))
        if not _is_there(out, again, rules):
            new.commit()
    kept = [name for name in changed_rules(wanted, rules) if name != "accepted"]
    changed = [*map(in_words, rule_changes(about.rules, rules))]
    return [in_words(again), *_remarks(changed, kept, unconfirmed, out)]


def _is_there(out: Path, again: JudgedAgain, rules: Rules) -> bool:
    """Return whether *out* holds the same run judged again alike, perhaps with more lookups. Refuse any other."""
    if not (out / JOURNAL).exists():
        return False
    with Journal(out / JOURNAL, must_exist=True) as journal:
        about = about_of(journal)
    if (about.judged_again, about.rules.fingerprint) != (again, rules.fingerprint):
        refuse(f"there is another run in {out}", Way("out", new_path(out)))
    return True


def _remarks(changed: Sequence[str], kept: Sequence[str], unconfirmed: int, out: Path) -> Iterator[str]:
    if changed:
        yield f"Changed: {'; '.join(changed[:_MAX_BREAKS])}{'; …' if changed[_MAX_BREAKS:] else ''}."
    if kept:
        names = " and ".join(kept)
        yield f"Not changed: {names}, because reading the ledger or the answers in another way takes a new run."
    if unconfirmed:
        which = f"{plural(unconfirmed, 'reference')} {'needs' if unconfirmed == 1 else 'need'}"
        yield (
            f"By these rules {which} a second lookup, which the run did not take, and cannot be judged without it. "
            f"To take it: payclient reconcile with the same files and rules, and --out {shlex.quote(str(out))}"
        )
