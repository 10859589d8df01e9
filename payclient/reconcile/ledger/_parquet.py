"""
Read a ledger from Parquet, a few thousand rows at a time.

The only module that needs pyarrow (extra `parquet`).
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain, count, repeat
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient._shared.escape import escape_unprintable
from payclient.protocol import EMPTY
from payclient.reconcile.ledger._columns import CellProblem, Finder, LedgerError
from payclient.reconcile.ledger._rows import Table

_arrow: Any = pa  # pyarrow lacks type hints
_parquet: Any = pq
_BATCH_ROWS = 4096
_BUFFER_BYTES = 1 << 20
DAMAGE: tuple[type[Exception], ...] = (_arrow.ArrowException, OSError, UnicodeError)
"""Exceptions for a damaged file."""
_UNREADABLE: tuple[type[Exception], ...] = (_arrow.ArrowException, LookupError, OverflowError, ValueError)


def read_parquet(file: IO[bytes], find: Finder) -> Table:
    """Return the table of a Parquet file, which must stay open. Its rows are numbered from 1."""
    try:
        parquet = _parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES)
        header: tuple[str, ...] = tuple(parquet.schema_arrow.names)
    except DAMAGE as error:
        raise damaged(error) from error
    if not header:
        return Table()
    columns = find(header)
    return Table(
        columns=columns, rows=zip(count(1), chain.from_iterable(_batches(parquet)), repeat(None), repeat(EMPTY))
    )


def damaged(error: Exception) -> LedgerError:
    detail = escape_unprintable(" ".join(str(error).split()), max_length=200)
    return LedgerError(f"the Parquet file is damaged or of an unsupported kind ({detail}): export it again")


def _batches(parquet: Any) -> Iterator[Iterable[tuple[Any, ...]]]:
    try:
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
            yield zip(*map(column_values, batch.columns), strict=True)
    except DAMAGE as error:
        raise damaged(error) from error


def column_values(column: Any) -> list[Any]:
    """Return the values of *column*, an Arrow array. A value that Python cannot represent becomes a `CellProblem`."""
    if _arrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(_arrow.timestamp("us", column.type.tz), safe=False)  # Python lacks nanoseconds
    try:
        values: list[Any] = column.to_pylist()
    except _UNREADABLE:
        values = [_value(scalar) for scalar in column]
    if not _arrow.types.is_decimal(column.type):
        return values
    # A whole decimal is an int: its scale is a property of the column, not a thousands separator.
    return [int(cell) if isinstance(cell, Decimal) and cell == cell.to_integral_value() else cell for cell in values]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except _UNREADABLE as error:
        return CellProblem(f"cannot be read ({type(error).__name__})")
