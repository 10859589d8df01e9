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

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from payclient._escape import quote
from payclient.ledger._columns import Finder, field_of
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._lines import read_lines
from payclient.ledger._rows import RowReader, Table
from payclient.ledger._scope import Scope
from payclient.protocol import JSONProblem, is_object, kind, read_json


def read_json_lines(chunks: Iterable[bytes], find: Finder, scope: Scope) -> Table:
    """Return the table in a JSON Lines file, whose bytes may be split anywhere."""
    dialect = scope.dialect
    lines = ((number, line) for number, line in enumerate(read_lines(chunks, dialect.encoding), 1) if line.strip())
    line, text = next(lines, (0, ""))
    if not line:
        return Table()
    try:
        header = tuple(_object(text))
    except JSONProblem as problem:
        message = (
            f"line {line}: {problem}; JSON Lines has one whole object in each line, "
            "which jq -c makes of objects and jq -c '.[]' of a list"
        )
        raise LedgerError(message, line=line) from None
    reader = RowReader(find(header), dialect, scope)
    return Table(columns=reader.columns, reader=reader, rows=_rows(chain([(line, text)], lines), reader))


def _object(text: str) -> dict[str, Any]:
    value = read_json(text.encode())
    if is_object(value):
        return value
    message = f"found {kind(value)} where an object must be"
    raise JSONProblem(message)


def _rows(lines: Iterable[tuple[int, str]], reader: RowReader) -> Iterator[Entry | RejectedEntry | None]:
    header = reader.columns.header
    keys = frozenset(header)
    used = {*reader.columns.used, "created_at", "currency"}  # the last two are not compared
    has_unknown_key = False
    for line, text in lines:
        try:
            value = _object(text)
        except JSONProblem as problem:
            yield RejectedEntry(line=line, reason=str(problem))
            continue
        row = reader.read(line, [value.get(key) for key in header])
        if row is not None and not value.keys() <= keys:
            unknown = [key for key in value if key not in keys]
            if meant := [key for key in unknown if (field_of(key) or "created_at") not in used]:
                row = _rejected(row, meant)
            elif not has_unknown_key:
                has_unknown_key = True
                reader.warnings.append(
                    f"{quote(unknown[0])} (line {line}) is not a key of the first row; such keys are not used",
                )
        yield row


def _rejected(row: Entry | RejectedEntry, meant: Iterable[str]) -> RejectedEntry:
    keys = ", ".join(map(quote, meant))
    reason = f"has {keys}, which the first row does not have; give all rows the same keys, null where empty"
    amount = row.amount if isinstance(row.amount, int) else None
    return RejectedEntry(line=row.line, reason=reason, reference=row.reference, amount=amount, status=row.status)
