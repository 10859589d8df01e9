"""Options of a run: reading the ledger, judging, earlier runs, the statement; and how both files are opened."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._streams import Flag, Streams, Texts, refuse
from payclient.reconcile import (
    STRICT,
    Assumed,
    Kinds,
    Rules,
    check_currencies,
    read_duration,
    read_limit,
    read_rules,
    with_decisions,
)
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import (
    CellProblem,
    Dialect,
    Entry,
    Ledger,
    LedgerError,
    LedgerFile,
    LedgerFormat,
    MoneyReader,
    RejectedEntry,
    open_ledger,
)
from payclient.reconcile.report import carry_log, earlier_decisions

_AMOUNT = re.compile(r"-?(?:\d+|\d{1,3}(?:[,_ ]\d{3})+)", re.ASCII)
_OF_A_RUN = {"profile": "profile", "created_from": "from", "created_to": "to"}
"""Declarations that are options of `payclient reconcile` too, because they may be another each night."""


_SINGULAR = {"debit_columns": "debit-column", "allow_references": "allow-reference"}


def option_name(name: str) -> str:
    return "--" + {**_OF_A_RUN, **_SINGULAR}.get(name, name.replace("_", "-"))


_DECLARED = {option_name(each.name): each.name for each in attrs.fields(Dialect)}
_KEYS = {option: name for option, name in _DECLARED.items() if name not in _OF_A_RUN}
_OPTION = re.compile(r"--[a-z][a-z-]*")
_TAKES_OPTIONS = "payclient ledger takes such options, and writes them into a rules file with --save-rules"
_OF_STATEMENT = {
    "--column": "--statement-column",
    "--profile": "--statement-profile",
    "--ignore-column": "[statement] ignore_columns",
    "[lines.kind]": "[statement.kind]",
}


@Parameter(name="*", group=Group("Ledger", sort_key=5))
@frozen(kw_only=True)
class LedgerOptions:
    """
    Reading the ledger.

    Attributes:
        column: Name of the column of a field, as `field=name`, when it is not recognised. May be repeated.
        ignore_column: Column to leave unused, and not to name in the verdict. May be repeated, and
            adds to the rules file.
        require: Fields that the ledger must have, such as `amount,status`. Adds to the rules file.
        allow_empty: Accept a ledger without rows, which may be a failed export.
        format: File format, when the name of the file does not tell.
        sheet: Sheet of an XLSX file. Default: the first.
        delimiter: Delimiter of a CSV file. Default: recognised from the header.
        profile: How a well-known program writes a ledger, such as `excel-de`. Replaces `[ledger]` of the rules file.
        created_from: First day or time of creation of the rows that are read, such as `2026-11-01`.
        created_to: Last one; a day is meant until its end.
    """

    column: Texts = ()
    ignore_column: Texts = ()
    require: str = ""
    allow_empty: Flag = False
    format: LedgerFormat | None = None
    sheet: str | None = None
    delimiter: str | None = None
    profile: str | None = None
    created_from: Annotated[str | None, Parameter(name="--from")] = None
    created_to: Annotated[str | None, Parameter(name="--to")] = None

    @property
    def required(self) -> list[str]:
        return list(filter(None, map(str.strip, self.require.split(","))))

    def declared(self, rules: Rules, how: Mapping[str, Any] | None = None) -> Rules:
        given = {**given_options(self, _OF_A_RUN), **(how or {})}
        try:
            ledger = Dialect.named(**given) if self.profile else attrs.evolve(rules.ledger, **given)
        except ValueError as error:  # its message begins with the name of the attribute
            name, _, rest = str(error).partition(" ")
            refuse(f"{option_name(name)} {rest}")
        return attrs.evolve(rules, ledger=ledger)

    def open(self, ledger: Path, rules: Rules, streams: Streams) -> Ledger:
        """Open *ledger*, or standard input for `-`, as the rules declare it; the caller closes it."""
        found = _opened(
            streams.stdin if str(ledger) == "-" else ledger,
            "ledger",
            rules.lines.kind,
            {**rules.columns, **chosen_columns(self.column)},
            format=self.format,
            sheet=self.sheet,
            delimiter=self.delimiter,
            ignore=(*rules.ignore_columns, *self.ignore_column),
            require=[*rules.require, *self.required],
            allow_empty=self.allow_empty,
            dialect=rules.ledger,
            time_zone=rules.time_zone,
        )
        with ExitStack() as on_failure:
            on_failure.enter_context(found)
            rules.check_columns(found.columns.used)
            on_failure.pop_all()
        return found


def _opened(source: LedgerFile, what: str, kinds: Kinds | None, columns: Mapping[str, str], **options: Any) -> Ledger:
    columns = {**({} if kinds is None else {"kind": kinds.column}), **columns}
    try:
        return open_ledger(source, columns=columns or None, **options)
    except LedgerError:
        raise
    except ValueError as error:  # a field that does not exist, or an option that the format does not have
        refuse(f"the {what} cannot be read like this: {error}")


def given_options(options: object, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, (), "") and value is not False}


def chosen_columns(choices: Sequence[str], *, option: str = "--column") -> dict[str, str]:
    if unclear := [choice for choice in choices if "=" not in choice]:
        refuse(f"{option} must be like amount=Betrag, got {unclear[0]!r}")
    return {field: name for field, _, name in (choice.partition("=") for choice in choices)}


def about_ledger(text: str) -> str:
    """Return a message about the ledger of a run with the place of the options that only `payclient ledger` has."""
    return f"{text}; {_TAKES_OPTIONS}" if _KEYS.keys() & {*_OPTION.findall(text)} else text


def about_usage(text: str) -> str:
    """Return why a call cannot be read; an option that only `payclient ledger` has is named as its key of the rules."""
    unknown = text.partition(".")[0]
    if key := _KEYS.get(unknown.removeprefix("Unknown option: ")):
        return f"{unknown}. It is the key {key} of [ledger] in the rules file; {_TAKES_OPTIONS}"
    return f"{text} (see payclient --help)"


@contextmanager
def reading_ledger() -> Generator[None]:
    try:
        yield
    except LedgerError as error:
        if (message := about_ledger(error.message)) == error.message:
            raise
        raise LedgerError(message, line=error.line, offset=error.offset) from error


def duration_option(option: str, text: str) -> timedelta:
    duration = read_duration(text)
    if duration is None:
        refuse(f"{option} must be a duration such as '90m', '36h' or '3d', got {text!r}")
    return duration


_JUDGING = Group("Judging", sort_key=6)


@Parameter(name="*", group=_JUDGING)
@frozen(kw_only=True)
class JudgingOptions:
    """
    Judging differences.

    Attributes:
        rules_file: TOML file with tolerances, status words, fees, accepted differences and more.
        time_zone: Zone of the service's expiry times, such as `Asia/Jakarta` or `+07:00`. Overrides the rules file.
        assume_status: Status of every row when the ledger has no status column: `paid`, or `none`, which leaves the
            status uncompared and never gives a clean verdict. Overrides the rules file.
        grace: Age below which a row may still differ, such as `90m` or `2 business days`. Overrides the rules file.
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules")] = None
    time_zone: str | None = None
    assume_status: Assumed | None = None
    grace: str | None = None

    def rules(self, not_found_messages: Sequence[str] = (), *, without_file: Rules = STRICT) -> Rules:
        # `not_found_messages` change answers, so the run is another one.
        rules = without_file if self.rules_file is None else read_rules(self.rules_file)
        if not_found_messages:
            rules = attrs.evolve(rules, not_found_messages=(*rules.not_found_messages, *not_found_messages))
        given: dict[str, Any] = {"time_zone": self.time_zone, "assume_status": self.assume_status, "grace": self.grace}
        return attrs.evolve(rules, **{name: value for name, value in given.items() if value is not None})


@Parameter(name="*", group=_JUDGING)
@frozen(kw_only=True)
class EarlierRunOptions:
    """
    Earlier runs, and second lookups.

    Attributes:
        decisions: Folder of an earlier run whose decisions count. Default: that of --previous.
        confirm_after: Time to wait before a difference is looked up again, such as `10m`.
        previous: Folder of the run before. Its breaks, open and unresolved rows that the ledger does not list any more
            are looked up again, and each break says whether it is new, and since when. That folder is only read.
        reuse: Age, such as `7d`, up to which an answer of the run before is used again, for a row that matched, is the
            same in the ledger and has a final status. Default: look up every row.
    """

    decisions: Path | None = None
    confirm_after: str | None = None
    previous: Path | None = None
    reuse: str | None = None

    def decided(self, rules: Rules, out: Path) -> Rules:
        # A new run gets the decisions, and keeps them when it is resumed.
        if self.decisions is not None and not self.decisions.is_dir():
            refuse(f"--decisions must be the folder of a run, got {self.decisions}")
        if not (out / JOURNAL).exists() and (source := self.decisions or self.previous) is not None:
            carry_log(source, out)
        return with_decisions(rules, earlier_decisions(out))

    def read(self) -> tuple[float, timedelta | None]:
        """Return the seconds before a second lookup, and the age of answers to use again."""
        if self.reuse is not None and self.previous is None:
            refuse("--reuse needs --previous, the folder of the run before")
        max_age = None if self.reuse is None else duration_option("--reuse", self.reuse)
        return duration_option("--confirm-after", self.confirm_after or "0s").total_seconds(), max_age


@Parameter(name="*", group=Group("Statement", sort_key=7))
@frozen(kw_only=True)
class StatementOptions:
    """
    The other side: a settlement report, a dashboard's export or a log of callbacks.

    Attributes:
        statement: Second list of references, with amounts where it has them. What is in it and not in the ledger is
            looked up too. `[statement]` of the rules file says how it is written.
        statement_profile: How a well-known program writes the statement, such as `excel-de`. Replaces
            `[statement.reading]` of the rules file.
        statement_column: Name of a column of the statement, as `field=name`. May be repeated.
        settles_within: Time that a payment may take to be in the statement, such as `3d` or `2 business days`.
            Overrides the rules file.
        payout: Amount that came to the bank for the statement, such as `12,345,000`, to be tied.
    """

    statement: Path | None = None
    statement_profile: str | None = None
    statement_column: Texts = ()
    settles_within: str | None = None
    payout: str | None = None

    def declared(self, rules: Rules) -> Rules:
        given = {
            "--statement-profile": self.statement_profile,
            "--statement-column": self.statement_column,
            "--settles-within": self.settles_within,
            "--payout": self.payout,
        }
        if self.statement is None and (name := next((name for name, value in given.items() if value), None)):
            refuse(f"{name} needs --statement, the list that it is about")
        statement = settling_within(rules, self.settles_within).statement
        if self.statement_profile is not None:
            statement = attrs.evolve(statement, reading=_profile(self.statement_profile))
        chosen = chosen_columns(self.statement_column, option="--statement-column")
        if chosen:
            statement = attrs.evolve(statement, columns={**statement.columns, **chosen})
        rules = attrs.evolve(rules, statement=statement)
        rules.check_zone()
        return rules

    @property
    def payout_amount(self) -> int | None:
        if self.payout is None:
            return None
        if not _AMOUNT.fullmatch(self.payout):
            refuse(
                f"--payout must be a whole number in the unit of the service, such as 12,345,000, got {self.payout!r}"
            )
        try:
            return MoneyReader().read(re.sub("[,_ ]", "", self.payout))
        except CellProblem as problem:
            refuse(f"--payout: {problem}")

    @contextmanager
    def open(self, rules: Rules, ledger: Ledger) -> Generator[Ledger | None]:
        if self.statement is None:
            yield None
            return
        rules.check_columns(ledger.columns.used, has_statement=True)
        how = rules.statement
        try:
            statement = _opened(
                self.statement,
                "statement",
                how.kind,
                how.columns,
                ignore=how.ignore_columns,
                allow_empty=True,  # a night without a payout is usual
                dialect=how.reading,
                time_zone=rules.time_zone,
                is_statement=True,
            )
        except LedgerError as error:
            raise _of_statement(self.statement.name, error) from error
        with statement:
            rules.check_statement(statement.columns.used)
            yield statement


def settling_within(rules: Rules, text: str | None) -> Rules:
    if text is None:
        return rules
    within = read_limit(text)
    if within is None:
        refuse(f"--settles-within must be a duration such as '36h' or '3d', or '2 business days', got {text!r}")
    return attrs.evolve(rules, statement=attrs.evolve(rules.statement, settles_within=within))


def _profile(name: str) -> Dialect:
    try:
        return Dialect.named(name)
    except ValueError as error:
        refuse(f"--statement-{error}")


def _of_statement(name: str, error: LedgerError) -> LedgerError:
    message = error.message.replace("the ledger", "it")
    return LedgerError(f"the statement {name}: {about_statement(message)}", line=error.line)


def statement_lines(statement: Ledger, ledger: Ledger) -> Iterator[Entry | RejectedEntry]:
    """Yield the lines of *statement*, after the *ledger* was read to its end."""
    name = statement.fingerprint.name
    try:
        yield from statement
    except LedgerError as error:
        raise _of_statement(name, error) from error
    check_currencies(ledger, statement)


def about_statement(text: str) -> str:
    """Move the declarations of a ledger to the corresponding options of a statement."""
    for of_ledger, of_statement in _OF_STATEMENT.items():
        text = text.replace(of_ledger, of_statement)
    if (_DECLARED.keys() - {"--profile"}) & {*_OPTION.findall(text)}:
        return f"{text}; for a statement, such options are keys of [statement.reading] in the rules file"
    return text
