"""Internal: the answers in a journal, the lookups to be done, and the lines of its files."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile._journal import tables
from payclient.reconcile._judgement import records
from payclient.reconcile._judgement.errors import JournalError, JournalWriteError
from payclient.reconcile._judgement.judge import PendingLookup, differing, paid_reff_of
from payclient.reconcile._judgement.rules import Rules, in_zone
from payclient.reconcile._judgement.sides import Observation, StatementSide, StatementTotals
from payclient.reconcile.ledger import Entry, RejectedEntry

# ruff: noqa: S608  no text of a stranger is in a query. What is put together are names of columns

_ANSWERS_PER_WRITE = 500
_PAGE = 500
_SPLIT = 10**9

_EARLIER = "(SELECT data FROM earlier WHERE earlier.reference = entries.reference)"
_LOOKUP = f"position, {_EARLIER}, first, {tables.of('entries', tables.ENTRY)}"
_UNANSWERED = """
    FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)
    AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * position)
"""
_UNCONFIRMED = """
    FROM answers AS given JOIN entries ON position = given.id / 2
    WHERE given.needs_confirmation AND given.id % 2 = 0 AND NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1)
"""
_NEXT_ANSWERED = f"""
    SELECT answers.id, needs_confirmation, paid_reff, {_LOOKUP}, {tables.of("answers", tables.ANSWER)}
    FROM answers JOIN entries ON position = answers.id / 2 WHERE answers.id > ? ORDER BY answers.id LIMIT {_PAGE}
"""
LATEST_PAID = """
    SELECT id, paid_reff FROM answers AS given WHERE paid_reff IS NOT NULL
    AND (id % 2 = 1 OR NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1))
"""
_CONFIRM_PAID_TWICE = f"""
    UPDATE answers SET needs_confirmation = 1, checksum = checksum(id, 1, paid_reff, {tables.ANSWER})
    WHERE NOT needs_confirmation AND id IN (
        SELECT id / 2 * 2 FROM ({LATEST_PAID}) WHERE paid_reff IN (
            SELECT paid_reff FROM ({LATEST_PAID}) GROUP BY paid_reff HAVING count(*) > 1
        )
    )
"""
_FORGET_ONE_REUSED = """
    DELETE FROM answers WHERE id = (SELECT min(id) FROM answers WHERE reused_from IS NOT NULL)
    AND EXISTS (SELECT 1 FROM answers WHERE answer IN ('not found', 'unusable'))
"""
# The sum of 64-bit numbers does not fit into one, so it is taken in two parts.
_COUNT_DIFFERENCES = f"""
    SELECT count(*), coalesce(sum(amount / {_SPLIT}), 0), coalesce(sum(amount % {_SPLIT}), 0) FROM (
        SELECT CASE typeof(entries.amount) WHEN 'integer' THEN entries.amount ELSE 0 END AS amount
        FROM answers AS given JOIN entries ON position = given.id / 2
        WHERE given.needs_confirmation AND given.id % 2 = 0
    )
"""
FOUND = "FROM answers WHERE answer = 'found' AND reused_from IS NULL"


class Answers:
    """The answers of one journal, buffered, and written before any query."""

    def __init__(self, database: tables.Database) -> None:
        self._database = database
        self._due: asyncio.Event | None = None  # set by the commit for all who wait
        insertion = tables.insertion("answers", 3 + len(tables.ANSWER_COLUMNS))
        self._unwritten = tables.Buffer(database, insertion, _ANSWERS_PER_WRITE)
        self.write: Callable[[], None] = self._unwritten.write

    # Pending lookups

    def count_to_ask(self) -> int:
        return int(self._value(f"SELECT count(*) {_UNANSWERED}"))

    def to_ask(self) -> Iterator[PendingLookup]:
        """Yield each reference without an answer, once, in the order of the ledger."""
        return self._pages(f"SELECT {_LOOKUP} {_UNANSWERED} AND position > ? ORDER BY position LIMIT {_PAGE}")

    def count_to_confirm(self) -> int:
        """Count the lookups of `to_confirm`, including pairs that only differ together."""
        self._execute(tables.INDEXES[1])
        self._execute(_CONFIRM_PAID_TWICE)
        return int(self._value(f"SELECT count(*) {_UNCONFIRMED}"))

    def to_confirm(self) -> Iterator[PendingLookup]:
        """Yield each reference that needs confirmation and was looked up once."""
        return self._pages(f"SELECT {_LOOKUP} {_UNCONFIRMED} AND given.id > 2 * ? ORDER BY given.id LIMIT {_PAGE}")

    def _pages(self, query: str) -> Iterator[PendingLookup]:
        # A cursor that stays open would see rows change under it.
        last = 0
        while page := self._fetch(query, last):
            for cells in page:
                yield self._lookup(*cells)
            last = page[-1][0]

    def _lookup(self, position: int, earlier: str | None, first: int | None, *cells: Any) -> PendingLookup:
        entries = self._entries(first, cells)
        record = None if earlier is None else records.record_from(entries[0].reference, earlier)
        return PendingLookup(entries[0].reference, position, entries, record)

    def _entries(self, first: int | None, cells: Sequence[Any]) -> tuple[Entry, ...]:
        entries = [tables.entry_from(cells)]
        if first is not None:
            entries = list(map(tables.entry_from, self._database.fetch(tables.ENTRIES_OF, (entries[0].reference,))))
        return tuple(entry for entry in entries if isinstance(entry, Entry))  # ordered as the queries are

    def pending(self, reference: str) -> PendingLookup | None:
        """Return the lookup of *reference*. None if it has an answer, or no usable row."""
        rows = self._database.fetch(f"SELECT {_LOOKUP} {_UNANSWERED} AND reference = ?", (reference,))
        return self._lookup(*rows[0]) if rows else None

    def forget_reused(self) -> bool:
        """Delete the reused answers that need confirmation, for two lookups in this run. Return whether any was."""
        self.count_to_confirm()
        return self._execute("DELETE FROM answers WHERE reused_from IS NOT NULL AND needs_confirmation") > 0

    def forget_one_reused(self) -> bool:
        """Delete one reused answer if a missing reference needs a probe. Return whether one was deleted."""
        return self._execute(_FORGET_ONE_REUSED) > 0

    # The answers

    def add(
        self,
        position: int,
        observation: Observation,
        *,
        is_second: bool = False,
        needs_confirmation: bool = False,
        paid_reff: str | None = None,
    ) -> None:
        """Add the answer to the lookup at *position*. Await `committed` before relying on it."""
        # A usable answer after an unusable first one was seen only once, so it replaces the first.
        if is_second and observation.is_usable:
            is_second = not self._value("SELECT 1 FROM answers WHERE id = ? AND answer = 'unusable'", 2 * position)
        marks = 2 * position + is_second, int(needs_confirmation), paid_reff
        self._unwritten.add(*marks, *tables.observation_cells(observation))

    async def committed(self) -> None:
        """Wait until everything added so far is committed, or raise `JournalWriteError`."""
        if self._database.path is None:
            return
        if self._due is None:
            self._due = asyncio.Event()
            asyncio.get_running_loop().call_soon(self._commit_for_all)
        await self._due.wait()
        if self._database.failure:
            raise JournalWriteError(self._database.failure)

    def _commit_for_all(self) -> None:
        due, self._due = self._due, None
        if due is not None:  # `close` has not done it
            with suppress(JournalWriteError):  # all who wait raise it
                self.commit()
            due.set()

    def close(self) -> None:
        """Write the buffer, and make a due commit now, because the journal is closed after this."""
        self._commit_for_all()
        if not self._database.failure:
            self.write()

    def commit(self) -> None:
        self.write()
        self._database.commit()

    def mark_again(self, rules: Rules, side_of: Callable[[PendingLookup, Rules], StatementSide | None]) -> None:
        """Decide by other *rules* which answers a second lookup must confirm, and which mean *paid*."""
        last = 0
        while page := self._fetch(_NEXT_ANSWERED, last):
            for last, *marks in page:
                width = len(tables.ANSWER_COLUMNS)
                answer, lookup = marks[-width:], self._lookup(*marks[2:-width])
                observation = tables.observation_from(answer)
                assert observation is not None  # noqa: S101  each answer is one
                is_different = bool(differing(lookup, observation, side_of(lookup, rules), rules))
                derived = [int(is_different), paid_reff_of(observation, rules=rules)]
                if marks[:2] != derived:
                    self._unwritten.add(last, *derived, *answer)

    # Their content

    def count_found(self) -> int:
        return int(self._value(f"SELECT count(DISTINCT id / 2) {FOUND}"))

    def known_good(self) -> Any:
        """Return a reference that was found. None without one yet."""
        return self._value("SELECT reference FROM answers WHERE answer = 'found' LIMIT 1")

    def last_to_confirm_at(self) -> datetime | None:
        """Return the time of the latest answer that `to_confirm` yields."""
        at = self._value(f"SELECT max(given.at) {_UNCONFIRMED}")
        return None if at is None else tables.moment_from(at)

    def count_differences(self) -> tuple[int, int]:
        """Return the number of references whose first lookup differed, and their total in the ledger."""
        ((rows, high, low),) = self._fetch(_COUNT_DIFFERENCES)
        return rows, high * _SPLIT + low

    def _fetch(self, query: str, *cells: object) -> list[tuple[Any, ...]]:
        self.write()
        return self._database.fetch(query, cells)

    def _value(self, query: str, *cells: object) -> Any:
        rows = self._fetch(query, *cells)
        return rows[0][0] if rows else None

    def _execute(self, statement: str) -> int:
        self.write()
        with self._database.writing() as db:
            return db.execute(statement).rowcount


_ROWS_PER_COMMIT = 10_000
MAX_POSITION = 2**63 - 1


@frozen(kw_only=True)
class StoredStatement:
    """A statement that was read to its end, and where its references stand in the journal."""

    totals: StatementTotals
    after: int  # the last position before the references that only the statement has


class StoredLines:
    """The rows of one file: stored, or compared with what an earlier run stored."""

    def __init__(self, database: tables.Database, table: str, what: str, *, head: tuple[None, ...] = ()) -> None:
        self._database, self._what, self._head = database, what, head
        width = 3 + len(head) + len(tables.ENTRY_COLUMNS)
        self._unwritten = tables.Buffer(database, tables.insertion(table, width), _ROWS_PER_COMMIT, commits=True)
        self._query = f"SELECT {tables.ENTRY} FROM {table} WHERE position <= ? ORDER BY position"
        self._stored: Iterator[Entry | RejectedEntry] = iter(())
        self.count: int = 0
        self.is_complete: bool = False

    def begin(self, last: int = MAX_POSITION, *, is_complete: bool) -> None:
        """Start at the first row, of those up to position *last*."""
        self._stored = map(tables.entry_from, self._database.read(self._query, (last,)))
        self.count, self.is_complete = 0, is_complete
        self._unwritten.rows.clear()

    def add(self, line: Entry | RejectedEntry) -> None:
        stored = next(self._stored, None)
        if stored is None and self.is_complete:
            self._refuse(f"it has {plural(self.count, 'row')}, and this one has more")
        self.count += 1
        if stored is None:
            self._unwritten.add(self.count, *self._head, *tables.entry_cells(line))
        elif stored != line:
            self._refuse(f"on line {line.line}, {tables.how_different(stored, line)}")

    def finish(self) -> bool:
        """Write the rest. Return whether an earlier run has stored all."""
        if missing := sum(1 for _ in self._stored):
            self._refuse(f"it has {plural(self.count + missing, 'row')}, and this one {self.count}")
        self._unwritten.write()
        return self.is_complete

    def _refuse(self, how: str) -> None:
        message = f"the journal {self._database.path} began with another {self._what}: {how}: choose another folder"
        raise JournalError(message)


_LISTED = "CREATE TEMP TABLE listed (reference TEXT, number INTEGER, amount TEXT, may_be_missed INTEGER)"
_BOTH_LEDGERS = """
    SELECT * FROM (
        SELECT reference, 0 AS is_now, number, amount, may_be_missed FROM listed UNION ALL
        SELECT coalesce(reference, ''), 1, 1, amount, 0 FROM entries WHERE position <= ?
    ) ORDER BY reference, coalesce(amount, 0) + 0
"""
_CREATIONS = "SELECT DISTINCT created_at FROM entries WHERE position <= ? AND length(created_at)"


def carry_over(
    writing: sqlite3.Connection, remembered: records.Records, *, after: int, rules: Rules
) -> records.LedgerChange:
    """Store the records of the previous run and, *after* the ledger, its rows to look up again. Compare the ledgers."""
    # *writing* is in a transaction, with the index of the references.
    position, find = after, writing.cursor().execute
    query = "SELECT 1 FROM entries WHERE reference = ? AND position <= ? LIMIT 1"
    writing.execute(_LISTED)
    times = (tables.time_from(cell) for (cell,) in writing.cursor().execute(_CREATIONS, (after,)))
    zone = rules.time_zone
    first = min(times, key=lambda at: in_zone(at, zone), default=None)

    def is_listed(reference: str) -> bool:
        return find(query, (reference, after)).fetchone() is not None

    def add_listed(row: records.ListedRow) -> bool:
        reference, number, amount, created, is_matched = row
        is_old = created and first and in_zone(datetime.fromisoformat(created), zone) < in_zone(first, zone)
        may_be_missed = is_matched and not is_old
        writing.execute("INSERT INTO listed VALUES (?, ?, ?, ?)", (reference, number, str(amount), may_be_missed))
        return may_be_missed and not rules.may_leave and not is_listed(reference)

    for earlier, entries in remembered(is_listed, add_listed):
        if earlier != records.ReferenceRecord(reference=earlier.reference):
            cells = earlier.reference, len(earlier.breaks), records.record_cell(earlier)
            writing.execute(tables.insertion("earlier", len(cells)), tables.with_checksum(*cells))
        for entry in entries:
            position += 1
            writing.execute(tables.ADD_ENTRY, tables.with_checksum(position, None, *tables.entry_cells(entry)))
    change = records.ledger_change(writing.cursor().execute(_BOTH_LEDGERS, (after,)), first)
    writing.execute("DROP TABLE listed")
    return change
