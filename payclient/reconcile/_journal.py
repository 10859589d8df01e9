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

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from attrs import asdict, evolve, fields

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import _schema as schema
from payclient.reconcile._answers import Answers
from payclient.reconcile._database import Database
from payclient.reconcile._errors import JournalError
from payclient.reconcile._integrity import checksum
from payclient.reconcile._judge import Case
from payclient.reconcile._line_rules import IgnoredLines, InvoiceSum, InvoiceTotals
from payclient.reconcile._observation import Observation
from payclient.reconcile._rules import STRICT, Rules
from payclient.reconcile._stored import entry_cells, entry_from, money_from, observation_cells, observation_from
from payclient.reconcile._sum import are_parts, judged_entries, why_apart

_ROWS_PER_COMMIT = 10_000
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

    Attributes:
        answers: The answers, and what is still to be looked up.

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
        self.answers: Answers = Answers(self._database)
        self._unwritten: list[tuple[Any, ...]] = []
        self._counts: dict[str, int] = {}
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._identify(identity)
            on_failure.pop_all()
        self.begin_ledger()

    def _identify(self, identity: Mapping[str, str] | None) -> None:
        stored, counts = self.note("identity"), self.note(schema.COUNTS)
        self._counts = {} if counts is None else json.loads(counts)
        if stored is None:
            self.set_note("identity", json.dumps(dict(identity or {})))
        elif identity is not None:
            before = json.loads(stored)
            if _is_read_otherwise(before, identity) and not self._count(schema.COUNT_ANSWERS):
                self._start_over(identity)
            else:
                _check_identity(self._database.path, before, identity)

    def _start_over(self, identity: Mapping[str, str]) -> None:
        """Forget a ledger that is declared in another way now; without an answer, nothing is lost."""
        with self._database.writing() as db:
            for statement in schema.FORGET_LEDGER:
                db.execute(statement)
        self._counts = {}
        self.set_note("identity", json.dumps(dict(identity)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit pending writes, and release the file."""
        with closing(self._database):
            if not self._database.is_failed:
                self.answers.write()

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
        self._set_notes({name: value})

    def _set_notes(self, notes: Mapping[str, str | None]) -> None:
        """Store *notes* and the number of rows by table, by which a missing row is noticed; then commit."""
        with self._database.writing() as db:
            for name, value in notes.items():
                if value is None:
                    db.execute("DELETE FROM notes WHERE name = ?", (name,))
                else:
                    db.execute(schema.SET_NOTE, (name, value, checksum((name, value))))
            ((others,),) = db.execute(schema.COUNT_OTHER_NOTES)
            cells = (schema.COUNTS, json.dumps({**self._counts, "notes": others + 1}))
            db.execute(schema.SET_NOTE, (*cells, checksum(cells)))
        self._database.commit()

    def _count(self, query: str) -> int:
        return int(self._database.fetch(query)[0][0])

    # The ledger

    @property
    def is_ledger_complete(self) -> bool:
        """Whether the whole ledger has been read, by this run or an earlier one."""
        return self.note("ledger") == "complete"

    @property
    def rows(self) -> int:
        """The number of ledger rows in it."""
        return self._count(schema.COUNT_ENTRIES)

    def count_rejected(self) -> int:
        """Count the ledger rows that cannot be used."""
        return self._count(schema.COUNT_REJECTED)

    def repeated(self, limit: int) -> Iterator[tuple[str, int]]:
        """Yield the first references that several rows have, at most *limit*, with the number of their rows."""
        yield from self._database.fetch(schema.SOME_REPEATS, (limit,))

    def begin_ledger(self) -> None:
        """Start again at the first ledger row, for another run with the same journal."""
        self._stored, self._rows, self._is_complete = (
            map(entry_from, self._database.read(schema.ALL_ENTRIES)),
            0,
            self.is_ledger_complete,
        )
        self._unwritten.clear()

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
            self._unwritten.append((*cells, checksum(cells)))
            if len(self._unwritten) == _ROWS_PER_COMMIT:
                self._write_batch()
        elif stored != entry:
            raise self._another_ledger(f"on line {entry.line}, {_how_different(stored, entry)}")

    def finish_ledger(self, ignored: Sequence[IgnoredLines] = ()) -> None:
        """
        Record that all rows were added.

        Args:
            ignored: What was left out by the rules, and not added.

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
        self._counts = {"entries": self._rows, "repeats": self._count(schema.COUNT_REPEATS)}
        notes = {"ignored": json.dumps([asdict(each) for each in ignored])} if ignored else {}
        self._set_notes({**notes, "ledger": "complete"})

    @property
    def ignored(self) -> tuple[IgnoredLines, ...]:
        """The ledger lines that the rules leave out, by word."""
        return tuple(IgnoredLines(**each) for each in json.loads(self.note("ignored") or "[]"))

    def _write_batch(self) -> None:
        with self._database.writing() as db:
            db.executemany(schema.ADD_ENTRY, self._unwritten)
        if self._database.path is not None:
            self._database.commit()
        self._unwritten.clear()

    def _another_ledger(self, how: str) -> JournalError:
        return JournalError(f"the journal {self._database.path} began with another ledger: {how}")

    def count_references(self) -> int:
        """Count the different references."""
        return self._count(schema.COUNT_REFERENCES)

    def forget_failures(self) -> None:
        """Delete failed answers, and those without a known-good probe, so they are looked up again."""
        notes: dict[str, str | None] = {"ended_by": None}
        with self._database.writing() as db:
            db.execute(schema.FORGET_FAILURES)
            if self.note("canary") == "none":  # the run ended, rather than being killed
                db.execute(schema.FORGET_UNBELIEVED)
                notes["canary"] = None
        self._counts.pop("answers", None)  # they change until the run ends
        self._set_notes(notes)

    # The result

    def end(self, failure: Observation | None, *, is_canary_found: bool) -> None:
        """
        Record how the lookups ended.

        Args:
            failure: What ended them early; None when all were done.
            is_canary_found: A reference that is known to exist was found.
        """
        self.answers.write()
        self._counts["answers"] = self._count(schema.COUNT_ANSWERS)
        cells = None if failure is None else json.dumps(observation_cells(failure))
        self._set_notes({"ended_by": cells, "canary": "found" if is_canary_found else "none"})

    @property
    def ended_by(self) -> Observation | None:
        """What ended the last run early."""
        cells = self.note("ended_by")
        return None if cells is None else observation_from(json.loads(cells))

    def cases(self, reference: str | None = None, *, rules: Rules = STRICT) -> Iterator[Case]:
        """
        Yield what is known about each ledger row, in order; or only the rows of one *reference*.

        Args:
            reference: Only the rows that have it.
            rules: Where they say so, the rows of one reference are the parts of one case, at the place of the first.
        """
        self.answers.find_paid_twice()
        found = self.answers.count_found() + (self.note("canary") == "found")
        ended_by = self.ended_by
        if rules.lines.are_summed:
            self._find_apart(rules)
        if rules.invoices.sum:
            self._find_invoices(rules)
        if reference is None:
            stored = self._database.read(schema.EVERY_CASE)
        else:
            stored = self._database.read(schema.CASES_OF, (reference,))
        for cells in stored:
            case = self._case(cells, found, ended_by)
            if rules.invoices.sum and case.paid_with:
                ((totals,),) = self._database.fetch(schema.INVOICE, (cells[3],))
                case = evolve(case, invoice=InvoiceTotals(**json.loads(totals)))
            if not rules.lines.are_summed or isinstance(case.entry, RejectedEntry):
                yield case
            elif (payment := self._payment(case, case.entry, cells[1], rules)) is not None:
                yield payment

    def _find_apart(self, rules: Rules) -> None:
        """Find the references whose lines cannot be summed, and those with a line that cannot be used."""
        with self._database.writing() as db:
            for statement in schema.FIND_APART:
                db.execute(statement)
            of_references = groupby(self._database.read(schema.LINES), key=itemgetter(0))
            for first, lines in of_references:
                if why := why_apart((_usable(cells[1:]) for cells in lines), rules):
                    db.execute(schema.ADD_APART, (first, why))

    def _find_invoices(self, rules: Rules) -> None:
        """Sum both sides of each invoice that is paid under several references."""
        with self._database.writing() as db:
            for statement in schema.FIND_INVOICES:
                db.execute(statement)
            for paid_reff, payments in groupby(self._database.read(schema.INVOICES), key=itemgetter(0)):
                total = InvoiceSum()
                for _, first, paid, *cells in payments:
                    entry = _usable(cells)
                    if first is not None and rules.lines.are_summed:
                        lines = list(map(_usable, self._database.fetch(schema.ENTRIES_OF, (entry.reference,))))
                        entry = judged_entries(lines, None, rules)[0]
                    total.add(money_from(paid), entry.amount)
                db.execute(schema.ADD_INVOICE, (paid_reff, json.dumps(asdict(total.totals()))))

    def _payment(self, case: Case, entry: Entry, first: int | None, rules: Rules) -> Case | None:
        """Return *case* with all lines of its payment; None where it is not the first of them."""
        unusable = self._database.fetch(schema.UNUSABLE_LINE, (entry.reference,))
        line = unusable[0][0] if unusable else None
        if first is None:
            alone = (entry,) if are_parts((entry,), rules) else ()
            return evolve(case, parts=alone, unusable_line=line)
        if apart := self._database.fetch(schema.WHY_APART, (first,)):
            return evolve(case, apart=apart[0][0], unusable_line=line)
        if case.is_repeat:
            return None
        parts = tuple(map(_usable, self._database.fetch(schema.ENTRIES_OF, (entry.reference,))))
        return evolve(case, parts=parts, unusable_line=line, rows=1)

    def _case(self, cells: tuple[Any, ...], found: int, ended_by: Observation | None) -> Case:
        position, first_position, rows, paid_reff = cells[:4]
        entry = entry_from(cells[_ENTRY])
        if isinstance(entry, RejectedEntry):
            return Case(entry=entry)
        first, second = observation_from(cells[_FIRST]), observation_from(cells[_SECOND])
        is_found = any(each is not None and each.transaction is not None for each in (first, second))
        same_reff = paid_reff, first_position or position
        paid_with = [] if paid_reff is None else self._database.fetch(schema.PAID_WITH, same_reff)
        return Case(
            entry=entry,
            first=first,
            second=second,
            rows=rows or 1,
            is_repeat=first_position is not None and first_position != position,
            paid_with=tuple(reference for (reference,) in paid_with),
            other_found=found - is_found,
            ended_by=ended_by,
        )


def _usable(cells: Sequence[Any]) -> Entry:
    entry = entry_from(cells)
    assert isinstance(entry, Entry)  # noqa: S101  the query reads no other
    return entry


def _is_read_otherwise(stored: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether nothing differs but how the ledger is written."""
    return {name for name in {*stored, *wanted} if stored.get(name) != wanted.get(name)} == {"ledger"}


def _check_identity(path: Path | None, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Refuse a journal that began with other options, and name the first that differs, with both values."""
    for name in sorted({*stored, *wanted}):
        before, now = stored.get(name, "none"), wanted.get(name, "none")
        if before != now:
            message = f"the journal {path} belongs to another run: {name} was {before}, and is {now} now"
            raise JournalError(message)


def _how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"
