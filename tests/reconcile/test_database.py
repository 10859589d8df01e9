"""The file of a journal: who may open it, what is refused, and what happens when it cannot be written."""

import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from payclient.reconcile import Journal, JournalError, JournalWriteError
from payclient.reconcile._journal.tables import SET_NOTE, TABLES, VERSION, Buffer, Database, checksum

POSIX = pytest.mark.skipif(os.name == "nt", reason="kills and permissions are those of POSIX")
ON_ANOTHER = ": choose another folder for a new run"


@contextmanager
def held(path):
    """Hold the journal in another process for as long as the block, which gets the process."""
    program = f"""
        import sys
        from payclient.reconcile import Journal
        with Journal({str(path)!r}) as journal:
            journal.set_note("colour", "green")
            print("held", flush=True)
            sys.stdin.read()
    """
    command = (sys.executable, "-c", textwrap.dedent(program))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def refusal(path, **options):
    with pytest.raises(JournalError) as caught:
        Journal(path, **options)
    return str(caught.value)


def content(folder):
    """Return what is in *folder*, by name."""
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_version_of_the_tables():
    """Other tables have another version, or the journal of the day before would be called damaged."""
    digest = hashlib.sha256(" ".join(TABLES.split()).encode()).hexdigest()[:12]
    assert (VERSION, digest) == (11, "c660a08846e7"), "the tables changed: raise VERSION, and write both here"


def test_in_use(path):
    """A second run on one journal is refused, and changes nothing."""
    in_use = f"{path} is in use by another process: wait for it, or {ON_ANOTHER[2:]}"
    with Journal(path):
        assert refusal(path) == in_use
    with held(path):
        before = content(path.parent)
        assert refusal(path) == in_use
        assert content(path.parent) == before


@POSIX
def test_killed_holder(path):
    """A journal whose holder was killed opens with what was committed."""
    with held(path) as process:
        process.kill()
        process.wait()
    with Journal(path) as journal:
        assert journal.note("colour") == "green"
    assert [each.name for each in path.parent.iterdir()] == ["journal.sqlite"]


def test_reader_is_left(path):
    """A query that was not read to its end does not keep the file from others."""
    with Journal(path) as journal:
        for name in "abc":
            journal.set_note(name, "x")
    database = Database(path)
    reader = database.read("SELECT name FROM notes")
    assert next(reader) == ("a",)
    database.close()
    Database(path).close()
    with pytest.raises(sqlite3.ProgrammingError):
        next(reader)


def of_another(path, *statements):
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def of_many_pages(path):
    with Journal(path) as journal:
        for number in range(200):
            journal.set_note(f"note {number}", f"{number}" * 200)
    whole = path.read_bytes()
    assert len(whole) > 9 * 4096
    return whole


def cut(path, share):
    whole = of_many_pages(path)
    path.write_bytes(whole[: int(len(whole) * share)])


def garble(path, page):
    whole = bytearray(of_many_pages(path))
    whole[page * 4096 : page * 4096 + 600] = b"\xa5" * 600
    path.write_bytes(whole)


def of_another_version(path, version):
    with Journal(path):
        pass
    of_another(path, f"PRAGMA user_version = {version}")


def be_emptied(path):
    with held(path) as process:
        process.kill()
        process.wait()
    path.write_bytes(b"")


def write(path, data):
    path.parent.mkdir()
    path.write_bytes(data)


def test_no_journal(tmp_path):
    """What is no journal, or is damaged, is refused by its path, and not a byte is changed."""
    table, other = "CREATE TABLE people (name)", "is not a journal of payclient"
    files = [
        *(
            (lambda path, mode=mode: of_another(path, f"PRAGMA journal_mode = {mode}", table), other)
            for mode in ("delete", "wal")
        ),
        *(
            (
                lambda path, version=version: of_another_version(path, version),
                f"is a journal of version {version}, and this payclient writes version 11: use the payclient",
            )
            for version in (10, 12)
        ),
        *((lambda path, data=data: write(path, data), "is damaged") for data in (b"a,b\n" * 999, b"\0" * 4096, b"x")),
        *((lambda path, share=share: cut(path, share), "is damaged") for share in (0.9, 0.5, 0.1)),
        *((lambda path, page=page: garble(path, page), "is damaged") for page in range(1, 8)),
        *([(be_emptied, "is damaged (hardly anything is left of it)")] if os.name != "nt" else []),
    ]
    missed = []
    for number, (make, message) in enumerate(files):
        path = tmp_path / str(number) / "journal.sqlite"
        make(path)
        before = content(path.parent)
        told = refusal(path)
        if (
            not (told.startswith(f"{path} {message}") and told.endswith(ON_ANOTHER[2:]))
            or content(path.parent) != before
        ):
            missed.append((number, told))
    assert missed == []


def test_place(tmp_path):
    """A folder that cannot be created, and a file that cannot be opened, are named."""
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    assert refusal(tmp_path / "file" / "journal.sqlite") == f"{tmp_path / 'file'} cannot be created: File exists"
    assert refusal(tmp_path / "folder").startswith(f"{tmp_path / 'folder'} is not a regular file")


@POSIX
@pytest.mark.parametrize("is_there", [True, False])
def test_read_only(is_there):
    """In a folder that cannot be written, a run is refused, and what is there is left."""
    program = """
        import os, sys
        from payclient.reconcile import Journal, JournalError
        if os.getuid() == 0:
            os.setuid(65534)  # permissions do not bind the mightiest user
        try:
            Journal(sys.argv[1])
        except JournalError as error:
            print(error)
    """
    with tempfile.TemporaryDirectory() as temporary:  # others may look into it, unlike that of pytest
        folder = Path(temporary, "report")
        folder.mkdir()
        path = folder / "journal.sqlite"
        if is_there:
            with Journal(path):
                pass
            path.chmod(0o444)
        before = content(folder)
        for each, mode in ((folder, 0o555), (Path(temporary), 0o755)):
            each.chmod(mode)
        command = (sys.executable, "-c", textwrap.dedent(program), str(path))
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        folder.chmod(0o755)
        assert content(folder) == before
    why = "attempt to write a readonly database" if is_there else "unable to open database file"
    assert told == f"{path} cannot be opened ({why})"


@pytest.fixture
def small(path):
    """Open a database that has no room for more than it holds now, as on a full disk."""
    with closing(Database(path)) as database:
        (pages,) = database.connection.execute("PRAGMA page_count").fetchone()
        database.connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        yield database


def note(database, name, size=10):
    with database.writing() as db:
        db.execute(SET_NOTE, (name, "x" * size, checksum((name, "x" * size))))


def test_full_for_good(small):
    """A full disk is told, and then nothing is ever said to be committed: SQLite took the transaction back."""
    note(small, "kept")
    small.commit()
    note(small, "taken back")
    with pytest.raises(
        JournalWriteError, match=r"cannot be written \(database or disk is full\); all earlier"
    ) as caught:
        note(small, "big", 100_000)
    assert caught.value.__cause__.sqlite_errorcode == sqlite3.SQLITE_FULL
    for write in (small.commit, lambda: note(small, "little")):
        with pytest.raises(JournalWriteError):
            write()
    small.close()
    with closing(sqlite3.connect(small.path)) as again:
        names = again.execute("SELECT name FROM notes").fetchall()
    assert names == [("kept",)]


@pytest.mark.parametrize("commits", [False, True])
def test_buffer(path, commits):
    """A full buffer is written with the checksums, and committed only where that is wanted."""
    with closing(Database(path)) as database:
        buffer = Buffer(database, SET_NOTE, 2, commits=commits)
        buffer.add("a", "1")
        assert database.fetch("SELECT * FROM notes") == []
        buffer.add("b", "2")
        assert database.fetch("SELECT * FROM notes") == [(*row, checksum(row)) for row in (("a", "1"), ("b", "2"))]
        assert database.connection.in_transaction is not commits


def test_corrupt_while_open(path):
    """A fault that SQLite meets while it writes is an error of ours, whatever class it has."""
    with closing(Database(path)) as database, pytest.raises(JournalWriteError):
        with database.writing():
            message = "database disk image is malformed"
            raise sqlite3.DatabaseError(message)
