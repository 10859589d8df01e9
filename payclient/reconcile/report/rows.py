"""
Internal: the columns of a row, each declared once, and a row as a line of CSV, and of JSON that is read back.

The order of a file is a promise to its readers, so each file lists its columns. A column has the same name, kind and
value wherever it is listed.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum, auto
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from attrs import Factory, evolve, field, frozen

from payclient._shared.escape import escape_unprintable
from payclient.protocol import ATTRIBUTES
from payclient.reconcile._atomic import own
from payclient.reconcile._codec import as_json, from_json, register
from payclient.reconcile._fields import COMPARED, COMPARED_FIELDS
from payclient.reconcile._fields import Cell as CellKind
from payclient.reconcile._judgement.causes import moved_by
from payclient.reconcile._judgement.findings import BreakState, Bucket, Finding, History, Row
from payclient.reconcile._judgement.records import BreakChange, BreakRecord, ReferenceRecord
from payclient.reconcile._judgement.sides import PAYOUT_SUMS, Settled, StatementSide
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.report.model import HISTORY, PAYOUTS, Opening, Report
from payclient.reconcile.report.wording import in_words, when

ROWS: str = "rows.jsonl"
"""The file with every row."""

Cell: TypeAlias = str | int | bool | datetime | list[str] | None
_Value: TypeAlias = Callable[[Row], Cell]


class Kind(Enum):
    """The kinds of values. A number has thousands separators in a sheet, a line does not."""

    TEXT = auto()
    WORD = auto()  # a sheet shows `_` as a space
    TEXTS = auto()  # without spaces in them
    NUMBER = auto()
    LINE = auto()
    FLAG = auto()
    AT = auto()  # aware
    LOCAL = auto()  # without a zone


@frozen(eq=False)
class RowColumn:
    """One column, of the attribute of its name unless it has another value. Title and width are for a sheet."""

    name: str
    kind: Kind
    title: str = ""
    width: int = 0  # characters
    value: _Value = field(default=Factory(lambda self: attrgetter(self.name), takes_self=True), kw_only=True)

    def cell(self, row: Row, *, is_sheet: bool = False) -> str | int | None:
        """Return its cell in `breaks.csv`, before `spreadsheet_cell`, or in a sheet: its times are UTC, to seconds."""
        value = self.value(row)
        if isinstance(value, bool):
            return "yes" if value else None if is_sheet else "no"
        if isinstance(value, datetime):
            is_moment = self.kind is Kind.AT
            return when(value) if is_moment and is_sheet else value.isoformat(sep="T" if is_moment else " ")
        if isinstance(value, str) and self.kind is Kind.WORD and is_sheet:
            return value.replace("_", " ")
        return " ".join(value) if isinstance(value, list) else value


def _wall_clock(row: Row) -> datetime | None:
    """Return the creation in the ledger's form, without its zone: in one column, no other rule fits all rows."""
    at = getattr(row.entry, "created_at", None)
    return at.replace(tzinfo=None) if isinstance(at, datetime) else None


def _sides(name: str, kind: Kind) -> tuple[RowColumn, RowColumn]:
    read = attrgetter(ATTRIBUTES[name])

    def of_ledger(row: Row) -> Any:
        return None if (cell := getattr(row.entry, name, None)) is ABSENT else cell

    def of_service(row: Row) -> Any:
        return row.transaction and read(row.transaction)

    return (
        RowColumn(f"ledger_{name}", kind, f"{name}, ledger", 18, value=of_ledger),
        RowColumn(f"service_{name}", kind, f"{name}, service", 18, value=of_service),
    )


def _first(value: Callable[[Finding], Cell]) -> _Value:
    return lambda row: value(row.findings[0]) if row.findings else None


def _age(value: Callable[[History], Cell]) -> _Value:
    return lambda row: value(age) if row.findings and (age := row.history) else None


def _elsewhere(_: Row) -> None:
    """Return nothing: the writer of the file knows the value."""


_code_of = attrgetter("code")
_LINE = RowColumn("line", Kind.LINE, "Line", 8, value=attrgetter("entry.line"))
_REFERENCE = RowColumn("reference", Kind.TEXT, "Reference", 22, value=attrgetter("entry.reference"))
_BUCKET = RowColumn("bucket", Kind.TEXT)
_CODE = RowColumn("code", Kind.TEXT, "Finding", 24, value=_first(_code_of))
_SEVERITY = RowColumn("severity", Kind.TEXT, "Severity", 10, value=_first(attrgetter("severity.word")))
_SENTENCE = RowColumn("sentence", Kind.TEXT, value=_first(attrgetter("sentence")))
_WAIVED = RowColumn("waived", Kind.TEXT, value=_first(lambda first: first.waived or None))
_WHAT = RowColumn("sentence", Kind.TEXT, "What", 70, value=lambda row: ". ".join(map(in_words, row.findings)))
_OTHERS = RowColumn(
    "other_codes", Kind.TEXTS, "Other findings", 24, value=lambda row: list(map(_code_of, row.findings[1:]))
)
_REASON = RowColumn("reason", Kind.TEXT, "Why", 70, value=lambda row: row.reason or None)
_ERROR = RowColumn("error", Kind.TEXT, "Error", 26)
_DIFFERENCE = RowColumn("difference", Kind.NUMBER, "Difference", 16, value=moved_by)
_KINDS = {CellKind.MONEY: Kind.NUMBER, CellKind.TIME: Kind.LOCAL}
SIDES = tuple(column for each in COMPARED_FIELDS for column in _sides(each.name, _KINDS.get(each.cell, Kind.TEXT)))
_MEANINGS = (
    RowColumn("ledger_meaning", Kind.TEXT, value=attrgetter("ledger_status")),
    RowColumn("service_meaning", Kind.TEXT, value=attrgetter("service_status")),
)
_CREATED = RowColumn("created_at", Kind.LOCAL, value=_wall_clock)
_TIMES = (
    RowColumn("observed_at", Kind.AT, "Observed at (UTC)", 20),
    RowColumn("confirmed_at", Kind.AT, "Confirmed at (UTC)", 20),
    RowColumn("is_changed_during_run", Kind.FLAG, "Changed during run", 10),
)
_LINES = RowColumn("lines", Kind.TEXTS, value=lambda row: list(map(str, row.lines)))
_STATE = RowColumn("state", Kind.WORD, "State", 12, value=_age(attrgetter("state")))
_FIRST_SEEN = RowColumn("first_seen", Kind.AT, "First seen", 20, value=_age(attrgetter("first_seen")))
_FIRST_RUN = RowColumn("first_run", Kind.TEXT, value=_age(lambda age: age.first_run or None))
_AGE_DAYS = RowColumn("age_days", Kind.NUMBER, "Age in days", 10, value=_age(attrgetter("age_days")))
_CARRIED = RowColumn("carried_from", Kind.TEXT, value=lambda row: row.carried_from or None)
_REUSED = RowColumn("reused_from", Kind.TEXT, value=lambda row: row.reused_from or None)
_LINE_OF = RowColumn("line_of", Kind.TEXT, "Line of", 26)
_MATERIAL = RowColumn("is_material", Kind.FLAG, "Material", 10)
_LEDGER_AMOUNT = RowColumn("amount", Kind.NUMBER, "Ledger amount", 18, value=attrgetter("ledger_amount"))

RUN = RowColumn("run", Kind.TEXT, value=_elsewhere)
"""The name of the run, which the writer of the file knows."""

WORK = (
    RowColumn("owner", Kind.TEXT, "Owner", 16, value=_elsewhere),
    RowColumn("resolution", Kind.TEXT, "Resolution", 24, value=_elsewhere),
    RowColumn("comment", Kind.TEXT, "Comment", 32, value=_elsewhere),
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
    *(*_TIMES, RowColumn("is_repeat", Kind.FLAG), _LINE_OF),
)
"""Columns of `rows.parquet`."""

SHEETS: Mapping[Bucket, tuple[str, tuple[RowColumn, ...]]] = {
    Bucket.BREAK: (
        "Breaks",
        (
            *(_LINE, _REFERENCE, _SEVERITY, _CODE, _WHAT, _DIFFERENCE, *WORK, _OTHERS),
            *(_STATE, _FIRST_SEEN, _AGE_DAYS, _LINE_OF, _MATERIAL, *SIDES, *_TIMES),
        ),
    ),
    Bucket.UNRESOLVED: ("Unresolved", (_LINE, _REFERENCE, _ERROR, _REASON, *WORK, *SIDES, *_TIMES)),
    Bucket.REJECTED: ("Rejected", (_LINE, _REFERENCE, evolve(_REASON, width=90), _LEDGER_AMOUNT)),
}
"""The sheets with ledger rows and their columns, by the bucket of these rows."""

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula in a spreadsheet, the full-width forms included."""


def spreadsheet_cell(value: object) -> str | int:
    """Return *value* as a cell that no spreadsheet runs as a formula. Numbers stay numbers. OWASP, CSV injection."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = "" if value is None else escape_unprintable(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


_WRITTEN = ("reference", *COMPARED, "created_at", "kind")
_written = attrgetter(*_WRITTEN)
_LOCAL = ("expdate", "created_at")


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    """Return the fields that the ledger has, `line` not among them. An empty cell is null."""
    cells = {name: cell for name, cell in zip(_WRITTEN, _written(entry), strict=True) if cell is not ABSENT}
    for name in _LOCAL:
        if (time := cells.get(name)) is not None:
            cells[name] = time.isoformat(sep=" ")
    return cells


_HEAD = ("line", "reference", "bucket", "reason", "error")
_head_of = attrgetter(*_HEAD)
_FACTS = ("carried_from", "line_of", "reused_from", "is_repeat", "is_material", "is_changed_during_run")
_facts_of = attrgetter(*_FACTS)


def row_as_json(row: Row) -> dict[str, Any]:
    """Return one line of `rows.jsonl`: both sides in full, for rows of every bucket."""
    entry, service = row.entry, row.transaction
    if isinstance(entry, Entry):
        ours = _entry_as_json(entry)
    else:
        ours = {"reference": entry.reference, "amount": entry.amount, "reason": entry.reason}
    theirs = service and {**service.as_json(with_payment_code=True), "deviations": service.deviations}
    history, side = row.history if row.findings else None, row.other_side
    return {
        **dict(zip(_HEAD, _head_of(row), strict=True)),
        "findings": list(map(_finding, row.findings)),
        "status": {  # both words unchanged, and their status, null if unknown
            "ledger": entry.status if isinstance(entry.status, str) else None,
            "ledger_meaning": row.ledger_status,
            "is_assumed": row.is_status_assumed,
            "service": service and service.status,
            "service_meaning": row.service_status,
        },
        "history": history and as_json(history),
        **dict(zip(_FACTS, _facts_of(row), strict=True)),
        "observed_at": row.observed_at and row.observed_at.isoformat(),
        "confirmed_at": row.confirmed_at and row.confirmed_at.isoformat(),
        "ledger": ours,
        **({"parts": [{"line": part.line, **_entry_as_json(part)} for part in row.parts]} if row.parts else {}),
        **({"was_paid": True} if row.was_paid else {}),
        **({"was_rejected": True} if row.was_rejected else {}),
        **({} if side is None else {"statement": _side_as_json(side)}),
        "service": theirs,
    }


def _side_as_json(side: StatementSide) -> dict[str, Any]:
    settled = {} if side.settled is None else settled_as_json(side.settled)
    settled |= {"was_in_ledger": True} if side.was_in_ledger else {}
    return {"is_settled": side.settled is not None, "is_in_ledger": side.is_in_ledger, **settled}


def settled_as_json(settled: Settled) -> dict[str, Any]:
    found = {name: getattr(settled, name) for name in ("amount", "amount_received", "before", "charged")}
    found |= {"refund_fees": settled.refund_fees or None, "others": list(settled.others) or None}
    kept = {name: value for name, value in found.items() if value is not None or name.startswith("amount")}
    return {"lines": list(settled.lines), **kept}


def _finding(finding: Finding) -> dict[str, Any]:
    names = ("code", "severity", "sentence", "ledger", "service", "waived", "is_accepted", "at_stake", "history")
    found = as_json(finding)
    return {name: found[name] for name in names}


def change_as_json(change: BreakChange) -> dict[str, Any]:
    now, history = as_json(change.now), as_json(change.history)
    was = change.was if change.history.state is BreakState.CHANGED else None
    return {
        "reference": change.reference,
        **{name: now[name] for name in ("code", "severity", "sentence")},
        **_values(change.now),
        "was": was and _values(was),
        "resolved_by": now["by"],
        "reason": change.why,
        **{name: history[name] for name in ("first_seen", "first_run", "age_days")},
    }


def _values(known: BreakRecord) -> dict[str, Any]:
    """Return both values of the first row, and the stake of all. The other rows are in the reports."""
    ours, theirs = known.sides[0] if known.sides else (None, None)
    return {"ledger": ours, "service": theirs, "at_stake": known.at_stake}


# Only ASCII: JSON's escapes keep every character, and stop it from acting on a terminal.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


def begin_rows(opening: Opening) -> None:
    file = opening.new.text(ROWS)
    opening.on_row.append(lambda row: file.write(f"{_encode(row_as_json(row))}\n"))


def begin_history(opening: Opening) -> None:
    """Write the breaks that are gone, and what earlier statements have of references without a row."""
    file = opening.new.text(HISTORY)

    def add(change: BreakChange) -> None:
        line = {"state": change.history.state.value, "is_old": change.is_old}
        file.write(f"{_encode({**line, **change_as_json(change), 'known': as_json(change.now)})}\n")

    opening.on_gone.append(add)
    opening.on_settled.append(lambda record: file.write(memory_line(record)))


def memory_line(record: ReferenceRecord) -> str:
    """Return what earlier statements have of a reference without a row, as a line of `history.jsonl`."""
    settled = None if record.settled is None else settled_as_json(record.settled)
    facts = {name: getattr(record, name) for name in ("reference", "gone_for", "was_in_ledger")}
    return f"{_encode({**facts, 'settled': settled})}\n"


def begin_payouts(opening: Opening) -> None:
    names = ("name", "date", *PAYOUT_SUMS, "residual")
    writer = csv.writer(opening.new.text(PAYOUTS), lineterminator="\n")
    writer.writerow(("payout", *names[1:]))

    def write(report: Report) -> None:
        for payout in report.summary.settlement.statement.payouts if report.summary.settlement else ():
            writer.writerow(spreadsheet_cell(getattr(payout, name)) for name in names)

    opening.at_end.append(write)


def begin_breaks(opening: Opening) -> None:
    writer = csv.writer(opening.new.text("breaks.csv"), lineterminator="\n")
    writer.writerow(column.name for column in CSV)

    def add(row: Row) -> None:
        if row.bucket is Bucket.BREAK:
            writer.writerow(spreadsheet_cell(column.cell(row)) for column in CSV)

    opening.on_row.append(add)


# Reading it back


def lines_of(path: Path) -> Iterator[bytes]:
    with open(path, "rb", opener=own) as file:
        yield from file


def rows_of(path: Path) -> Iterator[tuple[Row, bytes]]:
    """Yield each row of a `rows.jsonl`, and its line."""
    return ((row_from_json(json.loads(text)), text) for text in lines_of(path))


def _read_entry(cells: dict[str, Any]) -> Entry:
    read = {name: cells[name] for name in _WRITTEN if name in cells}
    read |= {name: read_time(read[name]) for name in _LOCAL if name in read}
    return Entry(line=cells["line"], **read)


register(Entry, read=_read_entry)
register(Entry | RejectedEntry, read=lambda it: RejectedEntry(**it) if "reason" in it else _read_entry(it))


def row_from_json(data: dict[str, Any]) -> Row:
    # Not kept: whether it lacks a probe, and which lines of the statement cannot be used or are left out.
    status, side, entry = data["status"], data.get("statement"), {"line": data["line"], **data["ledger"]}
    remade = {
        "entry": entry if status["ledger"] is None else {**entry, "status": status["ledger"]},
        # Rows of earlier reports have only the words.
        "findings": [{"is_accepted": each["waived"].startswith("accepted by "), **each} for each in data["findings"]],
        "transaction": data["service"],
        "ledger_status": status["ledger_meaning"],
        "service_status": status["service_meaning"],
        "other_side": side and {**side, "settled": _settled_data(side) if side["is_settled"] else None},
    }
    return from_json({**data, **remade}, Row)


def settled_from(side: dict[str, Any]) -> Settled:
    return from_json(_settled_data(side), Settled)


def _settled_data(side: dict[str, Any]) -> dict[str, Any]:
    amount, received = side["amount"], side["amount_received"]
    stated = received if amount is None else amount
    charged = side.get("charged", stated if stated and stated > 0 else None)  # reports of older versions lack it
    return {**side, "charged": charged, "money": (amount or 0) if received is None else received}


def read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
