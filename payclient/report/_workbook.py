"""Write `report.xlsx`: the report as a work list, with room for who does what about each break."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from payclient.ledger._entry import ABSENT, COMPARED, Entry
from payclient.reconcile import COMPLETENESS, Bucket, Row, Rules, Summary, TieOut, Total
from payclient.report._about import About
from payclient.report._facts import facts, when
from payclient.report._matrix import Cell, Matrix
from payclient.report._package import Package
from payclient.report._shape import difference, in_words
from payclient.report._sheet import MOST_ROWS, Column, Sheet, Style, Value
from payclient.report._wording import BUCKETS, CODES, STEPS, VERDICTS

_LINE = Column("Line", 8, Style.PLAIN)
_REFERENCE = Column("Reference", 22)
_FINDING = (Column("Severity", 10), Column("Finding", 24), Column("What", 70), Column("Difference", 16))
_WORK = (Column("Owner", 16), Column("Resolution", 24), Column("Comment", 32))
_WHEN = (Column("Observed at (UTC)", 20), Column("Confirmed at (UTC)", 20), Column("Changed during run", 10))
_SIDES = tuple(Column(f"{name}, {side}", 18) for name in COMPARED for side in ("ledger", "service"))
_MONEY = (Column("Rows", 10), Column("Ledger amount", 20), Column("Service amount", 20))

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Summary": (Column("Result", 30), Column("In words", 100), *_MONEY),
    "Breaks": (_LINE, _REFERENCE, *_FINDING, *_WORK, Column("Other findings", 24), *_SIDES, *_WHEN),
    "Open": (_LINE, _REFERENCE, Column("Why", 70), *_SIDES, *_WHEN),
    "Unresolved": (_LINE, _REFERENCE, Column("Error", 26), Column("Why", 70), *_WORK, *_SIDES, *_WHEN),
    "Rejected": (_LINE, _REFERENCE, Column("Why", 90), Column("Ledger amount", 18)),
    "All rows": (_LINE, _REFERENCE, Column("Bucket", 12), Column("Findings", 24), _FINDING[-1], *_SIDES, *_WHEN),
    "By status": (
        *(Column("Ledger's word", 20), Column("Means", 12), Column("Service's word", 20), Column("Means", 12)),
        *_MONEY,
    ),
    "By method": (Column("Payment method", 20), *_MONEY),
    "Tie-out": (Column("Step", 26), Column("What happens", 64), _MONEY[0], Column("Amount", 20), Column("Then", 20)),
    "Run": (Column("What", 26), Column("Value", 100)),
}
"""The sheets, in their order, and the columns of each."""

_OF_ROWS = ("All rows", "Breaks", "Open", "Unresolved", "Rejected")
"""Written while the rows come; the first is the longest, and costs the least where it is begun first."""

_NOT_FILTERED = frozenset({"Summary", "Tie-out", "Run"})
_NOTHING: tuple[None, None, None] = (None, None, None)


class Workbook:
    """
    The workbook of one run.

    Args:
        file: Open for bytes, at its start.
        folder: Where there is room for sheets that are not in the file yet.
        most_rows: Where a sheet ends, the header included.

    Shape:
        Use it as a context manager: give each row to `add`, in the order of the ledger, then call `finish`. Memory does
        not grow with the rows. The same rows give the same bytes.
    """

    def __init__(self, file: IO[bytes], folder: Path, *, most_rows: int = MOST_ROWS) -> None:
        self._package = Package(file, folder)
        self._most_rows = most_rows
        self._shapes: Mapping[Bucket, tuple[str, Callable[[Row], Sequence[Value]]]] = {
            Bucket.BREAK: ("Breaks", _break),
            Bucket.OPEN: ("Open", _open),
            Bucket.UNRESOLVED: ("Unresolved", _unresolved),
            Bucket.REJECTED: ("Rejected", _rejected),
        }

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.enter_context(self._package)
            for name in _OF_ROWS:
                self._begin(name)
            on_failure.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._package.__exit__(kind, error, trace)

    def add(self, row: Row) -> None:
        """Write *row*."""
        self._package.add("All rows", _any(row))
        if row.bucket is not Bucket.MATCHED:
            name, shape = self._shapes[row.bucket]
            self._package.add(name, shape(row))

    def finish(self, summary: Summary, about: About, matrix: Matrix) -> None:
        """
        Write what the rows come to.

        Args:
            summary: What all the rows come to.
            about: The run.
            matrix: The same rows, counted by status and method.
        """
        sheets: dict[str, Iterator[Sequence[Value]]] = {
            "Summary": _summary(summary, self._ends()),
            "By status": _by_status(matrix, about.rules),
            "By method": _by_method(matrix),
            "Tie-out": _tie_out(summary.tie_out),
            "Run": ((fact.term, value) for fact in facts(summary, about) for value in fact.values),
        }
        for name, rows in sheets.items():
            self._begin(name)
            for row in rows:
                self._package.add(name, row)
        self._package.finish(list(COLUMNS))

    def _begin(self, name: str) -> None:
        rest = "breaks.csv" if name == "Breaks" else "rows.jsonl"
        has_filter = name not in _NOT_FILTERED
        sheet = Sheet(COLUMNS[name], has_filter=has_filter, most_rows=self._most_rows, rest=rest)
        self._package.begin(name, sheet)

    def _ends(self) -> Iterator[str]:
        """Yield a sentence for each sheet that cannot hold all of its rows."""
        for name in _OF_ROWS:
            if left_out := self._package.left_out(name):
                yield f"{left_out:,} rows do not fit in the sheet {name}; its last row says which file has them all."


def _any(row: Row) -> Sequence[Value]:
    findings = row.findings
    codes = " ".join(finding.code for finding in findings) if findings else None
    return (row.line, row.reference, row.bucket.value, codes, difference(row), *_sides(row), *_times(row))


def _break(row: Row) -> Sequence[Value]:
    first, *others = row.findings
    return (
        *(row.line, row.reference, first.severity.word, first.code.value, _why(row), difference(row), *_NOTHING),
        *(" ".join(finding.code for finding in others), *_sides(row), *_times(row)),
    )


def _open(row: Row) -> Sequence[Value]:
    return (row.line, row.reference, _why(row), *_sides(row), *_times(row))


def _unresolved(row: Row) -> Sequence[Value]:
    return (row.line, row.reference, row.error, row.reason, *_NOTHING, *_sides(row), *_times(row))


def _rejected(row: Row) -> Sequence[Value]:
    return (row.line, row.reference, row.reason, row.ledger_amount)


def _why(row: Row) -> str:
    return ". ".join(map(in_words, row.findings))


def _sides(row: Row) -> list[Value]:
    """Return what is compared, field by field, the ledger's before the service's."""
    entry, transaction = row.entry, row.transaction
    if not isinstance(entry, Entry):
        return [None] * len(_SIDES)
    cells: list[Value] = []
    for name in COMPARED:
        cells.append(_plain(getattr(entry, name)))
        cells.append(None if transaction is None else _plain(getattr(transaction, name)))
    return cells


def _plain(value: Any) -> Value:
    if value is ABSENT:
        return None
    return value.isoformat(" ") if isinstance(value, datetime) else value


def _times(row: Row) -> tuple[Value, Value, Value]:
    return when(row.observed_at), when(row.confirmed_at), "yes" if row.is_changed_during_run else None


def _summary(summary: Summary, ends: Iterator[str]) -> Iterator[Sequence[Value]]:
    yield (summary.verdict.upper(), summary.sentence)
    yield (None, VERDICTS[summary.verdict].advice)
    yield (None, COMPLETENESS)
    yield from ((None, sentence) for sentence in ends)
    yield ()
    for bucket, total in summary.buckets.items():
        yield (BUCKETS[bucket].title, BUCKETS[bucket].advice, *_counts(total))
    yield ("All", None, summary.rows, *_sums(summary.buckets.values()))
    yield ()
    for code, total in summary.codes.items():
        yield (code.value, CODES[code].title, *_counts(total))


def _by_status(matrix: Matrix, rules: Rules) -> Iterator[Sequence[Value]]:
    def words(cell: Cell) -> tuple[str | None, str | None]:
        return cell.ledger_status, cell.service_status

    for (ours, theirs), total in matrix.by(words).items():
        yield (ours, rules.read_status(ours), theirs, rules.read_status(theirs), *_counts(total))


def _by_method(matrix: Matrix) -> Iterator[Sequence[Value]]:
    for method, total in matrix.by(lambda cell: cell.method).items():
        yield (method, *_counts(total))


def _tie_out(tie_out: TieOut) -> Iterator[Sequence[Value]]:
    running = accumulate((step.amount for step in tie_out.steps), initial=tie_out.ledger_total)
    yield ("Ledger total", "sum of what the ledger states", None, tie_out.ledger_total, next(running))
    for step, then in zip(tie_out.steps, running, strict=True):
        yield (STEPS[step.step].title, STEPS[step.step].advice, step.rows, step.amount, then)
    yield ("Service total", "sum of what the service confirms", None, None, tie_out.service_total)
    yield ("Residual", "what the steps leave unexplained", None, tie_out.residual)
    yield ("Rows without amount", "take no part", tie_out.rows_without_amount)


def _counts(total: Total) -> tuple[int, int, int]:
    return total.rows, total.ledger_amount, total.service_amount


def _sums(totals: Any) -> tuple[int, int]:
    every = list(totals)
    return sum(total.ledger_amount for total in every), sum(total.service_amount for total in every)
