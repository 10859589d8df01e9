"""One row of a report as a line of JSON and as a line of CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import IO, Any

from payclient._escape import escape_unprintable
from payclient.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile import BreakState, Bucket, Finding, OtherSide, Row
from payclient.reconcile.nights import BreakChange, BreakRecord
from payclient.reconcile.rules import as_json
from payclient.report._columns import CSV
from payclient.report._rows_file import GzipText

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
    return {name: _plain(cell) for name, cell in cells if cell is not ABSENT}


def _plain(cell: Any) -> Any:
    return cell.isoformat(sep=" ") if isinstance(cell, datetime) else cell


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
    if row.matched is not None:
        parts["matched"] = as_json(row.matched)
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
        "is_changed_during_run": row.is_changed_during_run,
        "observed_at": _time(row.observed_at),
        "confirmed_at": _time(row.confirmed_at),
        "ledger": ours,
        **parts,
        "service": theirs,
    }


def _settled(side: OtherSide) -> dict[str, Any]:
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
    """Return one break and what became of it in plain values."""
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
    """Return both values of the first row, and what is at stake in all; the other rows are in the reports."""
    ours, theirs = known.sides[0] if known.sides else (None, None)
    return {"ledger": ours, "service": theirs, "at_stake": known.at_stake}


def _statuses(row: Row) -> dict[str, Any]:
    """Return both words unchanged, and what they mean; null if that is unknown, or if there is no word."""
    return {
        "ledger": row.entry.status if isinstance(row.entry.status, str) else None,
        "ledger_meaning": row.ledger_status,
        "is_assumed": row.is_status_assumed,
        "service": row.transaction.status if row.transaction else None,
        "service_meaning": row.service_status,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


# ASCII only: the escapes of JSON keep every character, and none can act on a terminal.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=False).encode


def row_lines(file: IO[str] | GzipText) -> Callable[[Row], object]:
    """Return a writer of rows to `rows.jsonl`, which is open for text."""
    return lambda row: file.write(f"{_encode(row_as_json(row))}\n")


def gone_lines(file: IO[str]) -> Callable[[BreakChange], object]:
    """Return a writer of breaks that are gone to `history.jsonl`, which is open for text."""

    def add(change: BreakChange) -> None:
        line = {
            "state": change.history.state.value,
            "is_old": change.is_old,
            **change_as_json(change),
            "known": as_json(change.now),
        }
        file.write(f"{_encode(line)}\n")

    return add


def break_lines(file: IO[str]) -> Callable[[Row], object]:
    """Return a writer of breaks to `breaks.csv`, which is open for text, without translation of line ends."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in CSV)

    def add(row: Row) -> None:
        if row.bucket is Bucket.BREAK:
            writer.writerow(spreadsheet_cell(column.in_csv(row)) for column in CSV)

    return add
