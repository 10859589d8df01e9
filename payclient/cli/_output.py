"""The output of several commands: its options, and the result of a run for people."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from attrs import frozen
from cyclopts import Group, Parameter

from payclient._shared.escape import escape_unprintable, plural
from payclient._shared.remedy import Way
from payclient.cli._process import Flag, JsonFlag, Streams, aligned, new_path, refuse
from payclient.reconcile import Bucket, OpenFindings, Severity, Summary, Total, Verdict, expiry_rule
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.report import Report
from payclient.reconcile.report.integrity import MANIFEST
from payclient.reconcile.report.model import FORMATS, BreakItem, BridgeLine
from payclient.reconcile.report.wording import in_words, pattern_words, roll_forward_lines, rules_sentences

SEVERITY = Parameter(metavar="SEVERITY", show_choices=False)


@Parameter(name="*", group=Group("Output", sort_key=9))
@frozen(kw_only=True)
class OutputOptions:
    """
    Output and exit status.

    Attributes:
        fail_on: Least severe break with exit status 1: info, low, medium, high, critical, or `partial`: as medium, and
            something that was not compared.
        fail_on_new: Like --fail-on, but counts only new, changed and reopened breaks.
        as_json: Print `summary.json` instead of the verdict.
        quiet: Print only errors. With `--json`, also the summary.
    """

    fail_on: Annotated[Severity | Literal["partial"], SEVERITY] = Severity.MEDIUM
    fail_on_new: Annotated[Severity | None, SEVERITY] = None
    as_json: JsonFlag = False
    quiet: Flag = False

    def finish(self, summary: Summary, lines: Iterable[str], folder: Path, streams: Streams) -> int:
        if self.as_json:
            streams.write((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
        elif not self.quiet:
            streams.show(lines)
        if self.fail_on_new is None:
            return summary.exit_status(self.fail_on)
        if summary.since is None:
            refuse("--fail-on-new needs a run with a previous one")
        return summary.exit_status(self.fail_on_new, only_news=True)


def check_other_folder(out: Path, folder: Path, what: str = "") -> None:
    if out.resolve().is_relative_to(folder.resolve()):
        new = Way("out", new_path(folder))
        refuse(f"--out must be another folder than {folder}, {what}which is not changed", new)


def check_own_files(out: Path) -> None:
    """Refuse a folder with a file that a report would replace, and that no run has written."""
    if any((out / name).exists() for name in (JOURNAL, MANIFEST)):
        return
    if name := next((name for name in FORMATS if (out / name).exists()), None):
        refuse(f"{out} has a {name} that no run has written", Way("out", new_path(out)))


MAX_LINES = 45
"""Maximum of lines of the result of a run, the next steps included. What does not fit is on the page."""

_MAX_LISTED = 5
_NEXT_STEPS = 4
_PAGE = "report.html"


def _named_breaks(report: Report, room: int) -> Iterator[str]:
    """Yield in at most *room* lines the new breaks, the worst of the others, and the rejected rows."""
    worst, others = report.worst, "other break" if report.worst.news else "break"
    rejected = worst.rows[Bucket.REJECTED]
    lists: tuple[tuple[str, list[tuple[str, int]], int], ...] = (
        (
            f"new, changed or reopened ({plural(report.news, 'finding')})",
            [(_named(each), len(each.references)) for each in worst.news],
            report.news,
        ),
        (f"the worst of {plural(worst.other_rows, others)}", [(_named(each), 1) for each in worst.others], 0),
        (
            "rejected, to be corrected in the ledger, or to be skipped by its rules",
            [(escape_unprintable(f"{row.place}: {row.reason}"), 1) for row in rejected.kept[:_MAX_LISTED]],
            rejected.count,
        ),
    )
    for heading, lines, count in lists:
        if lines and room > _LIST_FRAME:
            shown = lines[: room - _LIST_FRAME]
            more = count - sum(each for _, each in shown)
            block = [*listed(heading, [line for line, _ in shown], more, where=_PAGE)]
            room -= len(block)
            yield from block


_LIST_FRAME = 3
"""Lines of a list in addition to its items: an empty one, the heading, and the number of items left out."""


def _named(item: BreakItem) -> str:
    history, first = item.finding.history, item.finding
    marks = [in_words(history.state)] if history is not None and history.state.is_news else []
    marks += ["material"] * item.row.is_material
    references = " and ".join(map(escape_unprintable, item.references))
    where = ", ".join([*marks, escape_unprintable(item.row.place), references])
    return f"{where}: {first.severity.word}, {first.code}, {item.at_stake:,} at stake: {first.sentence}"


def verdict_lines(report: Report) -> Iterator[str]:
    """Yield the verdict, the news, the worst breaks and the money, in at most `MAX_LINES` with the next steps."""
    summary = report.summary
    head = [f"{summary.verdict.upper()}: {report.says}"]
    if summary.verdict is Verdict.EMPTY:
        yield from head
        return
    head += filter(None, [report.caution])
    figures = ["", *_totals(report)]
    if rows := summary.tie_out.rows_without_amount:
        figures.append(f"{plural(rows, 'row')} of the ledger without an amount")
    if (since := summary.since) is not None:
        head += rules_sentences(since)
        figures += roll_forward(summary.open_findings)
    foot = ["", report.completeness]
    if summary.compared.fields["expdate"]:
        foot.append(f"Expiry: {expiry_rule(report.about.rules.time_zone)}.")
    brief, statement = _statement(report)
    room = MAX_LINES - _NEXT_STEPS - len(head) - len(figures) - len(foot) - len(brief)
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
    total, paid = settlement.statement.total, settlement.service_paid_total
    more = [*filter(None, [report.payout_sentence])]
    if found := report.payouts:
        all_of_it = found[-1]
        names = ["gross", "refunds", "fees", *["refund_fees"] * bool(all_of_it.refund_fees), "net"]
        sums = ", ".join(f"{name.replace('_', ' ')} {getattr(all_of_it, name):,}" for name in names)
        is_named = any(each.name for each in found)
        more.insert(0, f"{plural(len(settlement.statement.payouts), 'payout') if is_named else 'in it'}: {sums}")
    if problems := settlement.statement.problems:
        more.append(f"cannot be used, in the statement: {'; '.join(map(escape_unprintable, problems))}")
    brief = f"statement {total:,}, service, paid {paid:,}; the bridge between them is in {_PAGE}"
    return ["", brief, *more], ["", *_bridge(report.statement_bridge), *more]


def _remarks(summary: Summary) -> Iterator[list[str]]:
    patterns = [
        f"{plural(each.rows, 'row')} ({each.amount:,}): {'; '.join(pattern_words(each))}" for each in summary.patterns
    ]
    lists = {
        "first seen at the service": [*map(in_words, summary.first_seen)],
        "marked as corrected": [*map(in_words, summary.still_there)],
        "acceptances to look at": [*map(in_words, summary.acceptances)],
        "patterns among the breaks": patterns,
        "leakage by payment method": [*map(in_words, summary.leakage)],
    }
    for heading, found in lists.items():
        yield [*listed(heading, found[:_MAX_LISTED], len(found) - _MAX_LISTED, where=_PAGE)]


def listed(heading: str, lines: Sequence[str], more: int = 0, *, where: str = "") -> Iterator[str]:
    if lines:
        yield from ("", f"{heading}:", *(f"  {line}" for line in lines))
    if more > 0:
        yield f"  and {more:,} more, {f'in {where}' if where else 'which --json prints'}"


def _totals(report: Report) -> list[str]:
    summary = report.summary
    rows: list[tuple[str, ...]] = [("", "rows", "ledger paid", "service paid", "difference")]
    for bucket, total in summary.buckets.items():
        if total.rows:
            rows.append(_sums(str(bucket), total))
        if bucket is Bucket.BREAK:
            rows += [_sums(f"  {label}", each) for label, each in report.worst.kinds()]
    rows.append(_sums("all", sum(summary.buckets.values(), Total())))
    return aligned(rows, right=(1, 2, 3, 4))


def _sums(label: str, total: Total) -> tuple[str, ...]:
    difference = f"{total.paid_difference:+,}" if total.paid_difference else "0"
    return label, f"{total.rows:,}", f"{total.ledger_paid:,}", f"{total.service_paid:,}", difference


def roll_forward(found: OpenFindings) -> list[str]:
    """Return the roll-forward as a table below an empty line. Nothing if neither run has a finding."""
    rows = [("open findings", "number", "at stake")]
    for label, count, amount in roll_forward_lines(found):
        rows.append((f"  {label.lower()}", "" if count is None else f"{count:,}", f"{amount:,}"))
    if found.old.count:
        rows.append(("  for more than 30 days", f"{found.old.count:,}", f"{found.old.amount:,}"))
    if found.payments != found.closing:
        rows.append(("  payments, each once", f"{found.payments.count:,}", f"{found.payments.amount:,}"))
    return ["", *aligned(rows, right=(1, 2))] if rows[1:] else []


def _bridge(lines: Iterable[BridgeLine]) -> list[str]:
    """Return the bridge as a table: the steps that move money."""
    rows = [("", "rows", "added", "taken off", "net")]
    for line in lines:
        label, step = line.label.lower(), line.step
        if step is None:
            rows.append((label, "", "", "", f"{line.amount:,}"))
        elif step.added or step.taken_off:
            rows.append((f"  {label}", f"{step.rows:,}", f"{step.added:,}", f"{step.taken_off:,}", f"{step.amount:+,}"))
    return aligned(rows, right=(1, 2, 3, 4))
