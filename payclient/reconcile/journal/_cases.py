"""The cases of a journal: everything it knows about each ledger row, and about the rows of the previous run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import asdict, define, evolve

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile.journal import _schema as schema
from payclient.reconcile.journal._database import Database
from payclient.reconcile.journal._integrity import with_checksum
from payclient.reconcile.journal._statement_lines import StatementLines
from payclient.reconcile.journal._stored import StoredCell, entry_cells, entry_from, observation_from
from payclient.reconcile.judge import Case, are_parts, judged_entries, why_not_summed
from payclient.reconcile.nights import PreviousRun, Records, ReferenceRecord, record_cell, record_from
from payclient.reconcile.rules import InvoiceTotals, Rules, invoice_of
from payclient.reconcile.values import Observation

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
        if earlier.is_known:
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
