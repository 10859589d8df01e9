"""Open a ledger: recognise its format, and read its rows once."""

import hashlib
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import IO, Any, Literal, Self, TypeAlias, cast, get_args

from attrs import evolve

from payclient._shared.escape import quote
from payclient._shared.remedy import Remedy, Side, Way
from payclient.reconcile._atomic import Fingerprint
from payclient.reconcile._fields import COMPARED, Entry, RejectedEntry
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import Columns, Finder, LedgerChangedError, LedgerError
from payclient.reconcile.ledger._left_out import Excluded, Scope, UnreadSheet, UnusedColumn
from payclient.reconcile.ledger._notation import UTF_8, Dialect, Suggestion, combined
from payclient.reconcile.ledger._rows import RowReader, Table
from payclient.reconcile.ledger._text import read_csv, read_json_lines, with_start

LedgerFormat: TypeAlias = Literal["csv", "jsonl", "xlsx", "parquet"]
"""The format of a ledger."""

LedgerFile: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str]
"""A path, or a stream that is open for reading. A stream is never closed by payclient."""

_FORMATS: Mapping[LedgerFormat, tuple[str, str, bytes]] = {
    "csv": ("CSV", "csv tsv txt", b""),
    "jsonl": ("JSON Lines", "jsonl ndjson", b""),
    "xlsx": ("XLSX", "xlsx xlsm", b"PK\x03\x04"),
    "parquet": ("Parquet", "parquet", b"PAR1\x15"),  # the fifth byte begins every header inside, and no line of text
}
"""Name, suffixes and first bytes of each format. A text begins with any."""
SUFFIXES: Mapping[str, LedgerFormat] = {
    f".{each}": kind for kind, (_, of, _) in _FORMATS.items() for each in of.split()
}
"""Formats by the suffix of the file."""

_REFUSED = {
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",): (
        "this is an old .xls file or has a password: save it as .xlsx without a password"
    ),
    (b"\x1f\x8b",): "this is compressed with gzip: decompress it first, as with gunzip",
    (b"<html", b"<!doctype", b"<table", b"<?xml", b"<meta", b"mime-version:"): (
        "this is a web page or XML, not a ledger: open it in a spreadsheet, and save it as .xlsx"
    ),
}
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[\[{\]])")
_CHUNK_BYTES = 1 << 18


def recognise(name: str, first: bytes, chosen: LedgerFormat | None) -> LedgerFormat:
    """Return the format of a ledger: as chosen, or else by suffix, or else by its *first* eight bytes, or else CSV."""
    for starts, problem in _REFUSED.items():
        if first.lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith(starts):
            raise LedgerError(problem)
    actual: LedgerFormat | None = "jsonl" if _JSON.match(first) else None
    for binary, (_, _, start) in _FORMATS.items():
        actual = binary if start and first.startswith(start) else actual
    wanted = chosen or SUFFIXES.get(PurePath(name.lower()).suffix) or actual or "csv"
    if first and wanted != actual and not {"xlsx", "parquet"}.isdisjoint({wanted, actual}):
        what = f"its first bytes are those of {_FORMATS[actual][0]}" if actual else "its first bytes are not"
        message = f"the file should be {_FORMATS[wanted][0]}, but {what}"
        raise LedgerError(message, remedies=[Remedy((Way("format", actual or "csv"),), "reads it as it is")])
    return wanted


class Source:
    """The bytes of one ledger, read once from start to end."""

    def __init__(self, ledger: LedgerFile) -> None:
        self._files = ExitStack()
        self.close: Callable[[], None] = self._files.close
        self._digest, self._size = hashlib.sha256(), 0
        self.path: Path | None = None
        """None for what cannot be read again."""
        self._stream: IO[bytes] | IO[str]
        if not isinstance(ledger, str | os.PathLike):
            self._stream = ledger
            return
        self.path = Path(ledger)
        try:
            self._stream = self._files.enter_context(self.path.open("rb"))
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be opened: {error.strerror}") from error
        if not S_ISREG(os.fstat(self._stream.fileno()).st_mode):  # a pipe can be read once, like a stream
            self.path = None

    def chunks(self) -> Iterator[bytes]:
        try:
            while part := self._stream.read(_CHUNK_BYTES):
                chunk = part.encode() if isinstance(part, str) else part
                self._digest.update(chunk)
                self._size += len(chunk)
                yield chunk
        except UnicodeError as error:
            raise LedgerError(f"the text stream cannot be read as UTF-8 ({error}): open it in binary mode") from error
        except OSError as error:
            raise LedgerError(f"the file cannot be read: {error.strerror or error}") from error

    def whole(self, chunks: Iterable[bytes]) -> IO[bytes]:
        """Return all bytes as one seekable file. `close` closes it."""
        if self.path is not None:
            deque(chunks, maxlen=0)  # the fingerprint needs all of it
            file = cast(IO[bytes], self._stream)
        else:
            file = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  closed with the others
            try:
                file.writelines(chunks)
            except OSError as error:
                problem = f"the stream cannot be copied to a temporary file: {error.strerror}"
                raise LedgerError(f"{problem}, so give the file by its path") from error
        file.seek(0)
        return file

    @property
    def fingerprint(self) -> Fingerprint:
        name = self.path.name if self.path else ""
        return Fingerprint(name=name, size_bytes=self._size, sha256=self._digest.hexdigest())

    def check_unchanged(self) -> None:
        if self.path is None:
            return  # a stream cannot be checked
        try:
            with self.path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            message = f"{self.path.name} cannot be read again: {error.strerror}; no report is written"
            raise LedgerChangedError(message) from error
        if sha256 != self._digest.hexdigest():
            message = f"{self.path.name} changed while it was reconciled; no report is written, run it again"
            raise LedgerChangedError(message)


class Ledger(RowReader):
    """
    An open ledger, from `open_ledger`. Iterate over it once for its entries.

    Attributes:
        format: The format of the file.
        columns: The columns by field.
        delimiter: The delimiter of a CSV ledger. None for other formats.
        dialect: How it was declared to be written.
        header_row: Line of the file, or row of the sheet, that names the columns. 0 in a format without one.
        unread_sheets: The other sheets with rows, if none was chosen by name.

    Note:
        Use it as a context manager. Rows are read lazily and in order, and memory does not grow with
        the file, except for the texts of an XLSX file. Empty rows are skipped.

    Raises:
        LedgerError: While iterating, when the rest of the file cannot be trusted. At the end, when an unused column
            seems to contain money, or when no row was read and that is not allowed.
    """

    def __init__(
        self,
        source: Source,
        table: Table,
        scope: Scope,
        of_side: Callable[[], AbstractContextManager[None]],
        *,
        format: LedgerFormat,  # noqa: A002  the word users know
        chosen: Mapping[str, Any],
    ) -> None:
        super().__init__(table.columns, scope=scope)
        named = {"chosen": chosen["columns"] or (), "ignored": chosen["ignore"], "required": chosen["require"]}
        self._unused.ignored = check_use(self.columns, **named, may_grow=format == "jsonl")
        scope.check_columns(self.columns.used)
        self.format: LedgerFormat = format
        self.delimiter: str | None = table.delimiter
        self.dialect: Dialect = scope.dialect
        self.header_row: int = table.header_row
        self.unread_sheets: tuple[UnreadSheet, ...] = table.unread_sheets
        self._rows, self._remarks = table.rows, table.remarks
        self._source, self._of_side = source, of_side
        self._allow_empty, self._has_rows = bool(chosen["allow_empty"]), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Entry | RejectedEntry]:
        with self._of_side():
            for line, cells, misfit, more in self._rows:
                if (row := self.read(line, cells, misfit)) is not None:
                    if more:
                        self._unused.add_keys(more)
                    self._has_rows = True
                    yield row
            self.check_cells()
            self._check_emptiness()

    def _check_emptiness(self) -> None:
        if not self._has_rows and not self._allow_empty:
            sheets = () if self.excluded else [sheet.name for sheet in self.unread_sheets]
            elsewhere = f": there are rows in {', '.join(map(quote, sheets))}" if sheets else ""
            ways = [Remedy((Way("sheet", sheet),), "reads them") for sheet in sheets]
            ways.append(Remedy((Way("allow_empty"),), "accepts that", is_decision=True))
            raise LedgerError(f"the file {self._emptiness}{elsewhere}", remedies=ways)

    @property
    def _emptiness(self) -> str:
        if self.excluded:
            return f"has no other rows than these: {'; '.join(map(str, self.excluded))}"
        return "has a header and no rows" if self.columns.header else "is empty"

    @property
    def warnings(self) -> tuple[str, ...]:
        nothing = () if self._has_rows or self.excluded else (f"no row was read: the file {self._emptiness}",)
        return (*super().warnings, *map(str, self.excluded), *nothing)

    @property
    def totals_amount(self) -> int:
        """Sum of the amounts on rejected totals rows so far. The other rows already contain them."""
        return self._scope.totals_amount

    @property
    def currency(self) -> str:
        """The currency of its amounts, in capitals. Empty without one, or before a row has been read."""
        return self._scope.currency

    def compare_currency(self, other: str) -> None:
        """Name the column of its currency as unused if the *other* file has none."""
        self._unused.is_currency_used = bool(other)

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """The rows that are left out, by reason. Complete when all rows have been read."""
        return self._scope.excluded

    @property
    def unused(self) -> tuple[UnusedColumn, ...]:
        """The columns, neither used nor ignored, that may matter for a row. Complete when all rows were read."""
        return self._unused.found(are_ignored=False)

    @property
    def ignored(self) -> tuple[UnusedColumn, ...]:
        """The same of the columns that are ignored by name."""
        return self._unused.found(are_ignored=True)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Declarations for the amounts and times that are refused. Complete when all rows have been read."""
        return tuple(self._suggester.suggestions())

    def refusal(self, message: str) -> LedgerError:
        """Return the error of a file without a usable row, with the declarations that would read it."""
        file = self.fingerprint.name if self._scope.is_statement else ""
        return LedgerError(message, remedies=combined(self.suggestions), side=self._scope.side, file=file)

    @property
    def fingerprint(self) -> Fingerprint:
        """Size and checksum. They are complete when all rows have been read."""
        return self._source.fingerprint

    def check_unchanged(self) -> None:
        """
        Check that the file has not changed since it was read. Call it before a report is written.

        Raises:
            LedgerChangedError: When it has changed. A stream cannot be checked.
        """
        self._source.check_unchanged()


@contextmanager
def _explained(ledger: LedgerFile, chosen: Mapping[str, Any], joined: int, side: Side, name: str) -> Generator[None]:
    """Add to an error which of two files it is about, and what would be refused next."""
    try:
        yield
    except LedgerError as error:
        error.side, error.file = side, name if side == "statement" else ""
        if joined and error.remedies and not error.remedies[0].is_decision:
            _look_ahead(error, ledger, chosen, joined - 1)
        raise


def _look_ahead(error: LedgerError, ledger: LedgerFile, chosen: Mapping[str, Any], joined: int) -> None:
    """Join the first remedy of *error* with the remedies of what the first rows would have refused next."""
    first, *others = error.remedies
    try:
        with _opened(ledger, _with_ways(chosen, first.ways), joined) as opened:
            deque(islice(opened, _ROWS_AHEAD), maxlen=0)
            opened.check_cells()
    except LedgerError as following:
        if helpful := [remedy for remedy in following.remedies if not remedy.is_decision]:
            error.args = (f"{error.message}; then {following.message}",)
            joined_ways = [Remedy((*first.ways, *remedy.ways), "reads it") for remedy in helpful]
            error.remedies = [*joined_ways, *others, *(remedy for remedy in following.remedies if remedy.is_decision)]
    except ValueError:
        pass  # such a file doesn't have this option


def _with_ways(chosen: Mapping[str, Any], ways: Iterable[Way]) -> dict[str, Any]:
    """Return the arguments of `open_ledger`, changed by these options."""
    changed = dict(chosen)
    for way in ways:
        option = "columns" if way.option == "column" else way.option
        before: Any = changed[option] if option in changed else getattr(changed["dialect"], option)
        if way.field:
            value: Any = {**(before or dict[str, str]()), way.field: way.value}
        else:
            value = (*cast("tuple[str, ...]", before), way.value) if isinstance(before, tuple) else way.value
        changed |= {option: value} if option in changed else {"dialect": evolve(changed["dialect"], **{option: value})}
    return changed


_ROWS_AHEAD = 1000
_MAX_JOINED = 3
_ENOUGH_TO_TELL = 64


def open_ledger(
    ledger: LedgerFile,
    *,
    columns: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    format: LedgerFormat | None = None,  # noqa: A002  the word users know
    ignore: Collection[str] = (),
    require: Collection[str] = (),
    allow_empty: bool = True,
    dialect: Dialect = Dialect(),  # noqa: B008  frozen
    is_statement: bool = False,
) -> Ledger:
    """
    Open a ledger in CSV, JSON Lines, XLSX or Parquet.

    Args:
        ledger: A path, or an open stream, such as standard input.
        columns: The column's name by field, for names that are not recognised.
        delimiter: For CSV. If not given, comma, semicolon, tab or pipe is recognised from the header.
        sheet: For XLSX. The first visible sheet if not given.
        ignore: Columns to leave unused. The others that may matter for a row are `Ledger.unused`.
        require: Fields that must have a column, such as `amount`.
        allow_empty: Whether to accept a ledger without rows, with a warning.
        dialect: Notation of numbers and times, encoding, and more.
        is_statement: Whether it is the second list of a reconciliation. There a row with `amount_received` needs no
            `amount`.
        format: The format. If not given, recognised from the file name or the first bytes.

    Note:
        The header is read at once, the rows lazily. A stream in XLSX or Parquet is first copied to
        a temporary file, because these formats cannot be read from start to end.

    Raises:
        LedgerError: When the file, its header or its encoding cannot be trusted, or when a package
            that the format needs is not installed.
        ValueError: For an option that the format does not have, or an unknown field.
    """
    if format not in (None, *get_args(LedgerFormat)):
        raise ValueError(f"format must be one of {', '.join(get_args(LedgerFormat))}, got {format!r}")
    is_character = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '\r\n"'
    if delimiter is not None and not is_character:
        raise ValueError(f"delimiter must be one character that separates cells, got {delimiter!r}")
    chosen = {"columns": columns, "delimiter": delimiter, "sheet": sheet, "format": format, "ignore": ignore}
    more = {"require": require, "allow_empty": allow_empty, "dialect": dialect, "is_statement": is_statement}
    return _opened(ledger, {**chosen, **more}, _MAX_JOINED)


def _opened(ledger: LedgerFile, chosen: Mapping[str, Any], joined: int) -> Ledger:
    """Open *ledger*. The remedies of an error are joined with the remedies of up to *joined* others."""
    scope = Scope(chosen["dialect"], is_statement=chosen["is_statement"])
    find = partial(_columns.find_columns, chosen=chosen["columns"], ignored=chosen["ignore"])
    source = Source(ledger)
    of_file = scope.side, source.fingerprint.name
    explained = partial(_explained, ledger, chosen, joined if source.path is not None else 0, *of_file)
    with ExitStack() as on_failure:
        on_failure.callback(source.close)
        on_failure.enter_context(explained())
        first, chunks = with_start(source.chunks(), _ENOUGH_TO_TELL)
        file_format = recognise(source.fingerprint.name, first, chosen["format"])
        _check_options(file_format, chosen)
        if file_format == "csv":
            table = read_csv(chunks, find, chosen["delimiter"], scope.dialect)
        elif file_format == "jsonl":
            table = read_json_lines(chunks, find, scope.dialect)
        else:
            table = _read_whole(source.whole(chunks), file_format, find, chosen)
        opened = Ledger(source, table, scope, explained, format=file_format, chosen=chosen)
        on_failure.pop_all()
    return opened


def _check_options(file_format: LedgerFormat, chosen: Mapping[str, Any]) -> None:
    dialect = chosen["dialect"]
    options = (
        ("delimiter", chosen["delimiter"] is not None, "csv"),
        ("sheet", chosen["sheet"] is not None, "xlsx"),
        ("debit_columns", dialect.debit_columns, "csv, jsonl and xlsx"),
        ("encoding", dialect.encoding != UTF_8, "csv and jsonl"),
        ("header_row", dialect.header_row is not None, "csv and xlsx"),
    )
    for name, is_given, formats in options:
        if is_given and file_format not in formats:
            raise ValueError(f"{name} is an option of {formats}, and the ledger is {file_format}")


def _read_whole(file: IO[bytes], file_format: LedgerFormat, find: Finder, chosen: Mapping[str, Any]) -> Table:
    if not file.seek(0, os.SEEK_END):
        return Table()
    if file_format == "xlsx":
        from payclient.reconcile.ledger._xlsx import read_xlsx  # noqa: PLC0415

        return read_xlsx(file, find, chosen["sheet"], chosen["dialect"].header_row)
    try:
        from payclient.reconcile.ledger._parquet import read_parquet  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        message = "Parquet is read with pyarrow, which is not installed: pip install 'payclient[parquet]'"
        raise LedgerError(message) from error
    return read_parquet(file, find)


def check_use(
    columns: Columns,
    *,
    chosen: Collection[str],
    ignored: Collection[str],
    required: Collection[str] = (),
    may_grow: bool = False,
) -> tuple[str, ...]:
    """
    Check that no unused column has the name of a field, and that required fields have a column.

    Return the names of the *ignored* columns.
    """
    _columns.check_known("require", required, COMPARED)
    if not (names := _columns.column_names(columns.header)):
        return ()  # an empty file lacks columns
    missing = None if may_grow else next((name for name in ignored if name.strip() not in names), None)
    if missing is not None:
        message = f"no column is called {quote(missing)}, which was to be ignored; there are {_columns.listed(names)}"
        raise LedgerError(message, line=1, refused=Way("ignore_column", missing))
    if missing := next((name for name in required if name not in columns.used), None):
        message = f"no column was found for {missing}, which is required; there are {_columns.listed(names)}"
        raise LedgerError(message, line=1, remedies=_columns.choices(missing, columns.ignored))
    ignored = tuple(name.strip() for name in ignored)
    left = [name for name in columns.ignored if name not in ignored]
    if doubled := [name for name in left if _columns.field_of(name) in {*COMPARED} - {*chosen}]:
        meant = f"{_columns.field_of(doubled[0])}"
        _columns.refuse_unused(doubled, f"could also be {meant} and is not used", meant)
    return ignored
