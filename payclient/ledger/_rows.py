"""Turn the cells of one row into an entry, for all formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import frozen

from payclient._escape import escape_unprintable, quote
from payclient.ledger._cells import CellProblem, read_code, read_creation, read_time, read_word
from payclient.ledger._columns import Columns
from payclient.ledger._dialect import PLAIN, Dialect
from payclient.ledger._entry import ABSENT, Entry, RejectedEntry
from payclient.ledger._errors import LedgerError
from payclient.ledger._money import MoneyReader, read_money
from payclient.ledger._scope import Scope
from payclient.ledger._suggestion import Suggester, Suggestion
from payclient.ledger._times import TimeReader
from payclient.ledger._totals import Totals

CellReader: TypeAlias = Callable[[Any], Any]


def text_readers(dialect: Dialect = PLAIN) -> Mapping[str, CellReader]:
    """Return the reader of each field, for formats in which every cell is text."""
    money, times = MoneyReader(dialect), TimeReader(dialect.date_format)
    by_kind: dict[str, CellReader] = {
        "code": read_code,
        "money": money.read,
        "word": read_word,
        "time": times.read if dialect.date_format else read_time,
        "creation": times.read_creation if dialect.date_format else read_creation,
    }
    return _by_field(by_kind, dialect)


def typed_readers(dialect: Dialect = PLAIN) -> Mapping[str, CellReader]:
    """Return the reader of each field, for formats whose cells have types."""
    money, times = MoneyReader(dialect), TimeReader(dialect.date_format)
    by_kind: dict[str, CellReader] = {
        "code": code_value,
        "money": partial(money_value, reader=money),
        "word": word_value,
        "time": partial(time_value, read=times.read if dialect.date_format else read_time),
        "creation": partial(creation_value, read=times.read_creation if dialect.date_format else read_creation),
    }
    return _by_field(by_kind, dialect)


def _by_field(by_kind: Mapping[str, CellReader], dialect: Dialect) -> Mapping[str, CellReader]:
    """Return the reader of each field; a declared text for an empty cell is read as one."""
    null = frozenset(dialect.null)

    def nulled(read: CellReader) -> CellReader:
        return lambda cell: read("" if isinstance(cell, str) and cell.strip() in null else cell)

    wrapped = {kind: nulled(read) if null else read for kind, read in by_kind.items()}
    return MappingProxyType({field: wrapped[kind] for field, kind in KINDS.items()})


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
        "created_at": "creation",
        "kind": "word",
        "currency": "word",
    },
)
"""What each field holds."""

_SAMPLE = 100
"""Number of rows whose unused cells are sampled, and of characters of each."""

_SUGGESTED = {"money": "amounts", "time": "times", "creation": "times"}
"""The kinds of cells for which a declaration may be suggested."""

_NEEDED = frozenset({"reference", "amount"})


class RowReader:
    """
    Turns rows into entries.

    Args:
        columns: The columns by field.
        warnings: The list to which warnings are added.
        by_field: The reader of each field; it raises `CellProblem`.
        dialect: What is declared, beyond which something may be suggested.
        scope: Decides which rows are left out; none are if not given.
    """

    def __init__(
        self,
        columns: Columns,
        warnings: list[str],
        by_field: Mapping[str, CellReader],
        dialect: Dialect = PLAIN,
        scope: Scope | None = None,
    ) -> None:
        self._scope = scope
        self._is_statement = scope is not None and scope.is_statement
        self._has_scope = scope is not None and scope.concerns(columns.used)
        self._columns = columns
        self._warnings = warnings
        unused = set(range(len(columns.header))) - set(columns.places.values())
        self._unused = [(columns.header[place].strip(), place) for place in sorted(unused)]
        self._sampled = 0
        self._suggester = Suggester(dialect)
        self._plan = [(field, place, self._noted(field, by_field[field])) for field, place in columns.places.items()]
        self._debits = self._debit_places(by_field, dialect)
        self._totals = Totals()
        self._odd_creations, self._first_odd_creation = 0, (0, "")

    def read(self, line: int, cells: Sequence[Any]) -> Entry | RejectedEntry | None:
        """
        Return the entry, or a rejected entry with all problems; None if the row is left out.

        Args:
            line: Position of the row in the ledger.
            cells: As many as the header has.

        Raises:
            LedgerError: When the row has another currency than those above, and none was chosen.
        """
        values, problems, refused = self._values(line, cells)
        if reason := self._totals.reason(values.get("reference"), values.get("amount"), cells):
            if self._scope is not None and self._scope.leaves_out_totals(line, values.get("amount")):
                return None
            kind = values.get("kind", ABSENT)
            return RejectedEntry(line=line, reason=reason, reference=values.get("reference"), kind=kind)
        is_header = bool(problems) and tuple(cells) == self._columns.header
        if refused and not is_header:
            for what in refused.keys() & set(_SUGGESTED.values()):
                self._suggester.refuse(what, refused[what])
        has_scope = self._has_scope and not is_header
        if self._scope is not None and has_scope and self._is_outside(self._scope, line, values, problems):
            return None
        values.pop("currency", None)
        return self._rejected(line, cells, values, problems) if problems else Entry(line=line, **values)

    def _values(self, line: int, cells: Sequence[Any]) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
        """Return what can be read by field, the problems, and the first refused cell by kind."""
        if self._unused and self._sampled < _SAMPLE:
            self._sample(cells)
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
                self._tell_odd_creation(line, problem)
                value = None
            if value is None and field in _NEEDED:
                problems.append(f"{field}: the cell is empty")
            values[field] = value
        if self._is_statement and values.get("amount", 0) is None and values.get("amount_received") is not None:
            problems.remove("amount: the cell is empty")
            del values["amount"]
        return values, problems, refused

    @staticmethod
    def _is_outside(scope: Scope, line: int, values: Mapping[str, Any], problems: list[str]) -> bool:
        try:
            return scope.leaves_out(line, values)
        except CellProblem as problem:
            problems.append(str(problem))
            return False

    def suggestions(self) -> tuple[Suggestion, ...]:
        """Return what to declare, judging by the rows read so far."""
        return tuple(self._suggester.suggestions())

    def _debit_places(
        self, by_field: Mapping[str, CellReader], dialect: Dialect
    ) -> Mapping[str, tuple[str, int, CellReader]]:
        """Return name, place and reader of each column of debits; those of a profile need not be there."""
        names = [name.strip() for name in self._columns.header]
        found: dict[str, tuple[str, int, CellReader]] = {}
        for field, name in dialect.debit_columns.items():
            if name in names and field in self._columns.places:
                found[field] = name, names.index(name), self._noted(field, by_field[field])
            elif not dialect.profile:
                message = f"no column is called {quote(name)}, which was chosen for the debits of {field}"
                raise LedgerError(message, line=1)
        return found

    def _debited(self, field: str, value: int | None, cells: Sequence[Any]) -> int | None:
        """
        Return *value*, or the debit in its place.

        Raises:
            CellProblem: When there are both, or the debit cannot be read.
        """
        name, place, read = self._debits[field]
        debit = read(cells[place])
        if value and debit:
            message = f"there is an amount here and in {quote(name)} too; a row is either credit or debit"
            raise CellProblem(message)
        return -debit if debit else debit if value is None else value

    def _noted(self, field: str, read: CellReader) -> CellReader:
        """Return *read*, which then also shows the suggester each text that is not the usual one."""
        kind, name = KINDS[field], self._columns.used[field]
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

    def _sample(self, cells: Sequence[Any]) -> None:
        """Store samples of unused columns, because they may hold money."""
        self._sampled += 1
        for name, place in self._unused:
            if cells[place] is not None:
                self._columns.samples.setdefault(name, []).append(str(cells[place])[:_SAMPLE])

    def _tell_odd_creation(self, line: int, problem: CellProblem) -> None:
        """
        Count an unreadable time of creation, in one warning for all of them.

        The row is not rejected, because the column is not compared; it only has no age.
        """
        self._odd_creations += 1
        if self._odd_creations == 1:
            self._first_odd_creation = len(self._warnings), f"{problem} (line {line})"
            self._warnings.append("")
        place, first = self._first_odd_creation
        name = quote(self._columns.used["created_at"])
        cells = "1 cell" if self._odd_creations == 1 else f"{self._odd_creations:,} cells"
        self._warnings[place] = (
            f"{name}: {cells} cannot be read, such as {first}; no grace applies to a row without a known age"
        )

    def _rejected(
        self,
        line: int,
        cells: Sequence[Any],
        values: Mapping[str, Any],
        problems: Sequence[str],
    ) -> RejectedEntry:
        if tuple(cells) == self._columns.header:
            problems = ["is the header again; were two files joined?"]
        return RejectedEntry(
            line=line,
            reason="; ".join(problems),
            reference=_as_found(cells[self._columns.places["reference"]]),
            amount=values.get("amount"),
            amount_received=values.get("amount_received") if self._is_statement or "kind" in values else None,
            status=values.get("status") if "status" in self._columns.places else ABSENT,
            kind=values.get("kind") if "kind" in self._columns.places else ABSENT,
        )


def _as_found(cell: object) -> str | None:
    """Return *cell* as text that can be stored."""
    text = str(cell) if isinstance(cell, str | int | float) else ""
    return text.encode(errors="replace").decode().strip() or None


_PLAIN_MONEY = MoneyReader()
_MAX = 10**18
_MAX_FLOATING = 10**15  # a float does not keep further digits


@frozen
class Unreadable:
    """A cell without a usable value; *reason* is for the rejected row."""

    reason: str


def money_value(value: Any, reader: MoneyReader = _PLAIN_MONEY) -> int | None:
    """
    Return a whole number, or None for an empty cell.

    Args:
        value: An int; a float or a Decimal that is exactly whole; or text.
        reader: Reads text, and numbers in another unit than the service's.

    Raises:
        CellProblem: For anything else, and for a float of more than fifteen digits.
    """
    if value is None or isinstance(value, str):
        return None if value is None else reader.read(value)
    if type(value) is int:
        if -_MAX < value < _MAX:
            return reader.read_decimal(Decimal(value)) if reader.dialect.minor_units else value
    elif isinstance(value, float):
        if reader.dialect.minor_units and abs(value) < _MAX_FLOATING:  # false for what is not a number
            return reader.read_float(value)
        if abs(value) < _MAX_FLOATING:
            return int(value) if value.is_integer() else reader.read_decimal(Decimal(repr(value)))
    elif isinstance(value, Decimal) and value.is_finite() and abs(value) < _MAX:
        return reader.read_decimal(value) if reader.dialect.minor_units else read_money(f"{value:f}")
    message = f"{_shown(value)} is not a whole number of at most {15 if isinstance(value, float) else 18} digits"
    raise CellProblem(message)


def code_value(value: Any) -> str | None:
    """
    Return an identifier, or None for an empty cell.

    Raises:
        CellProblem: When it is not text, or a spreadsheet has changed it.
    """
    return read_code(_only_text(value))


def word_value(value: Any) -> str | None:
    """
    Return a word, or None for an empty cell.

    Raises:
        CellProblem: When it is not text, or has an invisible space or mark.
    """
    return read_word(_only_text(value))


def time_value(value: Any, read: CellReader = read_time) -> datetime | None:
    """
    Return a time without a zone, or None for an empty cell.

    Raises:
        CellProblem: When it has a zone or a fraction of a second, or is a date alone or not a time.
    """
    if isinstance(value, datetime) and value.microsecond:
        message = f"{_shown(value)} has a fraction of a second; the service's times have none"
        raise CellProblem(message)
    if isinstance(value, datetime) and value.tzinfo is not None:
        message = f"{_shown(value)} has a time zone, but the service's times have none; store it without"
        raise CellProblem(message)
    found: datetime | None = value if isinstance(value, datetime) else read(_time_text(value))
    return found


def creation_value(value: Any, read: CellReader = read_creation) -> datetime | None:
    """
    Return the time of creation, aware if the cell states a zone, or None for an empty cell.

    Raises:
        CellProblem: When it is neither a time nor a date.
    """
    if isinstance(value, date):
        return value if isinstance(value, datetime) else datetime.combine(value, time.min)
    found: datetime | None = read(_time_text(value))
    return found


def _only_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    what = "a number, so leading zeros or digits may be lost" if is_number else "not text"
    message = f"{_shown(value)} is {what}; store the column as text"
    raise CellProblem(message)


def _time_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    message = f"{_shown(value)} is {'a date without a time of day' if isinstance(value, date) else 'not a time'}"
    raise CellProblem(message)


def _shown(value: Any) -> str:
    if isinstance(value, Unreadable):
        raise CellProblem(value.reason)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, bytes):
        return "binary data"
    return escape_unprintable(str(value), max_length=80)
