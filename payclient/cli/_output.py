"""The output of several commands: its options, and the result of a run for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import astuple, define, field, frozen
from cyclopts import Group, Parameter

from payclient._shared.escape import escape_unprintable, plural
from payclient.cli._streams import Flag, JsonFlag, Streams, aligned, refuse
from payclient.reconcile import (
    Bucket,
    OpenFindings,
    Row,
    Rules,
    Severity,
    Summary,
    TieOut,
    Verdict,
    expiry_rule,
)
from payclient.reconcile.report import (
    BridgeLine,
    Top,
    bridge_lines,
    money_by_status,
    payout_sentence,
    roll_forward_lines,
    settlement_lines,
)


@Parameter(name="*", group=Group("Output", sort_key=8))
@frozen(kw_only=True)
class OutputOptions:
    """
    Output and exit status.

    Attributes:
        fail_on: The least severe break that makes the exit status 1.
        fail_on_new: The same, of breaks that are new, changed or reopened since the previous run; others do not count.
        as_json: Print `summary.json` on standard output instead of the verdict.
        quiet: Print errors only; with `--json`, also the summary.
    """

    fail_on: Severity = Severity.MEDIUM
    fail_on_new: Severity | None = None
    as_json: JsonFlag = False
    quiet: Flag = False

    def finish(self, summary: Summary, lines: Iterable[str], folder: Path, streams: Streams) -> int:
        """Print the result of a run, and return the exit status."""
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


_MAX_SHOWN = 5


@define
class Worst:
    _top: Top[Row] = field(init=False, factory=lambda: Top(_MAX_SHOWN, lambda row: row.severity))

    def add(self, row: Row) -> None:
        if row.bucket is Bucket.BREAK:
            self._top.add(row)

    def rows(self) -> tuple[Row, ...]:
        return self._top.kept


def verdict_lines(summary: Summary, worst: Worst, *, rules: Rules) -> Iterator[str]:
    yield f"{summary.verdict.upper()}: {summary.sentence}"
    if summary.verdict is Verdict.EMPTY:
        return
    if summary.compared.remark:
        yield summary.compared.remark
    if summary.since is not None and summary.since.rules_sentence:
        yield summary.since.rules_sentence
    yield from ("", *_totals(summary))
    if summary.since is not None:
        yield from ("", *roll_forward(summary.open_findings))
    yield from ("", *_bridge(bridge_lines(summary.tie_out)))
    if rows := summary.tie_out.rows_without_amount:
        yield f"{plural(rows, 'row')} of the ledger without an amount"
    yield from ("", *_states(summary.tie_out))
    if summary.settlement is not None:
        yield from ("", *_bridge(settlement_lines(summary.settlement)))
        yield from filter(None, [payout_sentence(summary.settlement)])
        problems = summary.settlement.statement.problems
        yield from (f"cannot be used, in the statement: {escape_unprintable(each)}" for each in problems)
    shown = [
        f"{escape_unprintable(row.place)}, {escape_unprintable(row.reference or '')}: {row.severity.word}, "
        f"{row.findings[0].code}: {row.findings[0].sentence}"
        for row in worst.rows()
    ]
    yield from listed(f"the worst of {plural(summary.buckets[Bucket.BREAK].rows, 'break')}", shown)
    patterns = [f"{each.counted} ({each.amount:,}): {each.sentence}; {each.treatment}" for each in summary.patterns]
    yield from listed("patterns among the breaks", patterns)
    yield from listed("leakage by payment method", [each.sentence for each in summary.leakage])
    yield from listed("said to be corrected", [each.still_there for each in summary.still_there])
    yield from listed("acceptances to look at", [each.sentence for each in summary.acceptances])
    yield from ("", summary.completeness, f"Expiry: {expiry_rule(rules.time_zone)}.")


def listed(heading: str, lines: Sequence[str], count: int = 0) -> Iterator[str]:
    if lines:
        yield from ("", f"{heading}:", *(f"  {line}" for line in lines))
    if count > len(lines):
        yield f"  and {count - len(lines):,} more, which --json prints"


def _totals(summary: Summary) -> list[str]:
    rows = [("", "rows", "ledger paid", "service paid", "difference")]
    for name, total in (*summary.buckets.items(), *summary.codes.items()):
        is_bucket = isinstance(name, Bucket)
        label = str(name) if is_bucket else f"  {name}"
        difference = f"{total.paid_difference:+,}" if total.paid_difference else "0"
        rows.append((label, f"{total.rows:,}", f"{total.ledger_paid:,}", f"{total.service_paid:,}", difference))
    return aligned(rows, right=(1, 2, 3, 4))


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
    rows = [("", "rows", "added", "taken off", "net")]
    for line in lines:
        label, step = line.label.lower(), line.step
        if step is None:
            rows.append((label, "", "", "", f"{line.amount:,}"))
        elif step.rows:
            rows.append((f"  {label}", f"{step.rows:,}", f"{step.added:,}", f"{step.taken_off:,}", f"{step.amount:+,}"))
    return aligned(rows, right=(1, 2, 3, 4))


def _states(tie_out: TieOut) -> list[str]:
    rows: list[tuple[str, ...]] = [("by status", "ledger rows", "ledger amount", "service rows", "service amount")]
    for label, total in money_by_status(tie_out).items():
        if total.ledger_rows or total.service_rows:
            rows.append((f"  {label}", *(f"{number:,}" for number in astuple(total))))
    return aligned(rows, right=(1, 2, 3, 4))
