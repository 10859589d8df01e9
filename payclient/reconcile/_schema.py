"""
The tables of a journal, and the queries on them.

Design rules:

- A look at the service is a row of `answers`; its `id` is twice the position of the first ledger row with that
  reference, and one more for the second look. So nothing has to be searched for.
- A column that the ledger does not have is an empty blob, which no value of a ledger is. An empty cell is NULL.
- `paid_reff` is the merchant_reff of an answer that says paid. Of two answers the second counts.
"""

from __future__ import annotations

# ruff: noqa: S608  no text of a stranger is in a query; what is put together are names of columns

VERSION = 1
"""Of the tables. A journal of another version is refused, never converted."""

APPLICATION = 0x7061794A
"""`payJ`: by which SQLite files of ours are told from others."""

ENTRY_COLUMNS = (
    *("reference", "merchant_reff", "amount", "fee", "amount_received"),
    *("status", "payment_method", "payment_code", "expdate", "created_at"),
)
TRANSACTION_COLUMNS = (
    *("reference", "merchant_reff", "payment_method", "payment_name", "amount", "fee", "amount_received"),
    *("payment_code", "expdate", "status", "deviations"),
)
ANSWER_COLUMNS = ("answer", "at", "error", "message", *TRANSACTION_COLUMNS)

_ENTRY = ", ".join(ENTRY_COLUMNS)
_ANSWER = ", ".join(ANSWER_COLUMNS)


def _of(table: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


def _marks(columns: tuple[str, ...]) -> str:
    return ", ".join("?" * len(columns))


TABLES = f"""
    CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, line INTEGER NOT NULL, rejected TEXT, first INTEGER, {_ENTRY}
    );
    CREATE TABLE repeats (reference TEXT PRIMARY KEY, first INTEGER NOT NULL, rows INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE answers (id INTEGER PRIMARY KEY, is_doubted INTEGER NOT NULL, paid_reff TEXT, {_ANSWER});
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""

# The ledger

ADD_ENTRY = f"INSERT INTO entries VALUES (?, ?, ?, NULL, {_marks(ENTRY_COLUMNS)})"
FINISH_LEDGER = (
    "CREATE INDEX IF NOT EXISTS entries_by_reference ON entries (reference) WHERE rejected IS NULL",
    """
    INSERT INTO repeats
        SELECT reference, min(position), count(*) FROM entries WHERE rejected IS NULL
        GROUP BY reference HAVING count(*) > 1
    """,
    """
    UPDATE entries SET first = (SELECT first FROM repeats WHERE repeats.reference = entries.reference)
        WHERE rejected IS NULL AND reference IN (SELECT reference FROM repeats)
    """,
)
ALL_ENTRIES = f"SELECT line, rejected, {_ENTRY} FROM entries ORDER BY position"
ENTRIES_OF = f"SELECT line, rejected, {_ENTRY} FROM entries WHERE reference = ? AND rejected IS NULL ORDER BY position"
COUNT_ENTRIES = "SELECT count(*) FROM entries"
COUNT_REJECTED = "SELECT count(*) FROM entries WHERE rejected IS NOT NULL"
COUNT_REFERENCES = "SELECT count(*) FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)"

# The answers

SPLIT = 10**9

_UNANSWERED = """
    FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)
    AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * position)
"""
COUNT_TO_ASK = f"SELECT count(*) {_UNANSWERED}"
NEXT_TO_ASK = (
    f"SELECT position, first, line, rejected, {_ENTRY} {_UNANSWERED} AND position > ? ORDER BY position LIMIT 500"
)
_UNCONFIRMED = """
    FROM answers AS look JOIN entries ON position = look.id / 2
    WHERE look.is_doubted AND look.id % 2 = 0 AND NOT EXISTS (SELECT 1 FROM answers WHERE id = look.id + 1)
"""
COUNT_TO_CONFIRM = f"SELECT count(*) {_UNCONFIRMED}"
NEXT_TO_CONFIRM = (
    f"SELECT position, first, line, rejected, {_of('entries', ENTRY_COLUMNS)} {_UNCONFIRMED}"
    " AND look.id > 2 * ? ORDER BY look.id LIMIT 500"
)
ADD_ANSWER = f"INSERT INTO answers VALUES (?, ?, ?, {_marks(ANSWER_COLUMNS)})"
FORGET_FAILURES = "DELETE FROM answers WHERE answer = 'failed'"
# In two parts, because the sum of 64-bit numbers does not fit into one.
DOUBTED = f"""
    SELECT count(*), coalesce(sum(amount / {SPLIT}), 0), coalesce(sum(amount % {SPLIT}), 0) FROM (
        SELECT CASE typeof(entries.amount) WHEN 'integer' THEN entries.amount ELSE 0 END AS amount
        FROM answers AS look JOIN entries ON position = look.id / 2 WHERE look.is_doubted AND look.id % 2 = 0
    )
"""
COUNT_FOUND = "SELECT count(DISTINCT id / 2) FROM answers WHERE answer = 'found'"

_LATEST_PAID = """
    SELECT id, paid_reff FROM answers AS look WHERE paid_reff IS NOT NULL
    AND (id % 2 = 1 OR NOT EXISTS (SELECT 1 FROM answers WHERE id = look.id + 1))
"""
FIND_PAID_TWICE = (
    "CREATE INDEX IF NOT EXISTS answers_by_reff ON answers (paid_reff) WHERE paid_reff IS NOT NULL",
    "CREATE TEMP TABLE IF NOT EXISTS paid_twice (paid_reff TEXT PRIMARY KEY) WITHOUT ROWID",
    "DELETE FROM paid_twice",
    f"INSERT INTO paid_twice SELECT paid_reff FROM ({_LATEST_PAID}) GROUP BY paid_reff HAVING count(*) > 1",
)
DOUBT_PAID_TWICE = f"""
    UPDATE answers SET is_doubted = 1 WHERE NOT is_doubted AND id IN (
        SELECT id / 2 * 2 FROM ({_LATEST_PAID}) WHERE paid_reff IN (SELECT paid_reff FROM paid_twice)
    )
"""
PAID_WITH = f"""
    SELECT reference FROM ({_LATEST_PAID}) AS paid JOIN entries ON position = paid.id / 2
    WHERE paid_reff = ? AND position != ? ORDER BY position LIMIT 3
"""

# The result

CASES = f"""
    SELECT position, entries.first, repeats.rows, paid_twice.paid_reff, entries.line, rejected,
        {_of("entries", ENTRY_COLUMNS)}, {_of("look", ANSWER_COLUMNS)}, {_of("again", ANSWER_COLUMNS)}
    FROM entries
    LEFT JOIN repeats ON entries.first IS NOT NULL AND repeats.reference = entries.reference
    LEFT JOIN answers AS look ON look.id = 2 * coalesce(entries.first, position) AND rejected IS NULL
    LEFT JOIN answers AS again ON again.id = look.id + 1
    LEFT JOIN paid_twice
        ON paid_twice.paid_reff = CASE WHEN again.id IS NULL THEN look.paid_reff ELSE again.paid_reff END
"""
EVERY_CASE = f"{CASES} ORDER BY position"
CASES_OF = f"{CASES} WHERE entries.reference = ? ORDER BY position"
