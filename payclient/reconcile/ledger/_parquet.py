"""
Read a ledger from Parquet, a few thousand rows at a time.

The only module that needs pyarrow (extra `parquet`).
"""

from collections.abc import Collection, Iterator
from decimal import Decimal
from itertools import chain
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient._shared.escape import escape_unprintable
from payclient.reconcile.ledger._columns import Columns, Finder, LedgerError, Unreadable
from payclient.reconcile.ledger._rows import Entry, RejectedEntry, RowReader, Table
from payclient.reconcile.ledger._scope import Scope

_arrow: Any = pa  # pyarrow lacks type hints
_parquet: Any = pq
_BATCH_ROWS = 4096
_BUFFER_BYTES = 1 << 20
DAMAGE: tuple[type[Exception], ...] = (_arrow.ArrowException, OSError, UnicodeError)
"""Exceptions for a damaged file."""
_UNREADABLE: tuple[type[Exception], ...] = (_arrow.ArrowException, LookupError, OverflowError, ValueError)


def read_parquet(file: IO[bytes], find: Finder, scope: Scope) -> Table:
    """Return the table in a Parquet file, which must stay open. Its rows are numbered from 1."""
    try:
        parquet = _parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES)
        header: tuple[str, ...] = tuple(parquet.schema_arrow.names)
    except DAMAGE as error:
        raise damaged(error) from error
    if not header:
        return Table()
    understood = find(header)
    types = {each.name: each.type for each in parquet.schema_arrow if header.count(each.name) == 1}
    read = only_used(understood, and_of=[name for name, kind in types.items() if not _arrow.types.is_nested(kind)])
    reader = RowReader(read, scope.dialect, scope)
    return Table(reader=reader, columns=understood, rows=_rows(parquet, reader, read.header))


def damaged(error: Exception) -> LedgerError:
    detail = escape_unprintable(" ".join(str(error).split()), max_length=200)
    return LedgerError(f"the Parquet file is damaged or of an unsupported kind ({detail}): export it again")


def only_used(columns: Columns, *, and_of: Collection[str] = ()) -> Columns:
    """Return *columns* with positions for rows that have only the used columns, and behind these some others."""
    places = {field: place for place, field in enumerate(columns.used)}
    others = [name for name in columns.ignored if name in and_of]
    return Columns(columns.used, (), places, (*columns.used.values(), *others))


def _rows(parquet: Any, reader: RowReader, names: tuple[str, ...]) -> Iterator[Entry | RejectedEntry | None]:
    batches = (zip(*batch, strict=True) for batch in _batches(parquet, names))
    for number, cells in enumerate(chain.from_iterable(batches), 1):
        yield reader.read(number, cells)


def _batches(parquet: Any, names: tuple[str, ...]) -> Iterator[list[list[Any]]]:
    try:
        batches = parquet.iter_batches(batch_size=_BATCH_ROWS, columns=list(names), use_threads=False)
        while (batch := next(batches, None)) is not None:
            yield [column_values(batch.column(batch.schema.get_field_index(name))) for name in names]
    except DAMAGE as error:
        raise damaged(error) from error


def column_values(column: Any) -> list[Any]:
    """Return the values of *column*, an Arrow array. One that Python cannot represent becomes `Unreadable`."""
    if _arrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(_arrow.timestamp("us", column.type.tz), safe=False)  # Python lacks nanoseconds
    try:
        values: list[Any] = column.to_pylist()
    except _UNREADABLE:
        values = [_value(scalar) for scalar in column]
    if not _arrow.types.is_decimal(column.type):
        return values
    # A whole decimal is an int: its scale is a property of the column, not a thousands separator.
    return [int(each) if isinstance(each, Decimal) and each == each.to_integral_value() else each for each in values]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except _UNREADABLE as error:
        return Unreadable(f"cannot be read ({type(error).__name__})")
