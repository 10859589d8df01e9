"""The lines of a statement in a journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf

from attrs import frozen

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile.journal import _schema as schema
from payclient.reconcile.journal._database import Buffer, Database
from payclient.reconcile.journal._integrity import with_checksum
from payclient.reconcile.journal._stored import entry_cells, entry_from
from payclient.reconcile.judge import settled_by
from payclient.reconcile.nights import ReferenceRecord
from payclient.reconcile.rules import Rules, as_json, from_json
from payclient.reconcile.values import JournalError, OtherSide, Settled, StatementTotals

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
