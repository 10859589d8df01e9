"""An open ledger; the same interface for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal, Self, TypeAlias

from attrs import evolve, field, frozen

from payclient._atomic import Fingerprint
from payclient.ledger._columns import Columns
from payclient.ledger._dialect import Dialect
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._rows import RowReader
from payclient.ledger._scope import Excluded, Scope
from payclient.ledger._source import Source
from payclient.ledger._suggestion import Suggestion

NO_COLUMNS = Columns({}, (), {}, ())
"""The columns of a ledger without a header."""


@frozen(kw_only=True)
class Table:
    """
    The columns and rows of an open ledger, in any format; an empty one if nothing is given.

    Attributes:
        columns: The columns by field; empty if there is no header.
        reader: Makes the rows; its warnings grow while they are read.
        rows: Read once, in order; None for a row that is left out.
        delimiter: The delimiter of a CSV ledger; None for other formats.
        header_row: Line of the file, or row of the sheet, that names the columns; 0 if the format has none.
    """

    columns: Columns = NO_COLUMNS
    reader: RowReader = field(factory=partial(RowReader, NO_COLUMNS))
    rows: Iterable[Entry | RejectedEntry | None] = ()
    delimiter: str | None = None
    header_row: int = 0


LedgerFormat: TypeAlias = Literal["csv", "jsonl", "xlsx", "parquet"]
"""The format of a ledger."""


class Ledger:
    """
    An open ledger, made by `open_ledger`; iterate over it once for its entries.

    Attributes:
        format: The format of the file.
        columns: The columns by field.
        delimiter: The delimiter of a CSV ledger; None for other formats.
        dialect: How it was declared to be written.
        header_row: Line of the file, or row of the sheet, that names the columns; 0 if the format has none.

    Note:
        Use it as a context manager. Rows are read lazily and in order, and memory does not grow with
        the file, except for the texts of an XLSX file. Empty rows are skipped.

    Raises:
        LedgerError: While iterating, when the rest of the file cannot be trusted; at the end, when an unused column
            seems to hold money, or when no row was read and that is not allowed.
    """

    def __init__(
        self,
        source: Source,
        table: Table,
        scope: Scope,
        *,
        format: LedgerFormat,  # noqa: A002  the word users know
        allow_empty: bool,
    ) -> None:
        self.format: LedgerFormat = format
        debits = {name for of, name in scope.dialect.debit_columns.items() if of in table.columns.used}
        ignored_columns = tuple(name for name in table.columns.ignored if name not in debits)
        self.columns: Columns = evolve(table.columns, ignored=ignored_columns)
        self.delimiter: str | None = table.delimiter
        self.dialect: Dialect = scope.dialect
        self.header_row: int = table.header_row
        self._scope = scope
        self._source = source
        self._table = table
        self._allow_empty = allow_empty
        self._has_rows = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Entry | RejectedEntry]:
        for row in self._table.rows:
            if row is not None:
                self._has_rows = True
                yield row
        self._table.reader.check_cells()
        if not self._has_rows and not self._allow_empty:
            message = f"the ledger {self._emptiness}; --allow-empty accepts that"
            raise LedgerError(message)

    @property
    def _emptiness(self) -> str:
        if self.excluded:
            return f"has no other rows than these: {'; '.join(map(str, self.excluded))}"
        return "has a header and no rows" if self.columns.header else "is empty"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people; complete when all rows have been read."""
        found = self._table.reader.warnings
        if self._has_rows or self.excluded:
            return (*found, *map(str, self.excluded))
        return (*found, f"the ledger {self._emptiness}: nothing was read")

    def tell_left_out(self, take: Callable[[str], object]) -> None:
        """Call *take* with the reference of each row that has another currency or time; before rows are read."""
        self._scope.on_left_out = take

    @property
    def totals_amount(self) -> int:
        """Sum of the amounts on totals rows that are rejected, so far; added to the others, it would be twice there."""
        return self._scope.totals_amount

    @property
    def currency(self) -> str:
        """The currency of its amounts, in capitals; empty where it states none, or before a row has been read."""
        return self._scope.currency

    @property
    def excluded(self) -> tuple[Excluded, ...]:
        """The rows that are left out, by reason; complete when all rows have been read."""
        return self._scope.excluded

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What would read the amounts and times that are refused; complete when all rows have been read."""
        return self._table.reader.suggestions()

    @property
    def fingerprint(self) -> Fingerprint:
        """Size and checksum; of the whole ledger when all rows have been read."""
        return self._source.fingerprint

    def check_unchanged(self) -> None:
        """
        Check that the file has not changed since it was read; call it before a report is written.

        Raises:
            LedgerChangedError: When it has changed. A stream cannot be checked.
        """
        self._source.check_unchanged()
