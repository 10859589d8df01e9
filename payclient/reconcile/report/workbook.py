"""
Internal: `report.xlsx`: the report as a work list, with columns for owner, resolution and comment, and read back.

Text stays text, and the same rows give the same bytes.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from html import escape
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import xlsxwriter  # type: ignore[import-untyped]
from attrs import astuple, define, field
from xlsxwriter.exceptions import FileCreateError  # type: ignore[import-untyped]

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile import Bucket, DecisionError, Row, Total
from payclient.reconcile._atomic import GivenFile
from payclient.reconcile._judgement.decisions import UNRESOLVED, Decision, Key, Resolution, read_resolution
from payclient.reconcile._judgement.records import BreakChange
from payclient.reconcile.ledger import FORMULA, LedgerError, read_cells
from payclient.reconcile.report.model import HISTORY, RUN_TERM, BridgeLine, Opening, Report
from payclient.reconcile.report.rows import ROWS, SHEETS, WORK, Kind, RowColumn, rows_of
from payclient.reconcile.report.wording import BUCKETS, in_words, open_lines, roll_forward_lines, when

MAX_ROWS = 1_048_576
"""Rows of a sheet, the header included. Source: Excel specifications and limits."""

_EXACT = 10**15
"""Spreadsheets show 15 digits, and zeros for the digits after them."""

_MAX_TEXT = 10_000
"""Far below the 32,767 UTF-16 units that a cell can contain, for any characters."""

_SHARED_ESCAPE = re.compile("(?<=_x[0-9A-Fa-f]{4})_(?=x[0-9A-Fa-f]{4}_)")
"""The middle of `_x0041_x0042_`. XlsxWriter escapes only the first of two escapes that share an underscore."""

_Workbook: Any = xlsxwriter.Workbook  # its own types are partial
_CREATED = datetime(1980, 1, 1, tzinfo=UTC)

Value: TypeAlias = str | int | None

TEXT, MONEY, PLAIN, _HEADER = "@", "#,##0", "0", "header"
"""The formats of cells."""


@define
class SheetWriter:
    """One sheet, with a header, up to a number of rows. If more follow, the last one names the file with the rest."""

    _sheet: Any
    _columns: Sequence[RowColumn]
    _formats: Mapping[str, Any]
    _max_rows: int
    _rows: int = field(init=False, default=1)
    left_out: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        sheet = self._sheet
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.set_margins(left=0.5, right=0.5)
        sheet.fit_to_pages(1, 0)
        for place, column in enumerate(self._columns):
            width = max(column.width, len(column.title) + 3)  # with the arrow
            sheet.set_column(place, place, width, self._formats[TEXT])
            sheet.write_string(0, place, column.title, self._formats[_HEADER])

    def add(self, values: Sequence[Value]) -> None:
        """Write the next row, if it fits."""
        if self._rows + 1 < self._max_rows:
            self._write(values)
        else:
            self.left_out += 1

    def finish(self) -> None:
        if self.left_out:
            more = plural(self.left_out, "more row")
            rest = _REST.get(self._sheet.get_name(), ROWS)
            self._write([f"the sheet ends here, without room for {more}; {rest} has all of them"])
        if self._sheet.get_name() not in _NOT_FILTERED:
            self._sheet.autofilter(0, 0, self._rows - 1, len(self._columns) - 1)

    def _write(self, values: Sequence[Value]) -> None:
        row = self._rows
        self._rows += 1
        for place, value in enumerate(values):
            if isinstance(value, int) and -_EXACT < value < _EXACT:
                number = PLAIN if self._columns[place].kind is Kind.LINE else MONEY
                self._sheet.write_number(row, place, value, self._formats[number])
            elif value is not None and value != "":
                self._sheet.write_string(row, place, shown(str(value)), self._formats[TEXT])


def shown(text: str) -> str:
    """Return *text* such that XlsxWriter writes a cell that reads as it, without hidden characters."""
    # Cut twice: first for speed, then because a character that does not print gets longer when it is shown.
    text = escape_unprintable(escape_unprintable(text, max_length=_MAX_TEXT), max_length=_MAX_TEXT)
    text = _SHARED_ESCAPE.sub("<U+005F>", text)
    if text.startswith("<r>") and text.endswith("</r>"):  # XlsxWriter takes this for markup and writes it as it is
        return f"<r><t>{escape(text, quote=False)}</t></r>"
    return text


class BookWriter:
    """The sheets of one XLSX file, in the order of their *columns*: `add` rows to any, then `finish`."""

    def __init__(
        self, file: IO[bytes], folder: Path, columns: Mapping[str, Sequence[RowColumn]], max_rows: int = MAX_ROWS
    ) -> None:
        self._output = GivenFile(file)
        self._book: Any = _Workbook(self._output, {"constant_memory": True, "tmpdir": str(folder)})
        self._book.use_zip64()  # it matters only beyond 4 GB
        self._book.set_properties({"created": _CREATED})  # not now, so that the same rows give the same bytes
        formats = {number: self._book.add_format({"num_format": number}) for number in (TEXT, MONEY, PLAIN)}
        formats[_HEADER] = self._book.add_format({"num_format": TEXT, "bold": True, "bg_color": "#E8ECF1"})
        self.sheets: Mapping[str, SheetWriter] = {
            name: SheetWriter(self._book.add_worksheet(name), of_sheet, formats, max_rows)
            for name, of_sheet in columns.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without `finish`, or after it failed, files are still open. On a full disk, closing them fails too.
        self._output.file = BytesIO()
        for sheet in self._book.worksheets():
            for file in (sheet.row_data_fh, sheet.fh):
                with suppress(OSError):
                    file.close()

    def finish(self) -> None:
        for sheet in self.sheets.values():
            sheet.finish()
        try:
            self._book.close()
        except FileCreateError as error:
            (cause,) = error.args
            raise cause from error


_Column = partial(RowColumn, "", Kind.NUMBER)

_MONEY = (
    *(_Column("Rows", 10), _Column("Ledger amount", 20), _Column("Service amount", 20)),
    *(_Column("Ledger paid", 20), _Column("Service paid", 20), _Column("Difference", 20)),
)

_GONE = "Resolved"

COLUMNS: Mapping[str, tuple[RowColumn, ...]] = {
    "Summary": (_Column("Result", 30), _Column("In words", 100), *_MONEY),
    **dict(SHEETS.values()),
    _GONE: (
        *(_Column("Reference", 22), _Column("Severity", 10), _Column("Finding", 24), _Column("What", 70)),
        *(_Column("State", 12), _Column("Resolved by", 16), _Column("Why not known", 50)),
        *(_Column("First seen", 20), _Column("Age in days", 10)),
    ),
    "Tie-out": (
        *(_Column("Step", 26), _Column("Description", 50), _MONEY[0], _Column("Added", 18), _Column("Taken off", 18)),
        *(_Column("Net", 18), _Column("Running total", 20)),
    ),
    "To sign": (_Column("What", 30), _Column("Value", 100)),
}
"""The sheets in their order, each with its columns. `Resolved` is there with a previous run."""

_NOT_FILTERED = frozenset({"Summary", "Tie-out", "To sign"})
_REST = {"Breaks": "breaks.csv", _GONE: "history.jsonl"}


def _code_of(row: Row) -> str:
    """Return the code in the key of the decision about *row*. Empty if it is not in the work list."""
    if row.bucket is Bucket.BREAK:
        return row.findings[0].code
    return UNRESOLVED if row.bucket is Bucket.UNRESOLVED else ""


class ReportWorkbook(BookWriter):
    """The workbook of one run, with the decisions taken so far."""

    def __init__(self, opening: Opening, max_rows: int = MAX_ROWS) -> None:
        columns = {name: each for name, each in COLUMNS.items() if name != _GONE or HISTORY in opening.names}
        super().__init__(opening.new.binary("report.xlsx"), opening.new.temporary, columns, max_rows)
        self._opening = opening

    def add(self, row: Row) -> None:
        if row.bucket in SHEETS:
            name, columns = SHEETS[row.bucket]
            decision = self._opening.decisions.get((row.reference or "", _code_of(row)))
            if decision is not None and decision.acceptance is not None and decision.run != self._opening.run:
                decision = None  # it is a break again, and empty cells show whether that is accepted, too
            work = {} if decision is None else dict(zip(WORK, decision.cells, strict=True))
            self.sheets[name].add([work.get(column) or column.cell(row, is_sheet=True) for column in columns])

    def add_gone(self, change: BreakChange) -> None:
        now, history = change.now, change.history
        if not change.is_old:
            what = (change.reference, now.severity.word, now.code.value, now.sentence, in_words(history.state))
            since = when(history.first_seen), history.age_days
            self.sheets[_GONE].add((*what, in_words(now.by), change.why, *since))

    def write(self, report: Report) -> None:
        """Write the sheets about all rows, and the file."""
        signing = [
            *((fact.term, value) for fact in report.to_sign for value in fact.values),
            *(line for term in ("Prepared by", "Reviewed by", "Date", "Signature") for line in ((), (term,))),
            (),
            *((fact.term, value) for fact in report.facts for value in fact.values),
        ]
        sheets = {"Summary": _summary(report, self._remarks()), "Tie-out": _tie_out(report), "To sign": signing}
        for name, rows in sheets.items():
            for row in rows:
                self.sheets[name].add(row)
        self.finish()

    def _remarks(self) -> Iterator[str]:
        """Yield remarks on rows that are not in this workbook."""
        yield f"Matched and open rows are not listed here: {ROWS} has every row."
        for name in ("Breaks", "Unresolved", "Rejected"):
            if left_out := self.sheets[name].left_out:
                rows = plural(left_out, "row")
                yield f"The sheet {name} can't take {rows} more. Its last row names the file with all of them."


def begin(opening: Opening) -> None:
    workbook = opening.resources.enter_context(ReportWorkbook(opening))
    opening.on_row.append(workbook.add)
    opening.on_gone.append(workbook.add_gone)
    opening.at_end.append(workbook.write)


def _summary(report: Report, remarks: Iterator[str]) -> Iterator[Sequence[Value]]:
    summary = report.summary
    yield (summary.verdict.upper(), report.says)
    yield from ((None, text) for text in (report.advice, report.remark, report.completeness, *remarks) if text)
    yield from (("First seen", in_words(each)) for each in summary.first_seen)
    yield ()
    buckets = [(*BUCKETS[bucket], total) for bucket, total in summary.buckets.items()]
    for title, advice, total in (*buckets, ("All", None, sum(summary.buckets.values(), Total()))):
        yield (title, advice, *astuple(total), total.paid_difference)
    yield ()
    yield ("OPEN FINDINGS", "One for each reference and kind; the amount is what is at stake.")
    for label, count, amount in (*roll_forward_lines(summary.open_findings), *open_lines(summary.open_findings)):
        yield (label, None, count, amount)
    yield ()
    for code, total in summary.codes.items():
        yield (code.value, code.label, *astuple(total), total.paid_difference)


def _tie_out(report: Report) -> Iterator[Sequence[Value]]:
    yield from _steps(report.bridge)
    yield ("Rows without amount", "the ledger has none", report.summary.tie_out.rows_without_amount)
    if report.statement_bridge:
        yield from ((), *_steps(report.statement_bridge))
    if report.payout_sentence:
        yield ("Payout", report.payout_sentence)


def _steps(lines: Iterable[BridgeLine]) -> Iterator[Sequence[Value]]:
    then = 0
    for line in lines:
        step = line.step
        then = line.amount if step is None else then + line.amount
        parts = (None,) * 4 if step is None else (step.rows, step.added, step.taken_off, step.amount)
        yield (line.label, line.meaning, *parts, then)


# Read back

_MAX_WORK = 2000


WorkList: TypeAlias = dict[tuple[int, str, str], tuple[str, dict[str, str]]]
"""The rows that were filled in: place and work, by line, reference and code."""


def read_work_list(path: Path, run: str) -> WorkList:
    """Return the rows that were filled in. Refuse a work list of another run, or with moved columns or formulas."""
    try:
        with path.open("rb") as file:
            said = [cells.get(1) for _, cells in read_cells(file, "To sign") if cells.get(0) == RUN_TERM]
            if said != [run]:
                which = quote(said[0]) if len(said) == 1 and isinstance(said[0], str) else "a run that it does not name"
                raise DecisionError(f"the work list is of {which}, and not of the run {quote(run)} in this folder")
            return dict(item for sheet in ("Breaks", "Unresolved") for item in _items(sheet, read_cells(file, sheet)))
    except LedgerError as error:
        raise DecisionError(f"{path} cannot be read: {error.message}") from error


def _items(sheet: str, rows: Iterator[tuple[int, Mapping[int, Any]]]) -> Iterator[tuple[Any, Any]]:
    places = {column.title: place for place, column in enumerate(COLUMNS[sheet])}
    _, header = next(rows, (0, dict[int, Any]()))
    for title, place in places.items():
        if (found := header.get(place, "")) != title:
            moved = f"{quote(str(found))} is where {quote(title)} must be"
            raise DecisionError(f"sheet {sheet}: its columns were moved or renamed: {moved}")
    seen: dict[tuple[Any, ...], bool] = {}
    for number, values in rows:
        cells, where = {title: values.get(place) for title, place in places.items()}, f"sheet {sheet}, row {number}"
        line, reference, code = key = cells["Line"], cells["Reference"], cells.get("Finding", UNRESOLVED)
        work = {each.name: _text(cells[each.title], f"{where}, {each.title}") for each in WORK}
        is_filled = any(work.values())
        if key in seen and (is_filled or seen[key]):
            raise DecisionError(f"{where}: the row is there twice, so delete one of them")
        if is_filled:
            if type(line) is not int or not isinstance(reference, str) or not isinstance(code, str):
                raise DecisionError(f"{where}: it is not a row of the report, so undo the changes in it")
            yield key, (where, work)
        seen[key] = is_filled


def _text(value: Any, place: str) -> str:
    if value is FORMULA:
        raise DecisionError(f"{place}: it is a formula, so write the text itself")
    if type(value) is int:
        return str(value)
    if value is not None and not isinstance(value, str):
        raise DecisionError(f"{place}: it must be text")
    # In the form of every report, so that the next work list returns the same text.
    text = escape_unprintable(" ".join((value or "").split()))
    if len(text) > _MAX_WORK:
        raise DecisionError(f"{place}: it has more than {_MAX_WORK:,} characters")
    return text


def decided(items: WorkList, rows: Path, *, at: datetime, **known: Any) -> tuple[Decision, ...]:
    """Return the decisions of *items*, each with its evidence. Refuse those not of *rows*, or not allowed."""
    wanted, taken = {**items}, dict[Key, tuple[Decision, str]]()
    for row, text in rows_of(rows):
        code = _code_of(row)
        where, work = wanted.pop((row.line, shown(row.reference or ""), code), ("", dict[str, str]()))
        if not work:
            continue
        evidence = hashlib.sha256(text.rstrip(b"\n")).hexdigest()
        try:
            decisions = _decisions(row, code, work, at=at, evidence=evidence, **known)
        except DecisionError as error:
            raise DecisionError(f"{where}: {error.message}") from error
        for decision in decisions:
            other, place = taken.setdefault(decision.key, (decision, where))
            if other.cells != decision.cells:
                raise DecisionError(f"{where}: it is decided otherwise than {place}, the same finding")
            if (decision.at_stake or 0) > (other.at_stake or 0):  # of two rows that are both decided
                taken[decision.key] = decision, place
    for (line, reference, code), (where, _) in wanted.items():
        raise DecisionError(f"{where}: {code} of {quote(reference)} is not in line {line} of this run")
    return tuple(decision for decision, _ in taken.values())


def _decisions(row: Row, code: str, work: Mapping[str, str], *, at: datetime, **known: Any) -> list[Decision]:
    """Return the decision about each finding that makes *row* a break. Refuse decisions that are not allowed."""
    resolution, until = read_resolution(work["resolution"])
    if resolution is Resolution.ACCEPTED:
        if code == UNRESOLVED:
            raise DecisionError("an unresolved row cannot be accepted, because it was not answered yet")
        if not all(work.values()):
            raise DecisionError("an acceptance needs an owner and a comment with the reason")
        if until is None or until < at.date():
            raise DecisionError(f"the last day, {until}, has passed")
    known |= {**work, "resolution": resolution, "until": until, "at": at, "reference": row.reference or ""}
    if code == UNRESOLVED:
        return [Decision(code=code, at_stake=0, **known)]
    return [
        Decision(code=each.code.value, ledger=each.ledger, service=each.service, at_stake=each.at_stake or 0, **known)
        for each in row.findings
        if each.is_decisive
    ]
