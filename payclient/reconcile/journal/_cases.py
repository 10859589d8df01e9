"""The cases of a journal: everything it knows of each ledger row, the rows of the previous run and statement lines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from attrs import asdict, define, evolve, frozen

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile.journal import _schema as schema
from payclient.reconcile.journal._database import Buffer, Database, with_checksum
from payclient.reconcile.journal._schema import StoredCell, entry_cells, entry_from, observation_from
from payclient.reconcile.judge import Case, are_parts, judged_entries, settled_by, why_not_summed
from payclient.reconcile.nights import PreviousRun, Records, ReferenceRecord, record_cell, record_from
from payclient.reconcile.rules import InvoiceTotals, Rules, as_json, from_json, invoice_of
from payclient.reconcile.values import JournalError, Observation, OtherSide, Settled, StatementTotals

_ROWS_PER_COMMIT = 10_000


@frozen(kw_only=True)
class StoredStatement:
    """A statement that was read to its end, and where its references stand in the journal."""

    totals: StatementTotals
    after: int  # the last position before the references that only the statement has
    ledger_rows: int  # the carried rows follow
    left_out_after: int  # the last position before those that the ledger has in rows that are left out


class StatementLines:
    """The statement of one journal, with what that has *noted* of it."""

    def __init__(self, database: Database, noted: str | None) -> None:
        self._database = database
        self._unwritten = Buffer(database, schema.ADD_TO_STATEMENT, _ROWS_PER_COMMIT, commits=True)
        self._stored: Iterator[Entry | RejectedEntry] = iter(())
        self._lines = 0
        self.known = None if noted is None else from_json(json.loads(noted), StoredStatement)
        """The whole statement; None without one, or before it was read to its end."""

    @property
    def last_of_ledgers(self) -> float:
        """The last position of a row of the ledger, or of the previous run."""
        return inf if self.known is None else self.known.after

    def leave_out(self, reference: str) -> None:
        """Note that the ledger has *reference* in a row that is left out of the run."""
        if self.known is None:
            with self._database.writing() as db:
                db.execute(schema.LEFT_OUT)
                db.execute(schema.LEAVE_OUT, (reference,))

    def begin(self) -> None:
        """Start at the first line, after the ledger is complete; what was not read to its end is forgotten."""
        if self.known is None:
            with self._database.writing() as db:
                db.execute(schema.FORGET_STATEMENT)
        self._stored = map(entry_from, self._database.read(schema.STATEMENT))
        self._unwritten.clear()
        self._lines = 0

    def add(self, line: Entry | RejectedEntry) -> None:
        """Add the next line, the same that an earlier run has stored, or raise `JournalError`."""
        self._lines += 1
        stored = next(self._stored, None)
        if stored is None and self.known is None:
            self._unwritten.add(self._lines, *entry_cells(line))
        elif stored != line:
            self._refuse(f"line {line.line} is different" if stored else "this one has more lines")

    def finish(self, totals: StatementTotals, *, ledger_rows: int, after: int) -> str | None:
        """Write the rest, with the references that only the statement has; return a note, or None if there is one."""
        if next(self._stored, None) is not None:
            self._refuse("this one has fewer lines")
        if self.known is not None:
            return None
        self._unwritten.write()
        with self._database.writing() as db:
            db.execute(schema.INDEXES[-1])
            db.execute(schema.LEFT_OUT)
            left_out_after = after
            unlisted = self._database.read(schema.NOT_IN_LEDGER)
            for position, (reference, line, is_left_out) in enumerate(unlisted, after + 1):
                cells = entry_cells(Entry(line=line, reference=reference))
                db.execute(schema.ADD_ENTRY, with_checksum(position, None, *cells))
                left_out_after += not is_left_out
        self.known = StoredStatement(totals=totals, after=after, ledger_rows=ledger_rows, left_out_after=left_out_after)
        return json.dumps(as_json(self.known))

    def _refuse(self, how: str) -> None:
        message = f"the journal {self._database.path} began with another statement: {how}"
        raise JournalError(message)

    def side(
        self, reference: str, *, position: int, rules: Rules, earlier: ReferenceRecord | None = None
    ) -> OtherSide | None:
        """Return the side of the statements, this one and *earlier* ones, for a row; None without a statement."""
        if self.known is None:
            return None
        lines = [entry_from(cells) for cells in self._database.fetch(schema.STATEMENT_OF, (reference,))]
        settled = settled_by([line for line in lines if isinstance(line, Entry)], rules)
        if earlier is not None and earlier.settled is not None:
            is_taken_back = settled is not None and (settled.stated or 0) < 0
            if settled is None or is_taken_back or rules.statement.new_lines_only:
                settled = (settled or Settled(lines=())).with_earlier(earlier.settled)
        unusable_line = next((line.line for line in lines if isinstance(line, RejectedEntry)), None)
        if settled is None and unusable_line is None and earlier is not None and earlier.matched is not None:
            return None  # a statement of tonight need not list what matched before
        was_in_ledger = earlier is None or earlier.is_in_ledger
        return OtherSide(
            settled=settled,
            is_in_ledger=position <= (self.known.after if was_in_ledger else self.known.ledger_rows),
            is_left_out=position > self.known.left_out_after,
            unusable_line=unusable_line,
        )


_ENTRY = slice(5, 5 + 2 + len(schema.ENTRY_COLUMNS))
_FIRST = slice(_ENTRY.stop, _ENTRY.stop + len(schema.ANSWER_COLUMNS))
_SECOND = slice(_FIRST.stop, _FIRST.stop + len(schema.ANSWER_COLUMNS))


@define(kw_only=True)
class Cases:
    """Reads the cases of one journal, in which the payments made twice are found."""

    database: Database
    rules: Rules
    found: int
    ended_by: Observation | None
    previous: PreviousRun | None
    statement: StatementLines

    def __attrs_post_init__(self) -> None:
        self._find_duplicated()
        if self.rules.lines.are_summed:
            self._find_apart()
        if self.rules.invoices.sum:
            self._find_invoices()

    def of(self, reference: str | None) -> Iterator[Case]:
        """Return each case in the order of the ledger; or only those of one *reference*."""
        query, parameters = (schema.EVERY_CASE, ()) if reference is None else (schema.CASES_OF, (reference,))
        return filter(None, map(self._case, self.database.read(query, parameters)))

    def of_earlier(self) -> Iterator[tuple[ReferenceRecord, list[Case]]]:
        """Yield the record of the previous run about each reference with a break, by reference, and its cases."""
        for (reference, data), stored in groupby(self.database.read(schema.EARLIER_CASES), key=itemgetter(0, 5)):
            cases = (self._case(cells[1:]) for cells in stored if cells[1] is not None)
            yield record_from(reference, data), list(filter(None, cases))

    def _case(self, cells: tuple[Any, ...]) -> Case | None:
        """Return the case of a row of `CASES`; None for one that is part of another."""
        case = self._answered(cells)
        reference, previous = case.entry.reference or "", self.previous
        earlier = None if previous is None else record_from(reference, cells[4])
        side = self.statement.side(reference, position=cells[0], rules=self.rules, earlier=earlier)
        if side is not None and isinstance(case.entry, Entry):
            case = evolve(case, other_side=side)
        if previous is not None and earlier is not None:
            is_carried = previous.rows < cells[0] <= self.statement.last_of_ledgers
            case = evolve(case, earlier=earlier, is_carried=is_carried)
        if self.rules.invoices.sum and case.paid_with:
            ((totals,),) = self.database.fetch(schema.INVOICE, (cells[3],))
            case = evolve(case, invoice=InvoiceTotals(**json.loads(totals)))
        is_of_ledger = side is None or side.is_in_ledger
        if not self.rules.lines.are_summed or isinstance(case.entry, RejectedEntry) or not is_of_ledger:
            return case
        return self._payment(case, case.entry, cells[1])

    def _find_duplicated(self) -> None:
        """Sum the amounts of the rows that have one reference, without the smallest."""
        with self.database.writing() as db:
            for statement in schema.FIND_DUPLICATED:
                db.execute(statement)
            for first, rows in groupby(self.database.read(schema.AMOUNTS), key=itemgetter(0)):
                amount = _without_smallest(cell for _, cell in rows)
                if amount is not None:
                    db.execute(schema.ADD_DUPLICATED, (first, str(amount)))  # it may need more than 64 bits

    def _find_apart(self) -> None:
        """Find the references whose lines cannot be summed, and those with a line that cannot be used."""
        with self.database.writing() as db:
            for statement in schema.FIND_APART:
                db.execute(statement)
            for first, lines in groupby(self.database.read(schema.LINES), key=itemgetter(0)):
                if why := why_not_summed((_usable(cells[1:]) for cells in lines), self.rules):
                    db.execute(schema.ADD_APART, (first, why))

    def _find_invoices(self) -> None:
        """Sum both sides of each invoice that is paid under several references."""
        with self.database.writing() as db:
            for statement in schema.FIND_INVOICES:
                db.execute(statement)
            for paid_reff, payments in groupby(self.database.read(schema.INVOICES), key=itemgetter(0)):
                totals = invoice_of((int(paid), self._amount(first, cells)) for _, first, paid, *cells in payments)
                db.execute(schema.ADD_INVOICE, (paid_reff, json.dumps(asdict(totals))))

    def _amount(self, first: int | None, cells: Sequence[Any]) -> object:
        """Return the ledger's amount of a payment, of which *first* is the first of several lines."""
        entry = _usable(cells)
        if first is None or not self.rules.lines.are_summed:
            return entry.amount
        lines = list(map(_usable, self.database.fetch(schema.ENTRIES_OF, (entry.reference,))))
        return judged_entries(lines, None, self.rules)[0].amount

    def _payment(self, case: Case, entry: Entry, first: int | None) -> Case | None:
        """Return *case* with all lines of its payment; None where it is not the first of them."""
        unusable = self.database.fetch(schema.UNUSABLE_LINE, (entry.reference,))
        line = unusable[0][0] if unusable else None
        if first is None:
            alone = (entry,) if are_parts((entry,), self.rules) else ()
            return evolve(case, parts=alone, unusable_line=line)
        if apart := self.database.fetch(schema.WHY_APART, (first,)):
            return evolve(case, apart=apart[0][0], unusable_line=line)
        if case.is_repeat:
            return None
        parts = tuple(map(_usable, self.database.fetch(schema.ENTRIES_OF, (entry.reference,))))
        return evolve(case, parts=parts, unusable_line=line, rows=1)

    def _answered(self, cells: tuple[Any, ...]) -> Case:
        position, first_position, rows, paid_reff = cells[:4]
        entry = entry_from(cells[_ENTRY])
        if isinstance(entry, RejectedEntry):
            return Case(entry=entry)
        first, second = observation_from(cells[_FIRST]), observation_from(cells[_SECOND])
        is_found = any(each is not None and each.transaction and not each.reused_from for each in (first, second))
        same_reff = paid_reff, first_position or position
        paid_with = [] if paid_reff is None else self.database.fetch(schema.PAID_WITH, same_reff)
        duplicated = self.database.fetch(schema.DUPLICATED, (first_position,)) if rows else []
        return Case(
            entry=entry,
            first=first,
            second=second,
            rows=rows or 1,
            duplicated=int(duplicated[0][0]) if duplicated else None,
            is_repeat=first_position is not None and first_position != position,
            paid_with=tuple(reference for (reference,) in paid_with),
            other_found=self.found - is_found,
            ended_by=self.ended_by,
        )


def carry_over(writing: sqlite3.Connection, records: Records, *, after: int, has_statement: bool) -> None:
    """Store the records of the previous run and, *after* the ledger, its rows to look up again."""
    # *writing* is in a transaction, with the index of the references. What the statement alone had is looked up again
    # only with a statement.
    position, find = after, writing.cursor().execute
    for earlier, entries in records(
        lambda reference: find(schema.IS_LISTED, (reference, after)).fetchone() is not None
    ):
        if earlier != ReferenceRecord(reference=earlier.reference):
            marks = earlier.reference, len(earlier.breaks), int(bool(earlier.remembered))
            writing.execute(schema.ADD_EARLIER, with_checksum(*marks, record_cell(earlier)))
        for entry in entries if earlier.is_in_ledger or has_statement else ():
            position += 1
            writing.execute(schema.ADD_ENTRY, with_checksum(position, None, *entry_cells(entry)))


def _without_smallest(cells: Iterable[StoredCell]) -> int | None:
    """Return the sum of some amounts without the smallest; None if none is stated."""
    # Not without that of the first row: the order of a ledger means nothing, and may be another tomorrow.
    total, smallest, is_stated = 0, None, False
    for cell in cells:
        size = abs(int(cell or 0))  # text if it needs more than 64 bits, and empty bytes if it is not stated
        total, smallest = total + size, size if smallest is None else min(size, smallest)
        is_stated = is_stated or cell != b""
    return total - (smallest or 0) if is_stated else None


def _usable(cells: Sequence[Any]) -> Entry:
    entry = entry_from(cells)
    assert isinstance(entry, Entry)  # noqa: S101  the query reads no other
    return entry
