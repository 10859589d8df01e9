"""The tables of a journal, the queries on them, and ledger entries and answers as their columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from attrs import fields

from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.protocol import Transaction
from payclient.reconcile.values import Answer, Observation

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

VERSION = 10
"""Of the tables. A journal of another version is refused, never converted."""

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
_ANSWER = ", ".join(ANSWER_COLUMNS)


def _of(table: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def _marks(columns: tuple[str, ...]) -> str:
    return ", ".join("?" * len(columns))


TABLES = f"""
    CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum) WITHOUT ROWID;
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, first INTEGER, line INTEGER NOT NULL, rejected TEXT, {_ENTRY}, checksum
    );
    CREATE TABLE repeats (
        reference TEXT PRIMARY KEY, first INTEGER NOT NULL, rows INTEGER NOT NULL, checksum
    ) WITHOUT ROWID;
    CREATE TABLE answers (
        id INTEGER PRIMARY KEY, needs_confirmation INTEGER NOT NULL, paid_reff TEXT, {_ANSWER}, checksum
    );
    CREATE TABLE earlier (
        reference TEXT PRIMARY KEY, breaks INTEGER NOT NULL, is_remembered INTEGER NOT NULL, data TEXT NOT NULL,
        checksum
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

COUNT_ROWS = {table: f"SELECT count(*) FROM {table}" for table in KEYS}
FORGET_ALL = tuple(f"DELETE FROM {table}" for table in KEYS)

INDEXES = (
    "CREATE INDEX IF NOT EXISTS entries_by_reference ON entries (reference, rejected)",
    "CREATE INDEX IF NOT EXISTS answers_by_reff ON answers (paid_reff) WHERE paid_reff IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS statement_by_reference ON statement (reference)",
)

# The ledger

COUNTS = "rows"
"""The note with the number of rows by table."""

COUNT_OTHER_NOTES = f"SELECT count(*) FROM notes WHERE name != '{COUNTS}'"
SET_NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?, ?)"
ADD_ENTRY = f"INSERT INTO entries VALUES (?, ?, ?, ?, {_marks(ENTRY_COLUMNS)}, ?)"
_FIRST = "(SELECT first FROM repeats WHERE repeats.reference = entries.reference)"
FINISH_LEDGER = (
    """
    INSERT INTO repeats SELECT *, checksum(reference, first, rows) FROM (
        SELECT reference, min(position) AS first, count(*) AS rows FROM entries WHERE rejected IS NULL
        GROUP BY reference HAVING count(*) > 1
    )
    """,
    f"""
    UPDATE entries SET first = {_FIRST},
        checksum = checksum(position, {_FIRST}, line, rejected, {_of("entries", ENTRY_COLUMNS)})
        WHERE rejected IS NULL AND reference IN (SELECT reference FROM repeats)
    """,
)
ALL_ENTRIES = f"SELECT line, rejected, {_ENTRY} FROM entries WHERE position <= ? ORDER BY position"
ENTRIES_OF = f"SELECT line, rejected, {_ENTRY} FROM entries WHERE reference = ? AND rejected IS NULL ORDER BY position"
SOME_REPEATS = "SELECT reference, rows FROM repeats ORDER BY first LIMIT ?"
COUNT_REJECTED = "SELECT count(*) FROM entries WHERE rejected IS NOT NULL"
COUNT_REFERENCES = "SELECT count(*) FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)"

# The lines of one payment

LINES = f"""
    SELECT repeats.first, line, rejected, {_of("entries", ENTRY_COLUMNS)} FROM repeats
    JOIN entries ON entries.reference = repeats.reference AND rejected IS NULL ORDER BY repeats.reference, position
"""
FIND_APART = (
    "CREATE TEMP TABLE IF NOT EXISTS apart (first INTEGER PRIMARY KEY, why TEXT NOT NULL)",
    "CREATE TEMP TABLE IF NOT EXISTS unusable (reference TEXT PRIMARY KEY, line INTEGER NOT NULL) WITHOUT ROWID",
    "DELETE FROM apart",
    "DELETE FROM unusable",
    """
    INSERT INTO unusable SELECT reference, min(line) FROM entries
    WHERE rejected IS NOT NULL AND reference IS NOT NULL GROUP BY reference
    """,
)
ADD_APART = "INSERT INTO apart VALUES (?, ?)"
WHY_APART = "SELECT why FROM apart WHERE first = ?"
FIND_DUPLICATED = (
    "CREATE TEMP TABLE IF NOT EXISTS duplicated (first INTEGER PRIMARY KEY, amount TEXT NOT NULL)",
    "DELETE FROM duplicated",
)
AMOUNTS = """
    SELECT repeats.first, amount FROM repeats
    JOIN entries ON entries.reference = repeats.reference AND rejected IS NULL ORDER BY repeats.first
"""
ADD_DUPLICATED = "INSERT INTO duplicated VALUES (?, ?)"
DUPLICATED = "SELECT amount FROM duplicated WHERE first = ?"
UNUSABLE_LINE = "SELECT line FROM unusable WHERE reference = ?"

# The answers

SPLIT = 10**9

_EARLIER = "(SELECT data FROM earlier WHERE earlier.reference = entries.reference)"
_LOOKUP = f"position, {_EARLIER}, first, line, rejected, {_of('entries', ENTRY_COLUMNS)}"
_UNANSWERED = """
    FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)
    AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * position)
"""
COUNT_TO_ASK = f"SELECT count(*) {_UNANSWERED}"
NEXT_TO_ASK = f"SELECT {_LOOKUP} {_UNANSWERED} AND position > ? ORDER BY position LIMIT 500"
TO_ASK_ABOUT = f"SELECT position, first, line, rejected, {_ENTRY} {_UNANSWERED} AND reference = ?"
FORGET_REUSED = "DELETE FROM answers WHERE reused_from IS NOT NULL AND needs_confirmation"
FORGET_ONE_REUSED = """
    DELETE FROM answers WHERE id = (SELECT min(id) FROM answers WHERE reused_from IS NOT NULL)
    AND EXISTS (SELECT 1 FROM answers WHERE answer IN ('not found', 'unusable'))
"""
_UNCONFIRMED = """
    FROM answers AS given JOIN entries ON position = given.id / 2
    WHERE given.needs_confirmation AND given.id % 2 = 0 AND NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1)
"""
COUNT_TO_CONFIRM = f"SELECT count(*) {_UNCONFIRMED}"
NEXT_TO_CONFIRM = f"SELECT {_LOOKUP} {_UNCONFIRMED} AND given.id > 2 * ? ORDER BY given.id LIMIT 500"
NEXT_ANSWERED = f"""
    SELECT answers.id, needs_confirmation, paid_reff, {_LOOKUP}, {_of("answers", ANSWER_COLUMNS)}
    FROM answers JOIN entries ON position = answers.id / 2 WHERE answers.id > ? ORDER BY answers.id LIMIT 500
"""
ADD_ANSWER = f"INSERT OR REPLACE INTO answers VALUES (?, ?, ?, {_marks(ANSWER_COLUMNS)}, ?)"
FORGET_FAILURES = """
    DELETE FROM answers WHERE answer = 'failed' OR answer = 'unusable' AND id % 2 = 1
    AND NOT EXISTS (SELECT 1 FROM answers AS given WHERE given.id = answers.id - 1 AND given.answer = 'unusable')
"""
_FOUND = "FROM answers WHERE answer = 'found' AND reused_from IS NULL"
# One that is found is no probe for itself.
_UNBELIEVED = f"""
    answer IN ('not found', 'unusable')
    AND coalesce((SELECT max(id / 2) {_FOUND}), id / 2) = id / 2
    AND coalesce((SELECT min(id / 2) {_FOUND}), id / 2) = id / 2
"""
FORGET_UNBELIEVED = f"DELETE FROM answers WHERE {_UNBELIEVED}"
COUNT_ANSWERED = "SELECT count(*) FROM answers WHERE id % 2 = 0 AND answer != 'failed'"
COUNT_BELIEVED = f"{COUNT_ANSWERED} AND NOT ({_UNBELIEVED})"
IS_UNUSABLE = "SELECT count(*) FROM answers WHERE id = ? AND answer = 'unusable'"
KNOWN_GOOD = "SELECT reference FROM answers WHERE answer = 'found' LIMIT 1"
LAST_TO_CONFIRM = f"SELECT max(given.at) {_UNCONFIRMED}"
# In two parts, because the sum of 64-bit numbers does not fit into one.
COUNT_DIFFERENCES = f"""
    SELECT count(*), coalesce(sum(amount / {SPLIT}), 0), coalesce(sum(amount % {SPLIT}), 0) FROM (
        SELECT CASE typeof(entries.amount) WHEN 'integer' THEN entries.amount ELSE 0 END AS amount
        FROM answers AS given JOIN entries ON position = given.id / 2
        WHERE given.needs_confirmation AND given.id % 2 = 0
    )
"""
COUNT_FOUND = f"SELECT count(DISTINCT id / 2) {_FOUND}"

_LATEST_PAID = """
    SELECT id, paid_reff FROM answers AS given WHERE paid_reff IS NOT NULL
    AND (id % 2 = 1 OR NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1))
"""
FIND_PAID_TWICE = (
    INDEXES[1],
    "CREATE TEMP TABLE IF NOT EXISTS paid_twice (paid_reff TEXT PRIMARY KEY) WITHOUT ROWID",
    "DELETE FROM paid_twice",
    f"INSERT INTO paid_twice SELECT paid_reff FROM ({_LATEST_PAID}) GROUP BY paid_reff HAVING count(*) > 1",
)
CONFIRM_PAID_TWICE = f"""
    UPDATE answers SET needs_confirmation = 1, checksum = checksum(id, 1, paid_reff, {_ANSWER})
    WHERE NOT needs_confirmation AND id IN (
        SELECT id / 2 * 2 FROM ({_LATEST_PAID}) WHERE paid_reff IN (SELECT paid_reff FROM paid_twice)
    )
"""
PAID_WITH = f"""
    SELECT reference FROM ({_LATEST_PAID}) AS paid JOIN entries ON position = paid.id / 2
    WHERE paid_reff = ? AND position != ? ORDER BY position LIMIT 3
"""

_PAID_UNDER_SEVERAL = """
    FROM answers AS given JOIN paid_twice USING (paid_reff) JOIN entries ON position = given.id / 2
    WHERE given.id % 2 = 1 OR NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1)
"""
INVOICES = f"""
    SELECT paid_reff, first, given.amount, line, rejected, {_of("entries", ENTRY_COLUMNS)} {_PAID_UNDER_SEVERAL}
    ORDER BY paid_reff
"""
FIND_INVOICES = (
    "CREATE TEMP TABLE IF NOT EXISTS invoices (paid_reff TEXT PRIMARY KEY, totals TEXT NOT NULL) WITHOUT ROWID",
    "DELETE FROM invoices",
)
ADD_INVOICE = "INSERT INTO invoices VALUES (?, ?)"
INVOICE = "SELECT totals FROM invoices WHERE paid_reff = ?"

# The statement

ADD_TO_STATEMENT = f"INSERT INTO statement VALUES (?, ?, ?, {_marks(ENTRY_COLUMNS)}, ?)"
FORGET_STATEMENT = "DELETE FROM statement"
STATEMENT = f"SELECT line, rejected, {_ENTRY} FROM statement ORDER BY position"
STATEMENT_OF = f"SELECT line, rejected, {_ENTRY} FROM statement WHERE reference = ? ORDER BY position"
LEFT_OUT = "CREATE TEMP TABLE IF NOT EXISTS left_out (reference TEXT PRIMARY KEY) WITHOUT ROWID"
LEAVE_OUT = "INSERT OR IGNORE INTO left_out VALUES (?)"
NOT_IN_LEDGER = """
    SELECT reference, min(line), reference IN (SELECT reference FROM left_out) AS is_left_out
    FROM statement WHERE rejected IS NULL AND NOT EXISTS (
        SELECT 1 FROM entries WHERE entries.reference = statement.reference AND entries.rejected IS NULL
    ) GROUP BY reference ORDER BY is_left_out, min(position)
"""

# The result

_CASE = f"""
    position, entries.first, repeats.rows, paid_twice.paid_reff, earlier.data, entries.line, rejected,
    {_of("entries", ENTRY_COLUMNS)}, {_of("given", ANSWER_COLUMNS)}, {_of("second", ANSWER_COLUMNS)}
"""
_ANSWERED = """
    LEFT JOIN repeats ON entries.first IS NOT NULL AND repeats.reference = entries.reference
    LEFT JOIN answers AS given ON given.id = 2 * coalesce(entries.first, position) AND rejected IS NULL
    LEFT JOIN answers AS second ON second.id = given.id + 1
    LEFT JOIN paid_twice
        ON paid_twice.paid_reff = CASE WHEN second.id IS NULL THEN given.paid_reff ELSE second.paid_reff END
"""
CASES = f"SELECT {_CASE} FROM entries LEFT JOIN earlier ON earlier.reference = entries.reference {_ANSWERED}"
EVERY_CASE = f"{CASES} ORDER BY position"
CASES_OF = f"{CASES} WHERE entries.reference = ? ORDER BY position"

COUNTED = (
    """
    CREATE TEMP TABLE IF NOT EXISTS counted (reference TEXT, code TEXT, at_stake TEXT, PRIMARY KEY (reference, code))
    WITHOUT ROWID
    """,
    "DELETE FROM counted",
)
COUNTED_OF = "SELECT code, at_stake FROM counted WHERE reference = ?"
COUNT = "INSERT OR REPLACE INTO counted VALUES (?, ?, ?)"

# The previous run

ADD_EARLIER = "INSERT INTO earlier VALUES (?, ?, ?, ?, ?)"
IS_LISTED = "SELECT 1 FROM entries WHERE reference = ? AND position <= ? LIMIT 1"
IS_JUDGED = """
    SELECT 1 FROM entries JOIN answers ON answers.id / 2 = coalesce(entries.first, position)
    WHERE entries.reference = ? AND rejected IS NULL AND answer NOT IN ('failed', 'unusable') LIMIT 1
"""
REMEMBERED = "SELECT data FROM earlier WHERE is_remembered ORDER BY reference"
EARLIER_CASES = f"""
    SELECT earlier.reference, {_CASE} FROM earlier
    LEFT JOIN entries ON entries.reference = earlier.reference {_ANSWERED}
    WHERE earlier.breaks ORDER BY earlier.reference, position
"""


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
    """Return the answer from its `observation_cells`, without `Transaction.raw`; None where there is none."""
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
        if isinstance(cell := values.get(name), int):
            values[name] = _EPOCH + timedelta(microseconds=cell)
        elif isinstance(cell, str):
            values[name] = datetime.fromisoformat(cell)
    if _ABSENT in cells:
        values |= dict.fromkeys((name for name, cell in values.items() if cell == _ABSENT), ABSENT)
    return values


def moment_cell(at: datetime) -> int:
    """Return a time in UTC as the journal stores it: microseconds since 1970, a quarter of the text."""
    return (at - _EPOCH_UTC) // _MICROSECOND


def moment_from(cell: int) -> datetime:
    """Return the time from its `moment_cell`."""
    return _EPOCH_UTC + timedelta(microseconds=cell)


_OF_REJECTED = ("reference", "amount", "amount_received", "status", "kind")
_of_entry, _of_transaction = attrgetter(*ENTRY_COLUMNS), attrgetter(*_OF_TRANSACTION)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"
