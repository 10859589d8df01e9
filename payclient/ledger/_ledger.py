"""An open ledger; the same interface for every format."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Literal, Self, TypeAlias

from attrs import field, frozen

from payclient._atomic import Fingerprint
from payclient.ledger._columns import Columns
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._source import Source
from payclient.ledger._unused import check_values


@frozen(kw_only=True)
class Table:
    """
    The columns and rows of an open ledger, in any format.

    Attributes:
        columns: How its columns were understood; all empty when there is no header.
        rows: Read once, in order.
        warnings: Grows while the rows are read.
        delimiter: What stands between two cells, in a format that has such.
    """

    columns: Columns
    rows: Iterator[Entry | RejectedEntry]
    warnings: list[str] = field(factory=list)
    delimiter: str | None = None


NO_COLUMNS = Columns({}, (), {}, ())
"""Of a ledger without a header."""


LedgerFormat: TypeAlias = Literal["csv", "jsonl", "xlsx", "parquet"]
"""What a ledger is written in."""


class Ledger:
    """
    An open ledger, made by `open_ledger`; iterate over it once for its entries.

    Attributes:
        format: What it is written in.
        columns: How its columns were understood.
        delimiter: What stands between two cells of a CSV ledger; None for other formats.

    Note:
        Use it as a context manager. Rows are read lazily and in their order, and memory does not
        grow with the file, but for the texts of an XLSX file. Rows with no cell filled are skipped.

    Raises:
        LedgerError: While iterating, when the rest of the file cannot be trusted; and at the end, when a column that
            is not used holds what looks like money, or when there was no row and that is not allowed.
    """

    def __init__(
        self,
        source: Source,
        table: Table,
        *,
        format: LedgerFormat,  # noqa: A002  the word users know
        ignored: Collection[str] = (),
        allow_empty: bool = True,
    ) -> None:
        self.format: LedgerFormat = format
        self.columns: Columns = table.columns
        self.delimiter: str | None = table.delimiter
        self._source = source
        self._table = table
        self._ignored = ignored
        self._allow_empty = allow_empty
        self._has_rows = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Entry | RejectedEntry]:
        for row in self._table.rows:
            self._has_rows = True
            yield row
        check_values(self.columns, ignored=self._ignored, samples=self.columns.samples)
        if not self._has_rows and not self._allow_empty:
            message = f"the ledger {self._emptiness}; --allow-empty accepts that"
            raise LedgerError(message)

    @property
    def _emptiness(self) -> str:
        return "has a header and no rows" if self.columns.header else "is empty"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, once all is read."""
        if self._has_rows:
            return tuple(self._table.warnings)
        return (*self._table.warnings, f"the ledger {self._emptiness}: nothing was read")

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the whole ledger, once all is read."""
        return self._source.fingerprint

    def check_unchanged(self) -> None:
        """
        Make sure that the file is still what was read; call it before a report is written.

        Raises:
            LedgerChangedError: When it is not. A stream cannot be checked.
        """
        self._source.check_unchanged()
