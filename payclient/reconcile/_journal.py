"""
The journal of a reconciliation: the ledger and every answer, on disk, so that a run can be resumed.

Design rules:

- One connection with an exclusive lock, so two runs cannot share a journal.
- An answer is committed before its worker takes the next reference, together with all others of the same
  event loop iteration. So a kill loses nothing, and only repeats the lookups in flight.
- A journal belongs to one ledger, one service and one set of rules. It refuses others, and never starts over.
- A row is final only when the whole ledger has been looked up, because a later row may have the same
  reference or merchant_reff. So rows wait here, and memory does not grow with them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import _schema as schema
from payclient.reconcile._database import Database
from payclient.reconcile._errors import JournalError, JournalWriteError
from payclient.reconcile._identity import check_identity, how_different
from payclient.reconcile._integrity import checksum
from payclient.reconcile._judge import Case
from payclient.reconcile._observation import Observation
from payclient.reconcile._stored import PendingLookup, entry_cells, entry_from, observation_cells, observation_from

_ROWS_PER_COMMIT = 10_000
_ANSWERS_PER_WRITE = 500
_ENTRY = slice(4, 4 + 2 + len(schema.ENTRY_COLUMNS))
_FIRST = slice(_ENTRY.stop, _ENTRY.stop + len(schema.ANSWER_COLUMNS))
_SECOND = slice(_FIRST.stop, _FIRST.stop + len(schema.ANSWER_COLUMNS))


class Journal:
    """
    The state of one reconciliation; a context manager, for one run at a time.

    Args:
        path: The file, created with its folder if missing; None for a temporary one, deleted at the end.
        identity: What must be the same to resume a run, such as the address of the service.
        is_durable: Wait for the disk at each commit, so that a power cut loses nothing. A killed process loses
            nothing in either case.
        must_exist: Refuse to create a new one.

    Note:
        Memory stays within some 32 MiB. The disk holds about half a kilobyte for each ledger row. The API key is
        never in it.

    Raises:
        JournalError: When it cannot be used: it belongs to another run, is in use, missing or damaged. All of it is
            read once to check.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        identity: Mapping[str, str] | None = None,
        is_durable: bool = False,
        must_exist: bool = False,
    ) -> None:
        self._database = Database(None if path is None else Path(path), is_durable=is_durable, must_exist=must_exist)
        self._waiting: list[asyncio.Future[None]] = []
        self._answers: list[tuple[Any, ...]] = []
        self._batch: list[tuple[Any, ...]] = []
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._identify(identity)
            on_failure.pop_all()
        self.begin_ledger()

    def _identify(self, identity: Mapping[str, str] | None) -> None:
        stored = self.note("identity")
        if stored is None:
            self.set_note("identity", json.dumps(dict(identity or {})))
        elif identity is not None:
            check_identity(self._database.path, json.loads(stored), identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit pending writes, and release the file."""
        with closing(self._database):
            if not self._database.is_failed:
                self._write_answers()

    # Notes

    def note(self, name: str) -> str | None:
        """Return the note called *name*; None if there is none."""
        found = self._database.fetch("SELECT value FROM notes WHERE name = ?", (name,))
        return str(found[0][0]) if found else None

    def set_note(self, name: str, value: str | None) -> None:
        """
        Store a note called *name* with the run; None deletes it.

        Raises:
            JournalWriteError: When it cannot be written.
        """
        with self._database.writing() as db:
            if value is None:
                db.execute("DELETE FROM notes WHERE name = ?", (name,))
            else:
                db.execute(schema.SET_NOTE, (name, value, checksum(name, value)))
        self._database.commit()

    # The ledger

    @property
    def is_ledger_complete(self) -> bool:
        """Whether the whole ledger has been read, by this run or an earlier one."""
        return self.note("ledger") == "complete"

    @property
    def rows(self) -> int:
        """The number of ledger rows in it."""
        return int(self._value(schema.COUNT_ENTRIES))

    def count_rejected(self) -> int:
        """Count the ledger rows that cannot be used."""
        return int(self._value(schema.COUNT_REJECTED))

    def begin_ledger(self) -> None:
        """Start again at the first ledger row, for another run with the same journal."""
        self._stored, self._rows, self._is_complete = self._all_entries(), 0, self.is_ledger_complete
        self._batch.clear()
        self._waiting.clear()

    def add(self, entry: Entry | RejectedEntry) -> None:
        """
        Add the next ledger row; if an earlier run has stored it, it must be the same.

        Raises:
            JournalError: When it differs.
            JournalWriteError: When it cannot be written.
        """
        self._rows += 1
        stored = next(self._stored, None)
        if stored is None and self._is_complete:
            raise self._another_ledger(f"it has {self.rows} rows, and this one has more")
        if stored is None:
            cells = (self._rows, None, *entry_cells(entry))
            self._batch.append((*cells, checksum(*cells)))
            if len(self._batch) == _ROWS_PER_COMMIT:
                self._write_batch()
        elif stored != entry:
            raise self._another_ledger(f"on line {entry.line}, {how_different(stored, entry)}")

    def finish_ledger(self) -> None:
        """
        Record that all rows were added.

        Raises:
            JournalError: When an earlier run had more, or fewer.
            JournalWriteError: When it cannot be written.
        """
        if next(self._stored, None) is not None:
            raise self._another_ledger(f"it has {self.rows} rows, and this one {self._rows}")
        if self._is_complete:
            return
        self._write_batch()
        with self._database.writing() as db:
            for statement in schema.FINISH_LEDGER:
                db.execute(statement)
        self.set_note("ledger", "complete")

    def _write_batch(self) -> None:
        with self._database.writing() as db:
            db.executemany(schema.ADD_ENTRY, self._batch)
        if self._database.path is not None:
            self._database.commit()
        self._batch.clear()

    def _all_entries(self) -> Iterator[Entry | RejectedEntry]:
        yield from map(entry_from, self._database.read(schema.ALL_ENTRIES))

    def _another_ledger(self, how: str) -> JournalError:
        return JournalError(f"the journal {self._database.path} began with another ledger: {how}")

    # Pending lookups

    def count_references(self) -> int:
        """Count the different references."""
        return int(self._value(schema.COUNT_REFERENCES))

    def count_to_ask(self) -> int:
        """Count what `to_ask` would yield."""
        return int(self._value(schema.COUNT_TO_ASK))

    def to_ask(self) -> Iterator[PendingLookup]:
        """Yield each reference without an answer, once, in the order of the ledger."""
        return self._pages(schema.NEXT_TO_ASK)

    def count_to_confirm(self) -> int:
        """Count what `to_confirm` would yield, including pairs that only differ together."""
        self._find_paid_twice()
        with self._database.writing() as db:
            db.execute(schema.CONFIRM_PAID_TWICE)
        return int(self._value(schema.COUNT_TO_CONFIRM))

    def to_confirm(self) -> Iterator[PendingLookup]:
        """Yield each reference that needs confirmation and was looked up once."""
        return self._pages(schema.NEXT_TO_CONFIRM)

    def _pages(self, query: str) -> Iterator[PendingLookup]:
        # A cursor that stays open would see rows change under it.
        self._write_answers()
        last = 0
        while page := self._database.fetch(query, (last,)):
            for last, first, *cells in page:
                entry = entry_from(cells)
                assert isinstance(entry, Entry)  # noqa: S101  the query leaves rejected rows out
                entries = (entry,) if first is None else self._entries_of(entry.reference)
                yield PendingLookup(entry.reference, last, entries)

    def _entries_of(self, reference: str) -> tuple[Entry, ...]:
        found = map(entry_from, self._database.fetch(schema.ENTRIES_OF, (reference,)))
        return tuple(entry for entry in found if isinstance(entry, Entry))

    # The answers

    def add_answer(
        self,
        position: int,
        observation: Observation,
        *,
        is_second: bool = False,
        needs_confirmation: bool = False,
        paid_reff: str | None = None,
    ) -> None:
        """
        Add an answer; await `committed` before relying on it.

        Args:
            position: Of the pending lookup.
            observation: The answer.
            is_second: It answers the second lookup, which confirms the first.
            needs_confirmation: A second lookup must confirm it.
            paid_reff: The merchant_reff, where the answer says paid.

        Raises:
            JournalWriteError: When it cannot be written.
        """
        # A usable answer after an unusable first one was seen only once, so it replaces the first.
        if is_second and observation.is_usable and self._value(schema.IS_UNUSABLE, 2 * position):
            is_second = False
        cells = (2 * position + is_second, int(needs_confirmation), paid_reff, *observation_cells(observation))
        self._answers.append((*cells, checksum(*cells)))
        if len(self._answers) == _ANSWERS_PER_WRITE:
            self._write_answers()

    async def committed(self) -> None:
        """
        Return when everything added so far is committed.

        Raises:
            JournalWriteError: When it cannot be.
        """
        if self._database.path is None:
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._commit_for_all)
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

    def commit(self) -> None:
        """Commit everything added so far, or raise `JournalWriteError`, without waiting for others."""
        self._write_answers()
        if self._database.path is not None:
            self._database.commit()

    def _write_answers(self) -> None:
        if self._answers:
            with self._database.writing() as db:
                db.executemany(schema.ADD_ANSWER, self._answers)
            self._answers.clear()

    def forget_failures(self) -> None:
        """Delete failed answers, and those without a known-good probe, so they are looked up again."""
        with self._database.writing() as db:
            db.execute(schema.FORGET_FAILURES)
            if self.note("canary") == "none":  # the run ended, rather than being killed
                db.execute(schema.FORGET_UNBELIEVED)
                db.execute(schema.FORGET_CANARY)
        self.set_note("ended_by", None)

    def count_found(self) -> int:
        """Count the references that were found at least once."""
        return int(self._value(schema.COUNT_FOUND))

    def known_good(self) -> Any:
        """Return a reference that was found; None if there is none yet."""
        return self._value(schema.KNOWN_GOOD)

    def last_to_confirm_at(self) -> datetime | None:
        """Return the time of the latest answer that `to_confirm` yields."""
        return datetime.fromisoformat(at) if (at := self._value(schema.LAST_TO_CONFIRM)) else None

    def count_differences(self) -> tuple[int, int]:
        """Return the number of references whose first lookup differed, and their total in the ledger."""
        self._write_answers()
        ((rows, high, low),) = self._database.fetch(schema.COUNT_DIFFERENCES)
        return rows, high * schema.SPLIT + low

    def _value(self, query: str, *cells: object) -> Any:
        self._write_answers()
        found = self._database.fetch(query, cells)
        return found[0][0] if found else None

    # The result

    def end(self, failure: Observation | None, *, is_canary_found: bool) -> None:
        """
        Record how the lookups ended.

        Args:
            failure: What ended them early; None when all were done.
            is_canary_found: A reference that is known to exist was found.
        """
        cells = None if failure is None else json.dumps(observation_cells(failure))
        self.set_note("ended_by", cells)
        self.set_note("canary", "found" if is_canary_found else "none")

    @property
    def ended_by(self) -> Observation | None:
        """What ended the last run early."""
        cells = self.note("ended_by")
        return None if cells is None else observation_from(json.loads(cells))

    def cases(self, reference: str | None = None) -> Iterator[Case]:
        """Yield what is known about each ledger row, in order; or only the rows of one *reference*."""
        self._find_paid_twice()
        found = self.count_found() + (self.note("canary") == "found")
        ended_by = self.ended_by
        if reference is None:
            stored = self._database.read(schema.EVERY_CASE)
        else:
            stored = self._database.read(schema.CASES_OF, (reference,))
        for cells in stored:
            yield self._case(cells, found, ended_by)

    def _case(self, cells: tuple[Any, ...], found: int, ended_by: Observation | None) -> Case:
        position, first_position, rows, paid_reff = cells[:4]
        entry = entry_from(cells[_ENTRY])
        if isinstance(entry, RejectedEntry):
            return Case(entry=entry)
        first, second = observation_from(cells[_FIRST]), observation_from(cells[_SECOND])
        is_found = any(each is not None and each.transaction is not None for each in (first, second))
        return Case(
            entry=entry,
            first=first,
            second=second,
            rows=rows or 1,
            is_repeat=first_position is not None and first_position != position,
            paid_with=() if paid_reff is None else self._paid_with(paid_reff, first_position or position),
            other_found=found - is_found,
            ended_by=ended_by,
        )

    def _find_paid_twice(self) -> None:
        self._write_answers()
        with self._database.writing() as db:
            for statement in schema.FIND_PAID_TWICE:
                db.execute(statement)

    def _paid_with(self, paid_reff: str, position: int) -> tuple[str, ...]:
        return tuple(reference for (reference,) in self._database.fetch(schema.PAID_WITH, (paid_reff, position)))
