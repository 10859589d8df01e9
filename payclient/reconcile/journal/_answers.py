"""The answers in a journal, and the lookups that are still to be done."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from payclient.reconcile.journal._database import (
    ANSWER,
    ANSWER_COLUMNS,
    ENTRIES_OF,
    ENTRY,
    INDEXES,
    Buffer,
    Database,
    entry_from,
    insertion,
    moment_from,
    observation_cells,
    observation_from,
    of,
)
from payclient.reconcile.judgement.errors import JournalWriteError
from payclient.reconcile.judgement.judge import PendingLookup, differing, paid_reff_of
from payclient.reconcile.judgement.records import record_from
from payclient.reconcile.judgement.rules import Rules
from payclient.reconcile.judgement.sides import Observation, StatementSide
from payclient.reconcile.ledger import Entry

# ruff: noqa: S608  no text of a stranger is in a query. What is put together are names of columns

_ANSWERS_PER_WRITE = 500
_PAGE = 500
_SPLIT = 10**9

_EARLIER = "(SELECT data FROM earlier WHERE earlier.reference = entries.reference)"
_LOOKUP = f"position, {_EARLIER}, first, {of('entries', ENTRY)}"
_UNANSWERED = """
    FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)
    AND NOT EXISTS (SELECT 1 FROM answers WHERE id = 2 * position)
"""
_UNCONFIRMED = """
    FROM answers AS given JOIN entries ON position = given.id / 2
    WHERE given.needs_confirmation AND given.id % 2 = 0 AND NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1)
"""
_NEXT_ANSWERED = f"""
    SELECT answers.id, needs_confirmation, paid_reff, {_LOOKUP}, {of("answers", ANSWER)}
    FROM answers JOIN entries ON position = answers.id / 2 WHERE answers.id > ? ORDER BY answers.id LIMIT {_PAGE}
"""
LATEST_PAID = """
    SELECT id, paid_reff FROM answers AS given WHERE paid_reff IS NOT NULL
    AND (id % 2 = 1 OR NOT EXISTS (SELECT 1 FROM answers WHERE id = given.id + 1))
"""
_FIND_PAID_TWICE = (
    INDEXES[1],
    "CREATE TEMP TABLE IF NOT EXISTS paid_twice (paid_reff TEXT PRIMARY KEY) WITHOUT ROWID",
    "DELETE FROM paid_twice",
    f"INSERT INTO paid_twice SELECT paid_reff FROM ({LATEST_PAID}) GROUP BY paid_reff HAVING count(*) > 1",
)
_CONFIRM_PAID_TWICE = f"""
    UPDATE answers SET needs_confirmation = 1, checksum = checksum(id, 1, paid_reff, {ANSWER})
    WHERE NOT needs_confirmation AND id IN (
        SELECT id / 2 * 2 FROM ({LATEST_PAID}) WHERE paid_reff IN (SELECT paid_reff FROM paid_twice)
    )
"""
_FORGET_ONE_REUSED = """
    DELETE FROM answers WHERE id = (SELECT min(id) FROM answers WHERE reused_from IS NOT NULL)
    AND EXISTS (SELECT 1 FROM answers WHERE answer IN ('not found', 'unusable'))
"""
# In two parts, because the sum of 64-bit numbers does not fit into one.
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

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[asyncio.Future[None]] = []
        self._scheduled: asyncio.Handle | None = None  # the commit for all who wait
        self._unwritten = Buffer(database, insertion("answers", 3 + len(ANSWER_COLUMNS)), _ANSWERS_PER_WRITE)
        self.write: Callable[[], None] = self._unwritten.write

    # Pending lookups

    def count_to_ask(self) -> int:
        return int(self._value(f"SELECT count(*) {_UNANSWERED}"))

    def to_ask(self) -> Iterator[PendingLookup]:
        """Yield each reference without an answer, once, in the order of the ledger."""
        return self._pages(f"SELECT {_LOOKUP} {_UNANSWERED} AND position > ? ORDER BY position LIMIT {_PAGE}")

    def count_to_confirm(self) -> int:
        """Count the lookups of `to_confirm`, including pairs that only differ together."""
        self.find_paid_twice()
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
        known = None if earlier is None else record_from(entries[0].reference, earlier)
        return PendingLookup(entries[0].reference, position, entries, known)

    def _entries(self, first: int | None, cells: Sequence[Any]) -> tuple[Entry, ...]:
        entries = [entry_from(cells)]
        if first is not None:
            entries = list(map(entry_from, self._database.fetch(ENTRIES_OF, (entries[0].reference,))))
        return tuple(entry for entry in entries if isinstance(entry, Entry))  # as the queries give them

    def pending(self, reference: str) -> PendingLookup | None:
        """Return the lookup of *reference*, as without a previous run. None if it has an answer, or no usable row."""
        query = f"SELECT position, first, {ENTRY} {_UNANSWERED} AND reference = ?"
        for position, first, *cells in self._database.fetch(query, (reference,)):
            return PendingLookup(reference, position, self._entries(first, cells))
        return None

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
        self._unwritten.add(*marks, *observation_cells(observation))

    async def committed(self) -> None:
        """Wait until everything added so far is committed, or raise `JournalWriteError`."""
        if self._database.path is None:
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._scheduled = loop.call_soon(self._commit_for_all)
        self._waiting.append(loop.create_future())
        await self._waiting[-1]

    def _commit_for_all(self) -> None:
        waiting, self._waiting, failure = self._waiting, [], None
        try:
            self.commit()
        except JournalWriteError as error:
            failure = error
        for each in waiting:
            if each.done():  # its worker was cancelled
                continue
            if failure is None:
                each.set_result(None)
            else:
                each.set_exception(failure)

    def close(self) -> None:
        """Write the buffer, and make a due commit now, because the journal is closed after this."""
        if self._waiting and self._scheduled is not None:
            self._scheduled.cancel()
            self._commit_for_all()
        elif not self._database.failure:
            self.write()

    def commit(self) -> None:
        self.write()
        self._database.commit()

    def find_paid_twice(self) -> None:
        """Find the merchant_reffs that are paid under several references, for the queries that need them."""
        for statement in _FIND_PAID_TWICE:
            self._execute(statement)

    def mark_again(self, rules: Rules, side_of: Callable[[PendingLookup, Rules], StatementSide | None]) -> None:
        """Decide by other *rules* which answers a second lookup must confirm, and which mean *paid*."""
        last = 0
        while page := self._fetch(_NEXT_ANSWERED, last):
            for last, *marks in page:
                answer, lookup = marks[-len(ANSWER_COLUMNS) :], self._lookup(*marks[2 : -len(ANSWER_COLUMNS)])
                observation = observation_from(answer)
                assert observation is not None  # noqa: S101  each answer is one
                is_different = bool(differing(lookup, observation, rules=rules, other_side=side_of(lookup, rules)))
                derived = [int(is_different), paid_reff_of(observation, rules=rules)]
                if marks[:2] != derived:
                    self._unwritten.add(last, *derived, *answer)

    # Their content

    def count_found(self) -> int:
        return int(self._value(f"SELECT count(DISTINCT id / 2) {FOUND}"))

    def known_good(self) -> Any:
        """Return a reference that was found. None if there is none yet."""
        return self._value("SELECT reference FROM answers WHERE answer = 'found' LIMIT 1")

    def last_to_confirm_at(self) -> datetime | None:
        """Return the time of the latest answer that `to_confirm` yields."""
        at = self._value(f"SELECT max(given.at) {_UNCONFIRMED}")
        return None if at is None else moment_from(at)

    def count_differences(self) -> tuple[int, int]:
        """Return the number of references whose first lookup differed, and their total in the ledger."""
        ((rows, high, low),) = self._fetch(_COUNT_DIFFERENCES)
        return rows, high * _SPLIT + low

    def _fetch(self, query: str, *cells: object) -> list[tuple[Any, ...]]:
        self.write()
        return self._database.fetch(query, cells)

    def _value(self, query: str, *cells: object) -> Any:
        found = self._fetch(query, *cells)
        return found[0][0] if found else None

    def _execute(self, statement: str) -> int:
        self.write()
        with self._database.writing() as db:
            return db.execute(statement).rowcount
