"""
Read a ledger from JSON Lines: one object per line, strictly and lazily.

Design rules:

- The keys of the first object are the columns. An additional key in a later object rejects its row
  if it names a field, which would otherwise not be compared. Any other is ignored, with one
  warning. A key that is missing in a later object is an empty cell, like null.
- One line is one row. A line that is not an object rejects that row; as the first line it refuses the
  file, because then there are no columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from payclient._escape import quote
from payclient.ledger._columns import Columns, field_of, find_columns
from payclient.ledger._dialect import PLAIN, Dialect
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._ledger import NO_COLUMNS, Table
from payclient.ledger._lines import read_lines
from payclient.ledger._rows import RowReader, typed_readers
from payclient.ledger._scope import Scope
from payclient.protocol import JSONProblem, is_object, kind, read_json


def read_json_lines(
    chunks: Iterable[bytes],
    *,
    columns: Mapping[str, str] | None = None,
    dialect: Dialect = PLAIN,
    scope: Scope | None = None,
) -> Table:
    """
    Return the table in a JSON Lines file.

    Args:
        chunks: The bytes of the file, split anywhere.
        columns: The key by field, for keys that are not recognised.
        dialect: How the file is written.
        scope: Decides which rows are left out.

    Raises:
        LedgerError: When the first object or the encoding cannot be trusted; for rows, when they
            are read.
    """
    lines = ((number, line) for number, line in enumerate(read_lines(chunks, dialect.encoding), 1) if line.strip())
    line, text = next(lines, (0, ""))
    if not line:
        return Table(columns=NO_COLUMNS, rows=iter(()))
    first = _first_object(line, text)
    understood = find_columns(tuple(first), columns, dialect.columns)
    warnings: list[str] = []
    reader = RowReader(understood, warnings, typed_readers(dialect), dialect, scope)
    rows = _Rows(understood, warnings, reader).read(line, first, lines)
    return Table(columns=understood, rows=rows, warnings=warnings, suggest=reader.suggestions)


def _first_object(line: int, text: str) -> dict[str, Any]:
    try:
        return _object(text)
    except JSONProblem as problem:
        message = (
            f"line {line}: {problem}; JSON Lines has one whole object in each line, "
            "which jq -c makes of objects and jq -c '.[]' of a list"
        )
        raise LedgerError(message, line=line) from None


def _object(text: str) -> dict[str, Any]:
    value = read_json(text.encode())
    if is_object(value):
        return value
    message = f"found {kind(value)} where an object must be"
    raise JSONProblem(message)


class _Rows:
    """Makes entries of objects."""

    def __init__(self, columns: Columns, warnings: list[str], reader: RowReader) -> None:
        self._header = columns.header
        self._used = frozenset((*columns.used, "created_at", "currency"))  # which is not compared
        self._keys = frozenset(columns.header)
        self._warnings = warnings
        self._reader = reader
        self._has_unknown_key = False

    def read(
        self,
        line: int,
        first: dict[str, Any],
        lines: Iterable[tuple[int, str]],
    ) -> Iterator[Entry | RejectedEntry | None]:
        """Yield the entry of the *first* object, and then of those in *lines*."""
        yield self._read_object(line, first)
        for number, text in lines:
            try:
                value = _object(text)
            except JSONProblem as problem:
                yield RejectedEntry(line=number, reason=str(problem))
            else:
                yield self._read_object(number, value)

    def _read_object(self, line: int, value: dict[str, Any]) -> Entry | RejectedEntry | None:
        row = self._reader.read(line, [value.get(key) for key in self._header])
        if row is None or value.keys() <= self._keys:
            return row
        unknown = [key for key in value if key not in self._keys]
        meant = [key for key in unknown if (field_of(key) or "created_at") not in self._used]
        if meant:
            keys = ", ".join(map(quote, meant))
            reason = f"has {keys}, which the first row does not have; give all rows the same keys, null where empty"
            amount = row.amount if isinstance(row.amount, int) else None
            return RejectedEntry(line=line, reason=reason, reference=row.reference, amount=amount, status=row.status)
        if not self._has_unknown_key:
            self._has_unknown_key = True
            self._warnings.append(
                f"{quote(unknown[0])} (line {line}) is not a key of the first row; such keys are not used",
            )
        return row
