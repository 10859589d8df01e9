"""Read a ledger from CSV or JSON Lines: strictly, lazily, and without losing a line.

Design rules:

- One line is one row. A quote that opens on one line and closes on another is refused, because a
  line break in a cell cannot be distinguished from a stray quote that swallows rows.
- A problem in one row rejects that row. A problem that makes the rows uncertain refuses the file: bytes that are not
  UTF-8, a first line of JSON that is not an object, because then columns are missing.
- The keys of the first object are the columns. An additional key in a later object rejects its row
  if it names a field, which would otherwise not be compared. Any other is ignored, with one
  warning. A key that is missing in a later object is an empty cell, like null.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Way
from payclient.protocol import EMPTY, JSONProblem, is_object, kind, read_json
from payclient.reconcile.ledger._columns import CellProblem, Columns, Finder, LedgerError, field_of
from payclient.reconcile.ledger._notation import UTF_8, Dialect
from payclient.reconcile.ledger._rows import Line, Table, read_header

_MAX_LINE = 1 << 20


def with_start(chunks: Iterable[bytes], size_bytes: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first chunks, of *size_bytes* or more together, and an iterator over all chunks, these included."""
    rest = iter(chunks)
    first: list[bytes] = []
    while sum(map(len, first)) < size_bytes and (chunk := next(rest, b"")):
        first.append(chunk)
    return b"".join(first), chain(first, rest)


def read_lines(chunks: Iterable[bytes], encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a file without their line ends: LF, CR LF or CR. All before an error first."""
    # A byte order mark of UTF-8 has priority over *encoding*.
    start, chunks = with_start(chunks, len(codecs.BOM_UTF8))
    encoding = UTF_8 if start.startswith(codecs.BOM_UTF8) else encoding
    if encoding == "utf-16" and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        ways = [Remedy((Way("encoding", name),), "reads it") for name in ("utf-16-le", "utf-16-be")]
        message = "the byte order mark of UTF-16 is missing: declare which UTF-16 it is, or another encoding"
        raise LedgerError(message, line=1, offset=0, remedies=ways)
    decoder, newlines = codecs.getincrementaldecoder(encoding)(), io.IncrementalNewlineDecoder(None, translate=True)
    rest, line, offset, position = "", 1, 0, None
    problem: tuple[str, str, Sequence[Remedy]] | None = None
    for chunk in chain(chunks, [b""]):
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            used = error.start - len(error.object) + len(chunk)  # negative when it began in the chunk before
            text, position = decoder.decode(chunk[: max(used, 0)]), offset + used
            problem = _undecodable(error, position, encoding, is_last=not chunk)
        if "\0" in text:
            text, position = text.partition("\0")[0], offset + chunk.find(0)
            is_utf_8 = encoding == UTF_8
            why = _UTF_16 if is_utf_8 else f": it is not {encoding}; {_ANOTHER}"
            problem = f"NUL character near byte {position}", why, (_READ_UTF_16,) * is_utf_8
        text = text.removeprefix("\ufeff") if not offset else text
        offset += len(chunk)
        *lines, rest = (rest + newlines.decode(text, not chunk)).split("\n")
        yield from lines
        line += len(lines)
        if problem:
            where, why, remedies = problem
            raise LedgerError(f"{where} (line {line}){why}", line=line, offset=position, remedies=remedies)
        if len(rest) > _MAX_LINE:
            raise LedgerError(f"line {line} is longer than {_MAX_LINE} characters, so this is not a ledger", line=line)
    if rest:
        yield rest


def _undecodable(
    error: UnicodeDecodeError, offset: int, encoding: str, *, is_last: bool
) -> tuple[str, str, Sequence[Remedy]]:
    """Return the place, the problem there, and the remedies."""
    data = error.object[error.start :]
    where = f"byte 0x{data[0]:02X} at offset {offset}"
    if encoding != UTF_8:
        return where, f" is not {encoding}: {'the file is truncated' if is_last else _ANOTHER}", ()
    if offset == 0 and data[0] in (0xFE, 0xFF):
        return where, _UTF_16, (_READ_UTF_16,)
    if len(data) <= 3 and codecs.utf_8_decode(data, "ignore", False)[1] == 0:
        return where, ": the file ends in the middle of a character: it is truncated", ()
    return where, _OLDER, (Remedy((Way("encoding", "cp1252"),), "reads Excel's CSV in Western Europe and America"),)


_ANOTHER = "declare another encoding"
_UTF_16 = ": the file is UTF-16 or damaged"
_READ_UTF_16 = Remedy((Way("encoding", "utf-16"),), "reads it if it is UTF-16")
_OLDER = " is not UTF-8: the file is in an older encoding, which can't be recognised: name it, or save it as CSV UTF-8"


DELIMITERS = (",", ";", "\t", "|")
_SEPARATOR = re.compile('"?sep=([^"\\s\\w]|\\t)"?,*', re.IGNORECASE)
"""A first line with the delimiter for Excel."""


def read_csv(chunks: Iterable[bytes], find: Finder, delimiter: str | None, dialect: Dialect) -> Table:
    # A delimiter that is not given is recognised from the header. A first line `sep=;`, known from Excel, declares it.
    lines = read_lines(chunks, dialect.encoding)
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    first = list(islice(numbered, 1))
    declared = _SEPARATOR.fullmatch(first[0][1]) if first else None
    filled = numbered if declared else chain(first, numbered)
    chosen = delimiter or (declared[1] if declared else None)
    delimiters = (chosen,) if chosen else DELIMITERS
    used = delimiters[0]

    def cells_of(header: str) -> list[str]:
        nonlocal used
        used = max(delimiters, key=lambda mark: len(_cells(header, mark)))  # the first of equals
        return _cells(header, used)

    def columns_of(names: Sequence[str]) -> Columns:
        if not names:
            raise LedgerError("the quotes of the header do not pair")
        try:
            return find(names)
        except LedgerError as error:
            marks = dict.fromkeys(re.findall(r'[^\w "]', names[0])) if len(names) == 1 else ()
            if split := [mark for mark in marks if any(map(field_of, _cells(names[0], mark)))]:
                error.remedies = [Remedy((Way("delimiter", mark),), "separates the columns") for mark in split]
            raise

    table = read_header(((number, cells_of(line)) for number, line in filled), columns_of, dialect.header_row)
    table.rows, table.delimiter = _rows(lines, used, table.header_row, len(table.columns.header)), used
    return table


def _cells(header: str, delimiter: str) -> list[str]:
    """Return the cells. Empty if the quotes do not pair, as with the wrong delimiter."""
    try:
        return next(csv.reader([header], delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def _rows(lines: Iterator[str], delimiter: str, before: int, width: int) -> Iterator[Line]:
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = before + records.line_num + 1
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            raise _quote_problem(line, str(error), is_open=before + records.line_num > line) from None
        if before + records.line_num != line:
            raise _quote_problem(line, f"it closes on line {before + records.line_num}", is_open=True)
        if any(map(str.strip, cells)):
            misfit = None
            if len(cells) != width:
                misfit = CellProblem("has {} where the header has {}", plural(len(cells), "cell"), width)
            yield line, cells, misfit, EMPTY


def _quote_problem(line: int, detail: str, *, is_open: bool) -> LedgerError:
    if "field larger" in detail:
        most = f"{csv.field_size_limit():,} characters"
        message = f"line {line}: a cell has more than {most}: perhaps a quote before it doesn't close"
        return LedgerError(message, line=line)
    what = "a quote opens and does not close on the same line, so rows after it would be lost"
    message = f"line {line}: {what if is_open else 'the quotes do not pair'} ({detail}): correct or double the quote"
    return LedgerError(message, line=line)


def read_json_lines(chunks: Iterable[bytes], find: Finder, dialect: Dialect) -> Table:
    numbered = enumerate(read_lines(chunks, dialect.encoding), 1)
    lines = ((number, line) for number, line in numbered if line.strip())
    line, text = next(lines, (0, ""))
    if not line:
        return Table()
    try:
        header = tuple(_object(text))
    except JSONProblem as problem:
        message = (
            f"line {line}: {problem}: JSON Lines has one whole object in each line, "
            "which jq -c makes of objects and jq -c '.[]' of a list"
        )
        raise LedgerError(message, line=line) from None
    columns = find(header)
    return Table(columns=columns, rows=_object_rows(chain([(line, text)], lines), columns))


def _object(text: str) -> dict[str, Any]:
    value = read_json(text.encode())
    if is_object(value):
        return value
    raise JSONProblem(f"found {kind(value)} where an object must be")


def _object_rows(lines: Iterable[tuple[int, str]], columns: Columns) -> Iterator[Line]:
    keys = frozenset(columns.header)
    used = {*columns.used, "created_at", "currency"}  # the last two are not compared
    for line, text in lines:
        try:
            value = _object(text)
        except JSONProblem as problem:
            yield line, (), CellProblem("{}", problem), EMPTY
            continue
        misfit, unknown = None, () if value.keys() <= keys else [key for key in value if key not in keys]
        if meant := [key for key in unknown if (field_of(key) or "created_at") not in used]:
            message = "has {}, which the first row does not have: give all rows the same keys, null where empty"
            misfit = CellProblem(message, ", ".join(map(quote, meant)))
        yield line, [value.get(key) for key in columns.header], misfit, {key: value[key] for key in unknown}
