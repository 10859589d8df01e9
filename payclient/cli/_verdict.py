"""The result of a reconciliation as text: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappush, heappushpop

from attrs import define, field

from payclient._visible import visible
from payclient.cli._table import aligned
from payclient.reconcile import COMPLETENESS, Bucket, Row, Rules, Step, Summary, expiry_rule

_MOST_SHOWN = 5
_STEPS = {
    Step.TOLERATED: "matched",
    Step.MISSING: "missing at the service",
    Step.DUPLICATES: "listed again",
    Step.UNDER_OR_OVERPAID: "differ in amount or otherwise",
    Step.STATUS_BREAKS: "differ in status",
    Step.OPEN: "open",
    Step.UNRESOLVED: "unresolved",
    Step.REJECTED: "rejected",
}


@define
class Worst:
    """Keeps the few breaks that a person should see first, out of any number of rows."""

    _heap: list[tuple[int, int, Row]] = field(init=False, factory=list)

    def add(self, row: Row) -> None:
        """Take one row."""
        if row.bucket is Bucket.BREAK:
            item = (row.severity, -row.line, row)
            heappush(self._heap, item) if len(self._heap) < _MOST_SHOWN else heappushpop(self._heap, item)

    def rows(self) -> list[Row]:
        """Return them, the most severe first and then in the order of the ledger."""
        return [row for _, _, row in sorted(self._heap, key=lambda item: item[:2], reverse=True)]


def verdict_lines(summary: Summary, worst: Worst, *, rules: Rules) -> Iterator[str]:
    """Yield the lines of the report for a terminal; free of control characters."""
    yield f"{summary.verdict.upper()}: {summary.sentence}"
    if not summary.rows:
        return
    yield ""
    yield from _totals(summary)
    yield ""
    yield from _bridge(summary)
    if shown := worst.rows():
        yield ""
        yield f"the worst of {summary.buckets[Bucket.BREAK].rows:,} breaks:"
        yield from (f"  line {row.line}, {visible(row.reference or '')}: {_sentence(row)}" for row in shown)
    yield ""
    yield COMPLETENESS
    yield f"Expiry: {expiry_rule(rules.time_zone)}."


def _totals(summary: Summary) -> list[str]:
    rows = [("", "rows", "ledger amount", "service amount")]
    for name, total in (*summary.buckets.items(), *summary.codes.items()):
        is_bucket = isinstance(name, Bucket)
        label = str(name) if is_bucket else f"  {name}"
        rows.append((label, f"{total.rows:,}", f"{total.ledger_amount:,}", f"{total.service_amount:,}"))
    return aligned(rows, right=(1, 2, 3))


def _bridge(summary: Summary) -> list[str]:
    bridge = summary.tie_out
    steps = [step for step in bridge.steps if step.rows]
    return aligned(
        [
            ("ledger total", "", f"{bridge.ledger_total:,}"),
            *((f"  {_STEPS[step.step]}", f"{step.rows:,} rows", f"{step.amount:+,}") for step in steps),
            ("service total", "", f"{bridge.service_total:,}"),
            ("residual", "", f"{bridge.residual:,}"),
        ],
        right=(1, 2),
    )


def _sentence(row: Row) -> str:
    return f"{row.severity.word}, {row.findings[0].code}: {row.findings[0].sentence}"
