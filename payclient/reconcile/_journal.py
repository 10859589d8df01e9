"""
The journal of a reconciliation: the ledger and every answer, on disk, so that a run can be gone on with.

Design rules:

- One connection with an exclusive lock: two runs on one journal are one too many.
- An answer is committed before its worker takes the next reference, together with all others that came
  in the same turn of the event loop. So a kill loses nothing, and repeats only what was under way.
- A journal belongs to one ledger, one service and one set of rules. It refuses others, and never begins anew.
- A row is final only when the whole ledger has been asked, because a later row may have the same
  reference, or the same merchant_reff. So the rows wait here, and memory does not grow with them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import _schema as schema
from payclient.reconcile._database import Database
from payclient.reconcile._errors import JournalError, JournalWriteError
from payclient.reconcile._identity import check_identity, how_different
from payclient.reconcile._judge import Case
from payclient.reconcile._observation import Observation
from payclient.reconcile._question import Question
from payclient.reconcile._stored import entry_cells, entry_from, observation_cells, observation_from

Look: TypeAlias = Literal[0, 1]
"""The first look at the service, or the second."""

_ROWS_PER_COMMIT = 10_000
_ANSWERS_PER_WRITE = 500
_ENTRY = slice(4, 4 + 2 + len(schema.ENTRY_COLUMNS))
_FIRST = slice(_ENTRY.stop, _ENTRY.stop + len(schema.ANSWER_COLUMNS))
_SECOND = slice(_FIRST.stop, _FIRST.stop + len(schema.ANSWER_COLUMNS))


class Journal:
    """
    What one reconciliation knows; a context manager, for one run at a time.

    Args:
        path: The file, made with its folder if it is not there; None for a temporary one, which is gone in the end.
        identity: What has to be the same for a run to be gone on with, such as the address of the service.
        is_durable: Wait for the disk at each commit, so that a power cut loses nothing either. A killed process
            loses nothing without it.
        must_exist: Refuse to make a new one.

    Shape:
        Memory stays within some 32 MiB. The disk holds about half a kilobyte for each ledger row. The API key is
        never in it.

    Raises:
        JournalError: When it cannot be used: it is of another run, damaged, in use, or not there.
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
        self._db = self._database.connection
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is not yet, and let others use the file."""
        with closing(self._database):
            if not self._database.is_failed:
                self._write_answers()

    # Notes

    def note(self, name: str) -> str | None:
        """Return what was noted under *name*; None if nothing was."""
        found = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def set_note(self, name: str, value: str | None) -> None:
        """
        Note *value* under *name*, for whoever opens the journal next; None forgets it.

        Raises:
            JournalWriteError: When it cannot be written.
        """
        with self._database.writing() as db:
            if value is None:
                db.execute("DELETE FROM notes WHERE name = ?", (name,))
            else:
                db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))
        self._database.commit()

    # The ledger

    @property
    def is_ledger_complete(self) -> bool:
        """Whether the whole ledger has been read into it, now or by an earlier run."""
        return self.note("ledger") == "complete"

    @property
    def rows(self) -> int:
        """Ledger rows that are in it."""
        return self._count(schema.COUNT_ENTRIES)

    def count_rejected(self) -> int:
        """Count the ledger rows that cannot be used."""
        return self._count(schema.COUNT_REJECTED)

    def begin_ledger(self) -> None:
        """Take the ledger from its first row on, as a new journal does, and another run in the same one has to."""
        self._stored, self._rows, self._is_complete = self._all_entries(), 0, self.is_ledger_complete
        self._batch.clear()
        self._waiting.clear()

    def add(self, entry: Entry | RejectedEntry) -> None:
        """
        Take the next ledger row; where an earlier run has been, it has to be the same row.

        Raises:
            JournalError: When it is another one.
            JournalWriteError: When it cannot be written.
        """
        self._rows += 1
        stored = next(self._stored, None)
        if stored is None and self._is_complete:
            raise self._another_ledger(f"it has {self.rows} rows, and this one has more")
        if stored is None:
            self._batch.append((self._rows, *entry_cells(entry)))
            if len(self._batch) == _ROWS_PER_COMMIT:
                self._write_batch()
        elif stored != entry:
            raise self._another_ledger(f"on line {entry.line}, {how_different(stored, entry)}")

    def finish_ledger(self) -> None:
        """
        Say that all rows were added.

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

    # The questions

    def count_references(self) -> int:
        """Count the different references."""
        return self._count(schema.COUNT_REFERENCES)

    def count_to_ask(self) -> int:
        """Count what `to_ask` would yield."""
        return self._count(schema.COUNT_TO_ASK)

    def to_ask(self) -> Iterator[Question]:
        """Yield each reference once that has no answer yet, in the order of the ledger."""
        return self._pages(schema.NEXT_TO_ASK)

    def count_to_confirm(self) -> int:
        """Count what `to_confirm` would yield, with what two answers together make doubtful."""
        self._find_paid_twice()
        with self._database.writing() as db:
            db.execute(schema.DOUBT_PAID_TWICE)
        return self._count(schema.COUNT_TO_CONFIRM)

    def to_confirm(self) -> Iterator[Question]:
        """Yield each reference that is doubted and has been asked once."""
        return self._pages(schema.NEXT_TO_CONFIRM)

    def _pages(self, query: str) -> Iterator[Question]:
        # A cursor that stays open would see rows change under it.
        self._write_answers()
        last = 0
        while page := self._db.execute(query, (last,)).fetchall():
            for last, first, *cells in page:
                entry = entry_from(cells)
                assert isinstance(entry, Entry)  # noqa: S101  the query leaves rejected rows out
                entries = (entry,) if first is None else self._entries_of(entry.reference)
                yield Question(entry.reference, last, entries)

    def _entries_of(self, reference: str) -> tuple[Entry, ...]:
        found = map(entry_from, self._db.execute(schema.ENTRIES_OF, (reference,)))
        return tuple(entry for entry in found if isinstance(entry, Entry))

    # The answers

    def add_answer(
        self,
        position: int,
        observation: Observation,
        *,
        look: Look,
        is_doubted: bool = False,
        paid_reff: str | None = None,
    ) -> None:
        """
        Take what the service said; `committed` says when it is safe.

        Args:
            position: Of the question.
            observation: What it said.
            look: 0 for the first time, 1 for the second.
            is_doubted: It has to be asked a second time.
            paid_reff: The merchant_reff, where the answer says paid.

        Raises:
            JournalWriteError: When it cannot be written.
        """
        self._answers.append((2 * position + look, is_doubted, paid_reff, *observation_cells(observation)))
        if len(self._answers) == _ANSWERS_PER_WRITE:
            self._write_answers()

    async def committed(self) -> None:
        """
        Return when all that was added so far is committed.

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
        """
        Commit all that was added so far, without waiting for the turn to end.

        Raises:
            JournalWriteError: When it cannot be.
        """
        self._write_answers()
        if self._database.path is not None:
            self._database.commit()

    def _write_answers(self) -> None:
        if self._answers:
            with self._database.writing() as db:
                db.executemany(schema.ADD_ANSWER, self._answers)
            self._answers.clear()

    def forget_failures(self) -> None:
        """Forget the answers that were none, so that they are asked for again."""
        with self._database.writing() as db:
            db.execute(schema.FORGET_FAILURES)
        self.set_note("ended_by", None)

    def count_found(self) -> int:
        """Count the references that were found at least once."""
        return self._count(schema.COUNT_FOUND)

    def doubted(self) -> tuple[int, int]:
        """Return how many references differed at the first look, and what the ledger states for them."""
        self._write_answers()
        rows, high, low = self._db.execute(schema.DOUBTED).fetchone()
        return rows, high * schema.SPLIT + low

    def _count(self, query: str) -> int:
        self._write_answers()
        return int(self._db.execute(query).fetchone()[0])

    # The result

    def end(self, failure: Observation | None, *, is_canary_found: bool) -> None:
        """
        Note how the asking ended.

        Args:
            failure: What ended it early; None when all was asked.
            is_canary_found: A reference that is known to exist was found.
        """
        cells = None if failure is None else json.dumps(observation_cells(failure))
        self.set_note("ended_by", cells)
        self.set_note("canary", "found" if is_canary_found else None)

    @property
    def ended_by(self) -> Observation | None:
        """What ended the last run early."""
        cells = self.note("ended_by")
        return None if cells is None else observation_from(json.loads(cells))

    def cases(self, reference: str | None = None) -> Iterator[Case]:
        """Yield all that is known about each ledger row, in the order of the ledger; or about one *reference*."""
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
        is_found = any(look is not None and look.transaction is not None for look in (first, second))
        return Case(
            entry=entry,
            first=first,
            second=second,
            rows=rows or 1,
            is_repeat=first_position is not None and first_position != position,
            paid_with=() if paid_reff is None else self._paid_with(paid_reff, first_position or position),
            witnesses=found - is_found,
            ended_by=ended_by,
        )

    def _find_paid_twice(self) -> None:
        self._write_answers()
        with self._database.writing() as db:
            for statement in schema.FIND_PAID_TWICE:
                db.execute(statement)

    def _paid_with(self, paid_reff: str, position: int) -> tuple[str, ...]:
        return tuple(reference for (reference,) in self._db.execute(schema.PAID_WITH, (paid_reff, position)))
