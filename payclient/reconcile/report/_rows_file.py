"""The file with every row, plain or compressed: its name, writing and reading."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Code, Finding, Row, Settled, StatementSide, Status
from payclient.reconcile._own_file import own
from payclient.reconcile.ledger import ABSENT, COMPARED, Entry, RejectedEntry
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
    def is_settled(self) -> bool:
        return bool("statement" in self.data and self.data["statement"]["is_settled"])

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


ROWS, GZIP_ROWS = "rows.jsonl", "rows.jsonl.gz"
"""The same rows as plain and as compressed text; a report has one of the two."""

_LEVEL = 5
"""A quarter smaller than level 1 for 2 µs a row; level 6 saves 3 % more for another 3 µs."""

_GZIP = 31
"""`wbits` for gzip. zlib's own header has neither a time nor a name, so the same rows give the same bytes."""


class GzipText:
    """Compresses text into a file, in UTF-8; the file stays open, and is incomplete until `finish`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._zip = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def write(self, text: str) -> None:
        self._file.write(self._zip.compress(text.encode()))

    def finish(self) -> None:
        """Write the rest in memory, and the checksum."""
        self._file.write(self._zip.flush())


def rows_file(folder: Path) -> Path:
    zipped = folder / GZIP_ROWS
    return zipped if os.path.lexists(zipped) else folder / ROWS


@contextmanager
def open_rows(path: Path) -> Generator[IO[bytes]]:
    with open(path, "rb", opener=own) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="rb") as text:
            yield text  # type: ignore[misc]
