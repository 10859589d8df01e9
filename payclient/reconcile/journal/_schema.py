"""The tables of a journal, the queries on them, and ledger entries and answers as their columns."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from attrs import fields

from payclient.protocol import Transaction
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile.values import Answer, Observation

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

VERSION = 11
"""Version of the tables. A journal of another version is refused, never converted."""

PAGE_BYTES = 4096

APPLICATION = 0x7061794A
"""`payJ`: the SQLite application id of a journal."""

ENTRY_COLUMNS = (
    *("reference", "merchant_reff", "amount", "fee", "amount_received"),
    *("status", "payment_method", "payment_code", "expdate", "created_at", "kind"),
)
TRANSACTION_COLUMNS = (
    *("reference", "merchant_reff", "payment_method", "payment_name", "amount", "fee", "amount_received"),
    *("payment_code", "expdate", "status", "deviations"),
)
ANSWER_COLUMNS = ("answer", "at", "error", "message", "reused_from", *TRANSACTION_COLUMNS)

_ENTRY = ", ".join(ENTRY_COLUMNS)
ENTRY = f"line, rejected, {_ENTRY}"
"""The `entry_cells` of a row of `entries` or `statement`."""
ANSWER = ", ".join(ANSWER_COLUMNS)
"""The `observation_cells` of a row of `answers`."""


def of(table: str, columns: str) -> str:
    """Return *columns* with the name of *table*, for a query on several."""
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


def insertion(table: str, columns: int) -> str:
    """Return the statement that stores a row with its checksum instead of one with the same key."""
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * (columns + 1))})"


TABLES = f"""
    CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum) WITHOUT ROWID;
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, first INTEGER, line INTEGER NOT NULL, rejected TEXT, {_ENTRY}, checksum
    );
    CREATE TABLE repeats (
        reference TEXT PRIMARY KEY, first INTEGER NOT NULL, rows INTEGER NOT NULL, checksum
    ) WITHOUT ROWID;
    CREATE TABLE answers (
        id INTEGER PRIMARY KEY, needs_confirmation INTEGER NOT NULL, paid_reff TEXT, {ANSWER}, checksum
    );
    CREATE TABLE earlier (
        reference TEXT PRIMARY KEY, breaks INTEGER NOT NULL, data TEXT NOT NULL, checksum
    ) WITHOUT ROWID;
    CREATE TABLE statement (position INTEGER PRIMARY KEY, line INTEGER NOT NULL, rejected TEXT, {_ENTRY}, checksum);
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""

KEYS = {
    "notes": "name",
    "entries": "position",
    "repeats": "reference",
    "answers": "id",
    "earlier": "reference",
    "statement": "position",
}
"""The tables, each with the column by which its rows are in order."""

INDEXES = (
    "CREATE INDEX IF NOT EXISTS entries_by_reference ON entries (reference, rejected)",
    "CREATE INDEX IF NOT EXISTS answers_by_reff ON answers (paid_reff) WHERE paid_reff IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS statement_by_reference ON statement (reference)",
)

COUNTS = "rows"
"""The note with the number of rows by table."""

SET_NOTE = insertion("notes", 2)
ADD_ENTRY = insertion("entries", 4 + len(ENTRY_COLUMNS))
ENTRIES_OF = f"SELECT {ENTRY} FROM entries WHERE reference = ? AND rejected IS NULL ORDER BY position"

StoredCell: TypeAlias = str | int | bytes | None

_ABSENT = b""
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  an expiry has no zone
_MICROSECOND = timedelta(microseconds=1)
_BOUND = 2**63
_MONEY = ("amount", "fee", "amount_received")
_TIMES = ("expdate", "created_at")
_OF_TRANSACTION = TRANSACTION_COLUMNS[:-1]
"""Without the deviations, which are JSON."""
_NO_TRANSACTION = (None,) * len(TRANSACTION_COLUMNS)


def entry_cells(entry: Entry | RejectedEntry) -> tuple[StoredCell, ...]:
    """Return `line`, `rejected` and `ENTRY_COLUMNS` for *entry*."""
    if isinstance(entry, RejectedEntry):
        stated = {name: _cell(getattr(entry, name)) for name in _OF_REJECTED}
        return entry.line, entry.reason, *map(stated.get, ENTRY_COLUMNS)
    return entry.line, None, *map(_cell, _of_entry(entry))


def entry_from(cells: Sequence[Any]) -> Entry | RejectedEntry:
    """Return the ledger row from its `entry_cells`."""
    line, rejected, *stored = cells
    values = _values(ENTRY_COLUMNS, stored)
    if rejected is None:
        return Entry(line=line, **values)
    return RejectedEntry(line=line, reason=rejected, **{name: values[name] for name in _OF_REJECTED})


def observation_cells(observation: Observation) -> tuple[StoredCell, ...]:
    """Return `ANSWER_COLUMNS` for *observation*."""
    said = (observation.answer.value, moment_cell(observation.at), observation.error, observation.message or None)
    found = observation.transaction
    if found is None:
        return (*said, observation.reused_from or None, *_NO_TRANSACTION)
    deviations = json.dumps(found.deviations) if found.deviations else None
    return (*said, observation.reused_from or None, *map(_cell, _of_transaction(found)), deviations)


def observation_from(cells: Sequence[Any]) -> Observation | None:
    """Return the answer from its `observation_cells`, without `Transaction.raw`; None if there is none."""
    answer, at, error, message, reused_from, *found = cells
    if answer is None:
        return None
    return Observation(
        answer=Answer(answer),
        at=moment_from(at),
        transaction=None if found[0] is None else _transaction(found),
        error=error,
        message=message or "",
        reused_from=reused_from or "",
    )


def _transaction(cells: Sequence[Any]) -> Transaction:
    *stored, deviations = cells
    values = _values(_OF_TRANSACTION, stored)
    return Transaction(**values, deviations=tuple(json.loads(deviations)) if deviations else ())


def _cell(value: Any) -> Any:
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND if value.tzinfo is None else value.isoformat()
    if value is ABSENT:
        return _ABSENT
    # SQLite has 64 bits; what our own readers accept fits, what a program makes may not.
    return value if -_BOUND <= value < _BOUND else str(value)


def _values(names: Sequence[str], cells: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(names, cells, strict=True))
    for name in _MONEY:
        if isinstance(cell := values[name], str):
            values[name] = int(cell)
    for name in _TIMES:
        if isinstance(cell := values.get(name), int | str):
            values[name] = time_from(cell)
    if _ABSENT in cells:
        values |= dict.fromkeys((name for name, cell in values.items() if cell == _ABSENT), ABSENT)
    return values


def time_from(cell: int | str) -> datetime:
    """Return a time of a file from its cell: microseconds without a zone, or text with one."""
    return _EPOCH + timedelta(microseconds=cell) if isinstance(cell, int) else datetime.fromisoformat(cell)


def moment_cell(at: datetime) -> int:
    """Return a time in UTC as the journal stores it: microseconds since 1970, a quarter of the text."""
    return (at - _EPOCH_UTC) // _MICROSECOND


def moment_from(cell: int) -> datetime:
    return _EPOCH_UTC + timedelta(microseconds=cell)


_OF_REJECTED = ("reference", "amount", "amount_received", "status", "kind")
_of_entry, _of_transaction = attrgetter(*ENTRY_COLUMNS), attrgetter(*_OF_TRANSACTION)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"
