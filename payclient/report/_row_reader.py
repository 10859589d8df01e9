"""Read `rows.jsonl` back: the head of each line, at the cost of a regular expression, or the whole row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any

from attrs import frozen

from payclient.ledger import ABSENT, COMPARED, Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Code, Finding, OtherSide, Row, Settled, Status
from payclient.reconcile.rules import from_json
from payclient.reconcile.values import Matched

_HEAD = re.compile(rb'\{"line":-?\d+,"reference":"([^"\\]*)","bucket":"(\w+)"')
_TIMES = ("expdate", "created_at")


@frozen
class RowLine:
    """One line of `rows.jsonl`, of which only the head was read."""

    reference: str | None
    bucket: str
    text: bytes

    @property
    def is_listed_again(self) -> bool:
        """Whether other rows may have the same reference."""
        return Code.DUPLICATE_REFERENCE.encode() in self.text


def row_lines_of(file: IO[bytes]) -> Iterator[RowLine]:
    """Yield each line of *file*, which is `rows.jsonl`."""
    match = _HEAD.match
    for text in file:
        if head := match(text):
            reference, bucket = head.groups()
            yield RowLine(str(reference, "ascii"), str(bucket, "ascii"), text)
        else:  # an escaped reference, or none
            data = json.loads(text)
            yield RowLine(data["reference"], data["bucket"], text)


def row_from_json(data: dict[str, Any]) -> Row:
    """Return the row that `row_as_json` was given."""
    # Whether it lacks a probe is not kept, nor of the statement which lines cannot be used, or are left out.
    status, service = data["status"], data["service"]
    return Row(
        entry=_entry(data),
        bucket=Bucket(data["bucket"]),
        findings=tuple(from_json(each, Finding) for each in data["findings"]),
        transaction=None if service is None else from_json(service, Transaction),
        reason=data["reason"],
        error=data["error"],
        observed_at=read_time(data["observed_at"]),
        confirmed_at=read_time(data["confirmed_at"]),
        is_changed_during_run=data["is_changed_during_run"],
        is_repeat=data["is_repeat"],
        ledger_status=_status(status["ledger_meaning"]),
        service_status=_status(status["service_meaning"]),
        parts=tuple(_usable(part["line"], part) for part in data.get("parts", ())),
        carried_from=data.get("carried_from", ""),
        reused_from=data.get("reused_from", ""),
        other_side=_other_side(data.get("statement")),
        matched=from_json(data["matched"], Matched) if "matched" in data else None,
    )


def _entry(data: dict[str, Any]) -> Entry | RejectedEntry:
    ledger = data["ledger"]
    if "reason" in ledger:
        word = data["status"]["ledger"]
        return RejectedEntry(
            line=data["line"],
            reason=ledger["reason"],
            reference=ledger["reference"],
            amount=ledger["amount"],
            status=ABSENT if word is None else word,
        )
    return _usable(data["line"], ledger)


def _usable(line: int, ledger: dict[str, Any]) -> Entry:
    given = {name: ledger[name] for name in ("reference", *COMPARED, "created_at", "kind") if name in ledger}
    given |= {name: read_time(given[name]) for name in _TIMES if name in given}
    return Entry(line=line, **given)


def _other_side(data: dict[str, Any] | None) -> OtherSide | None:
    if data is None:
        return None
    settled = None
    if data["is_settled"]:
        received = data["amount_received"]
        settled = from_json({**data, "money": (data["amount"] or 0) if received is None else received}, Settled)
    return OtherSide(settled=settled, is_in_ledger=data["is_in_ledger"])


def _status(word: str | None) -> Status | None:
    return None if word is None else Status(word)


def read_time(text: str | None) -> datetime | None:
    """Return a time as reports write it."""
    return None if text is None else datetime.fromisoformat(text)
