"""
Internal: the SQLite file of a journal and its tables: locked by one process, and checked before it is used.

Design rules:

- Each row ends with a checksum of its other columns. CRC-32 detects every flipped bit, and every burst of up to 32
  bits. It protects against failing disks, not against tampering.
- A page that is missing, or has fewer rows, does not fit the others, which SQLite's own check of its pages finds.
- SQLite reads a write-ahead log up to the first damaged frame, and drops the rest: the run was then
  killed earlier, and the dropped answers are looked up again.
"""

import json
import marshal
import sqlite3
import sysconfig
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, TypeAlias
from weakref import WeakSet
from zlib import crc32

from attrs import define, field, fields

from payclient.protocol import DOCUMENTED, Transaction, documented_values
from payclient.reconcile._atomic import FOLDER_MODE, check_own, own
from payclient.reconcile._fields import ABSENT, KINDS, Entry, RejectedEntry, checked_entry
from payclient.reconcile._judgement.errors import JournalError, JournalWriteError
from payclient.reconcile._judgement.sides import Answer, Observation

# ruff: noqa: S608  no text of a stranger is in a query. What is put together are names of columns

VERSION = 11
"""Version of the tables. A journal of another version is refused, never converted."""

APPLICATION = 0x7061794A
"""`payJ`: the SQLite application id of a journal."""

ENTRY_COLUMNS = tuple(attribute.name for attribute in fields(Entry) if attribute.name not in ("line", "payout"))
TRANSACTION_COLUMNS = (*DOCUMENTED, "deviations")
ANSWER_COLUMNS = ("answer", "at", "error", "message", "reused_from", *TRANSACTION_COLUMNS)

_ENTRY = ", ".join(ENTRY_COLUMNS)
ENTRY = f"line, rejected, {_ENTRY}"
"""The `entry_cells` of a row of `entries` or `statement`."""
ANSWER = ", ".join(ANSWER_COLUMNS)
"""The `observation_cells` of a row of `answers`."""


def of(table: str, columns: str) -> str:
    """Return *columns* with the name of *table*, for a query on several."""
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


def insertion(table: str, columns: int) -> str:
    """Return the statement that stores a row with its checksum, and replaces a row with the same key."""
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * (columns + 1))})"


TABLES = f"""
    CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum) WITHOUT ROWID;
    CREATE TABLE entries (
        position INTEGER PRIMARY KEY, first INTEGER, line INTEGER NOT NULL, rejected TEXT, {_ENTRY}, checksum
    );
    CREATE TABLE repeats (
        reference TEXT PRIMARY KEY, first INTEGER NOT NULL, rows INTEGER NOT NULL, checksum
    ) WITHOUT ROWID;
    CREATE TABLE answers (
        id INTEGER PRIMARY KEY, needs_confirmation INTEGER NOT NULL, paid_reff TEXT, {ANSWER}, checksum
    );
    CREATE TABLE earlier (
        reference TEXT PRIMARY KEY, breaks INTEGER NOT NULL, data TEXT NOT NULL, checksum
    ) WITHOUT ROWID;
    CREATE TABLE statement (position INTEGER PRIMARY KEY, line INTEGER NOT NULL, rejected TEXT, {_ENTRY}, checksum);
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""

NAMES = ("notes", "entries", "repeats", "answers", "earlier", "statement")
"""The tables."""

INDEXES = (
    "CREATE INDEX IF NOT EXISTS entries_by_reference ON entries (reference, rejected)",
    "CREATE INDEX IF NOT EXISTS answers_by_reff ON answers (paid_reff) WHERE paid_reff IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS statement_by_reference ON statement (reference)",
)

SET_NOTE = insertion("notes", 2)
ADD_ENTRY = insertion("entries", 4 + len(ENTRY_COLUMNS))
ENTRIES_OF = f"SELECT {ENTRY} FROM entries WHERE reference = ? AND rejected IS NULL ORDER BY position"

StoredCell: TypeAlias = str | int | bytes | None

_ABSENT = b""
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  an expiry has no zone
_MICROSECOND = timedelta(microseconds=1)
_BOUND = 2**63
_MONEY = tuple(name for name, kind in KINDS.items() if kind == "money")
_TIMES = ("expdate", "created_at")
_NO_TRANSACTION: tuple[Any, ...] = (None,) * len(TRANSACTION_COLUMNS)


def entry_cells(entry: Entry | RejectedEntry) -> tuple[StoredCell, ...]:
    """Return `line`, `rejected` and `ENTRY_COLUMNS` for *entry*."""
    if isinstance(entry, RejectedEntry):
        stated = {name: _cell(getattr(entry, name)) for name in _OF_REJECTED}
        return entry.line, _cell(entry.reason), *map(stated.get, ENTRY_COLUMNS)
    return entry.line, None, *_cells(_of_entry(entry))


def entry_from(cells: Sequence[Any]) -> Entry | RejectedEntry:
    line, rejected, *stored = cells
    values = _values(ENTRY_COLUMNS, stored)
    if rejected is None:
        return checked_entry({**values, "line": line})
    return RejectedEntry(line=line, reason=rejected, **{name: values[name] for name in _OF_REJECTED})


def observation_cells(observation: Observation) -> tuple[StoredCell, ...]:
    """Return `ANSWER_COLUMNS` for *observation*."""
    at = (observation.at - _EPOCH_UTC) // _MICROSECOND
    said = (observation.answer.value, at, observation.error, observation.message or None)
    found, stored = observation.transaction, _NO_TRANSACTION
    if found is not None:
        stored = (*_cells(documented_values(found)), json.dumps(found.deviations) if found.deviations else None)
    return (*said, observation.reused_from or None, *stored)


def observation_from(cells: Sequence[Any]) -> Observation | None:
    """Return the answer from its `observation_cells`, without `Transaction.raw`. None without one."""
    answer, at, error, message, reused_from, *documented, deviations = cells
    if answer is None:
        return None
    transaction = None
    if documented[0] is not None:
        kept = tuple(json.loads(deviations)) if deviations else ()
        transaction = Transaction(**_values([*DOCUMENTED], documented), deviations=kept)
    return Observation(
        answer=Answer(answer),
        at=moment_from(at),
        transaction=transaction,
        error=error,
        message=message or "",
        reused_from=reused_from or "",
    )


def _cells(values: Iterable[Any]) -> list[Any]:
    # Without a call for what most cells are: text, nothing, or a number of 64 bits, which SQLite can store.
    return [
        cell if cell is None or type(cell) is str or (type(cell) is int and -_BOUND <= cell < _BOUND) else _cell(cell)
        for cell in values
    ]


def _cell(value: Any) -> Any:
    if value is ABSENT:
        return _ABSENT
    if isinstance(value, str):  # `marshal` does not know subclasses
        return str.__str__(value)
    if type(value) is int:  # SQLite has 64 bits. What our own readers accept fits, what a program makes may not
        return value if -_BOUND <= value < _BOUND else str(value)
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND if value.tzinfo is None else value.isoformat()
    return value


def _values(names: Sequence[str], cells: Sequence[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=True):
        if cell == _ABSENT:
            values[name] = ABSENT
        elif name in _TIMES and cell is not None:
            values[name] = time_from(cell)
        else:
            values[name] = int(cell) if name in _MONEY and type(cell) is str else cell
    return values


def time_from(cell: int | str) -> datetime:
    """Return a time of a file from its cell: microseconds without a zone, or text with one."""
    return _EPOCH + timedelta(microseconds=cell) if isinstance(cell, int) else datetime.fromisoformat(cell)


def moment_from(cell: int) -> datetime:
    """Return a time in UTC from its cell: microseconds since 1970, a quarter of the text."""
    return _EPOCH_UTC + timedelta(microseconds=cell)


_OF_REJECTED = ("reference", "amount", "amount_received", "status", "kind")
_of_entry = attrgetter(*ENTRY_COLUMNS)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ. Without their values: these may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [cell.name for cell in fields(type(entry)) if getattr(stored, cell.name) != getattr(entry, cell.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"


def checksum(cells: tuple[Any, ...]) -> int:
    """Return the checksum of a row. Format 0 of `marshal` is the same in every Python."""
    return crc32(marshal.dumps(cells, 0))


def with_checksum(*cells: Any) -> tuple[Any, ...]:
    return (*cells, checksum(cells))


def add_checksum(connection: sqlite3.Connection) -> None:
    connection.create_function("checksum", -1, lambda *cells: checksum(cells), deterministic=True)


def damage_of(connection: sqlite3.Connection) -> str:
    """Read the whole database. Return its damage in words, or empty text."""
    present = _tables(connection)
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(";".join((TABLES, *INDEXES)))
        expected = _tables(fresh)
    if not present <= expected or len({table for _, _, table, _ in present}) < len(NAMES):
        return "its tables are not a journal's"
    add_checksum(connection)
    for table in NAMES:
        *columns, _ = (name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))
        is_wrong = f"checksum({', '.join(columns)}) IS NOT checksum"
        try:  # inside SQLite, which is twice as fast as reading each row
            ((wrong,),) = connection.execute(f"SELECT total({is_wrong}) FROM {table}")
        except sqlite3.OperationalError:  # text that is not UTF-8
            wrong = 1
        if wrong:
            return f"a row of {table} is not what was written"
    said = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if said == "ok" else said


def _tables(connection: sqlite3.Connection) -> set[tuple[object, ...]]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


# Without the GIL, a cached statement that a thread has prepared is freed when that thread runs again, or ends. Until
# then SQLite keeps the closed file open, and locked.
_CACHED_STATEMENTS = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else 128
_MIN_BYTES = 512
_MAX_LOG_BYTES = 1 << 22
_BESIDE = ("", "-wal", "-shm", "-journal")
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of a damaged file: SQLite's messages may quote the damage."""
_ANOTHER = "choose another folder for a new run"


class Database:
    """One database, locked until it is closed. A temporary one without *path*."""

    def __init__(self, path: Path | None, *, must_exist: bool = False) -> None:
        self.path = path
        self._log = None if path is None else _log_of(path)
        if path is not None:
            _prepare(path, must_exist=must_exist)
        with ExitStack() as on_failure:
            try:
                # Answers are written on the event loop, in microseconds. It waits while a thread takes a long step.
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
                raise _refusal(path, error) from error
            on_failure.pop_all()
        self._is_open = True
        self.failure: str = ""
        self._readers: WeakSet[sqlite3.Cursor] = WeakSet()

    def _open(self) -> None:
        execute = self.connection.execute
        add_checksum(self.connection)
        execute("PRAGMA page_size = 4096")
        execute("PRAGMA cache_size = -16384")  # KiB
        if self.path is None:
            execute("PRAGMA journal_mode = OFF")
            execute("PRAGMA synchronous = OFF")
            self.connection.executescript(TABLES)
            return
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("BEGIN EXCLUSIVE")  # takes the lock, which is kept until the end
        if _pragma(self.connection, "schema_version") == 0:
            for statement in TABLES.split(";"):
                execute(statement)
        execute("COMMIT")
        _check(self.connection, self.path)
        execute("PRAGMA wal_autocheckpoint = 0")  # `commit` does it, and empties the log
        execute("PRAGMA journal_mode = WAL")  # only now: it stays with the file, which may be a stranger's
        execute("PRAGMA synchronous = NORMAL")

    def read(self, query: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query lazily, until the database is closed. Raise `JournalError` if it fails."""
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
        """Return all rows of a query. Raises as `read`."""
        return list(self.read(query, parameters))

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Yield the connection in a transaction, and translate the write errors of SQLite."""
        # After one error all later calls are refused: SQLite may have rolled back the transaction, which then must not
        # count as committed.
        if self.failure:
            raise JournalWriteError(self.failure)
        try:
            if not self.connection.in_transaction:
                self.connection.execute("BEGIN")
            yield self.connection
        except sqlite3.DatabaseError as error:
            self.failure = (
                f"the journal {self.path or 'of this run'} cannot be written ({error}); all earlier answers are kept: "
                "fix that, and run the same command again"
            )
            raise JournalWriteError(self.failure) from error

    def commit(self) -> None:
        """Commit the open transaction, if there is one, and the database is kept."""
        if (self.connection.in_transaction and self.path is not None) or self.failure:
            with self.writing() as db:
                db.execute("COMMIT")
            if self._log is not None and self._log.stat().st_size > _MAX_LOG_BYTES:
                with suppress(sqlite3.OperationalError):  # later, then
                    self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Commit, unless a write failed, and release the file. Safe to call twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self.failure:
                self.commit()
        finally:
            for reader in self._readers:  # an unfinished one would keep the lock
                reader.close()
            self.connection.close()


@define
class Buffer:
    """Rows that *query* inserts, with their checksums, *size* at a time. Each batch is committed if it *commits*."""

    _database: Database
    _query: str
    _size: int
    commits: bool = field(default=False, kw_only=True)
    rows: list[tuple[Any, ...]] = field(init=False, factory=list)

    def add(self, *cells: Any) -> None:
        """Add a row, without its checksum."""
        self.rows.append((*cells, checksum(cells)))
        if len(self.rows) == self._size:
            self.write()

    def write(self) -> None:
        if self.rows:
            with self._database.writing() as db:
                db.executemany(self._query, self.rows)
            self.rows.clear()
        if self.commits:
            self._database.commit()


def verify_journal(path: Path) -> str:
    """Read all of a journal without changing it, as the folder may be read-only. Return the name of its run."""
    if _log_of(path).exists():  # a killed run left it, and only SQLite can merge both
        with closing(Database(path, must_exist=True)) as database:
            return _run_of(database.connection)
    _prepare(path, must_exist=True)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            _check(connection, path)
            return _run_of(connection)
    except _FAULTS as error:
        raise _refusal(path, error) from error


def _run_of(connection: sqlite3.Connection) -> str:
    return "".join(name for (name,) in connection.execute("SELECT value FROM notes WHERE name = 'run'"))


def copy_journal(path: Path, file: IO[bytes]) -> None:
    """Copy the journal of a run that has ended, without changing anything in its folder."""
    _check_ended(path)
    verify_journal(path)  # refuses what is missing, too
    try:
        with open(path, "rb", opener=own) as journal:
            copyfileobj(journal, file, 1 << 20)
            file.flush()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}") from error
    _check_ended(path)


def _check_ended(path: Path) -> None:
    """Refuse a journal with a write-ahead log: only SQLite can put both together, and would change the folder."""
    if _log_of(path).exists():
        message = (
            f"the run in {path.parent} is under way, or was killed: run the same command again to end it, "
            f"or payclient report {path.parent} to judge it as it is"
        )
        raise JournalError(message)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "application_id") != APPLICATION:
        raise JournalError(f"{path} is not a journal of payclient; {_ANOTHER}")
    if (version := _pragma(connection, "user_version")) != VERSION:
        message = (
            f"{path} is a journal of version {version}, and this payclient writes version {VERSION}: "
            f"use the payclient version that created it, or {_ANOTHER}"
        )
        raise JournalError(message)
    if damage := damage_of(connection):
        raise JournalError(f"{path} is damaged ({damage}); {_ANOTHER}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _refusal(path: Path | None, error: Exception) -> JournalError | JournalWriteError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return JournalError(f"{path} is in use by another process: wait for it, or {_ANOTHER}", is_busy=True)
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
        raise JournalError(f"{error.filename} is {error.strerror}") from error
    if must_exist and not path.exists():
        raise JournalError(f"{path.parent} is not the folder of a run: {path.name} is missing")
    is_repaired = path.with_name(f"{path.name}-journal").exists()  # SQLite did it, from that file
    size = path.stat().st_size if path.is_file() and not is_repaired else _MIN_BYTES
    if 0 < size < _MIN_BYTES or (size == 0 and _log_of(path).exists()):  # SQLite would treat it as new
        raise JournalError(f"{path} is damaged (hardly anything is left of it); {_ANOTHER}")
    try:
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise JournalError(f"{path.parent} cannot be created: {error.strerror}") from error
    with suppress(OSError):  # it is there, or SQLite's error explains why not
        open(path, "xb", opener=own).close()


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
