"""The SQLite file of a journal: locked by one process, and checked before it is used.

Design rules:

- Each row ends with a checksum of its other columns. CRC-32 detects every flipped bit, and every burst of up to 32
  bits. It protects against failing disks, not against tampering.
- A missing row leaves no checksum behind, so the number of rows is compared with a note.
- SQLite reads a write-ahead log up to the first damaged frame, and drops the rest: the run was then
  killed earlier, and the dropped answers are looked up again.
"""

import json
import marshal
import os
import platform
import sqlite3
import sysconfig
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any
from weakref import WeakSet
from zlib import crc32

from attrs import define, field

from payclient._shared.escape import plural
from payclient.reconcile._atomic import FOLDER_MODE, check_own, own
from payclient.reconcile.journal import _schema as schema
from payclient.reconcile.values import JournalError, JournalWriteError


def checksum(cells: tuple[Any, ...]) -> int:
    """Return the checksum of a row; format 0 of `marshal` is the same in every Python."""
    try:
        return crc32(marshal.dumps(cells, 0))
    except ValueError:  # a subclass of str or int, which SQLite stores as its base type
        return crc32(marshal.dumps(tuple(map(_plain, cells)), 0))


def with_checksum(*cells: Any) -> tuple[Any, ...]:
    return (*cells, checksum(cells))


def _plain(cell: Any) -> Any:
    if isinstance(cell, str):
        return str.__str__(cell)
    return int.__index__(cell) if isinstance(cell, int) else cell


def add_checksum(connection: sqlite3.Connection) -> None:
    connection.create_function("checksum", -1, lambda *cells: checksum(cells), deterministic=True)


def damage_of(connection: sqlite3.Connection) -> str:
    """Read the whole database; return its damage in words, or empty text."""
    if not _tables(connection) <= _known_tables():
        return "its tables are not a journal's"
    add_checksum(connection)
    counts: dict[str, int] = {}
    for table, key in schema.KEYS.items():
        *columns, _ = (name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))
        is_wrong = f"checksum({', '.join(columns)}) IS NOT checksum"
        try:  # inside SQLite, which is twice as fast as reading each row
            query = f"SELECT count(*), total({is_wrong}) FROM {table}"  # noqa: S608  our own names
            ((counts[table], wrong),) = connection.execute(query)
        except sqlite3.OperationalError:  # text that is not UTF-8
            wrong = 1
        if wrong:
            return _damaged_row(connection, table, key)
    if problem := _missing(connection, counts):
        return problem
    found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if found == "ok" else found


def _damaged_row(connection: sqlite3.Connection, table: str, key: str) -> str:
    number = 0
    rows = connection.execute(f"SELECT * FROM {table} ORDER BY {key}")  # noqa: S608  our own names
    try:
        for number, row in enumerate(rows, 1):
            if checksum(row[:-1]) != row[-1]:
                return f"row {number} of {table} is not what was written"
    except sqlite3.OperationalError as error:  # text that is not UTF-8
        return f"row {number + 1} of {table} cannot be read: {error}"
    return f"{table} cannot be read"


def _missing(connection: sqlite3.Connection, counts: Mapping[str, int]) -> str:
    """Return the table that lacks rows, or has too many, in words; empty if none does. Ledger rows count from 1."""
    stored = connection.execute("SELECT value FROM notes WHERE name = ?", (schema.COUNTS,)).fetchone()
    if stored is None:
        return f"the note {schema.COUNTS} is missing" if any(counts.values()) else ""
    ((last,),) = connection.execute("SELECT coalesce(max(position), 0) FROM entries")
    expected = {"entries": last, **json.loads(stored[0])}
    wrong = next((table for table, count in expected.items() if counts[table] != count), None)
    return "" if wrong is None else f"{wrong} has {plural(counts[wrong], 'row')}, and had {expected[wrong]}"


def _tables(connection: sqlite3.Connection) -> set[tuple[object, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _known_tables() -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(schema.TABLES)
        for statement in schema.INDEXES:
            fresh.execute(statement)
        return _tables(fresh)


_CACHE_KIB = 16_384
# Without the GIL, a cached statement that a thread has prepared is freed when that thread runs again, or ends. Until
# then SQLite keeps the closed file open, and locked.
_CACHED_STATEMENTS = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else 128
_MIN_BYTES = 512
_MAX_LOG_BYTES = 1 << 22
_MAX_HOLDER = 300
_COPY_BYTES = 1 << 20
_BESIDE = ("", "-wal", "-shm", "-journal", ".holder")
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of a damaged file: SQLite's messages may quote the damage."""
_ANOTHER = "choose another folder for a new run"


class Database:
    """One database, locked until it is closed; a temporary one without *path*."""

    def __init__(self, path: Path | None, *, must_exist: bool = False) -> None:
        self.path = path
        self._holder = None if path is None else path.with_name(f"{path.name}.holder")
        self._log = None if path is None else _log_of(path)
        if path is not None:
            _prepare(path, must_exist=must_exist)
        with ExitStack() as on_failure:
            try:
                # Answers are written on the event loop, in microseconds; it waits while a thread takes a long step.
                self.connection: sqlite3.Connection = sqlite3.connect(
                    "" if path is None else path,
                    timeout=0,
                    isolation_level=None,
                    check_same_thread=False,
                    cached_statements=_CACHED_STATEMENTS,
                )
                on_failure.callback(self.connection.close)
                self._open()
            except _FAULTS as error:
                raise self._refusal(error) from error
            on_failure.pop_all()
        self._is_open = True
        self._failure = ""
        self._readers: WeakSet[sqlite3.Cursor] = WeakSet()
        if self._holder is not None:
            with suppress(OSError):  # it only helps the message of a second process
                self._holder.unlink(missing_ok=True)
                with open(self._holder, "x", encoding="utf-8", opener=own) as file:
                    file.write(f"process {os.getpid()} on {platform.node()}")

    def _open(self) -> None:
        execute = self.connection.execute
        add_checksum(self.connection)
        execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
        execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if self.path is None:
            execute("PRAGMA journal_mode = OFF")
            execute("PRAGMA synchronous = OFF")
            self.connection.executescript(schema.TABLES)
            return
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("BEGIN EXCLUSIVE")  # takes the lock, which is kept until the end
        if _pragma(self.connection, "schema_version") == 0:
            for statement in schema.TABLES.split(";"):
                execute(statement)
        execute("COMMIT")
        _check(self.connection, self.path)
        execute("PRAGMA wal_autocheckpoint = 0")  # `commit` does it, and empties the log
        execute("PRAGMA journal_mode = WAL")  # only now, because it stays with the file, which may be a stranger's
        execute("PRAGMA synchronous = NORMAL")

    def _refusal(self, error: Exception) -> JournalError | JournalWriteError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return JournalError(f"{self.path} is in use by {self._held_by()}; wait for it, or {_ANOTHER}")
        return _refusal(self.path, error)

    def _held_by(self) -> str:
        try:
            with open(self._holder or "", encoding="utf-8", errors="replace", opener=own) as file:
                return file.read(_MAX_HOLDER)
        except OSError:
            return "another process"

    def read(self, query: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query lazily, until the database is closed; raise `JournalError` if it fails."""
        try:
            reader = self.connection.execute(query, parameters)
            self._readers.add(reader)
            for row in reader:  # noqa: UP028  `yield from` would close the reader, also after the database
                yield row
        except sqlite3.ProgrammingError:  # closed
            raise
        except _FAULTS as error:
            raise _refusal(self.path, error) from error

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query; raises as `read`."""
        return list(self.read(query, parameters))

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Yield the connection in a transaction, and translate the write errors of SQLite."""
        # After one error all later calls are refused: SQLite may have rolled back the transaction, which then must not
        # count as committed.
        if self._failure:
            raise JournalWriteError(self._failure)
        try:
            if not self.connection.in_transaction:
                self.connection.execute("BEGIN")
            yield self.connection
        except sqlite3.DatabaseError as error:
            self._failure = (
                f"the journal {self.path or 'of this run'} cannot be written ({error}); all earlier answers are kept: "
                "fix that, and run the same command again"
            )
            raise JournalWriteError(self._failure) from error

    @property
    def is_failed(self) -> bool:
        return bool(self._failure)

    def commit(self) -> None:
        """Commit the open transaction, if there is one, and the database is kept."""
        if (self.connection.in_transaction and self.path is not None) or self._failure:
            with self.writing() as db:
                db.execute("COMMIT")
            if self._log is not None and self._log.stat().st_size > _MAX_LOG_BYTES:
                with suppress(sqlite3.OperationalError):  # later, then
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Commit, unless a write failed, and release the file; safe to call twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self._failure:
                self.commit()
        finally:
            if self._holder is not None:
                with suppress(OSError):  # before the lock is released, so it cannot be the file of another process
                    self._holder.unlink(missing_ok=True)
            for reader in self._readers:  # an unfinished one would keep the lock
                reader.close()
            self.connection.close()


@define
class Buffer:
    """Rows that *query* inserts, with their checksums, *size* at a time; each batch is committed if it *commits*."""

    _database: Database
    _query: str
    _size: int
    commits: bool = field(default=False, kw_only=True)
    _rows: list[tuple[Any, ...]] = field(init=False, factory=list)

    def add(self, *cells: Any) -> None:
        """Add a row, without its checksum."""
        self._rows.append((*cells, checksum(cells)))
        if len(self._rows) == self._size:
            self.write()

    def write(self) -> None:
        if self._rows:
            with self._database.writing() as db:
                db.executemany(self._query, self._rows)
            self._rows.clear()
        if self.commits:
            self._database.commit()

    def clear(self) -> None:
        self._rows.clear()


def verify_journal(path: Path) -> None:
    """
    Read all of a journal without changing it: the folder may be read-only.

    Raises:
        JournalError: When it is damaged, in use, or no journal of this version.
    """
    if _log_of(path).exists():  # of a killed run: only SQLite can put both together
        Database(path, must_exist=True).close()
        return
    _prepare(path, must_exist=True)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            _check(connection, path)
    except _FAULTS as error:
        raise _refusal(path, error) from error


def copy_journal(path: Path, file: IO[bytes]) -> None:
    """Copy the journal of a run that has ended, without changing anything in its folder."""
    _check_ended(path)
    verify_journal(path)  # refuses what is missing, too
    try:
        with open(path, "rb", opener=own) as journal:
            before = os.fstat(journal.fileno())
            copyfileobj(journal, file, _COPY_BYTES)
            file.flush()
            after = os.fstat(journal.fileno())
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise JournalError(message) from error
    _check_ended(path)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        message = f"{path} is in use: it was changed while it was copied"
        raise JournalError(message)


def _check_ended(path: Path) -> None:
    """Refuse a journal with a write-ahead log: only SQLite can put both together, and would change the folder."""
    if _log_of(path).exists():
        message = (
            f"the run in {path.parent} is under way, or was killed; run the same command again to end it, "
            f"or payclient report {path.parent} to judge it as it is"
        )
        raise JournalError(message)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != schema.APPLICATION:
        message = f"{path} is not a journal of payclient; {_ANOTHER}"
        raise JournalError(message)
    if (version := _pragma(connection, "user_version")) != schema.VERSION:
        message = (
            f"{path} is a journal of version {version}, and this payclient writes version {schema.VERSION}; "
            f"use the payclient version that created it, or {_ANOTHER}"
        )
        raise JournalError(message)
    if damage := damage_of(connection):
        message = f"{path} is damaged ({damage}); {_ANOTHER}"
        raise JournalError(message)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _refusal(path: Path | None, error: Exception) -> JournalError | JournalWriteError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return JournalError(f"{path} is damaged, or not a journal of payclient ({error}); {_ANOTHER}")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return JournalWriteError(f"{path} cannot be opened for writing ({error}): is the disk full?")
    return JournalError(f"{path} cannot be opened ({error})")


def _prepare(path: Path, *, must_exist: bool) -> None:
    try:
        for suffix in _BESIDE:
            check_own(path.with_name(f"{path.name}{suffix}"))
    except OSError as error:
        message = f"{error.filename} is {error.strerror}"
        raise JournalError(message) from error
    if must_exist and not path.exists():
        message = f"{path.parent} is not the folder of a run: there is no {path.name} in it"
        raise JournalError(message)
    if _is_cut(path):
        message = f"{path} is damaged (hardly anything is left of it); {_ANOTHER}"
        raise JournalError(message)
    try:
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path.parent} cannot be created: {error.strerror}"
        raise JournalError(message) from error
    with suppress(OSError):  # it is there, or SQLite says why it cannot be made
        open(path, "xb", opener=own).close()


def _is_cut(path: Path) -> bool:
    """Return whether the file was truncated so far that SQLite would treat it as new."""
    if not path.is_file() or path.with_name(f"{path.name}-journal").exists():  # SQLite repairs the file from that
        return False
    size = path.stat().st_size
    return 0 < size < _MIN_BYTES or (size == 0 and _log_of(path).exists())


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
