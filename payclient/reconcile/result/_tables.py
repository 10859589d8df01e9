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
from payclient.reconcile.values import Bucket, Origin, Row

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

FIELDS = ("amount", "status", *(name for name in COMPARED if name not in ("amount", "status")))
"""The fields that are compared, in the order of the bits of `stated` and `compared`."""

Value: TypeAlias = str | int | None

_KEYS = ("bucket", "origin", "step", "direction", "severity", "ledger_status", "service_status", "is_counted")
_MONEY = ("ledger_amount", "service_amount", "ledger_paid", "service_paid")
_COLUMNS = {
    "rows": (
        *("id INTEGER PRIMARY KEY", *_KEYS, *_MONEY),
        *("lines", "dated", "is_changed", "is_tolerated", "lacks_probe", "observed_at", "last_at", "is_reused"),
        *("stated", "compared", "scope", "created"),
        *("reference", "line", "at_stake"),  # of breaks
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
    SELECT {", ".join(_KEYS)}, count(*) AS rows, count(ledger_amount) AS stated, {_SUMS}
    FROM rows GROUP BY {", ".join(_KEYS)}
"""
"""Rows that have all keys in common, with their number and money; most figures are sums of these few."""

_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_BUFFERED = 2_000
_CACHE_KIB = 16_384
_MAX_LENGTH = 80
_BOUND = 2**63
_cells_of = attrgetter(*FIELDS)
_TEXTS = ("merchant_reff", "status", "payment_method", "payment_code")
_BITS = tuple((1 << place, name in _TEXTS, name == "fee") for place, name in enumerate(FIELDS))


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

    def add(self, row: Row, dated: int = 0) -> None:
        """Add *row*; *dated* is the number of its lines in the ledger that have a time of creation."""
        self.count += 1
        self._are_cells_old = True
        self.insert("rows", [(self.count, *_keys(row), *_others(row, dated))])
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
    return (
        str(row.bucket),
        str(row.origin),
        str(step_of(row)),
        (theirs > ours) - (theirs < ours),
        int(row.severity) if row.findings else 0,
        row.ledger_status and str(row.ledger_status),
        row.service_status and str(row.service_status),
        int(is_counted(row)),
        *map(stored, (row.ledger_amount, row.service_amount, *paid)),
    )


def _others(row: Row, dated: int) -> tuple[Value, ...]:
    entry, at = row.entry, row.observed_at
    first = None if at is None else _moment(at)
    stated = compared = 0
    scope = None
    if isinstance(entry, Entry) and row.origin is Origin.LEDGER:
        stated, compared = _bits(entry)
        if row.transaction is not None and entry.status is ABSENT:
            scope = "assumed" if row.ledger_status is not None else "left_out"
    is_break = row.bucket is Bucket.BREAK
    return (
        len(row.parts) or 1,
        dated,
        int(row.is_changed_during_run),
        int(row.is_tolerated),
        int(row.lacks_probe),
        first,
        first if row.confirmed_at is None else _moment(row.confirmed_at),
        int(bool(row.reused_from)),
        stated,
        compared if row.transaction is not None else 0,
        scope,
        time_place(entry),
        *((row.reference, row.line, stored(row.at_stake)) if is_break else (None, None, None)),
    )


def creations(row: Row) -> list[datetime]:
    """Return the times of creation that the ledger of this run has."""
    lines = row.parts or (row.entry,) if row.origin is Origin.LEDGER else ()
    return [line.created_at for line in lines if isinstance(line, Entry) and isinstance(line.created_at, datetime)]


def _bits(entry: Entry) -> tuple[int, int]:
    """Return the fields that the ledger has, and the ones with a value; a dash isn't one, an empty fee is 0."""
    stated = compared = 0
    for (bit, is_text, is_fee), cell in zip(_BITS, _cells_of(entry), strict=True):
        if cell is not ABSENT:
            stated |= bit
            if is_fee if cell is None else not is_text or any(map(str.isalnum, cell)):
                compared |= bit
    return stated, compared


def _moment(at: datetime) -> str:
    """Return a time as text that sorts by time."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
