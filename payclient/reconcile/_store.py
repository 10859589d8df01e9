"""
What one run knows, on disk rather than in memory: the ledger rows and every answer to them.

A row is final only when the whole ledger has been asked, because a later row may have the same
reference, or the same merchant_reff. So the rows wait here: in a temporary SQLite database, which keeps a
small ledger in memory and a large one in a file that is gone when it is closed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from payclient.ledger._entry import Entry, RejectedEntry
from payclient.reconcile import _record as record
from payclient.reconcile._judge import Case
from payclient.reconcile._observation import Answer, Observation
from payclient.reconcile._status import Status, read_status

Round: TypeAlias = Literal[0, 1]
"""The first look at the service, or the second."""

# `rows`: ledger rows with this reference. `paid_reff`: the merchant_reff, where the latest answer says
# paid. Text is kept as bytes, because a reference of a stranger may hold half a surrogate pair.
_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA cache_size = -16384;
    CREATE TABLE asked (
        number INTEGER PRIMARY KEY, reference BLOB NOT NULL UNIQUE, rows INTEGER NOT NULL, is_doubted INTEGER NOT NULL
    );
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, line INTEGER NOT NULL, asked INTEGER, is_repeat INTEGER NOT NULL,
        entry TEXT NOT NULL
    );
    CREATE TABLE answers (
        id INTEGER PRIMARY KEY, is_found INTEGER NOT NULL, paid_reff BLOB, answer TEXT NOT NULL
    );
    BEGIN;
"""
_READY_TO_ASK = "CREATE INDEX entries_by_reference ON entries (asked) WHERE asked IS NOT NULL"
_READY_TO_JUDGE = """
    CREATE INDEX IF NOT EXISTS answers_by_reff ON answers (paid_reff) WHERE paid_reff IS NOT NULL;
    DROP TABLE IF EXISTS paid_twice;
    CREATE TABLE paid_twice (paid_reff BLOB PRIMARY KEY);
    INSERT INTO paid_twice
        SELECT paid_reff FROM answers WHERE paid_reff IS NOT NULL GROUP BY paid_reff HAVING count(*) > 1;
"""
_DOUBT_PAID_TWICE = """
    UPDATE asked SET is_doubted = 1 WHERE number IN (
        SELECT id / 2 FROM answers WHERE paid_reff IN (SELECT paid_reff FROM paid_twice)
    )
"""
_NEXT_REFERENCES = "SELECT number, reference FROM asked WHERE number > ? ORDER BY number LIMIT 1000"
_NEXT_DOUBTED = """
    SELECT number, reference FROM asked WHERE is_doubted AND number > ?
    AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * number + 1) ORDER BY number LIMIT 1000
"""
_COUNT_DOUBTED = """
    SELECT count(*) FROM asked WHERE is_doubted AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * number + 1)
"""
_CASES = """
    SELECT line, entry, asked, is_repeat, rows, first.answer, second.answer,
        coalesce(first.is_found, 0) OR coalesce(second.is_found, 0), paid_twice.paid_reff
    FROM entries
    LEFT JOIN asked ON asked.number = entries.asked
    LEFT JOIN answers AS first ON first.id = 2 * entries.asked
    LEFT JOIN answers AS second ON second.id = 2 * entries.asked + 1
    LEFT JOIN paid_twice ON paid_twice.paid_reff = coalesce(second.paid_reff, first.paid_reff)
    ORDER BY position
"""
_PAID_WITH = """
    SELECT reference FROM answers JOIN asked ON number = id / 2
    WHERE paid_reff = ? AND number != ? ORDER BY id LIMIT 3
"""


class Store:
    """
    The rows and answers of one run; close it in the end.

    Shape:
        Memory stays within some 16 MiB. The disk holds about 1 KB per row.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(_SCHEMA)
        self.rows = 0
        """Ledger rows."""
        self.references = 0
        """Different references in them."""

    def close(self) -> None:
        """Forget everything."""
        self._db.close()

    # The ledger

    def add(self, entry: Entry | RejectedEntry) -> None:
        """Keep one ledger row."""
        self.rows += 1
        number, is_repeat = None, False
        if isinstance(entry, RejectedEntry):
            value = record.rejected_as_json(entry)
        else:
            value = record.entry_as_json(entry)
            number, is_repeat = self._count_reference(_key(entry.reference))
        values = (self.rows, entry.line, number, is_repeat, _dump(value))
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", values)

    def _count_reference(self, key: bytes) -> tuple[int | None, bool]:
        if (number := self._number(key)) is not None:
            self._db.execute("UPDATE asked SET rows = rows + 1 WHERE number = ?", (number,))
            return number, True
        self.references += 1
        self._db.execute("INSERT INTO asked VALUES (?, ?, 1, 0)", (self.references, key))
        return self.references, False

    def _number(self, key: bytes) -> int | None:
        found = self._db.execute("SELECT number FROM asked WHERE reference = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def finish_ledger(self) -> None:
        """Say that all rows are there."""
        self._db.execute(_READY_TO_ASK)

    # The answers

    def to_ask(self) -> Iterator[str]:
        """Yield each reference once, in the order of the ledger."""
        return self._pages(_NEXT_REFERENCES)

    def to_confirm(self) -> Iterator[str]:
        """Yield each reference that is doubted and has been asked once."""
        return self._pages(_NEXT_DOUBTED)

    def count_to_confirm(self) -> int:
        """Count what `to_confirm` would yield, with what two answers together make doubtful."""
        self._db.executescript(_READY_TO_JUDGE)
        self._db.execute(_DOUBT_PAID_TWICE)
        return int(self._db.execute(_COUNT_DOUBTED).fetchone()[0])

    def _pages(self, query: str) -> Iterator[str]:
        # A cursor that stays open would see rows change under it.
        last = 0
        while page := self._db.execute(query, (last,)).fetchall():
            for last, key in page:  # noqa: B007  the last one begins the next page
                yield _text(key)

    def entries_of(self, reference: str) -> list[Entry]:
        """Return the ledger rows with this reference."""
        query = "SELECT line, entry FROM entries WHERE asked = (SELECT number FROM asked WHERE reference = ?)"
        return [
            record.entry_from_json(line, json.loads(entry))
            for line, entry in self._db.execute(query, (_key(reference),))
        ]

    def add_answer(self, reference: str, observation: Observation, *, number_of_look: Round, is_doubted: bool) -> None:
        """
        Keep what the service said.

        Args:
            reference: What was asked for.
            observation: What it said.
            number_of_look: 0 for the first time, 1 for the second.
            is_doubted: It has to be asked a second time.
        """
        number = self._number(_key(reference))
        values = (2 * (number or 0) + number_of_look, observation.answer is Answer.FOUND, _paid_reff(observation))
        self._db.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?)", (*values, _dump(record.observation_as_json(observation)))
        )
        if number_of_look:
            self._db.execute("UPDATE answers SET paid_reff = NULL WHERE id = 2 * ?", (number,))
        if is_doubted:
            self._db.execute("UPDATE asked SET is_doubted = 1 WHERE number = ?", (number,))

    def count_found(self) -> int:
        """Count the references that were found at least once."""
        return int(self._db.execute("SELECT count(DISTINCT id / 2) FROM answers WHERE is_found").fetchone()[0])

    # The result

    def cases(self, *, ended_by: Observation | None, is_canary_found: bool) -> Iterator[Case]:
        """
        Yield all that is known about each ledger row, in the order of the ledger.

        Args:
            ended_by: The failure that ended the run early.
            is_canary_found: A reference that is known to exist was found.
        """
        self._db.executescript(_READY_TO_JUDGE)
        found = self.count_found() + is_canary_found
        for line, entry, number, is_repeat, rows, first, second, is_found, paid_reff in self._db.execute(_CASES):
            value = json.loads(entry)
            if number is None:
                yield Case(entry=record.rejected_from_json(line, value))
                continue
            yield Case(
                entry=record.entry_from_json(line, value),
                first=_observation(first),
                second=_observation(second),
                rows=rows,
                is_repeat=bool(is_repeat),
                paid_with=() if paid_reff is None else self._paid_with(paid_reff, number),
                witnesses=found - is_found,
                ended_by=ended_by,
            )

    def _paid_with(self, paid_reff: bytes, number: int) -> tuple[str, ...]:
        return tuple(_text(key) for (key,) in self._db.execute(_PAID_WITH, (paid_reff, number)))


def _paid_reff(observation: Observation) -> bytes | None:
    transaction = observation.transaction
    if transaction is None or not transaction.merchant_reff or read_status(transaction.status) is not Status.PAID:
        return None
    return _key(transaction.merchant_reff)


def _observation(text: str | None) -> Observation | None:
    return None if text is None else record.observation_from_json(json.loads(text))


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _key(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogatepass")
