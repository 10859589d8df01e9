"""The file with every row: its name, and reading it."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Code, Finding, Row, Settled, StatementSide, Status
from payclient.reconcile._atomic import own
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry, RejectedEntry
from payclient.reconcile.nights import ListedRow
from payclient.reconcile.rules import from_json

_TIMES = ("expdate", "created_at")


@frozen
class RowLine:
    """One line of `rows.jsonl`: its content, and its bytes."""

    reference: str | None
    bucket: str
    data: dict[str, Any]
    text: bytes

    @property
    def is_listed_again(self) -> bool:
        """Whether other rows may have the same reference."""
        return any(each["code"] == Code.DUPLICATE_REFERENCE for each in self.data["findings"])

    @property
    def is_paid(self) -> bool:
        return bool(self.data["status"]["service_meaning"] == Status.PAID)

    @property
    def state(self) -> str:
        """The service's state, as `Row.state` has it."""
        return str(self.data["status"]["service_meaning"] or self.data["status"]["service"] or "")

    @property
    def is_settled(self) -> bool:
        return bool("statement" in self.data and self.data["statement"]["is_settled"])

    @property
    def listed(self) -> ListedRow | None:
        """The line of the ledger of its run; None for a row that was carried over, or is of the statement alone."""
        data = self.data
        if data.get("carried_from") or not data.get("statement", {"is_in_ledger": True})["is_in_ledger"]:
            return None
        lines = data.get("parts") or [data["ledger"]]
        amount = sum(line.get("amount") or 0 for line in lines)
        return self.reference or "", len(lines), amount, lines[0].get("created_at"), self.bucket == Bucket.MATCHED

    @property
    def row(self) -> Row:
        return row_from_json(self.data)


def row_lines_of(file: IO[bytes]) -> Iterator[RowLine]:
    for text in file:
        data = json.loads(text)
        yield RowLine(data["reference"], data["bucket"], data, text)


def row_from_json(data: dict[str, Any]) -> Row:
    """Return the row that `row_as_json` was given."""
    # Whether it lacks a probe is not kept, nor of the statement which lines cannot be used, or are left out.
    status, service, side = data["status"], data["service"], data.get("statement")
    return Row(
        entry=_entry(data["line"], data["ledger"], status["ledger"]),
        bucket=Bucket(data["bucket"]),
        findings=tuple(from_json(each, Finding) for each in data["findings"]),
        transaction=None if service is None else from_json(service, Transaction),
        observed_at=read_time(data["observed_at"]),
        confirmed_at=read_time(data["confirmed_at"]),
        ledger_status=status["ledger_meaning"] and Status(status["ledger_meaning"]),
        service_status=status["service_meaning"] and Status(status["service_meaning"]),
        parts=tuple(_usable(part["line"], part) for part in data.get("parts", ())),
        other_side=None if side is None else StatementSide(settled=_settled(side), is_in_ledger=side["is_in_ledger"]),
        **{name: data[name] for name in ("reason", "error", "is_changed_during_run", "is_repeat")},
        **{name: data.get(name, "") for name in ("carried_from", "reused_from")},
    )


def _entry(line: int, ledger: dict[str, Any], word: str | None) -> Entry | RejectedEntry:
    if "reason" in ledger:
        return RejectedEntry(line=line, status=ABSENT if word is None else word, **ledger)
    return _usable(line, ledger)


def _usable(line: int, ledger: dict[str, Any]) -> Entry:
    given: dict[str, Any] = {
        name: ledger[name] for name in ("reference", *COMPARED, "created_at", "kind") if name in ledger
    }
    given |= {name: read_time(given[name]) for name in _TIMES if name in given}
    return Entry(line=line, **given)


def _settled(side: dict[str, Any]) -> Settled | None:
    if not side["is_settled"]:
        return None
    received = side["amount_received"]
    return from_json({**side, "money": (side["amount"] or 0) if received is None else received}, Settled)


def read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


ROWS: str = "rows.jsonl"


def open_rows(path: Path) -> IO[bytes]:
    return open(path, "rb", opener=own)
