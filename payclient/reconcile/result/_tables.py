"""The tables of a report in a temporary file: findings by reference, and what breaks have in common.

Their number grows with the breaks, so they are not kept in memory. They are written again with each report, and never
read by another run: the files that a person signs are the truth.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from weakref import finalize

from attrs import define, field

Value: TypeAlias = str | int | None

_TABLES = {
    "postings": ("reference", "part", "code", "severity", "age", "amount TEXT"),
    "causes": ("cause", "reference", "line", "at_stake TEXT"),
}
"""The columns. Amounts are text, because they may have more than 64 bits."""

_OF_THE_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_CACHE_KIB = 16_384


def temporary_database(*tables: str, folder: Path | None = None) -> sqlite3.Connection:
    """Open a database with *tables* that is not kept, in *folder* or else with the temporary files of SQLite."""
    path = "" if folder is None else folder / "tables.sqlite"
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for statement in (
        *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"PRAGMA cache_size = -{_CACHE_KIB}"),
        *(f"CREATE TABLE {table}" for table in tables),
        "BEGIN",
    ):
        database.execute(statement)
    return database


@define
class ResultTables:
    """The tables of one report, in a temporary file in *folder*."""

    _folder: Path | None = None
    _database: sqlite3.Connection = field(init=False)
    close: Callable[[], object] = field(init=False)

    def __attrs_post_init__(self) -> None:
        tables = (f"{name} ({', '.join(columns)})" for name, columns in _TABLES.items())
        with _disk_faults():
            self._database = temporary_database(*tables, folder=self._folder)
        self.close = finalize(self, self._database.close)

    def insert(self, table: str, rows: Iterable[tuple[Value, ...]]) -> None:
        marks = ", ".join("?" * len(_TABLES[table]))
        with _disk_faults():
            self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608  the name is a constant

    def select(self, query: str, *values: Value) -> Iterator[Any]:
        with _disk_faults():
            yield from self._database.execute(query, values)


@contextmanager
def _disk_faults() -> Generator[None]:
    """Raise a fault of the disk as an `OSError`, as the files of a report do. Other errors are bugs."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _OF_THE_DISK:
            raise
        raise OSError(f"the temporary tables of the report cannot be written: {error}") from error
