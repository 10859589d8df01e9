"""What a reader of one format hands over: columns at once, rows lazily."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from payclient.ledger._columns import Columns
from payclient.ledger._entry import Entry, RejectedEntry


@frozen(kw_only=True)
class Table:
    """
    A ledger that was opened, in whichever format.

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
"""Of a ledger that has not even a header."""
