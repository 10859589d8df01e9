"""
Check that a journal holds exactly what was written to it.

Design rules:

- Each row ends with a checksum of its other columns. CRC-32 detects every flipped bit, and every burst of up to 32
  bits. It protects against failing disks, not against tampering.
- A missing row leaves no checksum behind, so the number of rows is compared with a note.
- SQLite reads a write-ahead log up to the first damaged frame, and silently drops the rest. So the log is checked
  first: no committed frame may follow a damaged one.
"""

from __future__ import annotations

import json
import marshal
import sqlite3
import struct
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from payclient._escape import plural
from payclient._own_file import own
from payclient.reconcile.journal import _schema as schema

_LOG_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_LITTLE_ENDIAN, _BIG_ENDIAN = 0x377F0682, 0x377F0683
_MASK = 0xFFFFFFFF


def checksum(cells: tuple[Any, ...]) -> int:
    """Return the checksum of a row; format 0 of `marshal` is the same in every Python."""
    try:
        return crc32(marshal.dumps(cells, 0))
    except ValueError:  # a subclass of str or int, which SQLite stores as its base type
        return crc32(marshal.dumps(tuple(map(_plain, cells)), 0))


def with_checksum(*cells: Any) -> tuple[Any, ...]:
    """Return *cells* as a whole row."""
    return (*cells, checksum(cells))


def _plain(cell: Any) -> Any:
    if isinstance(cell, str):
        return str.__str__(cell)
    return int.__index__(cell) if isinstance(cell, int) else cell


def add_checksum(connection: sqlite3.Connection) -> None:
    """Make `checksum` a function of SQL."""
    connection.create_function("checksum", -1, lambda *cells: checksum(cells), deterministic=True)


def damage_of(connection: sqlite3.Connection) -> str:
    """Read the whole database; return its damage in words, or empty text."""
    if not _tables(connection) <= _known_tables():
        return "its tables are not those of a journal"
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
    """Return the damaged row of *table* in words."""
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


def is_log_damaged(path: Path) -> bool:
    """Return whether SQLite would drop committed data from the write-ahead log at *path*."""
    try:
        with open(path, "rb", opener=own) as log:
            return _is_damaged(log)
    except OSError:  # there is no log, or SQLite reports why it cannot be read
        return False


def _is_damaged(log: IO[bytes]) -> bool:
    # The log is truncated before it is reused, so it has no old frames.
    header = log.read(_LOG_HEADER.size)
    if len(header) < _LOG_HEADER.size:
        return False
    magic, _, page_bytes, _, *salts, first, second = _LOG_HEADER.unpack(header)
    words = struct.Struct(">2I" if magic == _BIG_ENDIAN else "<2I")
    running = _summed((0, 0), header[:-8], words)
    is_whole = magic in (_LITTLE_ENDIAN, _BIG_ENDIAN) and page_bytes == schema.PAGE_BYTES and running == (first, second)
    while len(frame := log.read(_FRAME_HEADER.size + schema.PAGE_BYTES)) == _FRAME_HEADER.size + schema.PAGE_BYTES:
        number, committed, *frame_salts, first, second = _FRAME_HEADER.unpack_from(frame)
        if is_whole:
            before, page = running, frame[_FRAME_HEADER.size :]
            running = _summed(_summed(before, frame[:8], words), page, words)
            if is_whole := frame_salts == salts and running == (first, second):
                continue
            # The flipped bit may be in the commit mark itself.
            marks = (struct.pack(">2I", number, 1 << bit) for bit in range(32))
            if any(_summed(_summed(before, mark, words), page, words) == (first, second) for mark in marks):
                return True
        if committed:
            return True
    return False


def _summed(start: tuple[int, int], data: bytes, words: struct.Struct) -> tuple[int, int]:
    """Return SQLite's checksum of *data*, continued from *start*."""
    first, second = start
    for one, other in words.iter_unpack(data):
        first = (first + one + second) & _MASK
        second = (second + other + first) & _MASK
    return first, second
