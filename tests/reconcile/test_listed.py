"""The statement in a journal: it is stored, compared when a run is resumed, and protected like the ledger."""

import sqlite3
from contextlib import closing

import pytest

from payclient import Transaction
from payclient.reconcile import Journal, JournalError, reconcile, replay, verify_journal
from payclient.reconcile.ledger import Entry

LEDGER = [Entry(line=line, reference=f"T{line}", amount=5) for line in range(2, 12)]
STATEMENT = [Entry(line=line, reference=f"T{line}", amount=5) for line in range(5, 20)]


class Stop(Exception):  # noqa: N818  it is no error
    """What ends a run in the middle."""


class Lookup:
    def __init__(self, cut_at=None):
        self.asked, self._cut_at = [], cut_at

    async def __call__(self, reference):
        if self._cut_at is not None and len(self.asked) >= self._cut_at:
            raise Stop
        self.asked.append(reference)
        return Transaction(reference=reference, amount=5, status="Paid")


async def rows_of(path, lookup, statement=STATEMENT, ledger=LEDGER):
    with Journal(path) as journal:
        return [row async for row in reconcile(ledger, lookup, journal=journal, statement=statement, concurrency=1)]


async def test_resumed(tmp_path, clock_from):
    """A run that was cut at any lookup is resumed where it stopped, and no reference is asked three times."""
    whole = await rows_of(tmp_path / "whole.sqlite", Lookup())
    for cut_at in range(0, 29, 7):
        path, first, second = tmp_path / f"{cut_at}.sqlite", Lookup(cut_at), Lookup()
        with pytest.raises(Stop):
            await rows_of(path, first)
        rows = await rows_of(path, second)
        assert [(row.reference, row.bucket, row.findings, row.origin) for row in rows] == [
            (row.reference, row.bucket, row.findings, row.origin) for row in whole
        ]
        # Without a second lookup for what agrees: T5 to T11.
        assert len(first.asked) + len(second.asked) == 18 + 11


async def test_another_statement(tmp_path):
    """A journal that began with another statement is refused, and the message says how it differs."""
    await rows_of(tmp_path / "journal.sqlite", Lookup())
    for other, how in (
        (STATEMENT[:-1], "it has 15 rows, and this one 14"),
        ([*STATEMENT, Entry(line=20, reference="T20", amount=5)], "it has 15 rows, and this one has more"),
        ([Entry(line=5, reference="T5", amount=6), *STATEMENT[1:]], "on line 5, amount was different"),
    ):
        with pytest.raises(JournalError, match=f"began with another statement: {how}"):
            await rows_of(tmp_path / "journal.sqlite", Lookup(), other)


async def test_replayed(tmp_path):
    """The journal alone gives the same rows, in order: those of the ledger, then those of the statement alone."""
    without = await rows_of(tmp_path / "without.sqlite", Lookup(), None)
    assert {(row.other_side, row.origin) for row in without} == {(None, "ledger")}
    path = tmp_path / "journal.sqlite"
    rows = await rows_of(path, Lookup())
    with Journal(path, must_exist=True) as journal:
        assert list(replay(journal)) == rows
        assert (journal.statement.after, journal.statement.totals.total) == (10, 75)
    assert [row.reference for row in rows] == [f"T{number}" for number in range(2, 20)]


async def test_damaged(tmp_path):
    """A changed or missing line of the statement is noticed."""
    path = tmp_path / "journal.sqlite"
    await rows_of(path, Lookup())
    verify_journal(path)
    for damage in ("UPDATE statement SET amount = 6 WHERE position = 3", "DELETE FROM statement WHERE position = 15"):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(damage)
        with pytest.raises(JournalError, match="damaged"):
            verify_journal(path)
        path.unlink()
        await rows_of(path, Lookup())


async def test_not_read_to_its_end(tmp_path):
    """Of a statement that could not be read to its end nothing is kept, so a corrected one may follow."""

    def broken():
        yield from (Entry(line=line, reference=f"X{line}", amount=1) for line in range(2, 10_003))
        raise Stop

    path = tmp_path / "journal.sqlite"
    with pytest.raises(Stop):
        await rows_of(path, Lookup(), broken())
    rows = await rows_of(path, Lookup())
    assert [row.reference for row in rows] == [f"T{number}" for number in range(2, 20)]


async def test_left_out(tmp_path):
    """What the ledger has in rows outside of the run comes last, and is known again in a journal that is opened."""
    path = tmp_path / "journal.sqlite"

    def ledger(journal):
        journal.statement_lines.leave_out("T12")
        journal.statement_lines.leave_out("T12")
        yield from LEDGER

    with Journal(path) as journal:
        rows = [row async for row in reconcile(ledger(journal), Lookup(), journal=journal, statement=STATEMENT)]
    assert (rows[-1].reference, rows[-1].bucket.value, len(rows)) == ("T12", "matched", 18)
    with Journal(path) as journal:
        assert [row.reference for row in replay(journal) if row.other_side.is_left_out] == ["T12"]
        again = [row async for row in reconcile(ledger(journal), Lookup(), journal=journal, statement=STATEMENT)]
    assert again == rows
