"""A ledger that is open, the same whatever its format."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Literal, Self, TypeAlias

from payclient.ledger._columns import Columns
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._source import Fingerprint, Source
from payclient.ledger._table import Table

LedgerFormat: TypeAlias = Literal["csv", "jsonl", "xlsx", "parquet"]
"""What a ledger is written in."""


class Ledger:
    """
    An open ledger, made by `open_ledger`; iterate over it once for its entries.

    Attributes:
        format: What it is written in.
        columns: How its columns were understood.
        delimiter: What stands between two cells of a CSV ledger; None for other formats.

    Shape:
        Use it as a context manager. Rows are read lazily and in their order, and memory does not
        grow with the file, but for the texts of an XLSX file. Rows with no cell filled are skipped.

    Raises:
        LedgerError: While iterating, when the rest of the file cannot be trusted.
    """

    def __init__(self, source: Source, table: Table, *, format: LedgerFormat) -> None:  # noqa: A002  the word users know
        self.format: LedgerFormat = format
        self.columns: Columns = table.columns
        self.delimiter: str | None = table.delimiter
        self._source = source
        self._table = table
        self._has_rows = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Entry | RejectedEntry]:
        for row in self._table.rows:
            self._has_rows = True
            yield row

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, once all is read."""
        if self._has_rows:
            return tuple(self._table.warnings)
        what = "has a header and no rows" if self.columns.header else "is empty"
        return (*self._table.warnings, f"the ledger {what}: nothing was read")

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
