"""The output of several commands: its options, and the result of a run for people."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from attrs import define, field, frozen
from cyclopts import Group, Parameter

from payclient._shared.escape import escape_unprintable, plural
from payclient.cli._streams import Flag, JsonFlag, Streams, aligned, refuse
from payclient.reconcile import (
    Bucket,
    Code,
    OpenFindings,
    Row,
    Rules,
    Settlement,
    Severity,
    Summary,
    Total,
    Verdict,
    expiry_rule,
)
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.report import (
    FORMATS,
    MANIFEST,
    BridgeLine,
    Top,
    acceptance_sentence,
    caution,
    completeness,
    leakage_sentence,
    payout_lines,
    payout_sentence,
    roll_forward_lines,
    sentence,
    settlement_lines,
)

SEVERITY = Parameter(metavar="SEVERITY", show_choices=False)


@Parameter(name="*", group=Group("Output", sort_key=9))
@frozen(kw_only=True)
class OutputOptions:
    """
    Output and exit status.

    Attributes:
        fail_on: Least severe break with exit status 1: info, low, medium, high, critical; or `partial`: as medium, and
            something that was not compared.
        fail_on_new: The same, for breaks that are new, changed or reopened; no others count.
        as_json: Print `summary.json` instead of the verdict.
        quiet: Print errors only; with `--json`, also the summary.
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
            refuse("--fail-on-new needs a previous run: name its folder with payclient reconcile --previous")
        return summary.exit_status(self.fail_on_new, only_news=True)


def check_other_folder(out: Path, folder: Path, what: str = "") -> None:
    if out.resolve().is_relative_to(folder.resolve()):
        refuse(f"--out must be another folder than {folder}, {what}which is not changed")


def check_own_files(out: Path) -> None:
    """Refuse a folder with a file that a report would replace, and that no run has written."""
    if any((out / name).exists() for name in (JOURNAL, MANIFEST)):
        return
    if name := next((name for name in FORMATS if (out / name).exists()), None):
        refuse(f"{out} has a {name} that no run has written; choose another folder with --out")


MAX_LINES = 45
"""Lines that the result of a run has at most, the next steps included; what does not fit is on the page."""

_MAX_NAMED = 10
_MAX_WORST = 5
_MAX_KINDS = 5
_NEXT_STEPS = 4
_PAGE = "report.html"


@define
class Worst:
    """The breaks of a run that are shown: the worst new ones, the worst of the others, and totals by kind."""

    _news: Top[Row] = field(init=False, factory=lambda: Top(_MAX_NAMED, lambda row: row.rank))
    _others: Top[Row] = field(init=False, factory=lambda: Top(_MAX_WORST, lambda row: row.rank))
    _rejected: Top[Row] = field(init=False, factory=lambda: Top(_MAX_WORST, lambda row: row.rank))
    _kinds: dict[tuple[Severity, Code], Total] = field(init=False, factory=dict)

    def add(self, row: Row) -> None:
        if row.bucket is Bucket.REJECTED:
            self._rejected.add(row)
        if row.bucket is not Bucket.BREAK or row.primary is None:
            return
        top = self._news if row.history is not None and row.history.state.is_news else self._others
        top.add(row)
        kind = row.severity, row.primary.code
        self._kinds[kind] = self._kinds.get(kind, Total()) + Total.of(row)

    @property
    def references(self) -> list[str]:
        return [row.reference for row in (*self._news.kept, *self._others.kept) if row.reference]

    def kinds(self) -> Iterator[tuple[str, Total]]:
        """Yield the rows and the money of each kind of break, the most severe first; together they are all breaks."""
        kinds = sorted(self._kinds.items(), key=lambda kind: (-kind[0][0], -kind[1].rows))
        totals: dict[str, Total] = {}
        for place, ((_, code), total) in enumerate(kinds):
            label = code.value if place < _MAX_KINDS or len(kinds) == _MAX_KINDS + 1 else "other kinds"
            totals[label] = totals.get(label, Total()) + total
        yield from totals.items()

    def lines(self, room: int) -> Iterator[str]:
        """Yield in at most *room* lines what is new, the worst of the others, and what was rejected."""
        others = "other break" if self._news.count else "break"
        for heading, top, named, may_be_cut in (
            (f"new, changed or reopened ({plural(self._news.count, 'break')})", self._news, _named, True),
            (f"the worst of {plural(self._others.count, others)}", self._others, _named, False),
            ("rejected, to be corrected in the ledger, or to be skipped by its rules", self._rejected, _rejected, True),
        ):
            if top.count and room > _LIST_FRAME:
                shown = list(map(named, top.kept[: room - _LIST_FRAME]))
                block = [*listed(heading, shown, top.count if may_be_cut else 0, where=_PAGE)]
                room -= len(block)
                yield from block


_LIST_FRAME = 3
"""Lines of a list in addition to its items: an empty one, the heading, and the number of items left out."""


def _named(row: Row) -> str:
    marks = [row.history.state.label] if row.history is not None and row.history.state.is_news else []
    marks += ["material"] * row.is_material
    where = ", ".join([*marks, escape_unprintable(row.place), escape_unprintable(row.reference or "")])
    first = row.findings[0]
    return f"{where}: {row.severity.word}, {first.code}, {row.at_stake:,} at stake: {first.sentence}"


def _rejected(row: Row) -> str:
    return f"{escape_unprintable(row.place)}: {escape_unprintable(row.reason)}"


def verdict_lines(summary: Summary, worst: Worst, *, rules: Rules) -> Iterator[str]:
    """Yield the verdict, what is new, the worst breaks and the money, in at most `MAX_LINES` with the next steps."""
    head = [f"{summary.verdict.upper()}: {sentence(summary)}"]
    if summary.verdict is Verdict.EMPTY:
        yield from head
        return
    head += filter(None, [caution(summary.compared)])
    figures = ["", *_totals(summary, worst)]
    if rows := summary.tie_out.rows_without_amount:
        figures.append(f"{plural(rows, 'row')} of the ledger without an amount")
    if (since := summary.since) is not None:
        head += filter(None, (since.rules_sentence, since.rules_values))
        figures += ["", *roll_forward(summary.open_findings)]
    foot = ["", completeness(summary)]
    if summary.compared.fields["expdate"]:
        foot.append(f"Expiry: {expiry_rule(rules.time_zone)}.")
    brief, statement = _statement(summary.settlement)
    room = MAX_LINES - _NEXT_STEPS - len(head) - len(figures) - len(foot) - len(brief)
    named = [*worst.lines(room)]
    room -= len(named)
    side = statement if len(statement) - len(brief) <= room else brief
    room -= len(side) - len(brief)
    yield from (*head, *named, *figures, *side)
    for block in _remarks(summary):
        if len(block) <= room:
            room -= len(block)
            yield from block
    yield from foot


def _statement(settlement: Settlement | None) -> tuple[list[str], list[str]]:
    """Return the bridge to the statement in a few lines, and as a table; neither without a statement."""
    if settlement is None:
        return [], []
    total, paid = settlement.statement.total, settlement.service_paid_total
    more = [*filter(None, [payout_sentence(settlement)])]
    if found := payout_lines(settlement):
        all_of_it = found[-1]
        names = ["gross", "refunds", "fees", *["refund_fees"] * bool(all_of_it.refund_fees), "net"]
        sums = ", ".join(f"{name.replace('_', ' ')} {getattr(all_of_it, name):,}" for name in names)
        is_named = any(each.name for each in found)
        more.insert(0, f"{plural(len(settlement.statement.payouts), 'payout') if is_named else 'in it'}: {sums}")
    if problems := settlement.statement.problems:
        more.append(f"cannot be used, in the statement: {'; '.join(map(escape_unprintable, problems))}")
    brief = f"statement {total:,}, service, paid {paid:,}; the bridge between them is in {_PAGE}"
    return ["", brief, *more], ["", *_bridge(settlement_lines(settlement)), *more]


def _remarks(summary: Summary) -> Iterator[list[str]]:
    patterns = [
        f"{plural(each.rows, 'row')} ({each.amount:,}): {each.sentence}; {each.treatment}" for each in summary.patterns
    ]
    lists = {
        "first seen at the service": [each.sentence for each in summary.first_seen],
        "said to be corrected": [each.still_there for each in summary.still_there],
        "acceptances to look at": [*map(acceptance_sentence, summary.acceptances)],
        "patterns among the breaks": patterns,
        "leakage by payment method": [*map(leakage_sentence, summary.leakage)],
    }
    for heading, found in lists.items():
        yield [*listed(heading, found[:_MAX_WORST], len(found), where=_PAGE)]


def listed(heading: str, lines: Sequence[str], count: int = 0, *, where: str = "") -> Iterator[str]:
    if lines:
        yield from ("", f"{heading}:", *(f"  {line}" for line in lines))
    if count > len(lines):
        yield f"  and {count - len(lines):,} more, {f'in {where}' if where else 'which --json prints'}"


def _totals(summary: Summary, worst: Worst) -> list[str]:
    rows: list[tuple[str, ...]] = [("", "rows", "ledger paid", "service paid", "difference")]
    for bucket, total in summary.buckets.items():
        if total.rows:
            rows.append(_sums(str(bucket), total))
        if bucket is Bucket.BREAK:
            rows += [_sums(f"  {label}", each) for label, each in worst.kinds()]
    rows.append(_sums("all", sum(summary.buckets.values(), Total())))
    return aligned(rows, right=(1, 2, 3, 4))


def _sums(label: str, total: Total) -> tuple[str, ...]:
    difference = f"{total.paid_difference:+,}" if total.paid_difference else "0"
    return label, f"{total.rows:,}", f"{total.ledger_paid:,}", f"{total.service_paid:,}", difference


def roll_forward(found: OpenFindings) -> list[str]:
    rows = [("open findings", "number", "at stake")]
    for label, count, amount in roll_forward_lines(found):
        rows.append((f"  {label.lower()}", "" if count is None else f"{count:,}", f"{amount:,}"))
    if found.old.count:
        rows.append(("  for more than 30 days", f"{found.old.count:,}", f"{found.old.amount:,}"))
    if found.payments != found.closing:
        rows.append(("  payments, each once", f"{found.payments.count:,}", f"{found.payments.amount:,}"))
    return aligned(rows, right=(1, 2))


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
