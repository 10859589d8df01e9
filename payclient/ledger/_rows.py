"""Make one entry of the cells of one row, whatever format they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from payclient.ledger._cells import CellProblem, read_code, read_creation, read_money, read_time, read_word
from payclient.ledger._columns import Columns
from payclient.ledger._entry import Entry, RejectedEntry

CellReader: TypeAlias = Callable[[Any], Any]


def readers(
    *, code: CellReader, money: CellReader, word: CellReader, time: CellReader, creation: CellReader
) -> Mapping[str, CellReader]:
    """Return which of these readers reads each field."""
    return MappingProxyType(
        {
            "reference": code,
            "merchant_reff": code,
            "amount": money,
            "fee": money,
            "amount_received": money,
            "status": word,
            "payment_method": word,
            "payment_code": code,
            "expdate": time,
            "created_at": creation,
        }
    )


TEXT_READERS = readers(code=read_code, money=read_money, word=read_word, time=read_time, creation=read_creation)
"""For formats in which every cell is text."""

_NEEDED = frozenset({"reference", "amount"})


class RowReader:
    """
    Makes entries of rows.

    Args:
        columns: Which cell is which field.
        warnings: Where to add what a person should know.
        by_field: What reads the cells of each field; it raises `CellProblem`.
    """

    def __init__(
        self, columns: Columns, warnings: list[str], by_field: Mapping[str, CellReader] = TEXT_READERS
    ) -> None:
        self._columns = columns
        self._warnings = warnings
        self._plan = [(field, place, by_field[field]) for field, place in columns.places.items()]
        self._has_odd_creation = False

    def read(self, line: int, cells: Sequence[Any]) -> Entry | RejectedEntry:
        """
        Return the entry, or the rejected entry that says everything that is wrong.

        Args:
            line: Where the row stands in the ledger.
            cells: As many as the header has.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for field, place, reader in self._plan:
            try:
                value = reader(cells[place])
            except CellProblem as problem:
                if field != "created_at":
                    problems.append(f"{field}: {problem}")
                    continue
                self._tell_odd_creation(line, problem)
                value = None
            if value is None and field in _NEEDED:
                problems.append(f"{field}: the cell is empty")
            values[field] = value
        return self._rejected(line, cells, values, problems) if problems else Entry(line=line, **values)

    def _tell_odd_creation(self, line: int, problem: CellProblem) -> None:
        """
        Warn once that a time of creation that cannot be read is taken as not known.

        It is compared with nothing, and a column called `date` is in many ledgers with a date alone:
        rejecting the row for it would lose the row over a column that nobody asked to use.
        """
        if not self._has_odd_creation:
            self._has_odd_creation = True
            name = self._columns.used["created_at"]
            self._warnings.append(f"{name}: {problem} (line {line}); such cells are taken as empty")

    def _rejected(
        self, line: int, cells: Sequence[Any], values: Mapping[str, Any], problems: Sequence[str]
    ) -> RejectedEntry:
        if tuple(cells) == self._columns.header:
            problems = ["is the header again; were two files joined?"]
        return RejectedEntry(
            line=line,
            reason="; ".join(problems),
            reference=_as_found(cells[self._columns.places["reference"]]),
            amount=values.get("amount"),
        )


def _as_found(cell: object) -> str | None:
    """Return text that can be stored, as near to *cell* as it gets."""
    text = str(cell) if isinstance(cell, str | int | float) else ""
    return text.encode(errors="replace").decode().strip() or None
