"""The entries of a ledger, read from the cells of a row, in all formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice, pairwise
from typing import Any, TypeAlias

from attrs import define, evolve, field

from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Remedy, Side, Way, advice
from payclient.reconcile._fields import KINDS, Entry, RejectedEntry, checked_entry
from payclient.reconcile.ledger import _columns
from payclient.reconcile.ledger._columns import IGNORING, CellProblem, Columns, Finder, LedgerError
from payclient.reconcile.ledger._left_out import HAS_DIGIT, Scope, UnreadSheet, Unused
from payclient.reconcile.ledger._notation import PLAIN, Dialect, MoneyReader, SignLaw, Suggester, TimeReader

CellReader: TypeAlias = Callable[[Any], Any]
_Reading: TypeAlias = tuple[CellReader, str, Callable[[str], object] | None]
"""The reader of a kind of cells, and what may be suggested for them, with what sees the unusual texts."""

_Problem: TypeAlias = tuple[str, CellProblem]
"""A field, or nothing, and the problem with its cell."""
_Sign: TypeAlias = tuple[str, SignLaw, int, int]
"""A field, the law of its column, and the signs in its cell and next to it."""
_DIRECTED = ("amount", "amount_received")
"""Fields whose sign is the direction of the row. A fee is not one."""
_DEBIT = "-"
"""Before the name of a field, its cell in the column of debits."""
_KEPT_DIGITS = 15
"""Digits of a number that a spreadsheet keeps. It makes the others 0."""
_MIN_LONG = 5
PARTLY = "some cells of the column {} have a currency, others lack one, and all are added"
_BUDDHIST = 543
_BUDDHIST_YEARS = range(1990 + _BUDDHIST, 2100 + _BUDDHIST)
_YEARS = range(1971, 3000)
"""Years of payments. Others, such as 0001, 1900, 1970 and 9999, are written where a time is missing."""
_MAX_GAP = 6
"""Months without a row. After more, a year may be mistyped."""
_MAX_HEADER_ROWS = 50
_MAX_PROPOSED = 3


class _Signs:
    """Gives the amounts of a row the sign that stands next to them, in a column of debits or of directions."""

    def __init__(self, columns: Columns, dialect: Dialect, money: MoneyReader) -> None:
        names, self._places, self._money = _columns.column_names(columns.header), columns.places, money
        self.debits: dict[str, tuple[str, int, SignLaw]] = {}
        """Name, place and law of each column of debits, by field."""
        for of, name in dialect.debit_columns.items():
            if name not in names or of not in columns.places:
                message = f"no column is called {quote(name)}, which was chosen for the debits of {of}"
                raise LedgerError(message, line=1, refused=Way("debit_columns", name, of))
            self.debits[of] = name, names.index(name), SignLaw(f"the column {quote(name)}")
        column = f"the column {quote(columns.used.get('direction', ''))}"
        self._directed = {of: SignLaw(column, [IGNORING]) for of in _DIRECTED if "direction" in columns.places}
        of_columns = (self.debits, self._by_debits), (self._directed, self._by_direction)
        self._stages = [stage for columns_of, stage in of_columns if columns_of]
        self._are_signs: bool | None = None
        self._words: dict[int | None, str] = {}
        """The first word of each sign, and the first that is not known."""
        self._has_fees_below_zero, self._fee_signs = dialect.fees_below_zero, set[bool]()
        self.are_needed: bool = bool(self.debits) or not {"direction", "fee"}.isdisjoint(columns.places)

    def read_direction(self, cell: Any) -> int | None:
        """Return the sign that a cell gives to the amounts of its row, or None for an empty cell."""
        if (word := _columns.read_word(str(cell) if type(cell) is int else cell)) is None:
            return None
        sign = _columns.sign_of(word)
        self._words.setdefault(sign, word)
        if sign is None:
            raise CellProblem("{} is not known to mean credit or debit", quote(word))
        is_sign = word.strip("()") in _columns.SIGNS
        if self._are_signs not in (None, is_sign):  # a dash next to words is not a debit
            message = f"the column of directions has both words and signs, such as {quote(word)}"
            raise LedgerError(message, remedies=[Remedy((Way("null", "-"),), "reads a dash as an empty cell")])
        self._are_signs = is_sign
        return sign

    def apply(self, values: dict[str, Any], cells: Sequence[Any], problems: list[_Problem]) -> None:
        for stage in self._stages:
            for name, law, in_cell, beside in stage(values, cells, problems):
                try:
                    values[name] = law.apply(values[name], in_cell, beside)
                except CellProblem as problem:
                    problems.append((name, problem))
        fee = values.get("fee")
        if fee and self._has_fees_below_zero:
            values["fee"] = -fee
        elif fee and (fee < 0) not in self._fee_signs:
            self._fee_signs.add(fee < 0)

    def _by_debits(self, values: dict[str, Any], cells: Sequence[Any], problems: list[_Problem]) -> Iterator[_Sign]:
        for name, (column, position, law) in self.debits.items():
            credit, debit = values.pop(name, False), values.pop(f"{_DEBIT}{name}", False)
            if credit and debit:
                message = "there is an amount here and in {} too; a row is either credit or debit"
                problems.append((name, CellProblem(message, quote(column))))
            elif credit is not False and debit is not False:  # both can be read
                values[name] = debit or (debit if credit is None else credit)
                in_cell = self._money.sign(cells[position if debit else self._places[name]], values[name] or 0)
                yield name, law, in_cell, -1 if debit else 1

    def _by_direction(self, values: dict[str, Any], cells: Sequence[Any], problems: list[_Problem]) -> Iterator[_Sign]:
        sign: int | None = values.pop("direction", 0)
        directed = [name for name in self._directed if values.get(name)]
        if directed and sign is None:
            problems.append(("direction", CellProblem("the cell is empty, so the direction of the money is not known")))
        for name in directed:
            if sign:
                in_cell = self._money.sign(cells[self._places[name]], values[name]) or (name in self.debits)
                yield name, self._directed[name], in_cell, sign
            else:
                del values[name]

    def check(self, side: Side) -> str:
        """Check that no word may mean something else next to another. Return a warning about the fees, if any."""
        if None in self._words and len(self._words) == 2:  # such as the `C` of `A` and `C`
            unknown, sure = quote(self._words[None]), quote(self._words.get(1) or self._words[-1])
            message = (
                f"the column of directions has {sure} and {unknown}, which may be a pair, and only {sure} is known: "
                "write credit and debit in it, or list both as charge and refund in the table [lines.kind] of the "
                "rules file instead"
            )
            raise LedgerError(message)
        how = advice([Remedy((Way("fees_below_zero"),), "reads them as fees")], side)
        return f"each fee is below zero, as providers write what they keep{how}" if self._fee_signs == {True} else ""


class RowReader:
    """Turns rows into entries, by stages that keep their state: cells, signs, totals, currency, unused columns."""

    def __init__(self, columns: Columns, dialect: Dialect = PLAIN, scope: Scope | None = None) -> None:
        self._remarks: dict[str, str] = {}
        """Warnings by their subject, in the order of the first."""
        self._scope = scope or Scope(dialect)
        dialect = self._scope.dialect
        self._has_currency = scope is not None and "currency" in columns.used
        self._suggester = Suggester(dialect)
        self._money = MoneyReader(dialect)
        self._signs = _Signs(columns, dialect, self._money)
        debits = {f"{_DEBIT}{of}": position for of, (_, position, _) in self._signs.debits.items()}
        unused = [name for name in columns.ignored if name not in dialect.debit_columns.values()]
        self.columns: Columns = evolve(columns, ignored=tuple(unused))
        used = {position for name, position in columns.places.items() if name != "currency"}
        self._unused = Unused(columns, {*used, *debits.values()}, self._money)
        self._null, self._allowed = frozenset(dialect.null), frozenset(dialect.allow_references)
        self._long = {True: 0, False: 0}
        """The references of more digits than a spreadsheet keeps, by whether all further ones are 0."""
        self._buddhist_year, self._months = 0, set[int]()
        self._times = TimeReader(dialect.date_format)
        add_amount, add_time = self._suggester.add_amount, self._suggester.add_time
        readers: Mapping[str, _Reading] = {
            "reference": (self._read_reference, "", None),
            "amount": (self._money.read, "amounts", partial(add_amount, is_needed=True)),
            "code": (_columns.read_code, "", None),
            "money": (self._money.read, "amounts", add_amount),
            "word": (_columns.read_word, "", None),
            "direction": (self._signs.read_direction, "", None),
            "time": (partial(self._read_time, self._times.read), "times", add_time),
            "creation": (self._read_creation, "times", add_time),
        }
        places = [(key, key.removeprefix(_DEBIT), position) for key, position in {**columns.places, **debits}.items()]
        self._plan = [(key, at, readers[name if name in readers else KINDS[name]]) for key, name, at in places]
        """Field, place and reading of each cell."""
        self._names = _columns.column_names(columns.header)
        affixes = dialect.currency_prefix.casefold(), dialect.currency_suffix.casefold()
        self._symbols, self._marked = tuple(filter(None, affixes)), dict[str, set[bool]]()
        """The declared currencies, and whether amounts of a column, but for 0, have one."""
        self._refused: dict[str, Any] = {}
        """The first refused cell of amounts and of times in a row."""
        self._bad_created_at: tuple[int, str] | None = None
        """The number of unreadable times of creation, and the first of them."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people. Complete when all rows have been read."""
        return tuple(self._remarks.values())

    def check_cells(self) -> None:
        """Check that each cell read so far is used if it has a meaning, and agrees with its neighbours."""
        if remark := self._signs.check(self._scope.side):
            self._remarks["fee"] = remark
        if self._long[True] >= _MIN_LONG and not self._long[False]:
            self._remarks["reference"] = (
                f"all references of more than {_KEPT_DIGITS} digits have only 0 after these, as numbers of a "
                "spreadsheet have: their last digits may be lost: export the column as text"
            )
        for name in (name for name, marked in self._marked.items() if len(marked) > 1):
            self._remarks[f"currency of {name}"] = PARTLY.format(quote(name))
        if year := self._buddhist_year:
            remark = f"there are times of the year {year}, which is {year - _BUDDHIST} if it is a Buddhist year"
            self._remarks["time"] = remark
        for before, after in pairwise(sorted(self._months)):
            if after - before > _MAX_GAP:
                months = (f"{month // 12}-{month % 12 + 1:02}" for month in (before, after))
                self._remarks["gap"] = f"there are times of {' and of '.join(months)} and none between: check the year"
        self._unused.check()

    def _read_reference(self, cell: Any) -> str | None:
        reference = _columns.read_reference(cell, allowed=self._allowed)
        if reference and len(reference) > _KEPT_DIGITS and reference.isdigit():
            self._long[not reference[_KEPT_DIGITS:].strip("0")] += 1
        return reference

    def _read_time(self, read: CellReader, cell: Any) -> datetime | None:
        time: datetime | None = read(cell)
        if time is not None and time.year in _BUDDHIST_YEARS:
            self._buddhist_year = time.year
        return time

    def _read_creation(self, cell: Any) -> datetime | None:
        time = self._read_time(self._times.read_creation, cell)
        if time is not None:
            if time.year not in _YEARS:
                raise CellProblem("{} stands for an empty cell", quote(f"{time:%Y-%m-%d}"))
            self._months.add(12 * time.year + time.month - 1)
        return time

    def read(self, line: int, cells: Sequence[Any], misfit: CellProblem | None = None) -> Entry | RejectedEntry | None:
        """Return the entry, or a rejected entry with all problems. None if the row is left out."""
        # With a *misfit*, the row does not fit the header, and is read only if it has as many cells.
        scope = self._scope
        if scope.dialect.skip_rows_like and scope.leaves_out_like(line, cells, self._amount_of(cells)):
            return None
        if misfit is not None and len(cells) != len(self.columns.header):
            scope.is_whole = False
            return self._refused_row(line, [("", misfit)])
        values, problems = self._values(line, cells)
        problems += [] if misfit is None else [("", misfit)]
        if self._signs.are_needed:
            self._signs.apply(values, cells, problems)
        reference, amount = values.get("reference"), values.get("amount")
        if reference is None or amount is None:
            self._refuse_empty(values, problems)
        if (reason := scope.totals_problem(reference, amount, cells)) is not None:
            if reason.remedies and scope.leaves_out_totals(line, amount):
                return None
            readable = {name: values[name] for name in ("reference", "kind") if name in values}
            return self._refused_row(line, [("", reason)], **readable)
        if problems and tuple(cells) == self.columns.header:
            again = CellProblem("is the header again: were two files joined?")
            return self._rejected(line, cells, values, [("", again)])
        if self._refused:
            self._suggester.refuse(self._refused)
        if self._has_currency and scope.leaves_out(line, values, problems):
            return None
        self._unused.observe(cells)
        return self._rejected(line, cells, values, problems) if problems else checked_entry(values)

    def _amount_of(self, cells: Sequence[Any]) -> int | None:
        with suppress(CellProblem, LookupError):
            return self._money.read(cells[self.columns.places["amount"]])
        return None

    def _refused_row(self, line: int, problems: Sequence[_Problem], **readable: Any) -> RejectedEntry:
        """Return a row with these *problems*, each with its field or none."""
        remedies = tuple(dict.fromkeys(remedy for _, problem in problems for remedy in problem.remedies))
        reasons = (
            f"{name}{': ' if name else ''}{problem.message}{advice(problem.remedies, self._scope.side)}"
            for name, problem in problems
        )
        kinds = tuple(f"{name}: {problem.kind}" for name, problem in problems)
        return RejectedEntry(line=line, reason="; ".join(reasons), problems=kinds, remedies=remedies, **readable)

    def _rejected(
        self, line: int, cells: Sequence[Any], values: Mapping[str, Any], problems: Sequence[_Problem]
    ) -> RejectedEntry:
        self._scope.is_whole = False
        cell, places = cells[self.columns.places["reference"]], self.columns.places
        reference = str(cell) if isinstance(cell, str | int | float) else ""
        reference = reference.encode(errors="replace").decode().strip()
        names = ["amount", "payout", *(name for name in ("status", "kind") if name in places)]
        names += ["amount_received"] if self._scope.is_statement or "kind" in values else []
        readable = {name: values.get(name) for name in names}
        return self._refused_row(line, problems, reference=reference or None, **readable)

    def _values(self, line: int, cells: Sequence[Any]) -> tuple[dict[str, Any], list[_Problem]]:
        values: dict[str, Any] = {"line": line}
        problems: list[_Problem] = []
        is_plain, null, self._refused = self._money.is_plain, self._null, {}
        for key, position, (read, what, add) in self._plan:
            cell = cells[position]
            if type(cell) is str:
                if null and cell.strip() in null:
                    cell = ""
                elif what == "amounts" and is_plain(cell):
                    values[key] = int(cell)
                    continue
                elif add is not None and cell and not cell.isdigit() and cell.strip() != self._names[position]:
                    add(cell)
            try:
                values[key] = read(cell)
            except CellProblem as problem:
                if what and cell != self._names[position]:
                    self._refused.setdefault(what, cell)
                if key == "created_at":
                    self._warn_bad_created_at(line, problem)
                    values[key] = None
                else:
                    problems.append((key.removeprefix(_DEBIT), problem))
        if self._symbols:
            self._note_currencies(values, cells)
        return values, problems

    def _note_currencies(self, values: Mapping[str, Any], cells: Sequence[Any]) -> None:
        for key, position, (_, what, _) in self._plan:
            if what == "amounts" and values.get(key) and isinstance(cell := cells[position], str):
                has_currency = any(symbol in cell.casefold() for symbol in self._symbols)
                self._marked.setdefault(self._names[position], set()).add(has_currency)

    def _refuse_empty(self, values: dict[str, Any], problems: list[_Problem]) -> None:
        if values.get("reference", "") is None:
            problems.insert(0, ("reference", CellProblem("the cell is empty")))
        if values.get("amount", "") is None and self._scope.is_statement and values.get("amount_received") is not None:
            del values["amount"]
        elif values.get("amount", "") is None:
            problems.append(("amount", CellProblem("the cell is empty")))

    def _warn_bad_created_at(self, line: int, problem: CellProblem) -> None:
        """Count an unreadable time of creation, in one warning for all of them."""
        # The row is not rejected, because the column is not compared. It only lacks an age.
        rows, first = self._bad_created_at or (0, f"{problem} (line {line})")
        self._bad_created_at = rows + 1, first
        cells = f"{quote(self.columns.used['created_at'])}: {plural(rows + 1, 'cell')} cannot be read"
        self._remarks["created_at"] = f"{cells}: {first}: grace doesn't apply to such a row"


Line: TypeAlias = tuple[int, Sequence[Any], CellProblem | None, Mapping[str, Any]]
"""The number of a row, its cells, the reason why it does not fit the header, and cells that no column has, by name."""
_NO_COLUMNS = Columns({}, (), {}, ())
_NO_ROW: tuple[int, Sequence[str]] = (0, ())


@define(kw_only=True)
class Table:
    """The cells of a file, below the names of its columns."""

    columns: Columns = _NO_COLUMNS
    rows: Iterable[Line] = ()
    """The rows that are not empty, read once and in order."""
    header_row: int = 0
    """0 if the format lacks one."""
    delimiter: str | None = None
    unread_sheets: tuple[UnreadSheet, ...] = ()
    """The others that have rows, if no sheet was chosen."""
    remarks: dict[str, str] = field(factory=dict)


def read_header(rows: Iterator[tuple[int, Sequence[str]]], find: Finder, wanted: int | None) -> Table:
    """Return the table below the header, or the row that is *wanted* as the header. Without columns if it is empty."""
    # *rows* are the non-empty rows, with their numbers. No row after the header is taken from them.
    above = 0
    line, names = next(rows, _NO_ROW)
    while line and line < (wanted or 0):
        above += 1
        line, names = next(rows, _NO_ROW)
    if not line and not above:
        return Table()
    if wanted not in (None, line):
        message = f"row {wanted} is empty, so it cannot be the header"
        raise LedgerError(message, line=wanted or 0, refused=Way("header_row", wanted or 0))
    try:
        table = Table(columns=find(names), header_row=line)
    except LedgerError as error:
        below = [] if wanted else list(islice(rows, _MAX_HEADER_ROWS))
        raise _with_header(error, (line, names), below, find) from None
    if above:
        rows_are = f"{plural(above, 'row')} above the header (row {line}) {'is' if above == 1 else 'are'}"
        table.remarks["header"] = f"{rows_are} not read"
    return table


def _with_header(
    error: LedgerError, first: tuple[int, Sequence[str]], below: Sequence[tuple[int, Sequence[str]]], find: Finder
) -> LedgerError:
    """Return *error* about the *first* row with the rows that can be the header: by their names, or by their shape."""
    fitting: dict[tuple[str, ...], int] = {}
    for line, names in reversed(below):
        with suppress(LedgerError):
            find(names)
            fitting[tuple(names)] = line
    lines = sorted(fitting.values())[:_MAX_PROPOSED]
    how = "has such columns"
    if not lines and (shaped := _by_shape([first, *below])) and shaped[0] != first[0]:
        lines, how = [shaped[0]], "looks like it"
    if not lines:
        return LedgerError(error.message, line=first[0], remedies=error.remedies, refused=error.refused)
    ways = [Remedy((Way("header_row", line),), "makes it the header") for line in lines]
    problem = error.message if error.refused else f"row {first[0]} cannot be used as the header"
    return LedgerError(f"{problem}, and row {' or '.join(map(str, lines))} {how}", line=first[0], remedies=ways)


def _by_shape(rows: Sequence[tuple[int, Sequence[str]]]) -> tuple[int, Sequence[str]] | None:
    """Return the first row of words that is about as wide as the widest row."""
    filled = [(line, [name for name in map(str.strip, names) if name]) for line, names in rows]
    most = max(len(names) for _, names in filled)
    for width in (most, most - 1):
        for line, names in filled if width > 1 else ():
            if len(names) >= width and len({*names}) == len(names) and not any(map(HAS_DIGIT, names)):
                return line, names
    return None
