"""
Write `rows.parquet`: every row as a line of a table, one table for the reports of many runs.

The only module of reports that needs pyarrow (extra `parquet`).
"""

from collections.abc import Sequence
from io import BytesIO
from typing import IO, Any, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient.reconcile import Row
from payclient.reconcile._atomic import GivenFile
from payclient.reconcile.report.model import Opening
from payclient.reconcile.report.rows import PARQUET, RUN, Cell, Kind, RowColumn

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
_COLUMNS = {column.name: _TYPES[column.kind] for column in PARQUET}


class TableWriter:
    """The table of one run, written to *file* row by row in the order of the ledger."""

    def __init__(self, file: IO[bytes]) -> None:
        self._output = GivenFile(file)
        metadata = {"payclient.schema": "payclient.report.rows", "payclient.version": _VERSION}
        schema = _arrow.schema(_COLUMNS.items(), metadata=metadata)
        self._writer: Any = _parquet.ParquetWriter(
            _arrow.PythonFile(self._output, mode="w"), schema, compression="zstd"
        )
        self._schema: Any = schema
        self._rows: list[Row] = []
        self._run: str | None = None
        self._batches: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without `finish`, closing would write to the discarded file, perhaps on a full disk.
        self._output.file = BytesIO()
        self._writer.close()

    def add(self, row: Row, run: str = "") -> None:
        self._run = run or None
        self._rows.append(row)
        if len(self._rows) == _BATCH_ROWS:
            self._keep_batch()

    def finish(self) -> None:
        self._keep_batch()
        self._write_group()
        self._writer.close()

    def _keep_batch(self) -> None:
        """Turn the rows into columns, for a fraction of the memory."""
        arrays = [_column(self._cells(column), _TYPES[column.kind]) for column in PARQUET]
        self._batches.append(_arrow.record_batch(arrays, schema=self._schema))
        self._rows.clear()
        if len(self._batches) == _GROUP_BATCHES:
            self._write_group()

    def _cells(self, column: RowColumn) -> list[Cell]:
        return [self._run] * len(self._rows) if column is RUN else list(map(column.value, self._rows))

    def _write_group(self) -> None:
        table = _arrow.Table.from_batches(self._batches, self._schema)
        self._batches.clear()
        if table.num_rows:
            self._writer.write_table(table)


def begin(opening: Opening) -> None:
    table = opening.resources.enter_context(TableWriter(opening.new.binary("rows.parquet")))
    opening.on_row.append(lambda row: table.add(row, opening.run))
    opening.at_end.append(lambda _: table.finish())


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
