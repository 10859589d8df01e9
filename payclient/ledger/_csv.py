"""
Read a ledger from CSV: strictly, lazily, and without losing a line.

Design rules:

- One line is one row. A quote that opens on one line and closes on another is refused, because a
  line break in a cell cannot be distinguished from a stray quote that swallows rows.
- A problem in one row rejects that row. A problem that makes the rows uncertain refuses the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from payclient._escape import plural
from payclient.ledger._cells import as_option
from payclient.ledger._columns import Columns, Finder
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._header import to_header, with_hint
from payclient.ledger._lines import read_lines
from payclient.ledger._rows import NO_COLUMNS, RowReader, Table
from payclient.ledger._scope import Scope

DELIMITERS = (",", ";", "\t")
OTHERS = ("|", "^", "~")
_SEPARATOR = re.compile('"?sep=([^"\\s\\w]|\\t)"?,*', re.IGNORECASE)
"""The first line with which Excel is told the delimiter."""


def read_csv(chunks: Iterable[bytes], find: Finder, delimiter: str | None, scope: Scope) -> Table:
    """Return the table in a CSV file, whose bytes may be split anywhere."""
    # A delimiter that is not given is recognised from the header: comma, semicolon or tab. A first line `sep=;`, as
    # Excel reads it, declares it as well.
    dialect = scope.dialect
    lines = read_lines(chunks, dialect.encoding)
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    declared, filled = _declared_delimiter(numbered)
    first, header, warnings = to_header(filled, dialect, empty="")
    delimiters = DELIMITERS if delimiter is None and declared is None else (delimiter or declared or "",)
    delimiter, names = _split(header, delimiters)
    try:
        understood = _understand(names, find, first) if first else NO_COLUMNS
    except LedgerError as error:
        below = ((line, _split(text, delimiters)[1]) for line, text in filled)
        if len(delimiters) > 1:
            error = _with_delimiter(error, header, names)
        raise with_hint(error, below, find, dialect, header=names) from None
    reader = RowReader(understood, dialect, scope)
    reader.warnings += warnings
    rows = _rows(_records(lines, delimiter, before=first), reader)
    return Table(columns=understood, reader=reader, rows=rows, delimiter=delimiter, header_row=first)


def _declared_delimiter(lines: Iterator[tuple[int, str]]) -> tuple[str | None, Iterator[tuple[int, str]]]:
    """Return the delimiter that the first line declares to Excel, and the lines below; all lines if there is none."""
    first = next(lines, None)
    if first is None:
        return None, iter(())
    match = _SEPARATOR.fullmatch(first[1])
    return (match[1], lines) if match else (None, chain([first], lines))


def _rows(records: Iterable[tuple[int, list[str]]], reader: RowReader) -> Iterator[Entry | RejectedEntry | None]:
    width = len(reader.columns.header)
    for line, cells in records:
        if not any(map(str.strip, cells)):
            continue
        if len(cells) == width:
            yield reader.read(line, cells)
        else:
            yield RejectedEntry(line=line, reason=f"has {plural(len(cells), 'cell')} where the header has {width}")


def _understand(names: Sequence[str], find: Finder, line: int) -> Columns:
    if not names:
        message = f"line {line}: the quotes of the header do not pair"
        raise LedgerError(message, line=line)
    return find(names)


def _with_delimiter(error: LedgerError, header: str, names: Sequence[str]) -> LedgerError:
    """Return *error* with a delimiter that is not recognised, and splits *header* into more cells than *names*."""
    counts = {other: len(_cells(header, other)) for other in OTHERS}
    other = max(counts, key=lambda each: counts[each])
    if counts[other] <= max(1, len(names)):
        return error
    message = f"{error}; {as_option('delimiter', other)} splits it into {counts[other]} columns"
    return LedgerError(message, line=error.line)


def _split(header: str, delimiters: Sequence[str]) -> tuple[str, list[str]]:
    """Return the delimiter that splits *header* into most cells, the first of equals, and these cells."""
    splits = {delimiter: _cells(header, delimiter) for delimiter in delimiters}
    delimiter = max(splits, key=lambda each: len(splits[each]))
    return delimiter, splits[delimiter]


def _cells(header: str, delimiter: str) -> list[str]:
    """Return the cells; none if the quotes do not pair, as with the wrong delimiter."""
    try:
        return next(csv.reader([header], delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def _records(lines: Iterator[str], delimiter: str, *, before: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = before + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _quote_problem(line, str(error), is_open=before + reader.line_num > line) from None
        if before + reader.line_num != line:
            raise _quote_problem(line, f"it closes on line {before + reader.line_num}", is_open=True)
        yield line, cells


def _quote_problem(line: int, detail: str, *, is_open: bool) -> LedgerError:
    if "field larger" in detail:
        most = f"{csv.field_size_limit():,} characters"
        message = f"line {line}: a cell has more than {most}; perhaps a quote before it does not close"
        return LedgerError(message, line=line)
    what = "a quote opens and does not close on the same line, so rows after it would be lost"
    message = f"line {line}: {what if is_open else 'the quotes do not pair'} ({detail}); correct or double the quote"
    return LedgerError(message, line=line)
