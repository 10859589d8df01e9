"""`payclient ledger`: show the reading of a ledger, and write the rules file that declares it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Self

from attrs import asdict, define, evolve, field, frozen
from cyclopts import Parameter

from payclient._shared.escape import escape_unprintable, plural
from payclient._shared.remedy import Way, toml
from payclient.cli._next import reconciling, status_ways
from payclient.cli._options import DialectOptions, LedgerOptions, chosen_columns
from payclient.cli._process import Call, Exit, OwnStreams, RefusalError, Streams, aligned, new_path, refuse, shown
from payclient.reconcile import Journal, Rules, RulesError, Status, parse_rules, read_rules
from payclient.reconcile.ledger import ABSENT, KINDS, Dialect, Entry, Ledger, RejectedEntry, column_names, combined
from payclient.reconcile.report.wording import in_words


def ledger(
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    rules: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    save_rules: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    source: LedgerOptions = LedgerOptions(),  # noqa: B008  frozen
    dialect: DialectOptions = DialectOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Show how a ledger is read, without a network or a key.

    It shows the field of each column, the first rows, rejected rows with the reason, totals by status, repeated
    references, options that would read refused cells, and the next command.

    Args:
        ledger: CSV, JSON Lines, XLSX or Parquet file, `-` for standard input.
        rules: TOML file with the column names and the table `ledger`.
        save_rules: New rules file to write, with `--rules`, the options and the suggestions. The ledger is then shown
            through this file.
        source: Reading the ledger.
        dialect: Declaring how it is written.
        streams: Streams of the process.

    Examples:
        $ payclient ledger ledger.csv
        $ payclient ledger ledger.csv --decimal , --thousands . --save-rules rules.toml
        $ payclient ledger ledger.xlsx --header-row 4

        Exit status: 0 every row can be used. 1 rows are rejected, or the ledger is empty. 2 usage, or an unreadable
        ledger.
    """
    typed = asdict(dialect, filter=lambda _, value: value not in (None, (), "") and value is not False)
    declared, call = Declared(ledger, rules, source, typed), streams.call
    if save_rules is not None:
        declared = declared.save(save_rules, streams)
        call = Call("ledger", (str(ledger),), (("--rules", str(save_rules)),))
    overview = declared.overview(streams)
    evolve(streams, call=call).show(overview_lines(overview), declared.steps(overview, call))
    return Exit.DIFFERENT if overview.rejected or not (overview.rows or source.allow_empty) else Exit.DONE


@frozen
class Declared:
    """A ledger file and its declarations, from a rules file, options and suggestions."""

    path: Path
    rules_file: Path | None
    source: LedgerOptions
    dialect: Mapping[str, Any] = field(factory=dict[str, Any])

    def overview(self, streams: Streams) -> Overview:
        rules = Rules() if self.rules_file is None else read_rules(self.rules_file)
        rules = evolve(rules, ledger=evolve(rules.ledger, **self.dialect))
        with evolve(self.source, allow_empty=True).open(self.path, rules, streams) as opened:
            return Overview(opened, rules)

    def save(self, file: Path, streams: Streams) -> Self:
        """Write the declarations and suggestions into *file*. Return them without the options."""
        if str(self.path) == "-" or self.path.is_fifo():
            refuse("--save-rules needs the ledger as a file, because it is read again by the rules that are written")
        full = self._with(self.overview(streams).ledger)
        if (text := full.rules_text()) is None:
            keys = ", ".join(f"{name}.{key}".strip(".") for name, table in full.tables().items() for key in table)
            problem = f"--save-rules cannot add {keys} to {self.rules_file}, which has one of them"
            raise RefusalError(f"{problem}: edit it by hand", is_last=True)
        if os.path.lexists(file):
            refuse(f"--save-rules writes a new file, and {file} is there already", Way("save_rules", new_path(file)))
        try:
            content = text.encode()
        except UnicodeEncodeError:
            refuse("--save-rules cannot write an option with bytes that are not UTF-8")
        with file.open("xb") as new:
            new.write(content)
        return evolve(self, rules_file=file, source=evolve(self.source, column=(), ignore_column=()), dialect={})

    def _with(self, ledger: Ledger) -> Self:
        """Return these declarations with the suggested ones, if there is only one reading."""
        dialect = dict(self.dialect)
        for way in (way for one in ledger.suggestions if not one.is_ambiguous for way in one.remedies[0].ways):
            is_list = isinstance(getattr(DialectOptions(), way.option), tuple)
            dialect[way.option] = (*dialect.get(way.option, ()), way.value) if is_list else way.value
        return evolve(self, dialect=dialect)

    def steps(self, overview: Overview, call: Call) -> Iterator[Call]:
        """Yield what to do next: the readings that a person has to choose from, or the command that leads on."""
        ledger = overview.ledger
        read = combined(ledger.suggestions)
        remedies = read if len(read) > 1 else []
        if not ledger.suggestions:
            rejected = dict.fromkeys(remedy for _, first in overview.examples for remedy in first.remedies)
            remedies = [remedy for remedy in rejected if not remedy.is_decision]
        is_noted = overview.unknown_statuses and self.rules_file is not None
        noted = call.after(f"write the [statuses] lines into {shown(self.rules_file)}") if is_noted else call
        saving = () if str(self.path) == "-" else (("--save-rules", new_path(Path("rules.toml"))),)
        to_save = saving if len(remedies) == 1 or ledger.suggestions else ()
        yield from (noted.using(remedy.ways).having(*to_save) for remedy in remedies)
        if "status" not in ledger.columns.used:
            yield from (call.using([way]) for way in status_ways(ledger.unused))
        full = self._with(ledger)
        is_unreadable = overview.rejected and not ledger.suggestions
        is_empty = not (overview.rows or self.source.allow_empty)
        if remedies or is_unreadable or is_empty or full.rules_text() is None:
            return
        if is_noted:
            yield noted
        elif saving and (full.dialect or overview.unknown_statuses):
            yield call.using(read[0].ways if len(read) == 1 else ()).having(*saving)
        else:
            yield reconciling(call).after("decide about each column that is not used" if ledger.unused else "")

    def tables(self) -> dict[str, dict[str, Any]]:
        ledger = dict(self.dialect)
        if "debit_columns" in ledger:
            ledger["debit_columns"] = chosen_columns(ledger["debit_columns"], option="--debit-column")
        ignored = self.source.ignore_column
        return {
            "": {"ignore_columns": ignored} if ignored else {},
            "ledger": ledger,
            "columns": chosen_columns(self.source.column),
        }

    def rules_text(self) -> str | None:
        """Return a rules file with all declarations. None if the given one has other values."""
        text = "" if self.rules_file is None else self.rules_file.read_text(encoding="utf-8-sig")
        for name, table in self.tables().items():
            lines = "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
            before, header, after = text.partition(f"[{name}]\n") if name else ("", "", text)
            if name and lines and not header:
                before, header, after = f"{text}\n" if text else "", f"[{name}]\n", ""
            text = before + header + lines + after
        try:
            parse_rules(text)
        except RulesError:  # the key is there already
            return None
        return text


_MAX_SHOWN = 5
_MAX_WORDS = 50


@define
class Overview:
    """How a ledger is read. Memory does not grow with it: its rows wait in a temporary database, to find duplicates."""

    ledger: Ledger
    rules: Rules
    rows: int = 0
    rejected: int = 0
    references: int = 0
    repeated: list[tuple[str, int]] = field(factory=list)
    first: list[Entry] = field(factory=list)
    statuses: dict[str | None, tuple[int, int]] = field(factory=dict)
    """For each status word, its rows and their amount. The word is None for the rest of them."""
    reasons: dict[tuple[str, ...], tuple[int, RejectedEntry]] = field(factory=dict)
    """For each kind of problem, the number of rejected rows and the first of them."""

    def __attrs_post_init__(self) -> None:
        with Journal() as journal:
            for entry in self.ledger:
                journal.add(entry)
                if isinstance(entry, RejectedEntry):
                    kind = entry.problems if entry.problems in self.reasons or len(self.reasons) < _MAX_WORDS else ()
                    rows, example = self.reasons.get(kind, (0, entry))
                    self.reasons[kind] = rows + 1, example
                    continue
                self.first += [entry] if len(self.first) < _MAX_SHOWN else []
                if entry.status is not ABSENT:
                    status = entry.status or ""
                    word = status if status in self.statuses or len(self.statuses) < _MAX_WORDS else None
                    rows, amount = self.statuses.get(word, (0, 0))
                    self.statuses[word] = rows + 1, amount + (entry.amount if isinstance(entry.amount, int) else 0)
            journal.finish_ledger()
            self.rows, self.rejected = journal.rows, journal.count_rejected()
            self.references, self.repeated = journal.count_references(), list(journal.repeated(_MAX_SHOWN))

    @property
    def unknown_statuses(self) -> list[str]:
        """The status words without a meaning. Each of their rows would be a break."""
        return [word for word in self.statuses if word and self.rules.read_status(word) is None]

    @property
    def examples(self) -> list[tuple[int, RejectedEntry]]:
        """The kinds of problems, the most frequent first."""
        return sorted(self.reasons.values(), key=itemgetter(0), reverse=True)


def overview_lines(overview: Overview) -> Iterator[str]:
    ledger, used = overview.ledger, overview.ledger.columns.used
    yield f"format: {', '.join(_format(ledger))}"
    yield f"columns:{'' if ledger.columns.header else ' none'}"
    yield from aligned([*_columns(ledger)], indent="  ")
    yield f"rows: {overview.rows:,}, with {plural(overview.references, 'different reference')}"
    if overview.first:
        yield "first rows, as read:"
        names = [name for name in ("line", *used) if name not in ("currency", "direction")]
        money = [index for index, name in enumerate(names) if KINDS.get(name) == "money" or name == "line"]
        yield from aligned([names, *(_cells(entry, names) for entry in overview.first)], right=money, indent="  ")
    if overview.statuses:
        yield "by status:"
        words = [
            ("others" if word is None else escape_unprintable(word) or "(empty)", plural(rows, "row"), f"{amount:,}")
            for word, (rows, amount) in overview.statuses.items()
        ]
        yield from aligned(words, right=(1, 2), indent="  ")
    if unknown := overview.unknown_statuses:
        yield "give each of these words a meaning in the rules file:"
        yield f"[statuses]  # {', '.join(Status)}"
        yield from (f'{toml(word)} = "?"' for word in unknown)
    yield f"duplicates: {plural(overview.rows - overview.rejected - overview.references, 'row')}"
    yield from (f"  {reference}: {plural(rows, 'row')}" for reference, rows in overview.repeated)
    yield f"rejected: {plural(overview.rejected, 'row')}"
    for rows, first in overview.examples:
        yield f"  {plural(rows, 'row')}, first on line {first.line}: {first.reason}"
    if ledger.totals_amount:
        yield f"totals rows: {ledger.totals_amount:,}, which would be counted twice"
    for column in ledger.unused:
        yield f"{'not used' if column.amount is None else 'not compared'}: {in_words(column)}"
    if ledger.unused:
        yield "  if a column matters, use it with --column FIELD=NAME, or give its words a meaning in [lines.kind] of"
        yield "  the rules; if it isn't about the payments, ignore it with --ignore-column NAME"
    yield from (f"suggestion: {suggestion}" for suggestion in ledger.suggestions)
    yield from (f"warning: {warning}" for warning in ledger.warnings)


def _format(ledger: Ledger) -> Iterator[str]:
    yield ledger.format
    if ledger.format in ("csv", "jsonl"):
        yield ledger.dialect.encoding
    if ledger.delimiter is not None:
        yield f"delimiter {ledger.delimiter!r}"
    if ledger.header_row:
        yield f"header in row {ledger.header_row}"


def _columns(ledger: Ledger) -> Iterator[Sequence[str]]:
    fields = {index: name for name, index in ledger.columns.places.items()}
    debits = {name: of for of, name in ledger.dialect.debit_columns.items()}
    for index, name in enumerate(column_names(ledger.columns.header)):
        shown = escape_unprintable(name, max_length=60)
        taken = (f"{debits[name]}, below zero", "") if name in debits else _taken(fields.get(index), ledger.dialect)
        yield shown, *taken


def _taken(name: str | None, dialect: Dialect) -> tuple[str, str]:
    if name is None:
        return "not used", ""
    kind = KINDS[name]
    if kind == "money":
        marks = [f"{mark} {str(value)!r}" for mark in ("decimal", "thousands") if (value := getattr(dialect, mark))]
        symbols = [repr(symbol) for symbol in (dialect.currency_prefix, dialect.currency_suffix) if symbol]
        units = [f"times {10**dialect.minor_units}"] if dialect.minor_units else []
        return name, ", ".join(["whole number" if not units else "number", *marks, *symbols, *units])
    if kind in ("time", "creation"):
        return name, " or ".join(dialect.date_format) or "YYYY-MM-DD HH:MM:SS"
    return name, "credit or debit" if kind == "direction" else "text"


def _cells(entry: Entry, names: Iterable[str]) -> list[str]:
    cells = [getattr(entry, name) for name in names]
    return ["" if cell in (None, ABSENT) else escape_unprintable(str(cell), max_length=60) for cell in cells]
