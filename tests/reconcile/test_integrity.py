"""What is flipped in a journal by a failing disk never makes another report."""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from payclient.protocol import Transaction
from payclient.reconcile import Bucket, Journal, JournalError, reconcile, verify_journal
from payclient.reconcile._journal.tables import checksum
from payclient.reconcile.ledger import Entry
from reconcile import flipping
from support.reconciling import NOON


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """Make a journal of a run that ended, of one that was killed, and of one that was killed later on."""
    folder = tmp_path_factory.mktemp("journals")
    return folder, flipping.make(folder)


@pytest.fixture
def made(journals, tmp_path):
    """Give copies of the journals, to be damaged."""
    folder, paths = journals
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return [tmp_path / path.relative_to(folder) for path in paths]


def refusal(path):
    with pytest.raises(JournalError) as caught:
        verify_journal(path)
    with pytest.raises(JournalError) as again:
        Journal(path, must_exist=True)
    assert str(caught.value) == str(again.value)
    return str(caught.value)


def test_flips(tmp_path):
    """A flipped bit is refused, by `verify` too, or has no effect; in a log it loses the answers after it."""
    outcomes = Counter(became for *_, became in flipping.flip(tmp_path, 45, seed=7))
    assert set(outcomes) <= {"same", "refused", "killed earlier", "same, and verify finds it"}
    assert (outcomes["refused"] > 2, outcomes["killed earlier"] > 2) == (True, True)


CHANGES = {
    "UPDATE entries SET amount = amount + 1 WHERE position = 17": "a row of entries is not what was written",
    "UPDATE entries SET line = line + 1 WHERE position = 3": "a row of entries is not what was written",
    "UPDATE answers SET status = 'Raid' WHERE id = 2": "a row of answers is not what was written",
    "UPDATE answers SET needs_confirmation = 1 - needs_confirmation": "a row of answers is not what was written",
    "UPDATE entries SET position = 0 WHERE position = 1": "a row of entries is not what was written",
    "UPDATE notes SET value = 'y' WHERE name = 'about'": "a row of notes is not what was written",
    "UPDATE repeats SET rows = rows + 1": "a row of repeats is not what was written",
    "UPDATE entries SET first = 1 WHERE position = 2": "a row of entries is not what was written",
    "UPDATE entries SET checksum = NULL WHERE position = 2": "a row of entries is not what was written",
    "UPDATE answers SET message = CAST(x'ff' AS TEXT) WHERE id = 2": "a row of answers is not what was written",
    "DROP TABLE earlier": "its tables are not a journal's",
    "CREATE VIEW v AS SELECT 1": "its tables are not a journal's",
    "ALTER TABLE answers RENAME amount TO fees": "its tables are not a journal's",
    "CREATE INDEX i ON answers (at)": "its tables are not a journal's",
}


def test_changed(made):
    """A row that is not what was written is refused by its place, and so are tables that are not a journal's."""
    whole, missed = made[0].read_bytes(), []
    for statement, told in CHANGES.items():
        made[0].write_bytes(whole)
        with closing(sqlite3.connect(made[0])) as database, database:
            database.execute(statement)
        if f"is damaged ({told}" not in (said := refusal(made[0])):
            missed.append((statement, said))
    assert missed == []


async def test_missing_answer_of_a_killed_run(tmp_path):
    """Before a run has ended, a missing answer is looked up again."""

    class Killed(Exception):  # noqa: N818  it stands for a signal
        pass

    path, asked = tmp_path / "journal.sqlite", []

    async def lookup(reference):
        asked.append(reference)
        if len(asked) == 50:
            raise Killed
        return Transaction(reference=reference, amount=1, status="Paid")

    async def run(journal):
        return [row async for row in reconcile(entries, lookup, journal=journal, concurrency=1, clock=lambda: NOON)]

    entries = [Entry(line=n, reference=f"T{n}", amount=1, status="paid") for n in range(2, 82)]
    with Journal(path) as journal, pytest.raises(Killed):
        await run(journal)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM answers WHERE id = 14")
    with Journal(path) as journal:
        rows = await run(journal)
    again = sorted(reference for reference, times in Counter(asked).items() if times > 1)
    assert ([row.bucket for row in rows], again) == ([Bucket.MATCHED] * 80, ["T51", "T8"])


def test_index(made):
    """An index that leaves a row out is refused, for a query might miss that row."""
    change = "UPDATE sqlite_master SET sql ="
    with closing(sqlite3.connect(made[0])) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(f"{change} replace(sql, 'paid_reff IS NOT NULL', 'paid_reff = 7') WHERE type = 'index'")
    with closing(sqlite3.connect(made[0])) as database, database:
        database.execute("REINDEX")
        database.execute("PRAGMA writable_schema = ON")
        database.execute(f"{change} replace(sql, 'paid_reff = 7', 'paid_reff IS NOT NULL') WHERE type = 'index'")
    assert "missing from index answers_by_reff" in refusal(made[0])


def test_log_is_emptied(tmp_path):
    """The log is emptied before it is used again, so that nothing old is in it."""
    with Journal(tmp_path / "journal.sqlite") as journal:
        sizes = []
        for number in range(1200):
            journal.set_note("note", f"{number}" * 4000)
            sizes.append((tmp_path / "journal.sqlite-wal").stat().st_size)
    assert (max(sizes) < 5 << 20, sizes.count(0) > 0) == (True, True)


def test_verify_where_nothing_can_be_written(made):
    """Verifying a journal changes no file."""
    before = made[0].read_bytes()
    verify_journal(made[0])
    assert ([each.name for each in made[0].parent.iterdir()], made[0].read_bytes()) == (["journal.sqlite"], before)


def test_derived_types(tmp_path):
    """Text of a type that a program derived from str is kept, and is what was written."""

    class Word(str):  # noqa: SLOT000  as a program may have it
        pass

    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add(Entry(line=2, reference="T1", status=Word("paid")))
        journal.finish_ledger()
    verify_journal(tmp_path / "journal.sqlite")


def test_checksum_is_the_same_everywhere():
    """A checksum is the same in every Python, and differs for equal values of different types."""
    assert checksum((1, None, b"", "Tü1", 2**40, -5)) == 368609424
    assert len({checksum((cell,)) for cell in (1, "1", b"1", None, "None", "")}) == 6
