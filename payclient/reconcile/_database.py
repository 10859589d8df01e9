"""The SQLite file of a journal: opened for one process alone, checked before it is used."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from payclient.reconcile import _schema as schema
from payclient.reconcile._errors import JournalError, JournalWriteError

_CACHE_KIB = 16_384
_SMALLEST_BYTES = 512
_ANOTHER = "choose another folder for a new run"


class Database:
    """
    One database, held until it is closed.

    Args:
        path: The file; None for one that is gone when it is closed.
        is_durable: Each commit waits for the disk.
        must_exist: Refuse to make a new one.

    Raises:
        JournalError: When it cannot be opened, is in use, damaged, of another version, or no journal.
        JournalWriteError: When the disk is full or fails.
    """

    def __init__(self, path: Path | None, *, is_durable: bool = False, must_exist: bool = False) -> None:
        self.path = path
        self._holder = None if path is None else path.with_name(f"{path.name}.holder")
        if path is not None:
            _prepare(path, must_exist=must_exist)
        try:
            # An answer is written on the event loop, in microseconds, so no other thread ever sees the connection.
            self.connection = sqlite3.connect("" if path is None else path, timeout=0, isolation_level=None)
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        try:
            self._open(is_durable=is_durable)
        except sqlite3.Error as error:
            self.connection.close()
            raise self._refusal(error) from error
        except JournalError:
            self.connection.close()
            raise
        self._is_open = True
        self._failure = ""
        self._readers: WeakSet[sqlite3.Cursor] = WeakSet()
        if self._holder is not None:
            with suppress(OSError):  # it only helps whoever comes second
                self._holder.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")

    def _open(self, *, is_durable: bool) -> None:
        execute = self.connection.execute
        execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if self.path is None:
            execute("PRAGMA journal_mode = OFF")
            execute("PRAGMA synchronous = OFF")
            self.connection.executescript(schema.TABLES)
            return
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("BEGIN EXCLUSIVE")  # takes the lock, which is kept until the end
        if self._pragma("schema_version") == 0:
            for statement in schema.TABLES.split(";"):
                execute(statement)
        execute("COMMIT")
        self._check()
        execute("PRAGMA journal_mode = WAL")  # only now, because it stays with the file, which may be a stranger's
        execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")

    def _check(self) -> None:
        """Refuse what is not ours, or not whole."""
        if self._pragma("application_id") != schema.APPLICATION:
            message = f"{self.path} is no journal of payclient; {_ANOTHER}"
            raise JournalError(message)
        if (version := self._pragma("user_version")) != schema.VERSION:
            message = (
                f"{self.path} is a journal of version {version}, and this payclient writes version {schema.VERSION}; "
                f"go on with the payclient that began it, or {_ANOTHER}"
            )
            raise JournalError(message)
        if (found := self.connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            message = f"{self.path} is damaged ({found}); {_ANOTHER}"
            raise JournalError(message)

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _refusal(self, error: sqlite3.Error) -> JournalError | JournalWriteError:
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return JournalError(f"{self.path} is in use by {self._held_by()}; wait for it, or {_ANOTHER}")
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return JournalError(f"{self.path} is damaged, or no journal of payclient ({error}); {_ANOTHER}")
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return JournalWriteError(f"{self.path} cannot be opened for writing ({error}): is the disk full?")
        return JournalError(f"{self.path} cannot be opened ({error})")

    def _held_by(self) -> str:
        try:
            return self._holder.read_text(encoding="utf-8") if self._holder else "another"
        except OSError:
            return "another process"

    def read(self, query: str, parameters: Sequence[object] = ()) -> sqlite3.Cursor:
        """Return the rows of a query, which are read lazily, until the database is closed."""
        reader = self.connection.execute(query, parameters)
        self._readers.add(reader)
        return reader

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """
        Give the connection with a transaction open, and turn what SQLite cannot write into an error of ours.

        Raises:
            JournalWriteError: When the disk is full, was made read-only, or fails; and ever after, because SQLite may
                have taken back all of the transaction, which nobody must believe to be committed then.
        """
        if self._failure:
            raise JournalWriteError(self._failure)
        try:
            if not self.connection.in_transaction:
                self.connection.execute("BEGIN")
            yield self.connection
        except sqlite3.DatabaseError as error:
            self._failure = (
                f"the journal {self.path or 'of this run'} cannot be written ({error}); all answers before are kept: "
                "mend that, and run the same command again"
            )
            raise JournalWriteError(self._failure) from error

    @property
    def is_failed(self) -> bool:
        """Whether it could not be written once, and so never again."""
        return bool(self._failure)

    def commit(self) -> None:
        """Make what was written last."""
        if self.connection.in_transaction or self._failure:
            with self.writing() as db:
                db.execute("COMMIT")

    def close(self) -> None:
        """Commit, unless writing failed, and let others use the file; safe to call twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self._failure:
                self.commit()
        finally:
            if self._holder is not None:
                with suppress(OSError):  # while the file is still ours, so that it is not another's that goes
                    self._holder.unlink(missing_ok=True)
            for reader in self._readers:  # one that is not at its end would keep the lock
                reader.close()
            self.connection.close()


def _prepare(path: Path, *, must_exist: bool) -> None:
    if must_exist and not path.exists():
        message = f"there is no journal at {path}"
        raise JournalError(message)
    if _is_cut(path):
        message = f"{path} is damaged (hardly anything is left of it); {_ANOTHER}"
        raise JournalError(message)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path.parent} cannot be made: {error.strerror}"
        raise JournalError(message) from error


def _is_cut(path: Path) -> bool:
    """Say whether SQLite would take what is left of the file for nothing, and begin anew."""
    if not path.is_file() or path.with_name(f"{path.name}-journal").exists():  # with that it knows what to mend
        return False
    size = path.stat().st_size
    return 0 < size < _SMALLEST_BYTES or (size == 0 and path.with_name(f"{path.name}-wal").exists())
