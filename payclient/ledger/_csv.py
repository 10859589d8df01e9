"""
Read a ledger from CSV: strictly, lazily, and without losing a line.

Design rules:

- One line is one row. A quote that opens on one line and closes on another is refused: whether it
  is a line break in a cell or a stray quote that swallows rows cannot be told apart.
- A fault of one row rejects that row. A fault that makes the rows uncertain refuses the file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from payclient.ledger._cells import CellProblem, read_code, read_money, read_time, read_word
from payclient.ledger._columns import Columns, find_columns
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._lines import read_lines
from payclient.ledger._source import Fingerprint, LedgerFile, Source

DELIMITERS = (",", ";", "\t")

_READERS: Mapping[str, Callable[[str], Any]] = {
    "reference": read_code,
    "merchant_reff": read_code,
    "amount": read_money,
    "fee": read_money,
    "amount_received": read_money,
    "status": read_word,
    "payment_method": read_word,
    "payment_code": read_code,
    "expdate": read_time,
}
_NEEDED = ("reference", "amount")


class CsvLedger:
    """
    A ledger in CSV; iterate over it once for its entries.

    Args:
        ledger: A path, or an open stream, such as standard input.
        columns: The header's name for a field, where it is not found by itself.
        delimiter: Recognised from the header if not given: comma, semicolon or tab.

    Shape:
        Use it as a context manager. The header is read at once, the rows lazily and in their order;
        memory does not grow with the file. Blank lines are skipped.

    Raises:
        LedgerError: When the file, its header, its encoding or its quotes cannot be trusted.
    """

    def __init__(
        self, ledger: LedgerFile, *, columns: Mapping[str, str] | None = None, delimiter: str | None = None
    ) -> None:
        self._source = Source(ledger)
        with ExitStack() as on_failure:
            on_failure.callback(self._source.close)
            self._lines = read_lines(self._source.chunks())
            self._first_line, header = self._read_header()
            delimiters = DELIMITERS if delimiter is None else (delimiter,)
            understood = _understand(header, columns, delimiters, self._first_line)
            on_failure.pop_all()
        self.delimiter: str = understood[0]
        self.columns: Columns = understood[1]
        self._count = 0

    def _read_header(self) -> tuple[int, str]:
        """Return the first line that is not blank, with its number; 0 and nothing for an empty file."""
        return next(((number, line) for number, line in enumerate(self._lines, 1) if line.strip()), (0, ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    def __iter__(self) -> Iterator[Entry | RejectedEntry]:
        for line, cells in _records(self._lines, self.delimiter, before=self._first_line):
            if any(map(str.strip, cells)):
                self._count += 1
                yield _read_row(line, cells, self.columns)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know, once all is read."""
        if self._count:
            return ()
        what = "has a header and no rows" if self._first_line else "is empty"
        return (f"the ledger {what}: nothing was read",)

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


def _understand(
    header: str, chosen: Mapping[str, str] | None, delimiters: Sequence[str], line: int
) -> tuple[str, Columns]:
    """Return the delimiter that splits the header into most columns, and what these mean."""
    if not line:
        return delimiters[0], Columns({}, (), {}, ())
    splits = {delimiter: cells for delimiter in delimiters if (cells := _split_header(header, delimiter))}
    if not splits:
        message = f"line {line}: the quotes of the header do not pair"
        raise LedgerError(message, line=line)
    delimiter = max(splits, key=lambda each: len(splits[each]))  # the first of equals
    return delimiter, find_columns(splits[delimiter], chosen)


def _split_header(header: str, delimiter: str) -> list[str]:
    """Return the cells, or none where the quotes do not pair, as with the wrong delimiter."""
    try:
        return next(csv.reader([header], delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def _records(lines: Iterator[str], delimiter: str, *, before: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line with its number."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = before + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _quote_problem(line, str(error), is_open=before + reader.line_num > line) from None
        if before + reader.line_num != line:
            raise _quote_problem(line, f"it closes on line {before + reader.line_num}", is_open=True)
        yield line, cells


def _quote_problem(line: int, detail: str, *, is_open: bool) -> LedgerError:
    what = "a quote opens and does not close on the same line, so rows after it would be lost"
    message = f"line {line}: {what if is_open else 'the quotes do not pair'} ({detail}); mend or double the quote"
    return LedgerError(message, line=line)


def _read_row(line: int, cells: list[str], columns: Columns) -> Entry | RejectedEntry:
    if len(cells) != len(columns.header):
        reason = f"has {len(cells)} cells where the header has {len(columns.header)}"
        return RejectedEntry(line=line, reason=reason)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field, place in columns.places.items():
        try:
            value = _READERS[field](cells[place])
        except CellProblem as problem:
            problems.append(f"{field}: {problem}")
            continue
        if value is None and field in _NEEDED:
            problems.append(f"{field}: the cell is empty")
        values[field] = value
    if not problems:
        return Entry(line=line, **values)
    if tuple(cells) == columns.header:
        problems = ["is the header again; were two files joined?"]
    return RejectedEntry(
        line=line,
        reason="; ".join(problems),
        reference=cells[columns.places["reference"]].strip() or None,
        amount=values.get("amount"),
    )
