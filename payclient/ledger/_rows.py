"""Turn the cells of one row into an entry, for all formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
from attrs import frozen

from payclient._escape import plural, quote
from payclient.ledger._cells import CellProblem, LedgerError, as_option, read_code, read_word
from payclient.ledger._columns import Columns, column_names
from payclient.ledger._dialect import PLAIN, Dialect
from payclient.ledger._direction import DirectionReader
from payclient.ledger._entry import ABSENT, Entry, RejectedEntry
from payclient.ledger._money import MoneyReader
from payclient.ledger._scope import Scope, Totals
from payclient.ledger._suggestion import Suggester, Suggestion
from payclient.ledger._times import TimeReader
from payclient.ledger._unused import Evidence, check_values, unused_columns

CellReader: TypeAlias = Callable[[Any], Any]


def _readers(dialect: Dialect, directions: DirectionReader) -> Mapping[str, CellReader]:
    """Return the reader of each kind of cell; a declared text for an empty cell is read as one."""
    times, null = TimeReader(dialect.date_format), frozenset(dialect.null)
    by_kind: dict[str, CellReader] = {
        "code": read_code,
        "money": MoneyReader(dialect).read,
        "word": read_word,
        "direction": directions.read,
        "time": times.read,
        "creation": times.read_creation,
    }

    def nulled(read: CellReader) -> CellReader:
        return lambda cell: read("" if isinstance(cell, str) and cell.strip() in null else cell)

    return {kind: nulled(read) for kind, read in by_kind.items()} if null else by_kind


KINDS: Mapping[str, str] = MappingProxyType(
    {
        "reference": "code",
        "merchant_reff": "code",
        "amount": "money",
        "fee": "money",
        "amount_received": "money",
        "status": "word",
        "payment_method": "word",
        "payment_code": "code",
        "expdate": "time",
        "direction": "direction",
        "created_at": "creation",
        "kind": "word",
        "currency": "word",
    },
)
"""Kind of cell of each field."""

_SUGGESTED = {"money": "amounts", "time": "times", "creation": "times"}
"""The kinds of cells for which a declaration may be suggested."""

_NEEDED = frozenset({"reference", "amount"})
_DIRECTED = ("amount", "amount_received")
"""Fields whose sign is the direction of the row; a fee is not one."""


class RowReader:
    """Turns rows into entries; its `warnings`, and the evidence in its `unused` columns, grow meanwhile."""

    def __init__(self, columns: Columns, dialect: Dialect = PLAIN, scope: Scope | None = None) -> None:
        self.columns = columns
        self.warnings: list[str] = []
        self._scope = scope or Scope()
        self._has_scope = scope is not None and scope.concerns(columns.used)
        self.unused: list[Evidence] = unused_columns(columns)
        self._watched: Sequence[Evidence] = self.unused
        self._suggester = Suggester(dialect)
        self._directions = DirectionReader()
        readers = _readers(dialect, self._directions)
        self._plan = [(field, place, self._noted(field, readers)) for field, place in columns.places.items()]
        self._debits = self._debit_places(readers, dialect)
        self._totals = Totals()
        self._bad_created_at, self._first_bad_created_at = 0, (0, "")

    def read(self, line: int, cells: Sequence[Any]) -> Entry | RejectedEntry | None:
        """Return the entry, or a rejected entry with all problems; None if the row is left out."""
        values, problems, refused = self._values(line, cells)
        if reason := self._totals.reason(values.get("reference"), values.get("amount"), cells):
            if self._scope.leaves_out_totals(line, values.get("amount")):
                return None
            kind = values.get("kind", ABSENT)
            return RejectedEntry(line=line, reason=reason, reference=values.get("reference"), kind=kind)
        is_header = bool(problems) and tuple(cells) == self.columns.header
        if refused and not is_header:
            for what in refused.keys() & set(_SUGGESTED.values()):
                self._suggester.refuse(what, refused[what])
        if self._has_scope and not is_header:
            try:
                if self._scope.leaves_out(line, values):
                    return None
            except CellProblem as problem:
                problems.append(str(problem))
        values.pop("currency", None)
        return self._rejected(line, cells, values, problems) if problems else Entry(line=line, **values)

    def _values(self, line: int, cells: Sequence[Any]) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
        """Return what can be read by field, the problems, and the first refused cell by kind."""
        for column in self._watched:
            cell = cells[column.place]
            if cell.__class__ is not str or cell not in column.seen:  # checked here, because it is the usual case
                self._add_unused(column, cell)
        values: dict[str, Any] = {}
        problems: list[str] = []
        refused: dict[str, Any] = {}
        for field, place, reader in self._plan:
            try:
                value = reader(cells[place])
                if field in self._debits:
                    value = self._debited(field, value, cells)
            except CellProblem as problem:
                refused.setdefault(_SUGGESTED.get(KINDS[field], ""), cells[place])
                if field != "created_at":
                    problems.append(f"{field}: {problem}")
                    continue
                self._warn_bad_created_at(line, problem)
                value = None
            if value is None and field in _NEEDED:
                problems.append(f"{field}: the cell is empty")
            values[field] = value
        if "direction" in self.columns.places:
            self._direct(values, problems)
        if self._scope.is_statement and values.get("amount", 0) is None and values.get("amount_received") is not None:
            problems.remove("amount: the cell is empty")
            del values["amount"]
        return values, problems, refused

    def _add_unused(self, column: Evidence, cell: Any) -> None:
        column.add(cell)
        if column.is_done:
            self._watched = [each for each in self._watched if each is not column]

    def _direct(self, values: dict[str, Any], problems: list[str]) -> None:
        """Give the amounts of a row the sign that its direction says; without one that is known they have none."""
        is_known, sign = "direction" in values, values.pop("direction", None)
        for field in (name for name in _DIRECTED if values.get(name)):
            if sign is None:
                problems += ["direction: the cell is empty, so it is not known whether money came or went"] * is_known
                is_known = False
                del values[field]
            elif values[field] < 0:
                name = self.columns.used["direction"]
                leave_out = as_option("ignore-column", name)
                problems.append(
                    f"{field}: {values[field]} is below zero, and {quote(name)} says credit or debit as well; "
                    f"if the sign is right as it is, {leave_out} leaves that column out"
                )
            else:
                values[field] *= sign

    def ignore(self, names: Collection[str]) -> None:
        """Leave the columns of these *names* unused, whatever their cells may be."""
        ignored = {name.strip() for name in names}
        self._watched = self.unused = [each for each in self.unused if each.name not in ignored]

    def check_cells(self) -> None:
        """Check that no cell read so far says something that is not used, or means something else beside another."""
        self._directions.check()
        check_values(self.columns, self.unused)

    def suggestions(self) -> tuple[Suggestion, ...]:
        return tuple(self._suggester.suggestions())

    def _debit_places(
        self, readers: Mapping[str, CellReader], dialect: Dialect
    ) -> Mapping[str, tuple[str, int, CellReader]]:
        """Return name, place and reader of each column of debits; those of a profile need not be there."""
        names = column_names(self.columns.header)
        found: dict[str, tuple[str, int, CellReader]] = {}
        for field, name in dialect.debit_columns.items():
            if name in names and field in self.columns.places:
                found[field] = name, names.index(name), self._noted(field, readers)
            elif not dialect.profile:
                message = f"no column is called {quote(name)}, which was chosen for the debits of {field}"
                raise LedgerError(message, line=1)
        return found

    def _debited(self, field: str, value: int | None, cells: Sequence[Any]) -> int | None:
        name, place, read = self._debits[field]
        debit = read(cells[place])
        if value and debit:
            message = f"there is an amount here and in {quote(name)} too; a row is either credit or debit"
            raise CellProblem(message)
        return -debit if debit else debit if value is None else value

    def _noted(self, field: str, readers: Mapping[str, CellReader]) -> CellReader:
        """Return the reader of *field*, which also shows the suggester each text that is not the usual one."""
        kind, name = KINDS[field], self.columns.used[field]
        read = readers[kind]
        if kind not in _SUGGESTED:
            return read
        add: Callable[[str], None] = self._suggester.add_time
        if kind == "money":
            add = partial(self._suggester.add_amount, is_needed=field in _NEEDED)

        def noted(cell: Any) -> Any:
            if isinstance(cell, str) and cell and not cell.isdigit() and cell.strip() != name:
                add(cell)
            return read(cell)

        return noted

    def _warn_bad_created_at(self, line: int, problem: CellProblem) -> None:
        """Count an unreadable time of creation, in one warning for all of them."""
        # The row is not rejected, because the column is not compared; it only has no age.
        self._bad_created_at += 1
        if self._bad_created_at == 1:
            self._first_bad_created_at = len(self.warnings), f"{problem} (line {line})"
            self.warnings.append("")
        place, first = self._first_bad_created_at
        name = quote(self.columns.used["created_at"])
        self.warnings[place] = (
            f"{name}: {plural(self._bad_created_at, 'cell')} cannot be read, such as {first}; "
            "no grace applies to a row without a known age"
        )

    def _rejected(
        self,
        line: int,
        cells: Sequence[Any],
        values: Mapping[str, Any],
        problems: Sequence[str],
    ) -> RejectedEntry:
        if tuple(cells) == self.columns.header:
            problems = ["is the header again; were two files joined?"]
        return RejectedEntry(
            line=line,
            reason="; ".join(problems),
            reference=_as_found(cells[self.columns.places["reference"]]),
            amount=values.get("amount"),
            amount_received=values.get("amount_received") if self._scope.is_statement or "kind" in values else None,
            status=values.get("status") if "status" in self.columns.places else ABSENT,
            kind=values.get("kind") if "kind" in self.columns.places else ABSENT,
        )


def _as_found(cell: object) -> str | None:
    text = str(cell) if isinstance(cell, str | int | float) else ""
    return text.encode(errors="replace").decode().strip() or None


NO_COLUMNS = Columns({}, (), {}, ())
"""The columns of a ledger without a header."""


@frozen(kw_only=True)
class Table:
    """The columns and rows of an open ledger, in any format; an empty one if nothing is given."""

    # `rows` is read once, in order; it has None for a row that is left out. `header_row` is 0 if the format has none.

    columns: Columns = NO_COLUMNS
    reader: RowReader = attrs.field(factory=partial(RowReader, NO_COLUMNS))
    rows: Iterable[Entry | RejectedEntry | None] = ()
    delimiter: str | None = None
    header_row: int = 0
