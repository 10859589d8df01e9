"""Judged rows and their findings as two tables, which the figures of a report query.

The tables are an index of the rows of one report, in a temporary file: they are made again with each report, and never
read by another run. The files that a person signs are the truth.
"""

import json
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, cast
from weakref import finalize

from attrs import define, field

from payclient.reconcile.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile.result._bridges import is_counted, paid_by, settlement_moves, step_of
from payclient.reconcile.result._patterns import causes, time_place
from payclient.reconcile.values import Bucket, Row

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

FIELDS = ("amount", "status", *(name for name in COMPARED if name not in ("amount", "status")))
"""The fields that are compared, in the order of the bits of `stated` and `compared`."""

ASSUMED = "paid (assumed)"
"""Stands for the ledger's word where the ledger has no status column."""

Value: TypeAlias = str | int | None

_KEYS = (
    *("bucket", "origin", "step", "direction", "severity", "ledger_status", "service_status", "is_counted"),
    *("ledger_word", "service_word", "method"),
)
_MONEY = ("ledger_amount", "service_amount", "ledger_paid", "service_paid")
_COLUMNS = {
    "rows": (
        *("id INTEGER PRIMARY KEY", *_KEYS, *_MONEY),
        *("lines", "dated", "is_changed", "is_tolerated", "lacks_probe", "observed_at", "last_at", "is_reused"),
        *("earlier_bucket", "stated", "compared", "scope", "reference", "created", "line", "at_stake"),
    ),
    "findings": ("row", "code", "leakage", "method"),
    "causes": ("row", "cause"),
    "moves": ("step", "amount"),
    "postings": ("part", "severity", "code", "age", "reference", "amount"),
}
_SUMS = ", ".join(f"exact({name}) AS {name}" for name in _MONEY)
TOTAL = f"sum(rows), {_SUMS}"
"""The columns of a `Total` in a query on `cells`."""

_CELLS = f"""
    CREATE TABLE cells AS
    SELECT {", ".join(_KEYS)}, count(*) AS rows, count(ledger_amount) AS stated, {_SUMS}, min(id) AS first
    FROM rows GROUP BY {", ".join(_KEYS)}
"""
"""Rows that have all keys in common, with their number and money; most figures are sums of these few."""

_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_BUFFERED = 2_000
_CACHE_KIB = 16_384
_MAX_LENGTH = 80
_BOUND = 2**63
_cells_of = attrgetter(*FIELDS)
_FEE = FIELDS.index("fee")


class _Exact:
    """Sums whole numbers of any size: the `sum` of SQLite fails beyond 64 bits, and its `total` rounds."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, number: Value) -> None:
        self._sum += int(number or 0)

    def finalize(self) -> Value:
        return stored(self._sum)


class _Largest:
    """The largest of whole numbers of any size."""

    def __init__(self) -> None:
        self._numbers: tuple[int, ...] = ()

    def step(self, number: Value) -> None:
        self._numbers = (max(*self._numbers, int(number or 0)),) if self._numbers else (int(number or 0),)

    def finalize(self) -> Value:
        return stored(*self._numbers) if self._numbers else None


def stored(number: int | None) -> Value:
    """Return *number* as SQLite can hold it: beyond 64 bits as text."""
    return number if number is None or -_BOUND <= number < _BOUND else str(number)


@define
class ResultTables:
    """The tables of one report, in a temporary file in *folder*; memory does not grow with the rows."""

    _folder: Path | None = None  # SQLite's own folder for temporary files if None
    _connection: sqlite3.Connection = field(init=False)
    close: Callable[[], object] = field(init=False)
    _buffers: dict[str, list[tuple[Value, ...]]] = field(init=False, factory=lambda: {name: [] for name in _COLUMNS})
    count: int = field(init=False, default=0)
    _are_cells_old: bool = field(init=False, default=True)

    def __attrs_post_init__(self) -> None:
        path = "" if self._folder is None else self._folder / "tables.sqlite"
        with _disk_faults():
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.close = finalize(self, self._connection.close)
        self._connection.create_aggregate("exact", 1, cast("Any", _Exact))
        self._connection.create_aggregate("largest", 1, cast("Any", _Largest))
        for statement in (
            *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"PRAGMA cache_size = -{_CACHE_KIB}"),
            *(f"CREATE TABLE {name} ({', '.join(columns)})" for name, columns in _COLUMNS.items()),
            "BEGIN",
        ):
            with _disk_faults():
                self._connection.execute(statement)

    def add(self, row: Row) -> None:
        self.count += 1
        self._are_cells_old = True
        self.insert("rows", [(self.count, *_keys(row), *_others(row))])
        if row.findings:
            self.insert("findings", ((self.count, *each) for each in _findings(row)))
        if row.bucket is Bucket.BREAK:
            self.insert("causes", ((self.count, json.dumps(each)) for each in dict.fromkeys(causes(row))))
        if row.other_side is not None:
            self.insert("moves", ((step.value, stored(amount)) for step, amount in settlement_moves(row)))

    def insert(self, table: str, cells: Iterable[tuple[Value, ...]]) -> None:
        buffer = self._buffers[table]
        buffer += cells
        if len(buffer) >= _BUFFERED:
            self._flush()

    def _flush(self) -> None:
        for name, buffer in self._buffers.items():
            if buffer:
                marks = ", ".join("?" * len(_COLUMNS[name]))
                with _disk_faults():
                    self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", buffer)
                buffer.clear()

    def select(self, query: str, values: Iterable[Value] = ()) -> Iterator[Any]:
        """Yield the rows of a query on the tables and on `cells`."""
        self._flush()
        with _disk_faults():
            if self._are_cells_old:
                self._connection.execute("DROP TABLE IF EXISTS cells")
                self._connection.execute(_CELLS)
                self._are_cells_old = False
            yield from self._connection.execute(query, tuple(values))


@contextmanager
def _disk_faults() -> Generator[None]:
    """Raise a fault of the disk as an `OSError`, as the files of a report do; other errors are bugs."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _OF_THE_DISK:
            raise
        message = f"the temporary tables of the report cannot be written: {error}"
        raise OSError(message) from error


def _findings(row: Row) -> Iterator[tuple[Value, ...]]:
    method = None
    if not row.is_repeat and row.transaction is not None:
        method = (row.transaction.payment_method or "")[:_MAX_LENGTH]
    for each in row.findings:
        is_lost = each.leakage and not each.waived
        yield each.code.value, each.leakage if is_lost else 0, method if is_lost else None


def _keys(row: Row) -> tuple[Value, ...]:
    paid = ours, theirs = paid_by(row)
    amounts = row.ledger_amount, row.service_amount
    return (
        row.bucket.value,
        _origin(row),
        step_of(row).value,
        (theirs > ours) - (theirs < ours),
        int(row.severity),
        row.ledger_status and row.ledger_status.value,
        row.service_status and row.service_status.value,
        int(is_counted(row)),
        *_words(row),
        *map(stored, (*amounts, *paid)),
    )


def _origin(row: Row) -> str:
    if row.carried_from:
        return "carried"
    return "statement" if row.is_of_statement else "ledger"


def _words(row: Row) -> tuple[str | None, str | None, str | None]:
    entry, theirs = row.entry, row.transaction
    ours = entry if isinstance(entry, Entry) else None
    ledger_status = ASSUMED if ours and row.is_status_assumed else _word(ours.status if ours else None)
    ledger_method = _word(ours.payment_method if ours else None)
    if theirs is None:
        return ledger_status, None, ledger_method
    return ledger_status, _word(theirs.status), _word(theirs.payment_method) or ledger_method


def _word(word: object) -> str | None:
    """Return *word* if it is one, no longer than a person reads."""
    if not isinstance(word, str):
        return None
    return word if len(word) <= _MAX_LENGTH else f"{word[: _MAX_LENGTH - 1]}…"


def _others(row: Row) -> tuple[Value, ...]:
    entry, at = row.entry, row.observed_at
    is_listed = isinstance(entry, Entry) and row.is_listed
    cells = _cells_of(entry) if is_listed else ()
    is_looked_up = row.transaction is not None
    scope = None
    if is_listed and is_looked_up:
        scope = "assumed" if row.is_status_assumed else "left_out" if entry.status is ABSENT else None
    return (
        len(row.parts) or 1,
        len(creations(row)) if row.is_listed else 0,
        int(row.is_changed_during_run),
        int(row.is_tolerated),
        int(row.lacks_probe),
        None if at is None else _moment(at),
        None if at is None else _moment(row.confirmed_at or at),
        int(bool(row.reused_from)),
        row.earlier_bucket and row.earlier_bucket.value,
        sum(1 << place for place, cell in enumerate(cells) if cell is not ABSENT),
        sum(1 << place for place, cell in enumerate(cells) if _is_compared(place, cell)) if is_looked_up else 0,
        scope,
        entry.reference if isinstance(entry, Entry) else None,
        time_place(entry),
        row.line,
        stored(row.at_stake),
    )


def creations(row: Row) -> list[datetime]:
    found = (entry.created_at for entry in row.parts or (row.entry,) if isinstance(entry, Entry))
    return [at for at in found if isinstance(at, datetime)]


def _is_compared(place: int, cell: object) -> bool:
    """Return whether *cell* has a value to compare; a dash is none, an empty fee is 0."""
    if cell is None:
        return place == _FEE
    return cell is not ABSENT and (not isinstance(cell, str) or any(map(str.isalnum, cell)))


def _moment(at: datetime) -> str:
    """Return a time as text that sorts by time."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
