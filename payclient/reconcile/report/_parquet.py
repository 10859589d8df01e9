"""
Write `rows.parquet`: every row as a line of a table, one table for the reports of many runs.

The only module of reports that needs pyarrow (extra `parquet`).
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient.reconcile import Row
from payclient.reconcile._atomic import GivenFile
from payclient.reconcile.report.model import Opening
from payclient.reconcile.report.rows import PARQUET, RUN, Cell, Kind

_arrow: Any = pa  # its types are unknown
_parquet: Any = pq
_BATCH_ROWS = 2048
_GROUP_BATCHES = 32
_BOUND = 2**63
_VERSION = "1"
"""Grows when a reader of the file has to change. New columns alone do not make it grow."""

_TYPES = {
    Kind.TEXT: _arrow.string(),
    Kind.WORD: _arrow.string(),
    Kind.TEXTS: _arrow.list_(_arrow.string()),
    Kind.NUMBER: _arrow.int64(),
    Kind.LINE: _arrow.int64(),
    Kind.FLAG: _arrow.bool_(),
    Kind.AT: _arrow.timestamp("us", "UTC"),
    Kind.LOCAL: _arrow.timestamp("us"),
}
_SCHEMA: Any = _arrow.schema(
    {column.name: _TYPES[column.kind] for column in PARQUET}.items(),
    metadata={"payclient.schema": "payclient.report.rows", "payclient.version": _VERSION},
)


def begin(opening: Opening) -> None:
    output = GivenFile(opening.new.binary("rows.parquet"))
    writer = _parquet.ParquetWriter(_arrow.PythonFile(output, mode="w"), _SCHEMA, compression="zstd")
    rows, batches = list[Row](), list[Any]()

    def give_up() -> None:
        # Without `finish`, closing would write to the discarded file, perhaps on a full disk.
        output.file = BytesIO()
        writer.close()

    def add(row: Row) -> None:
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            keep_batch()
            if len(batches) == _GROUP_BATCHES:
                write_group()

    def keep_batch() -> None:
        """Turn the rows into columns, for a fraction of the memory."""
        cells = {column: list(map(column.value, rows)) for column in PARQUET}
        cells[RUN] = [opening.run or None] * len(rows)
        arrays = [_column(cells[column], _TYPES[column.kind]) for column in PARQUET]
        batches.append(_arrow.record_batch(arrays, schema=_SCHEMA))
        rows.clear()

    def write_group() -> None:
        table = _arrow.Table.from_batches(batches, _SCHEMA)
        batches.clear()
        if table.num_rows:
            writer.write_table(table)

    def finish(_: object) -> None:
        keep_batch()
        write_group()
        writer.close()

    opening.resources.callback(give_up)
    opening.on_row.append(add)
    opening.at_end.append(finish)


def _column(cells: Sequence[Cell], kind: Any) -> Any:
    """Return *cells* as an array. Half a character and a number beyond 64 bits are replaced."""
    try:
        return _arrow.array(cells, kind)
    except (UnicodeError, OverflowError, _arrow.ArrowInvalid):
        return _arrow.array(list(map(_held, cells)), kind)


def _held(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return "".join(f"<U+{ord(c):04X}>" if "\ud800" <= c <= "\udfff" else c for c in cell)
    if isinstance(cell, int):
        return cell if -_BOUND <= cell < _BOUND else None
    return cell
