"""Read a ledger from CSV or JSON Lines: strictly, lazily, and without losing a line.

Design rules:

- One line is one row. A quote that opens on one line and closes on another is refused, because a
  line break in a cell cannot be distinguished from a stray quote that swallows rows.
- A problem in one row rejects that row. A problem that makes the rows uncertain refuses the file: bytes that are not
  UTF-8, a first line of JSON that is not an object, because then there are no columns.
- The keys of the first object are the columns. An additional key in a later object rejects its row
  if it names a field, which would otherwise not be compared. Any other is ignored, with one
  warning. A key that is missing in a later object is an empty cell, like null.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from payclient._shared.escape import plural, quote
from payclient.protocol import JSONProblem, is_object, kind, read_json
from payclient.reconcile.ledger._cells import LedgerError, as_option
from payclient.reconcile.ledger._columns import Columns, Finder, field_of
from payclient.reconcile.ledger._dialect import UTF_8
from payclient.reconcile.ledger._entry import Entry, RejectedEntry
from payclient.reconcile.ledger._rows import NO_COLUMNS, RowReader, Table, to_header, with_hint
from payclient.reconcile.ledger._scope import Scope

_MAX_LINE = 1 << 20


def with_start(chunks: Iterable[bytes], size_bytes: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first chunks, of *size_bytes* or more together, and an iterator over all chunks, these included."""
    rest = iter(chunks)
    first: list[bytes] = []
    while sum(map(len, first)) < size_bytes and (chunk := next(rest, b"")):
        first.append(chunk)
    return b"".join(first), chain(first, rest)


def read_lines(chunks: Iterable[bytes], encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a file without their line ends: LF, CR LF or CR; all before an error first."""
    # A byte order mark of UTF-8 has priority over *encoding*.
    start, chunks = with_start(chunks, len(codecs.BOM_UTF8))
    is_utf_8 = encoding == UTF_8 or start.startswith(codecs.BOM_UTF8)
    decoder = _Decoder(UTF_8 if is_utf_8 else encoding, start)
    rest, count = "", 0
    for chunk in chunks:
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        yield from lines
        count += len(lines)
        if decoder.problem:
            raise LedgerError(decoder.problem.format(line=count + 1), line=count + 1, offset=decoder.offset)
        if len(rest) > _MAX_LINE:
            message = f"line {count + 1} is longer than {_MAX_LINE} characters; this is not a ledger"
            raise LedgerError(message, line=count + 1)
    *lines, rest = (rest + decoder.decode(b"", is_last=True)).split("\n")
    yield from lines
    if rest:
        yield rest
    if decoder.problem:
        line = count + len(lines) + 1
        raise LedgerError(decoder.problem.format(line=line), line=line, offset=decoder.offset)


class _Decoder:
    """Decodes piece by piece; an undecodable byte becomes its `problem`, at byte `offset`."""

    def __init__(self, encoding: str, start: bytes) -> None:
        self._newlines = io.IncrementalNewlineDecoder(None, translate=True)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._is_first = True
        self.offset = 0
        self.problem = ""
        if encoding == "utf-16" and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            self.problem = (
                "the ledger has no byte order mark of UTF-16 at its start; "
                "declare --encoding utf-16-le or utf-16-be, or another encoding"
            )

    def decode(self, chunk: bytes, *, is_last: bool = False) -> str:
        if self.problem:
            return ""
        nul = chunk.find(0) if self._encoding == UTF_8 else -1
        if nul >= 0:
            chunk = chunk[:nul]
        state = self._decoder.getstate()
        try:
            text = self._decoder.decode(chunk, is_last or nul >= 0)
            used = len(chunk)
            if nul >= 0:
                self.problem = f"NUL byte at offset {self.offset + nul} (line {{line}}): {_UTF_16}"
        except UnicodeDecodeError as error:
            used = error.start - len(state[0])  # negative when it began in the chunk before
            self._decoder.setstate(state)
            text = self._decoder.decode(chunk[: max(used, 0)])
            self.problem = self._undecodable(error, self.offset + used, is_last=is_last)
        if "\0" in text:
            text = text.partition("\0")[0]
            self.problem = f"NUL character (line {{line}}): it is not {self._encoding}; {_ANOTHER}"
        self.offset += used
        if self._is_first and text:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        return self._newlines.decode(text, is_last)

    def _undecodable(self, error: UnicodeDecodeError, offset: int, *, is_last: bool) -> str:
        data = error.object[error.start :]
        where = f"byte 0x{data[0]:02X} at offset {offset} (line {{line}})"
        if self._encoding != UTF_8:
            return f"{where} is not {self._encoding}: {'the file is truncated' if is_last else _ANOTHER}"
        if offset == 0 and data[0] in (0xFE, 0xFF):
            return f"{where}: {_UTF_16}"
        if len(data) <= 3 and codecs.utf_8_decode(data, "ignore", False)[1] == 0:
            return f"{where}: the file ends in the middle of a character; it is truncated"
        return f"{where} is not UTF-8: {_CP_1252}"


_ANOTHER = "declare another --encoding"
_UTF_16 = "the file is UTF-16 or damaged; if it is UTF-16, --encoding utf-16 reads it"
_CP_1252 = (
    "the file is in an older encoding, which cannot be recognised; say which one it is, as with --encoding cp1252 for "
    "Excel's CSV in Western Europe and America, or save it as CSV UTF-8"
)


DELIMITERS = (",", ";", "\t")
OTHERS = ("|", "^", "~")
_SEPARATOR = re.compile('"?sep=([^"\\s\\w]|\\t)"?,*', re.IGNORECASE)
"""The first line with which Excel is told the delimiter."""


def read_csv(chunks: Iterable[bytes], find: Finder, delimiter: str | None, scope: Scope) -> Table:
    # A delimiter that is not given is recognised from the header: comma, semicolon or tab. A first line `sep=;`, as
    # Excel reads it, declares it too.
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
        raise with_hint(error, below, find, dialect) from None
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
        elif not (reader.skips and reader.is_skipped(line, cells)):
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


def read_json_lines(chunks: Iterable[bytes], find: Finder, scope: Scope) -> Table:
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
    return Table(columns=reader.columns, reader=reader, rows=_object_rows(chain([(line, text)], lines), reader))


def _object(text: str) -> dict[str, Any]:
    value = read_json(text.encode())
    if is_object(value):
        return value
    message = f"found {kind(value)} where an object must be"
    raise JSONProblem(message)


def _object_rows(lines: Iterable[tuple[int, str]], reader: RowReader) -> Iterator[Entry | RejectedEntry | None]:
    header = reader.columns.header
    keys = frozenset(header)
    used = {*reader.columns.used, "created_at", "currency"}  # the last two are not compared
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
            for key in unknown:
                reader.add_key(key, value[key])
        yield row


def _rejected(row: Entry | RejectedEntry, meant: Iterable[str]) -> RejectedEntry:
    keys = ", ".join(map(quote, meant))
    reason = f"has {keys}, which the first row does not have; give all rows the same keys, null where empty"
    amount = row.amount if isinstance(row.amount, int) else None
    return RejectedEntry(line=row.line, reason=reason, reference=row.reference, amount=amount, status=row.status)
