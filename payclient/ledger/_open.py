"""Open a ledger in whichever format it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain

from payclient.ledger._csv import read_csv
from payclient.ledger._errors import LedgerError
from payclient.ledger._format import recognise
from payclient.ledger._gzip import GZIP, unpacked
from payclient.ledger._jsonl import read_json_lines
from payclient.ledger._ledger import Ledger, LedgerFormat
from payclient.ledger._source import LedgerFile, Source
from payclient.ledger._table import NO_COLUMNS, Table

_ENOUGH_TO_TELL = 64


def open_ledger(
    ledger: LedgerFile,
    *,
    columns: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    format: LedgerFormat | None = None,  # noqa: A002  the word users know
) -> Ledger:
    """
    Open a ledger in CSV, JSON Lines, XLSX or Parquet; CSV and JSON Lines may be packed with gzip.

    Args:
        ledger: A path, or an open stream, such as standard input.
        columns: The name of the column for a field, where it is not found by itself.
        delimiter: Of CSV; recognised from the header if not given: comma, semicolon or tab.
        sheet: Of XLSX; the first that is not hidden if not given.
        format: What it is written in; if not given, told by the name of the file or its first bytes.

    Shape:
        The header is read at once, the rows lazily. A stream in XLSX or Parquet is first copied to
        a temporary file, because these formats are not read from start to end.

    Raises:
        LedgerError: When the file, its header or its encoding cannot be trusted, or when a package
            that the format needs is not installed.
        ValueError: For an option that the format does not have, and a field that does not exist.
    """
    source = Source(ledger)
    with ExitStack() as on_failure:
        on_failure.callback(source.close)
        first, chunks = _begun(source.chunks())
        is_packed = first.startswith(GZIP)
        if is_packed:
            first, chunks = _begun(unpacked(chunks))
        found = recognise(source.name, first, format)
        _check_options(found, delimiter=delimiter, sheet=sheet)
        if found == "csv":
            table = read_csv(chunks, columns=columns, delimiter=delimiter)
        elif found == "jsonl":
            table = read_json_lines(chunks, columns=columns)
        else:
            table = _read_whole(source, chunks, found, columns=columns, sheet=sheet, is_packed=is_packed)
        on_failure.pop_all()
    return Ledger(source, table, format=found)


def _begun(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return enough of the first bytes to tell the format, and all *chunks* again."""
    first: list[bytes] = []
    while sum(map(len, first)) < _ENOUGH_TO_TELL and (chunk := next(chunks, b"")):
        first.append(chunk)
    return b"".join(first), chain(first, chunks)


def _check_options(found: LedgerFormat, *, delimiter: str | None, sheet: str | None) -> None:
    if delimiter is not None and found != "csv":
        message = f"delimiter is an option of csv, and the ledger is {found}"
        raise ValueError(message)
    if sheet is not None and found != "xlsx":
        message = f"sheet is an option of xlsx, and the ledger is {found}"
        raise ValueError(message)


def _read_whole(
    source: Source,
    chunks: Iterator[bytes],
    found: LedgerFormat,
    *,
    columns: Mapping[str, str] | None,
    sheet: str | None,
    is_packed: bool,
) -> Table:
    """Read a format in which the beginning of the file says too little to begin with it."""
    if is_packed:
        message = f"the ledger is {found} inside of gzip; unpack it first, which costs little as it is packed inside"
        raise LedgerError(message)
    file = source.whole(chunks)
    if not source.fingerprint.size_bytes:
        return Table(columns=NO_COLUMNS, rows=iter(()))
    if found == "xlsx":
        from payclient.ledger._xlsx import read_xlsx  # noqa: PLC0415

        return read_xlsx(file, columns=columns, sheet=sheet)
    try:
        from payclient.ledger._parquet import read_parquet  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        message = "Parquet is read with pyarrow, which is not installed: pip install 'payclient[parquet]'"
        raise LedgerError(message) from error
    return read_parquet(file, columns=columns)
