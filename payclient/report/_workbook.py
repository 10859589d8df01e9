"""Write `report.xlsx`: the report as a work list, with columns for owner, resolution and comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from attrs import astuple

from payclient.reconcile import Bucket, Row, Rules, Summary, Total
from payclient.reconcile.nights import UNRESOLVED, BreakChange, Decisions
from payclient.report._about import About
from payclient.report._columns import SHEETS, WORK, Kind, RowColumn
from payclient.report._facts import facts, to_sign, when
from payclient.report._matrix import Matrix, status_of_word
from payclient.report._rows_file import ROWS
from payclient.report._sheet import MAX_ROWS, BookWriter, Column, SheetWriter, Style, Value
from payclient.report._wording import (
    BUCKETS,
    BridgeLine,
    bridge_lines,
    money_by_status,
    open_lines,
    payout_sentence,
    roll_forward_lines,
    settlement_lines,
    verdict_wording,
)

_MONEY = (
    *(Column("Rows", 10), Column("Ledger amount", 20), Column("Service amount", 20)),
    *(Column("Ledger paid", 20), Column("Service paid", 20), Column("Difference", 20)),
)

_GONE = "Resolved"


def _in_sheet(column: RowColumn) -> Column:
    return Column(column.title, column.width, Style.PLAIN if column.kind is Kind.LINE else Style.MONEY)


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Summary": (Column("Result", 30), Column("In words", 100), *_MONEY),
    **{name: tuple(map(_in_sheet, columns)) for name, (_, columns) in SHEETS.items()},
    _GONE: (
        *(Column("Reference", 22), Column("Severity", 10), Column("Finding", 24), Column("What", 70)),
        *(Column("State", 12), Column("Resolved by", 16), Column("Why not known", 50)),
        *(Column("First seen", 20), Column("Age in days", 10)),
    ),
    "Patterns": (
        *(Column("Pattern", 70), Column("Rows", 10), Column("At stake", 20), Column("What would treat it", 70)),
        Column("First lines", 24),
    ),
    "By status": (
        *(Column("Ledger's word", 20), Column("Means", 12), Column("Service's word", 20), Column("Means", 12)),
        *_MONEY,
    ),
    "By method": (Column("Payment method", 20), *_MONEY),
    "Tie-out": (
        *(Column("Step", 26), Column("Description", 50), _MONEY[0], Column("Added", 18), Column("Taken off", 18)),
        *(Column("Net", 18), Column("Running total", 20)),
    ),
    "Money by status": (
        *(Column("Status", 20), Column("Ledger rows", 14), Column("Ledger amount", 20), Column("Service rows", 14)),
        Column("Service amount", 20),
    ),
    "To sign": (Column("What", 30), Column("Value", 100)),
    "Run": (Column("What", 26), Column("Value", 100)),
}
"""The sheets in their order, each with its columns; `Resolved` is there with a previous run."""

_NOT_FILTERED = frozenset({"Summary", "Tie-out", "Money by status", "To sign", "Run"})
_REST = {"Breaks": "breaks.csv", _GONE: "history.jsonl"}
_NOTHING = ("", "", "")


class ReportWorkbook:
    """The workbook of one run, with the decisions taken so far; *rows_name* is the file with every row."""

    def __init__(
        self,
        file: IO[bytes],
        folder: Path,
        *,
        has_previous: bool = False,
        decisions: Decisions | None = None,
        max_rows: int = MAX_ROWS,
        rows_name: str = ROWS,
    ) -> None:
        self._book = BookWriter(file, folder)
        self._rows_name = rows_name
        self._decisions = decisions or {}
        self._sheets: dict[str, SheetWriter] = {}
        for name, columns in COLUMNS.items():
            if name == _GONE and not has_previous:
                continue
            rest = _REST.get(name, rows_name)
            self._sheets[name] = self._book.begin(
                name, columns, has_filter=name not in _NOT_FILTERED, max_rows=max_rows, rest=rest
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._book.__exit__()

    def add(self, row: Row) -> None:
        """Write *row*."""
        if row.bucket in _SHEET_OF:
            name, columns = _SHEET_OF[row.bucket]
            work = zip(WORK, _work(row, self._decisions), strict=True) if WORK[0] in columns else ()
            cells = {column: column.in_sheet(row) for column in columns} | dict(work)
            self._sheets[name].add(list(cells.values()))

    def add_gone(self, change: BreakChange) -> None:
        """Write a break of an earlier run that is none now."""
        if not change.is_old:
            self._sheets[_GONE].add(_gone(change))

    def finish(self, summary: Summary, about: About, matrix: Matrix) -> None:
        """Write the sheets about all rows, and the file."""
        sheets: dict[str, Iterator[Sequence[Value]]] = {
            "Summary": _summary(summary, self._remarks()),
            "Patterns": _patterns(summary),
            "By status": _by_status(matrix, about.rules),
            "By method": _by_method(matrix),
            "Tie-out": _tie_out(summary),
            "Money by status": ((label, *astuple(total)) for label, total in money_by_status(summary.tie_out).items()),
            "To sign": _to_sign(summary, about),
            "Run": ((fact.term, value) for fact in facts(summary, about) for value in fact.values),
        }
        for name, rows in sheets.items():
            for row in rows:
                self._sheets[name].add(row)
        self._book.finish()

    def _remarks(self) -> Iterator[str]:
        """Yield remarks on rows that are not in this workbook."""
        yield f"Matched rows are not listed here: {self._rows_name} has every row."
        for name in ("Breaks", "Open", "Unresolved", "Rejected"):
            if left_out := self._sheets[name].left_out:
                yield f"{left_out:,} rows do not fit in the sheet {name}; its last row says which file has them all."


def _gone(change: BreakChange) -> Sequence[Value]:
    now, history = change.now, change.history
    return (
        *(change.reference, now.severity.word, now.code.value, now.sentence, history.state.label),
        *(now.by.label if now.by else None, change.why or None, when(history.first_seen), history.age_days),
    )


def _work(row: Row, decisions: Decisions) -> Sequence[Value]:
    """Return owner, resolution and comment."""
    code = UNRESOLVED if row.bucket is Bucket.UNRESOLVED else row.findings[0].code
    decision = decisions.get((row.reference or "", code))
    return _NOTHING if decision is None else decision.cells


_SHEET_OF = {bucket: (name, columns) for name, (bucket, columns) in SHEETS.items()}


def _summary(summary: Summary, remarks: Iterator[str]) -> Iterator[Sequence[Value]]:
    yield (summary.verdict.upper(), summary.sentence)
    yield (None, verdict_wording(summary).advice)
    if summary.compared.remark:
        yield (None, summary.compared.remark)
    yield (None, summary.completeness)
    yield from ((None, sentence) for sentence in remarks)
    yield ()
    for bucket, total in summary.buckets.items():
        yield (BUCKETS[bucket].title, BUCKETS[bucket].advice, *_money(total))
    yield ("All", None, *_money(sum(summary.buckets.values(), Total())))
    yield ()
    yield ("OPEN FINDINGS", "One for each reference and kind; the amount is what is at stake.")
    for label, count, amount in (*roll_forward_lines(summary.open_findings), *open_lines(summary.open_findings)):
        yield (label, None, count, amount)
    yield ()
    for code, total in summary.codes.items():
        yield (code.value, code.label, *_money(total))


def _money(total: Total) -> Sequence[Value]:
    return (*astuple(total), total.paid_difference)


def _patterns(summary: Summary) -> Iterator[Sequence[Value]]:
    for each in summary.patterns:
        lines = ", ".join(map(str, each.lines))
        yield (each.sentence, each.rows, each.amount, each.treatment, lines)


def _by_status(matrix: Matrix, rules: Rules) -> Iterator[Sequence[Value]]:
    for (ours, theirs), total in matrix.by(lambda cell: cell.words).items():
        yield (ours, status_of_word(ours, rules), theirs, status_of_word(theirs, rules), *_money(total))


def _by_method(matrix: Matrix) -> Iterator[Sequence[Value]]:
    for method, total in matrix.by(lambda cell: cell.method).items():
        yield (method, *_money(total))


def _tie_out(summary: Summary) -> Iterator[Sequence[Value]]:
    yield from _steps(bridge_lines(summary.tie_out))
    yield ("Rows without amount", "the ledger states none", summary.tie_out.rows_without_amount)
    if summary.settlement is not None:
        yield ()
        yield from _steps(settlement_lines(summary.settlement))
        if sentence := payout_sentence(summary.settlement):
            yield ("Payout", sentence)


def _to_sign(summary: Summary, about: About) -> Iterator[Sequence[Value]]:
    yield from ((fact.term, value) for fact in to_sign(summary, about) for value in fact.values)
    for term in ("Prepared by", "Reviewed by", "Date", "Signature"):
        yield from ((), (term,))


def _steps(lines: Iterable[BridgeLine]) -> Iterator[Sequence[Value]]:
    then = 0
    for line in lines:
        step = line.step
        then = line.amount if step is None else then + line.amount
        parts = (None,) * 4 if step is None else (step.rows, step.added, step.taken_off, step.amount)
        yield (line.label, line.meaning, *parts, then)
