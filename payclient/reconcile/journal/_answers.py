"""The answers in a journal, and the lookups that are still to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from payclient.ledger import Entry
from payclient.reconcile.journal import _schema as schema
from payclient.reconcile.journal._database import Buffer, Database
from payclient.reconcile.journal._schema import entry_from, moment_from, observation_cells, observation_from
from payclient.reconcile.judge import PendingLookup, differing, paid_reff_of
from payclient.reconcile.nights import record_from
from payclient.reconcile.rules import Rules
from payclient.reconcile.values import JournalWriteError, Observation, OtherSide

_ANSWERS_PER_WRITE = 500


class Answers:
    """The answers of one journal, buffered, and written before any query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[asyncio.Future[None]] = []
        self._scheduled: asyncio.Handle | None = None  # the commit for all who wait
        self._unwritten = Buffer(database, schema.ADD_ANSWER, _ANSWERS_PER_WRITE)

    # Pending lookups

    def count_to_ask(self) -> int:
        """Count the lookups of `to_ask`."""
        return int(self._value(schema.COUNT_TO_ASK))

    def to_ask(self) -> Iterator[PendingLookup]:
        """Yield each reference without an answer, once, in the order of the ledger."""
        return self._pages(schema.NEXT_TO_ASK)

    def count_to_confirm(self) -> int:
        """Count the lookups of `to_confirm`, including pairs that only differ together."""
        self.find_paid_twice()
        with self._database.writing() as db:
            db.execute(schema.CONFIRM_PAID_TWICE)
        return int(self._value(schema.COUNT_TO_CONFIRM))

    def to_confirm(self) -> Iterator[PendingLookup]:
        """Yield each reference that needs confirmation and was looked up once."""
        return self._pages(schema.NEXT_TO_CONFIRM)

    def _pages(self, query: str) -> Iterator[PendingLookup]:
        # A cursor that stays open would see rows change under it.
        self.write()
        last = 0
        while page := self._database.fetch(query, (last,)):
            for last, earlier, first, *cells in page:
                yield self._lookup(last, earlier, first, cells)

    def _lookup(self, position: int, earlier: str | None, first: int | None, cells: Sequence[Any]) -> PendingLookup:
        """Return the lookup of the row in *cells*, with what the previous run says about its reference."""
        entries = self._entries(first, cells)
        reference = entries[0].reference
        known = None if earlier is None else record_from(reference, earlier)
        return PendingLookup(reference, position, entries, known)

    def _entries(self, first: int | None, cells: Sequence[Any]) -> tuple[Entry, ...]:
        """Return all ledger rows that have the reference of the one in *cells*."""
        entries = [entry_from(cells)]
        if first is not None:
            entries = list(map(entry_from, self._database.fetch(schema.ENTRIES_OF, (entries[0].reference,))))
        return tuple(entry for entry in entries if isinstance(entry, Entry))  # as the queries give them

    def pending(self, reference: str) -> PendingLookup | None:
        """Return the lookup of *reference*, as without a previous run; None if it has an answer, or no usable row."""
        for position, first, *cells in self._database.fetch(schema.TO_ASK_ABOUT, (reference,)):
            return PendingLookup(reference, position, self._entries(first, cells))
        return None

    def forget_reused(self) -> bool:
        """Delete the reused answers that need confirmation, to look both up in this run; return whether any was."""
        self.count_to_confirm()
        return self._forget(schema.FORGET_REUSED)

    def forget_one_reused(self) -> bool:
        """Delete one reused answer if a lookup must be a probe for what was not found; return whether any was."""
        return self._forget(schema.FORGET_ONE_REUSED)

    def _forget(self, statement: str) -> bool:
        self.write()
        with self._database.writing() as db:
            count = db.execute(statement).rowcount
        return count > 0

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
        """Add the answer to the lookup at *position*; await `committed` before relying on it."""
        # A usable answer after an unusable first one was seen only once, so it replaces the first.
        if is_second and observation.is_usable and self._value(schema.IS_UNUSABLE, 2 * position):
            is_second = False
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
        """Write what is buffered; a commit that is due is made now, because the journal is closed after this."""
        if self._waiting and self._scheduled is not None:
            self._scheduled.cancel()
            self._commit_for_all()
        elif not self._database.is_failed:
            self.write()

    def commit(self) -> None:
        """Commit everything added so far, or raise `JournalWriteError`, without waiting for others."""
        self.write()
        self._database.commit()

    def write(self) -> None:
        """Write what is buffered, without committing it."""
        self._unwritten.write()

    def find_paid_twice(self) -> None:
        """Find the merchant_reffs that are paid under several references, for the queries that need them."""
        self.write()
        with self._database.writing() as db:
            for statement in schema.FIND_PAID_TWICE:
                db.execute(statement)

    def mark_again(self, rules: Rules, side_of: Callable[[PendingLookup, Rules], OtherSide | None]) -> None:
        """Decide by other *rules* which answers a second lookup must confirm, and which say paid."""
        self.write()
        last = 0
        while page := self._database.fetch(schema.NEXT_ANSWERED, (last,)):
            for last, *marks, position, earlier, first, cells, answer in map(_parts, page):
                observation = observation_from(answer)
                assert observation is not None  # noqa: S101  each answer is one
                lookup = self._lookup(position, earlier, first, cells)
                is_different = bool(differing(lookup, observation, rules=rules, other_side=side_of(lookup, rules)))
                derived = [int(is_different), paid_reff_of(observation, rules=rules)]
                if marks != derived:
                    self._unwritten.add(last, *derived, *answer)
            self.write()

    # What they say

    def count_found(self) -> int:
        """Count the references that were found at least once, in this run."""
        return int(self._value(schema.COUNT_FOUND))

    def known_good(self) -> Any:
        """Return a reference that was found; None if there is none yet."""
        return self._value(schema.KNOWN_GOOD)

    def last_to_confirm_at(self) -> datetime | None:
        """Return the time of the latest answer that `to_confirm` yields."""
        at = self._value(schema.LAST_TO_CONFIRM)
        return None if at is None else moment_from(at)

    def count_differences(self) -> tuple[int, int]:
        """Return the number of references whose first lookup differed, and their total in the ledger."""
        self.write()
        ((rows, high, low),) = self._database.fetch(schema.COUNT_DIFFERENCES)
        return rows, high * schema.SPLIT + low

    def _value(self, query: str, *cells: object) -> Any:
        self.write()
        found = self._database.fetch(query, cells)
        return found[0][0] if found else None


def _parts(cells: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of `NEXT_ANSWERED` with the ledger row and the answer as one cell each."""
    answer = len(cells) - len(schema.ANSWER_COLUMNS)
    return (*cells[:6], cells[6:answer], cells[answer:])
