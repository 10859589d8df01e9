"""
Write `rows.parquet`: every row as a line of a table, one table for the reports of many runs.

The only module of reports that needs pyarrow (extra `parquet`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from io import BytesIO
from typing import IO, Any, Self, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient._atomic import GivenFile
from payclient.ledger import ABSENT, COMPARED
from payclient.reconcile import Row, moved_by

_arrow: Any = pa  # it says nothing of its types
_parquet: Any = pq
_BATCH_ROWS = 2048
_GROUP_BATCHES = 32
_BOUND = 2**63
_VERSION = "1"
"""Grows when a reader of the file has to change; new columns alone do not make it grow."""

Cell: TypeAlias = str | int | bool | datetime | list[str] | None

_TEXT, _NUMBER, _FLAG = _arrow.string(), _arrow.int64(), _arrow.bool_()
_AT, _LOCAL = _arrow.timestamp("us", "UTC"), _arrow.timestamp("us")
_OF_FIELD = {"amount": _NUMBER, "fee": _NUMBER, "amount_received": _NUMBER, "expdate": _LOCAL}

COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("run", "state"), _TEXT),
    **dict.fromkeys(("first_seen",), _AT),
    **dict.fromkeys(("first_run",), _TEXT),
    **dict.fromkeys(("age_days",), _NUMBER),
    **dict.fromkeys(("carried_from", "reused_from"), _TEXT),
    **dict.fromkeys(("line",), _NUMBER),
    **dict.fromkeys(("reference", "bucket", "code", "severity", "sentence", "waived"), _TEXT),
    "other_codes": _arrow.list_(_TEXT),
    **dict.fromkeys(("reason", "error"), _TEXT),
    "difference": _NUMBER,
    **{f"{side}_{name}": _OF_FIELD.get(name, _TEXT) for name in COMPARED for side in ("ledger", "service")},
    **dict.fromkeys(("ledger_meaning", "service_meaning"), _TEXT),
    "created_at": _LOCAL,
    **dict.fromkeys(("observed_at", "confirmed_at"), _AT),
    **dict.fromkeys(("is_changed_during_run", "is_repeat"), _FLAG),
    **dict.fromkeys(("line_of",), _TEXT),
}
"""The columns with their types, in their order; the same in every report, also where a column is empty."""


class TableWriter:
    """
    The table of one run.

    Args:
        file: Open for bytes, at its start.

    Note:
        Use it as a context manager: give each row to `add`, in the order of the ledger, then call `finish`. Memory does
        not grow with the rows. The same rows give the same bytes, with the same version of pyarrow.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._output = GivenFile(file)
        metadata = {"payclient.schema": "payclient.report.rows", "payclient.version": _VERSION}
        schema = _arrow.schema(COLUMNS.items(), metadata=metadata)
        self._writer: Any = _parquet.ParquetWriter(
            _arrow.PythonFile(self._output, mode="w"), schema, compression="zstd"
        )
        self._schema: Any = schema
        self._rows: list[Sequence[Cell]] = []
        self._batches: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without `finish`, closing would write to the discarded file, perhaps on a full disk.
        self._output.file = BytesIO()
        self._writer.close()

    def add(self, row: Row, run: str = "") -> None:
        """Write *row* of the run of this name, which is a column."""
        self._rows.append(_cells(row, run))
        if len(self._rows) == _BATCH_ROWS:
            self._keep_batch()

    def finish(self) -> None:
        """Write what is left, and the end of the file."""
        self._keep_batch()
        self._write_group()
        self._writer.close()

    def _keep_batch(self) -> None:
        """Turn the rows into columns, which take a fraction of the memory."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(COLUMNS)
        arrays = [_column(cells, kind) for cells, kind in zip(columns, COLUMNS.values(), strict=True)]
        self._batches.append(_arrow.record_batch(arrays, schema=self._schema))
        self._rows.clear()
        if len(self._batches) == _GROUP_BATCHES:
            self._write_group()

    def _write_group(self) -> None:
        table = _arrow.Table.from_batches(self._batches, self._schema)
        self._batches.clear()
        if table.num_rows:
            self._writer.write_table(table)


def _cells(row: Row, run: str) -> Sequence[Cell]:
    first, others = row.primary, row.findings[1:]
    finding = (
        (None,) * 4 if first is None else (first.code.value, first.severity.word, first.sentence, first.waived or None)
    )
    age = row.history
    aged = (None,) * 4 if age is None else (age.state.value, age.first_seen, age.first_run or None, age.age_days)
    return (
        *(run or None, *aged, row.carried_from or None, row.reused_from or None),
        *(row.line, row.reference, row.bucket.value, *finding, [each.code.value for each in others]),
        *(row.reason or None, row.error, moved_by(row)),
        *(_stated(side, name) for name in COMPARED for side in (row.entry, row.transaction)),
        *(row.ledger_status and row.ledger_status.value, row.service_status and row.service_status.value),
        _stated(row.entry, "created_at"),
        *(row.observed_at, row.confirmed_at, row.is_changed_during_run, row.is_repeat, row.line_of),
    )


def _stated(side: object, name: str) -> Any:
    value = getattr(side, name, None)
    return None if value is ABSENT else value


def _column(cells: Sequence[Cell], kind: Any) -> Any:
    """Return *cells* as an array; what no table holds is replaced: half a character, and a number beyond 64 bits."""
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
