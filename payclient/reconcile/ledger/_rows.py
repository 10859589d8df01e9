"""The entries of a ledger, and how the cells of one row become one, in all formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from attrs import Attribute, Factory, field, fields, frozen

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Way, advice
from payclient.reconcile._fields import KINDS
from payclient.reconcile.ledger._columns import (
    IGNORING,
    SIGNS,
    CellProblem,
    Columns,
    Finder,
    LedgerError,
    column_names,
    listed,
    read_code,
    read_reference,
    read_word,
    sign_of,
)
from payclient.reconcile.ledger._dialect import PLAIN, Dialect, TimeReader
from payclient.reconcile.ledger._money import MoneyReader, SignLaw
from payclient.reconcile.ledger._scope import HAS_DIGIT, Scope, Totals, UnreadSheet
from payclient.reconcile.ledger._suggestion import Suggester
from payclient.reconcile.ledger._unused import MAX_COUNTED, Evidence, UnusedColumn, check_values


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of a field without a column, which is not compared. An empty cell is None, and is compared."""

Text: TypeAlias = str | Absent | None
Money: TypeAlias = int | Absent | None

_SURROGATE = re.compile("[\ud800-\udfff]")


def _must_be(kind: type[int | str], *others: object) -> Callable[[object, Attribute[Any], object], None]:
    """Return a validator for values of one *kind*, and for these *others*."""

    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        if kind is str and isinstance(value, str):
            if not value.isascii() and _SURROGATE.search(value):
                raise ValueError(f"{attribute.name} holds half a surrogate pair, which UTF-8 cannot hold")
        elif type(value) is not kind and value not in others:
            message = f"{attribute.name} must be {'a str' if kind is str else 'an int'}, got {type(value).__name__}"
            raise TypeError(message)

    return check


_OPTIONAL_TEXT = _must_be(str, None, ABSENT)
_OPTIONAL_MONEY = _must_be(int, None, ABSENT)


@frozen(kw_only=True, slots=False)  # so that `checked_entry` fills one in a fifth of the time
class Entry:
    """
    One usable line of the ledger, for one transaction.

    Attributes:
        line: Position in the ledger, for people: the line of a file, or any number that you choose.
        reference: The service's reference, which is looked up.
        merchant_reff: The merchant's own reference.
        amount: Total amount, in the unit of the service.
        fee: Fee charged.
        amount_received: Amount received by the merchant.
        status: The ledger's word for the state.
        payment_method: Short code of the method.
        payment_code: Code that the payer pays with.
        expdate: Expiry, without a time zone, because the service gives none.
        created_at: Time of the record, with or without a time zone; not compared, but gives the age of the row.
        kind: The ledger's word for what the line is to its payment, such as a charge or a refund; not compared.
        payout: The payout that a line of a statement is part of; not compared, and not stored.

    All but `line` and `reference` may be left out, and are then not compared.

    Raises:
        TypeError: For a value of another type.
        ValueError: For an empty reference, text that cannot be encoded as UTF-8, and an expiry with a time zone.
    """

    line: int
    reference: str = field(validator=_must_be(str))
    merchant_reff: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    amount: int | Absent = field(default=ABSENT, validator=_must_be(int, ABSENT))
    fee: Money = field(default=ABSENT, validator=_OPTIONAL_MONEY)
    amount_received: Money = field(default=ABSENT, validator=_OPTIONAL_MONEY)
    status: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payment_method: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payment_code: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    expdate: datetime | Absent | None = ABSENT
    created_at: datetime | Absent | None = ABSENT
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        message = "" if self.reference else "reference must not be empty"
        if isinstance(self.expdate, datetime) and self.expdate.tzinfo is not None:
            message = "expdate must be without a time zone, as the service's times are"
        if message:
            raise ValueError(message)


_DEFAULTS = {each.name: each.default for each in fields(Entry)}


def checked_entry(values: Mapping[str, Any]) -> Entry:
    """Return the entry of *values* that a reader of cells has checked, without the calls of the validators."""
    entry = Entry.__new__(Entry)
    entry.__dict__.update(_DEFAULTS, **values)
    return entry


@frozen(kw_only=True)
class RejectedEntry:
    """
    One line of the ledger that cannot be used; reported, never dropped.

    Attributes:
        line: Position in the ledger.
        reason: The problem with it, and its remedy.
        reference: The reference as written, if there is one.
        amount: The amount for the ledger's total, if it is readable.
        amount_received: The amount received, if it is readable; of a statement, or a ledger with kinds.
        status: The ledger's word for the state, if it is readable.
        kind: The ledger's word for what the line is to its payment, if it is readable.
        payout: The payout that a line of a statement is part of; not stored.
        problems: Its problems without their values, to count rows with the same ones; not stored.
        remedies: What would help; not stored.
    """

    line: int
    reason: str = field(validator=_OPTIONAL_TEXT)
    reference: str | None = field(default=None, validator=_OPTIONAL_TEXT)
    amount: int | None = field(default=None, validator=_must_be(int, None))
    amount_received: int | None = field(default=None, validator=_must_be(int, None))
    status: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    kind: Text = field(default=ABSENT, validator=_OPTIONAL_TEXT)
    payout: str | None = field(default=None, eq=False)
    problems: tuple[str, ...] = field(default=(), eq=False)
    remedies: tuple[Remedy, ...] = field(default=(), eq=False)


CellReader: TypeAlias = Callable[[Any], Any]

_SUGGESTED = {"money": "amounts", "time": "times", "creation": "times"}
"""The kinds of cells for which a declaration may be suggested."""

_Problem: TypeAlias = tuple[str, CellProblem]
"""A field, or nothing, and the problem with its cell."""
_NEEDED = frozenset({"reference", "amount"})
_DIRECTED = ("amount", "amount_received")
"""Fields whose sign is the direction of the row; a fee is not one."""
_MAX_HEADER_ROWS = 50
_MAX_PROPOSED = 3
_MAX_KEYS = 1000
_SAMPLE = 10


class _DirectionReader:
    """Reads the column of directions: words in all its cells, or signs in all; a dash next to words is not a debit."""

    def __init__(self) -> None:
        self._are_signs: bool | None = None
        self._first: dict[int | None, str] = {}
        """The first word of each sign, and the first that is not known."""

    def read(self, cell: Any) -> int | None:
        """Return the sign that a cell gives to the amounts of its row, or None for an empty cell."""
        word = read_word(str(cell) if type(cell) is int else cell)
        if word is None:
            return None
        sign = sign_of(word)
        self._first.setdefault(sign, word)
        if sign is None:
            raise CellProblem("{} is not known to mean credit or debit", quote(word))
        is_sign = word.strip("()") in SIGNS
        if self._are_signs not in (None, is_sign):
            message = f"the column of directions has both words and signs, such as {quote(word)}"
            empty = Remedy((Way("null", "-"),), "reads a dash as an empty cell")
            raise LedgerError(message, remedies=[empty])
        self._are_signs = is_sign
        return sign

    def check(self) -> None:
        """Check that no word was read that means something else next to another one, as the `C` of `A` and `C` does."""
        if None in self._first and len(self._first) == 2:
            unknown, known = quote(self._first[None]), quote(self._first.get(1) or self._first[-1])
            message = (
                f"the column of directions has {known} and {unknown}, which may be a pair, and only {known} is known; "
                "write credit and debit in it, or list both as charge and refund in the table [lines.kind] of the "
                "rules file instead"
            )
            raise LedgerError(message)


class RowReader:
    """Turns rows into entries; its `warnings`, and the evidence in its `unused` columns, grow meanwhile."""

    def __init__(self, columns: Columns, dialect: Dialect = PLAIN, scope: Scope | None = None) -> None:
        self.columns = columns
        self.warnings: list[str] = []
        names, used = column_names(columns.header), {*columns.places.values()}
        debits = {name for of, name in dialect.debit_columns.items() if of in columns.places}
        unused = ((place, name) for place, name in enumerate(names) if place not in used and name not in debits)
        self._unused = [Evidence(name, place) for place, name in unused]
        self._sample: list[Sequence[Any]] = []
        self._rows, self._ignored = 0, frozenset[str]()
        self._scope = scope or Scope()
        self._has_scope = scope is not None and "currency" in columns.used
        self.suggester: Suggester = Suggester(dialect)
        self._skips = bool(dialect.skip_rows_like)
        self._refused: dict[str, Any] = {}
        """The first refused cell of amounts and of times in a row."""
        self._directions = _DirectionReader()
        self._totals = Totals()
        self._money = MoneyReader(dialect)
        self._reference = partial(read_reference, allowed=frozenset(dialect.allow_references))
        times, self._null = TimeReader(dialect.date_format), frozenset(dialect.null)
        self._needed = _NEEDED - {"amount"} if self._scope.is_statement else _NEEDED
        self._readers: Mapping[str, CellReader] = {
            "code": read_code,
            "money": self._money.read,
            "word": read_word,
            "direction": self._directions.read,
            "time": times.read,
            "creation": times.read_creation,
        }
        self._plan = [(name, place, self._reader_of(name)) for name, place in columns.places.items()]
        self._debits = self._debit_places(dialect)
        self._laws = {of: SignLaw(f"the column {quote(name)}") for of, (name, _, _) in self._debits.items()}
        directions = f"the column {quote(columns.used.get('direction', ''))}"
        self._directed = {name: SignLaw(directions) for name in _DIRECTED if name in columns.places}
        self._bad_created_at, self._first_bad_created_at = 0, (0, "")
        self._has_fees_below_zero, self._fee_signs = dialect.fees_below_zero, set[bool]()

    def _reader_of(self, name: str) -> CellReader:
        """Return the reader of a field; it also shows each unusual text to the suggester."""
        kind, column, null = KINDS[name], self.columns.used[name], self._null
        plain = self._reference if name == "reference" else self._readers[kind]

        def read_stated(cell: Any) -> Any:
            return plain("" if isinstance(cell, str) and cell.strip() in null else cell)

        read = read_stated if null else plain
        if kind not in _SUGGESTED:
            return read
        add: Callable[[str], None] = self.suggester.add_time
        if kind == "money":
            add = partial(self.suggester.add_amount, is_needed=name in _NEEDED)

        is_plain = self._money.is_plain if kind == "money" and not null else None

        # The suggester is not shown the name of the column, which is part of a repeated header, and cannot read it.
        def noted(cell: Any) -> Any:
            if is_plain is not None and type(cell) is str and is_plain(cell):
                return int(cell)
            if isinstance(cell, str) and cell and not cell.isdigit() and cell.strip() != column:
                add(cell)
            try:
                return read(cell)
            except CellProblem:
                if not isinstance(cell, str) or cell.strip() != column:
                    self._refused.setdefault(_SUGGESTED[kind], cell)
                raise

        return noted

    def _debit_places(self, dialect: Dialect) -> Mapping[str, tuple[str, int, CellReader]]:
        """Return name, place and reader of each column of debits."""
        names = column_names(self.columns.header)
        found: dict[str, tuple[str, int, CellReader]] = {}
        for of, name in dialect.debit_columns.items():
            if name in names and of in self.columns.places:
                found[of] = name, names.index(name), self._reader_of(of)
            else:
                message = f"no column is called {quote(name)}, which was chosen for the debits of {of}"
                raise LedgerError(message, line=1, refused=Way("debit_columns", name, of))
        return found

    def ignore(self, names: Collection[str]) -> None:
        self._ignored = frozenset(names)

    def check_cells(self) -> None:
        """Check that no cell read so far says something that is not used, or means something else next to another."""
        self._directions.check()
        if self._fee_signs == {True} and not self._has_fees_below_zero:
            how = advice([Remedy((Way("fees_below_zero"),), "reads them as fees")], self._scope.side)
            self.warnings.append(f"each fee is below zero, as providers write what they keep{how}")
        for each in self._unused:
            each.look(self._money)
        check_values(self.columns, [each for each in self._unused if each.name not in self._ignored], self._sample)

    def found_unused(self, *, are_ignored: bool) -> tuple[UnusedColumn, ...]:
        """Return what unused columns, ignored by name or not, may say about the rows; complete at the end."""
        columns = (each for each in self._unused if (each.name in self._ignored) is are_ignored)
        return tuple(found for each in columns if (found := each.found(self._rows)) is not None)

    def add_key(self, name: str, cell: Any) -> None:
        """Add a cell under a name that the header does not have."""
        known = next((each for each in self._unused if each.name == name), None)
        if known is None and len(self._unused) < _MAX_KEYS:
            self._unused.append(known := Evidence(name))
        if known is not None:
            known.add(cell, self._money)

    def _observe(self, cells: Sequence[Any]) -> None:
        self._rows += 1
        if self._rows <= _SAMPLE:
            self._sample.append(cells)
        for column in self._unused:
            cell = cells[column.place] if column.place >= 0 else None
            if type(cell) is str:  # nearly every cell, so without a call
                counts = column.counts
                counts[cell] = counts.get(cell, 0) + 1
                if len(counts) > MAX_COUNTED:
                    column.look(self._money)
            elif column.place >= 0:
                column.add(cell, self._money)

    def _is_skipped(self, line: int, cells: Sequence[Any]) -> bool:
        """Return whether the declarations leave out rows that begin as this one does, whatever its number of cells."""
        amount, place = None, self.columns.places.get("amount", len(cells))
        with suppress(CellProblem):
            amount = self._money.read(cells[place]) if place < len(cells) else None
        return self._scope.leaves_out_like(line, cells, amount)

    def read(self, line: int, cells: Sequence[Any], misfit: CellProblem | None = None) -> Entry | RejectedEntry | None:
        """Return the entry, or a rejected entry with all problems; None if the row is left out."""
        # With a *misfit*, its cells do not fit the header.
        if self._skips and self._is_skipped(line, cells):
            self._totals.is_whole = False
            return None
        if misfit:
            self._totals.is_whole = False
            return self._refused_row(line, [("", misfit)])
        self._refused = {}
        values, problems = self._values(line, cells)
        reason, is_total = self._totals.reason(values.get("reference"), values.get("amount"), cells)
        if is_total and self._scope.leaves_out_totals(line, values.get("amount")):
            return None
        if reason is not None:
            known = {name: values[name] for name in ("reference", "kind") if name in values}
            return self._refused_row(line, [("", reason)], **known)
        is_header = bool(problems) and tuple(cells) == self.columns.header
        if is_header:
            problems = [("", CellProblem("is the header again; were two files joined?"))]
        else:
            for what in self._refused:
                self.suggester.refuse(what, self._refused[what])
        if self._has_scope and not is_header:
            try:
                if self._scope.leaves_out(line, values):
                    self._totals.is_whole = False
                    return None
            except CellProblem as problem:
                problems.append(("currency", problem))
        self._observe(cells)
        return self._rejected(line, cells, values, problems) if problems else checked_entry({**values, "line": line})

    def _refused_row(self, line: int, problems: Sequence[_Problem], **known: Any) -> RejectedEntry:
        """Return a row with these *problems*, each with its field or none."""
        remedies = tuple(dict.fromkeys(remedy for _, problem in problems for remedy in problem.remedies))
        reasons = (
            f"{name}{': ' if name else ''}{problem.message}{advice(problem.remedies, self._scope.side)}"
            for name, problem in problems
        )
        kinds = tuple(f"{name}: {problem.kind}" for name, problem in problems)
        return RejectedEntry(line=line, reason="; ".join(reasons), problems=kinds, remedies=remedies, **known)

    def _rejected(
        self, line: int, cells: Sequence[Any], values: Mapping[str, Any], problems: Sequence[_Problem]
    ) -> RejectedEntry:
        self._totals.is_whole = False
        cell, places = cells[self.columns.places["reference"]], self.columns.places
        reference = str(cell) if isinstance(cell, str | int | float) else ""
        return self._refused_row(
            line,
            problems,
            reference=reference.encode(errors="replace").decode().strip() or None,
            amount=values.get("amount"),
            amount_received=values.get("amount_received") if self._scope.is_statement or "kind" in values else None,
            status=values.get("status") if "status" in places else ABSENT,
            kind=values.get("kind") if "kind" in places else ABSENT,
            payout=values.get("payout"),
        )

    def _values(self, line: int, cells: Sequence[Any]) -> tuple[dict[str, Any], list[_Problem]]:
        values: dict[str, Any] = {}
        problems: list[_Problem] = []
        for name, place, reader in self._plan:
            try:
                value = reader(cells[place])
                if name in self._debits:
                    value = self._debited(name, value, cells[place], cells)
            except CellProblem as problem:
                if name != "created_at":
                    problems.append((name, problem))
                    continue
                self._warn_bad_created_at(line, problem)
                value = None
            if value is None and name in self._needed:
                problems.append((name, CellProblem("the cell is empty")))
            values[name] = value
        if self._scope.is_statement and values.get("amount", 0) is None:
            if values.get("amount_received") is None:
                problems.append(("amount", CellProblem("the cell is empty")))
            else:
                del values["amount"]
        if "direction" in self.columns.places:
            self._direct(values, cells, problems)
        if fee := values.get("fee"):
            self._fee_signs.add(fee < 0)
            values["fee"] = -fee if self._has_fees_below_zero else fee
        return values, problems

    def _debited(self, name: str, value: int | None, cell: Any, cells: Sequence[Any]) -> int | None:
        column, place, read = self._debits[name]
        debit = read(cells[place])
        if value and debit:
            message = "there is an amount here and in {} too; a row is either credit or debit"
            raise CellProblem(message, quote(column))
        number, cell, side = (debit, cells[place], -1) if debit else (value, cell, 1)
        if not number:
            return debit if value is None else value
        return self._laws[name].apply(number, self._money.sign(cell, number), side)

    def _direct(self, values: dict[str, Any], cells: Sequence[Any], problems: list[_Problem]) -> None:
        """Give the amounts of a row the sign that its direction says; without one that is known they have none."""
        is_known, sign = "direction" in values, values.pop("direction", None)
        for name, law in self._directed.items():
            if not (number := values.get(name)):
                continue
            if sign is None:
                if is_known:
                    message = "the cell is empty, so it is not known whether money came or went"
                    problems.append(("direction", CellProblem(message)))
                is_known = False
                del values[name]
                continue
            said = self._money.sign(cells[self.columns.places[name]], number)
            try:
                values[name] = law.apply(number, (1 if number > 0 else -1) if name in self._debits else said, sign)
            except CellProblem as problem:
                problems.append((name, CellProblem("{}", problem.message, remedies=[IGNORING])))

    def _warn_bad_created_at(self, line: int, problem: CellProblem) -> None:
        """Count an unreadable time of creation, in one warning for all of them."""
        # The row is not rejected, because the column is not compared. It only lacks an age.
        self._bad_created_at += 1
        if self._bad_created_at == 1:
            self._first_bad_created_at = len(self.warnings), f"{problem} (line {line})"
            self.warnings.append("")
        place, first = self._first_bad_created_at
        self.warnings[place] = (
            f"{quote(self.columns.used['created_at'])}: {plural(self._bad_created_at, 'cell')} cannot be read: "
            f"{first}; grace doesn't apply to such a row"
        )


NO_COLUMNS = Columns({}, (), {}, ())
"""The columns of a ledger without a header."""


@frozen(kw_only=True)
class Table:
    """The columns and rows of an open ledger, in any format; an empty one if nothing is given."""

    # `rows` is read once, in order; None stands for a skipped row. `header_row` is 0 if the format lacks one.
    # `unread_sheets` are the others that have rows, if no sheet was chosen.

    reader: RowReader = field(factory=partial(RowReader, NO_COLUMNS))
    columns: Columns = field(default=Factory(lambda table: table.reader.columns, takes_self=True))
    rows: Iterable[Entry | RejectedEntry | None] = ()
    delimiter: str | None = None
    header_row: int = 0
    unread_sheets: tuple[UnreadSheet, ...] = ()


_Row = TypeVar("_Row")


def read_header(
    rows: Iterator[tuple[int, _Row]], names_of: Callable[[_Row], Sequence[str]], find: Finder, scope: Scope, empty: _Row
) -> tuple[int, _Row, RowReader]:
    """Return the number of the header, its row, and the reader of the rows below; 0 and *empty* if there is no row."""
    # *rows* are the non-empty rows, with their numbers. The caller reads on below the header.
    wanted, above = scope.dialect.header_row, 0
    for line, row in rows:
        if wanted is not None and line < wanted:
            above += 1
            continue
        if wanted not in (None, line):
            break
        try:
            reader = RowReader(find(names_of(row)), scope.dialect, scope)
        except LedgerError as error:
            below = [(number, names_of(each)) for number, each in islice(rows, _MAX_HEADER_ROWS) if wanted is None]
            raise _with_header(error, (line, names_of(row)), below, find) from None
        if above:
            rows_are = f"{plural(above, 'row')} above the header (row {line}) {'is' if above == 1 else 'are'}"
            reader.warnings.append(f"{rows_are} not read")
        return line, row, reader
    else:
        if not above:
            return 0, empty, RowReader(NO_COLUMNS)
    message = f"row {wanted} is empty, so it cannot be the header"
    raise LedgerError(message, line=wanted or 0, refused=Way("header_row", wanted or 0))


def _with_header(
    error: LedgerError, first: tuple[int, Sequence[str]], below: Sequence[tuple[int, Sequence[str]]], find: Finder
) -> LedgerError:
    """Return *error* about the *first* row with the rows that can be the header: by their names, or by their shape."""
    fitting = {tuple(names): line for line, names in reversed(below) if _is_header(names, find)}
    lines = sorted(fitting.values())[:_MAX_PROPOSED]
    how = f"row {' or '.join(map(str, lines))} has such columns"
    if not lines and (shaped := _by_shape([first, *below])) and shaped[0] != first[0]:
        lines, how = [shaped[0]], f"row {shaped[0]} looks like the header, with {listed(shaped[1])}"
    if not lines:
        return LedgerError(error.message, line=first[0], remedies=error.remedies, refused=error.refused)
    ways = [Remedy((Way("header_row", line),), "makes it the header") for line in lines]
    return LedgerError(f"{error.message}; {how}", line=first[0], remedies=ways)


def _is_header(names: Sequence[str], find: Finder) -> bool:
    with suppress(LedgerError):
        find(names)
        return True
    return False


def _by_shape(rows: Sequence[tuple[int, Sequence[str]]]) -> tuple[int, Sequence[str]] | None:
    """Return the first row of words that is as wide as the widest one, or nearly."""
    filled = [(line, [name for name in map(str.strip, names) if name]) for line, names in rows]
    most = max(len(names) for _, names in filled)
    for width in (most, most - 1):
        for line, names in filled if width > 1 else ():
            if len(names) >= width and len({*names}) == len(names) and not any(map(HAS_DIGIT, names)):
                return line, names
    return None
