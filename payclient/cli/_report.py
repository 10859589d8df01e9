"""The commands that read a report, without a network or a key."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from payclient import reconcile
from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.cli._next import about_folder, explaining, lines_of
from payclient.cli._options import check_run
from payclient.cli._output import SEVERITY, listed, roll_forward
from payclient.cli._streams import Exit, Flag, JsonFlag, OwnStreams, aligned, refuse
from payclient.protocol import masked
from payclient.reconcile import BreakState, Bucket, Row, Severity, folders
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile.report import integrity, rows
from payclient.reconcile.report.integrity import MANIFEST, WORK_LIST
from payclient.reconcile.report.wording import in_words, moves

EXAMPLES: Mapping[str, str] = {
    "show": """
$ payclient show reports/2026-11-21
$ (echo '~~~'; payclient show reports/2026-11-21; echo '~~~') >> "$GITHUB_STEP_SUMMARY"

Exit status: 0 for any verdict. 2 when the report is missing or was changed.
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

Exit status: 0 signed. 1 a file is missing or changed, so the report was not signed.
""",
    "diff": """
$ payclient diff reports/2026-11-20 reports/2026-11-21
$ payclient diff reports/2026-11-20 reports/2026-11-21 --json | jq .counts

Exit status: 0 no break is new, changed or reopened. 1 something at or above `--fail-on` is. 2 the reports cannot be
compared. 75 otherwise, if the state of a break is not known.
""",
}

_MAX_BREAKS = 10
_FIELDS = (*COMPARED, "payment_name")


def show(folder: Path, /, *, streams: OwnStreams) -> int:
    """
    Show the result in a few lines: the verdict, the money and the worst breaks.

    Only files of the report are read, so a copy without its journal will do.

    Args:
        folder: Folder of the report.
        streams: Streams of the process.
    """
    summary = unchanged_summary(folder, "cannot be shown")
    breaks = (row for row, _ in rows.rows_of(folder / rows.ROWS) if row.bucket is Bucket.BREAK)
    worst = nlargest(_MAX_BREAKS, breaks, key=attrgetter("rank"))
    steps = explaining(folder, [row.reference for row in worst if row.reference])
    head = f"{summary['verdict'].upper()}: {summary['sentence']}"
    streams.show([head, "", *_about(summary), *_worst(summary, worst), *lines_of(steps, streams.call)])
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


def unchanged_summary(folder: Path, what: str) -> dict[str, Any]:
    check_run(folder, MANIFEST)
    for problem in integrity.verify(folder, only={"summary.json", rows.ROWS, MANIFEST}):
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
    """
    check_run(folder, JOURNAL)
    reference = reference.encode(errors="replace").decode()  # ledgers are UTF-8 once read
    with reconcile.Journal(folder / JOURNAL, must_exist=True) as journal:
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
        streams.show([f"the reference {reference} is not in the ledger", *lines_of(steps, streams.call)])
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
    yield from (f"  {line}" for line in aligned([*_table(case)]))
    yield ""


def _settled(settled: reconcile.Settled | None) -> str:
    if settled is None:
        return "no"
    amounts = {"amount": settled.amount, "amount_received": settled.amount_received}
    stated = "".join(f", {name} {amount:,}" for name, amount in amounts.items() if amount is not None)
    return f"on {settled.where}{stated}"


def _table(case: reconcile.Case) -> Iterator[tuple[str, ...]]:
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
    found = integrity.verify(folder)
    own = _in_files(found, but=WORK_LIST if allow_edits else "")
    which = "every file" if len(own) == len(found) else f"every file but {WORK_LIST}"
    problems = own + _in_files((*integrity.verify_decisions(folder), *integrity.verify_signatures(folder)))
    if has_journal := os.path.lexists(journal):  # a report may be kept without it
        try:
            reconcile.verify_journal(journal)
        except (reconcile.JournalError, reconcile.JournalWriteError) as error:
            problems.append(f"{journal.name}: {error}")
    if problems:
        steps = [about_folder("report", folder)] if has_journal and own else []  # decisions cannot be written again
        streams.show([*problems, *lines_of(steps, streams.call)])
        return Exit.DIFFERENT
    decided = folder / integrity.DECISIONS
    streams.show([f"{which} in {folder} matches {folder / MANIFEST}"])
    streams.show([f"every line of {decided} follows the one before"] * os.path.lexists(decided))
    streams.show([f"every row of {journal} matches its checksum"] * has_journal)
    streams.show(map(str, integrity.read_signatures(folder)))
    return Exit.DONE


def _in_files(problems: Iterable[integrity.Problem], but: str = "") -> list[str]:
    return [f"{each.file}: {each.what}" for each in problems if each.file != but]


def sign(
    folder: Path,
    /,
    *,
    prepared: Annotated[str | None, Parameter(metavar="NAME")] = None,
    reviewed: Annotated[str | None, Parameter(metavar="NAME")] = None,
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
    if problems := _in_files((*integrity.verify(folder), *integrity.verify_decisions(folder)), but=WORK_LIST):
        streams.show([*problems, "the report was not signed"])
        return Exit.DIFFERENT
    ((role, by),) = names.items()
    if role == "reviewed":
        first = next((each for each in integrity.read_signatures(folder) if each.role == "prepared"), None)
        if first is None or first.sha256 != integrity.state_of(folder):
            refuse("before a report is reviewed, it must be signed with --prepared as it is now")
        if first.by.casefold() == by.casefold():
            refuse(f"the report was prepared by {quote(by)}: another person must review it")
    streams.show([str(integrity.sign(folder, role, by, reconcile.utc_now()))])
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
        quiet: Print only errors. With `--json`, also the object.
        streams: Streams of the process.
    """
    for folder in (earlier, later):
        check_run(folder, MANIFEST)
    with folders.RunDiff(folders.open_past_run(earlier), folders.open_past_run(later)) as found:
        if as_json:
            streams.show(found.as_json())
        elif not quiet:
            news = [each for state in BreakState if state.is_news for each in found.changes(state, limit=1)]
            steps = explaining(later, [each["reference"] for each in news])
            streams.show([*_compared(found), *lines_of(steps, streams.call)])
        return found.exit_status(fail_on)


def _compared(found: folders.RunDiff) -> Iterator[str]:
    yield f"{found.verdict.upper()}: {moves(found.counts, found.earlier.note.folder)}"
    if found.is_reversed:
        later, earlier = found.later.note.folder, found.earlier.note.folder
        yield f"All answers of {later} are older than those of {earlier}: name the earlier run first."
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
