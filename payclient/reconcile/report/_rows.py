"""The columns of a row, each declared once, and a row as a line of JSON and of CSV.

The order of a file is a promise to its readers, so each file lists its columns; a column has the same name, kind and
value wherever it is listed.
"""

import csv
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from heapq import nlargest
from operator import attrgetter
from typing import IO, Any, Generic, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from payclient._shared.escape import escape_unprintable
from payclient.reconcile import BreakState, Bucket, Finding, History, Row, Settlement, StatementSide, moved_by
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile.nights import BreakChange, BreakRecord
from payclient.reconcile.report._about import when
from payclient.reconcile.rules import as_json
from payclient.reconcile.values import PAYOUT_SUMS

Cell: TypeAlias = str | int | bool | datetime | list[str] | None


_Item = TypeVar("_Item")


class Kind(Enum):
    """
    The kinds of values.

    Attributes:
        TEXT: Text as it is.
        WORD: Text in which a sheet shows `_` as a space.
        TEXTS: A list of texts without spaces.
        NUMBER: A whole number; a sheet shows thousands separators.
        LINE: A whole number without them.
        FLAG: True or false.
        AT: An aware time.
        LOCAL: A time without a zone.
    """

    TEXT = auto()
    WORD = auto()
    TEXTS = auto()
    NUMBER = auto()
    LINE = auto()
    FLAG = auto()
    AT = auto()
    LOCAL = auto()


@frozen(eq=False)
class RowColumn:
    """One column; title and width, in characters, are for a sheet."""

    name: str
    kind: Kind
    value: Callable[[Row], Cell]
    title: str = ""
    width: int = 0

    def in_csv(self, row: Row) -> str | int | None:
        """Return its cell in `breaks.csv`, before `spreadsheet_cell`."""
        value = self.value(row)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, datetime):
            return value.isoformat() if self.kind is Kind.AT else value.isoformat(sep=" ")
        return " ".join(value) if isinstance(value, list) else value

    def in_sheet(self, row: Row) -> str | int | None:
        """Return its cell in a sheet; times are in UTC, to the second."""
        value = self.value(row)
        if isinstance(value, datetime) and self.kind is Kind.AT:
            return when(value)
        if isinstance(value, bool):
            return "yes" if value else None
        return str(value).replace("_", " ") if self.kind is Kind.WORD and value is not None else self.in_csv(row)


def in_words(finding: Finding) -> str:
    """Return the sentence of *finding*, and why it does not count if it does not."""
    return f"{finding.sentence} ({finding.waived})" if finding.waived else finding.sentence


def _wall_clock(at: datetime | None) -> datetime | None:
    """Return a time as the ledger writes it, without its zone: in one column, no other rule fits those without one."""
    return None if at is None else at.replace(tzinfo=None)


def _stated(side: object, name: str) -> Any:
    value = getattr(side, name, None)
    return None if value is ABSENT else value


def _of_side(side: str, name: str) -> RowColumn:
    kind = Kind.NUMBER if name in ("amount", "fee", "amount_received") else Kind.TEXT
    kind = Kind.LOCAL if name == "expdate" else kind
    return RowColumn(
        f"{side}_{name}",
        kind,
        lambda row: _stated(row.entry if side == "ledger" else row.transaction, name),
        f"{name}, {side}",
        18,
    )


def _of_first(name: str, kind: Kind, value: Callable[[Finding], Cell], title: str = "", width: int = 0) -> RowColumn:
    return RowColumn(name, kind, lambda row: value(row.findings[0]) if row.findings else None, title, width)


def _of_age(name: str, kind: Kind, value: Callable[[History], Cell], title: str = "", width: int = 0) -> RowColumn:
    return RowColumn(name, kind, lambda row: None if (age := row.history) is None else value(age), title, width)


_LINE = RowColumn("line", Kind.LINE, lambda row: row.line, "Line", 8)
_REFERENCE = RowColumn("reference", Kind.TEXT, lambda row: row.reference, "Reference", 22)
_BUCKET = RowColumn("bucket", Kind.TEXT, lambda row: row.bucket.value)
_CODE = _of_first("code", Kind.TEXT, lambda first: first.code.value, "Finding", 24)
_SEVERITY = _of_first("severity", Kind.TEXT, lambda first: first.severity.word, "Severity", 10)
_SENTENCE = _of_first("sentence", Kind.TEXT, lambda first: first.sentence)
_WAIVED = _of_first("waived", Kind.TEXT, lambda first: first.waived or None)
_WHAT = RowColumn("sentence", Kind.TEXT, lambda row: ". ".join(map(in_words, row.findings)), "What", 70)
_OTHERS = RowColumn(
    "other_codes", Kind.TEXTS, lambda row: [each.code.value for each in row.findings[1:]], "Other findings", 24
)
_REASON = RowColumn("reason", Kind.TEXT, lambda row: row.reason or None, "Why", 70)
_ERROR = RowColumn("error", Kind.TEXT, lambda row: row.error, "Error", 26)
_DIFFERENCE = RowColumn("difference", Kind.NUMBER, moved_by, "Difference", 16)
SIDES = tuple(_of_side(side, name) for name in COMPARED for side in ("ledger", "service"))
_MEANINGS = (
    RowColumn("ledger_meaning", Kind.TEXT, lambda row: row.ledger_status and row.ledger_status.value),
    RowColumn("service_meaning", Kind.TEXT, lambda row: row.service_status and row.service_status.value),
)
_CREATED = RowColumn("created_at", Kind.LOCAL, lambda row: _wall_clock(_stated(row.entry, "created_at")))
_TIMES = (
    RowColumn("observed_at", Kind.AT, lambda row: row.observed_at, "Observed at (UTC)", 20),
    RowColumn("confirmed_at", Kind.AT, lambda row: row.confirmed_at, "Confirmed at (UTC)", 20),
    RowColumn("is_changed_during_run", Kind.FLAG, lambda row: row.is_changed_during_run, "Changed during run", 10),
)
_IS_REPEAT = RowColumn("is_repeat", Kind.FLAG, lambda row: row.is_repeat)
_LINES = RowColumn("lines", Kind.TEXTS, lambda row: list(map(str, row.lines)))
_STATE = _of_age("state", Kind.WORD, lambda age: age.state.value, "State", 12)
_FIRST_SEEN = _of_age("first_seen", Kind.AT, lambda age: age.first_seen, "First seen", 20)
_FIRST_RUN = _of_age("first_run", Kind.TEXT, lambda age: age.first_run or None)
_AGE_DAYS = _of_age("age_days", Kind.NUMBER, lambda age: age.age_days, "Age in days", 10)
_CARRIED = RowColumn("carried_from", Kind.TEXT, lambda row: row.carried_from or None)
_REUSED = RowColumn("reused_from", Kind.TEXT, lambda row: row.reused_from or None)
_LINE_OF = RowColumn("line_of", Kind.TEXT, lambda row: row.line_of, "Line of", 26)
_MATERIAL = RowColumn("is_material", Kind.FLAG, lambda row: row.is_material, "Material", 10)
_LEDGER_AMOUNT = RowColumn("amount", Kind.NUMBER, lambda row: row.ledger_amount, "Ledger amount", 18)

RUN = RowColumn("run", Kind.TEXT, lambda _: None)
"""The name of the run, which the writer of the file knows."""

WORK = (
    RowColumn("owner", Kind.TEXT, lambda _: None, "Owner", 16),
    RowColumn("resolution", Kind.TEXT, lambda _: None, "Resolution", 24),
    RowColumn("comment", Kind.TEXT, lambda _: None, "Comment", 32),
)
"""Decisions of a person, known to the writer of the workbook."""

CSV = (
    *(_LINE, _REFERENCE, _CODE, _SEVERITY, _WHAT, _OTHERS, _DIFFERENCE, *SIDES, *_TIMES, _LINES),
    *(_STATE, _FIRST_SEEN, _AGE_DAYS, _CARRIED, _LINE_OF, _MATERIAL),
)
"""Columns of `breaks.csv`."""

PARQUET = (
    *(RUN, _STATE, _FIRST_SEEN, _FIRST_RUN, _AGE_DAYS, _CARRIED, _REUSED, _LINE, _REFERENCE, _BUCKET),
    *(_CODE, _SEVERITY, _SENTENCE, _WAIVED, _OTHERS, _REASON, _ERROR, _DIFFERENCE, *SIDES, *_MEANINGS, _CREATED),
    *(*_TIMES, _IS_REPEAT, _LINE_OF),
)
"""Columns of `rows.parquet`."""

SHEETS: Mapping[str, tuple[Bucket, tuple[RowColumn, ...]]] = {
    "Breaks": (
        Bucket.BREAK,
        (
            *(_LINE, _REFERENCE, _SEVERITY, _CODE, _WHAT, _DIFFERENCE, *WORK, _OTHERS),
            *(_STATE, _FIRST_SEEN, _AGE_DAYS, _LINE_OF, _MATERIAL, *SIDES, *_TIMES),
        ),
    ),
    "Unresolved": (Bucket.UNRESOLVED, (_LINE, _REFERENCE, _ERROR, _REASON, *WORK, *SIDES, *_TIMES)),
    "Rejected": (Bucket.REJECTED, (_LINE, _REFERENCE, evolve(_REASON, width=90), _LEDGER_AMOUNT)),
}
"""Columns of the sheets with ledger rows, with the bucket of these rows."""


_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula in a spreadsheet, the full-width forms included."""


def spreadsheet_cell(value: object) -> str | int:
    """Return *value* as a cell that no spreadsheet runs as a formula; numbers stay numbers. OWASP, CSV injection."""
    if isinstance(value, str) and value[:1].isalnum() and value.isprintable():  # nearly every cell
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = "" if value is None else escape_unprintable(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


_WRITTEN = ("reference", *COMPARED, "created_at", "kind")
_written = attrgetter(*_WRITTEN)


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return the fields that the ledger has, `line` not among them; an empty cell is null."""
    cells = zip(_WRITTEN, _written(entry), strict=True)
    return {
        name: cell.isoformat(sep=" ") if isinstance(cell, datetime) else cell
        for name, cell in cells
        if cell is not ABSENT
    }


def row_as_json(row: Row) -> dict[str, Any]:
    """Return one line of `rows.jsonl`: both sides in full, for rows of every bucket."""
    entry, service = row.entry, row.transaction
    if isinstance(entry, Entry):
        ours = _entry_as_json(entry)
    else:
        ours = {"reference": entry.reference, "amount": entry.amount, "reason": entry.reason}
    theirs = service and {**service.as_json(with_payment_code=True), "deviations": list(service.deviations)}
    parts: dict[str, Any] = {}
    if row.parts:
        parts["parts"] = [{"line": part.line, **_entry_as_json(part)} for part in row.parts]
    if row.other_side is not None:
        parts["statement"] = _settled(row.other_side)
    return {
        "line": row.line,
        "reference": row.reference,
        "bucket": row.bucket.value,
        "reason": row.reason,
        "error": row.error,
        "findings": [_finding(finding) for finding in row.findings],
        "status": _statuses(row),
        "history": None if row.history is None else as_json(row.history),
        "carried_from": row.carried_from,
        "line_of": row.line_of,
        "reused_from": row.reused_from,
        "is_repeat": row.is_repeat,
        "is_material": row.is_material,
        "is_changed_during_run": row.is_changed_during_run,
        "observed_at": _time(row.observed_at),
        "confirmed_at": _time(row.confirmed_at),
        "ledger": ours,
        **parts,
        "service": theirs,
    }


def _settled(side: StatementSide) -> dict[str, Any]:
    settled = side.settled
    listed = {} if settled is None else {"lines": list(settled.lines), "amount": settled.amount}
    received = {} if settled is None else {"amount_received": settled.amount_received}
    if settled is not None and settled.before is not None:
        received["before"] = settled.before
    return {"is_settled": settled is not None, "is_in_ledger": side.is_in_ledger, **listed, **received}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "severity": finding.severity.word,
        "sentence": finding.sentence,
        "ledger": finding.ledger,
        "service": finding.service,
        "waived": finding.waived,
        "at_stake": finding.at_stake,
        "history": None if finding.history is None else as_json(finding.history),
    }


def change_as_json(change: BreakChange) -> dict[str, Any]:
    now, was, history = change.now, change.was, change.history
    is_changed = history.state is BreakState.CHANGED
    return {
        "reference": change.reference,
        "code": now.code.value,
        "severity": now.severity.word,
        "sentence": now.sentence,
        **_values(now),
        "was": _values(was) if is_changed and was is not None else None,
        "resolved_by": None if now.by is None else now.by.value,
        "reason": change.why,
        "first_seen": _time(history.first_seen),
        "first_run": history.first_run,
        "age_days": history.age_days,
    }


def _values(known: BreakRecord) -> dict[str, Any]:
    """Return both values of the first row, and the stake of all; the other rows are in the reports."""
    ours, theirs = known.sides[0] if known.sides else (None, None)
    return {"ledger": ours, "service": theirs, "at_stake": known.at_stake}


def _statuses(row: Row) -> dict[str, Any]:
    """Return both words unchanged, and their status; null if unknown, or if there is no word."""
    return {
        "ledger": row.entry.status if isinstance(row.entry.status, str) else None,
        "ledger_meaning": row.ledger_status,
        "is_assumed": row.is_status_assumed,
        "service": row.transaction.status if row.transaction else None,
        "service_meaning": row.service_status,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


@define
class Top(Generic[_Item]):
    """The highest-ranking items of any number; equal ones in order of arrival."""

    _room: int
    _rank: Callable[[_Item], tuple[int, ...]]
    count: int = field(init=False, default=0)
    _items: list[_Item] = field(init=False, factory=list)

    def add(self, item: _Item) -> None:
        self.count += 1
        self._items.append(item)
        if len(self._items) > 2 * self._room:
            self._items = list(self.kept)

    @property
    def kept(self) -> tuple[_Item, ...]:
        return tuple(nlargest(self._room, self._items, key=self._rank))


# ASCII only: the escapes of JSON keep every character, and none can act on a terminal.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


def row_lines(file: IO[str]) -> Callable[[Row], object]:
    """Return a writer of rows to `rows.jsonl`, opened for text."""
    return lambda row: file.write(f"{_encode(row_as_json(row))}\n")


def gone_lines(file: IO[str]) -> Callable[[BreakChange], object]:
    """Return a writer of resolved breaks to `history.jsonl`, opened for text."""

    def add(change: BreakChange) -> None:
        line = {
            "state": change.history.state.value,
            "is_old": change.is_old,
            **change_as_json(change),
            "known": as_json(change.now),
        }
        file.write(f"{_encode(line)}\n")

    return add


def write_payouts(file: IO[str], settlement: Settlement | None) -> None:
    """Write `payouts.csv`, opened for text without translation of line ends."""
    names = ("name", "date", *PAYOUT_SUMS, "residual")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("payout", *names[1:]))
    for each in settlement.statement.payouts if settlement else ():
        writer.writerow(spreadsheet_cell(getattr(each, name)) for name in names)


def break_lines(file: IO[str]) -> Callable[[Row], object]:
    """Return a writer of breaks to `breaks.csv`, opened for text without translation of line ends."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in CSV)

    def add(row: Row) -> None:
        if row.bucket is Bucket.BREAK:
            writer.writerow(spreadsheet_cell(column.in_csv(row)) for column in CSV)

    return add
