"""Options of a run: reading the ledger, judging, earlier runs, the statement, the output, and what they open."""

import os
import re
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import attrs
from attrs import frozen
from cyclopts import Group, Parameter, Token

from payclient._shared.escape import quote
from payclient._shared.remedy import Way
from payclient.cli._process import (
    RARE,
    Call,
    Flag,
    JsonFlag,
    MaxAge,
    RefusalError,
    Seconds,
    Streams,
    Texts,
    new_path,
    refuse,
)
from payclient.reconcile import STRICT, Assumed, Kinds, Rules, Severity, Summary, read_rules, with_decisions
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import KINDS, Dialect, Ledger, LedgerError, LedgerFile, LedgerFormat, open_ledger
from payclient.reconcile.report.integrity import MANIFEST, carry_log, earlier_decisions
from payclient.reconcile.report.model import FORMATS

_AMOUNT = re.compile(r"-?(?:\d+|\d{1,3}(?:[,_ ]\d{3})+)", re.ASCII)
_MAX_DIGITS = 18


LEDGER_ONLY: Mapping[str, str] = {Way(option.name).flag: option.name for option in attrs.fields(Dialect)}
"""The options that only `payclient ledger` has, with their keys in the rules file."""


@Parameter(name="*", group=Group("Ledger", sort_key=5))
@frozen(kw_only=True)
class LedgerOptions:
    """
    Reading the ledger.

    Attributes:
        column: Column of a field whose name is not recognised. May be repeated. How the ledger is written is declared
            in the rules, which `payclient ledger --save-rules` writes.
        ignore_column: Column to leave unused, and not to name in the verdict. May be repeated.
        allow_empty: Accept a ledger without rows, which may be a failed export.
        format: `csv`, `jsonl`, `xlsx` or `parquet`. Default: by the name of the file.
        sheet: Sheet of an XLSX file. Default: the first.
        delimiter: Delimiter of a CSV file. Default: recognised from the header.
    """

    column: Annotated[Texts, Parameter(metavar="FIELD=NAME")] = ()
    ignore_column: Annotated[Texts, Parameter(metavar="NAME"), RARE] = ()
    allow_empty: Annotated[Flag, RARE] = False
    format: Annotated[LedgerFormat | None, Parameter(metavar="NAME", show_choices=False), RARE] = None
    sheet: Annotated[str | None, Parameter(metavar="NAME"), RARE] = None
    delimiter: Annotated[str | None, Parameter(metavar="MARK"), RARE] = None

    @contextmanager
    def open(self, ledger: Path, rules: Rules, streams: Streams) -> Generator[Ledger]:
        """Open *ledger*, or standard input for `-`, as the rules declare it."""
        with _opened(
            streams.stdin if str(ledger) == "-" else ledger,
            "ledger",
            rules.lines.kind,
            {**rules.columns, **chosen_columns(self.column)},
            ignore=(*rules.ignore_columns, *self.ignore_column),
            require=rules.require,
            dialect=rules.ledger,
            **attrs.asdict(self, filter=attrs.filters.exclude("column", "ignore_column")),
        ) as opened:
            rules.check_columns(opened.columns.used)
            yield opened


def _opened(source: LedgerFile, what: str, kinds: Kinds | None, columns: Mapping[str, str], **options: Any) -> Ledger:
    columns = {**({} if kinds is None else {"kind": kinds.column}), **columns}
    try:
        return open_ledger(source, columns=columns or None, **options)
    except LedgerError:
        raise
    except ValueError as error:  # including an unknown field, or an option of another format
        raise RefusalError(f"the {what} cannot be read like this: {error}") from error


def chosen_columns(choices: Sequence[str], *, option: str = "--column") -> dict[str, str]:
    chosen = dict[str, str]()
    for field, mark, name in (choice.partition("=") for choice in choices):
        if not mark:
            refuse(f"{option} must be like amount=Betrag, got {field!r}")
        if field not in KINDS and name in KINDS:
            refuse(f"{option} takes the field first: {option} {name}={field}")
        if field in chosen:
            refuse(f"{option} was given twice for {field}: {quote(chosen[field])} and {quote(name)}")
        chosen[field] = name
    return chosen


@Parameter(name="*", group=Group("How the ledger is written", sort_key=6))
@frozen(kw_only=True)
class DialectOptions:
    """
    Options for the notation of the ledger. They override `[ledger]` in the rules file.

    Attributes:
        encoding: Encoding of a CSV or JSON Lines file, such as `cp1252`. Default: UTF-8.
        header_row: Line or row that names the columns. Default: the first that is not empty.
        decimal: Mark before the fraction of an amount: `.` or `,`.
        thousands: Mark between thousands: `.`, `,`, `space` or `apostrophe`.
        negative: How amounts below zero are written: `leading`, `trailing` as in 15-, `parentheses` as in (15) or
            `debit` as in 15 DB.
        minor_units: Decimal places that the service counts as whole units: 2 if it counts cents.
        currency_prefix: Currency before an amount, such as `Rp`.
        currency_suffix: Currency after an amount.
        date_format: How times are written, such as `%d/%m/%Y %H:%M`. May be repeated.
        null: Text that means an empty cell, such as `NULL`. May be repeated.
        allow_references: Reference that would be taken for an empty cell, such as `NA` or `0`. May be repeated.
        debit_columns: Column of the debits, if another has the credits, as `amount=Debit`. May be repeated.
        fees_below_zero: Read fees that are written below zero, as deductions from the amount.
        skip_totals: Leave totals rows out, instead of rejecting them.
        skip_rows_like: Beginning of rows to leave out, such as `Saldo` or `----` of a footer. May be repeated.
        only_currency: Read only the rows of this currency, such as `IDR`.
    """

    encoding: Annotated[str | None, Parameter(metavar="NAME")] = None
    header_row: Annotated[int | None, Parameter(metavar="NUMBER")] = None
    decimal: Annotated[str | None, Parameter(metavar="MARK")] = None
    thousands: Annotated[str | None, Parameter(metavar="MARK")] = None
    negative: Annotated[str | None, Parameter(metavar="NAME")] = None
    minor_units: Annotated[int | None, Parameter(metavar="NUMBER")] = None
    currency_prefix: Annotated[str | None, Parameter(metavar="TEXT")] = None
    currency_suffix: Annotated[str | None, Parameter(metavar="TEXT")] = None
    date_format: Annotated[Texts, Parameter(metavar="FORMAT")] = ()
    null: Annotated[Texts, Parameter(metavar="TEXT")] = ()
    allow_references: Annotated[Texts, Parameter(name="--allow-reference", metavar="REFERENCE")] = ()
    debit_columns: Annotated[Texts, Parameter(name="--debit-column", metavar="FIELD=NAME")] = ()
    fees_below_zero: Flag = False
    skip_totals: Flag = False
    skip_rows_like: Annotated[Texts, Parameter(metavar="TEXT")] = ()
    only_currency: Annotated[str | None, Parameter(metavar="NAME")] = None


def _with_unit(_: object, tokens: Sequence[Token]) -> str:
    """Return a duration as text, in seconds if it is a bare number. A rules file has to name the unit."""
    return f"{tokens[0].value}s" if tokens[0].value.isdecimal() else tokens[0].value


Span: TypeAlias = Annotated[str | None, Parameter(converter=_with_unit, metavar="DURATION")]


@Parameter(name="*", group=Group("Judging", sort_key=6))
@frozen(kw_only=True)
class JudgingOptions:
    """
    Judging differences.

    Attributes:
        rules_file: TOML file with tolerances, status words, fees, accepted differences and more.
        time_zone: Zone of the service's times, such as `Asia/Jakarta` or `+07:00`.
        grace: Age below which a row may still be absent or pending at the service, such as `90m` or `2 business days`.
        assume_status: Status of rows without a status column: `paid`, or `none` (never clean).
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules", metavar="FILE")] = None
    time_zone: Annotated[str | None, Parameter(metavar="ZONE")] = None
    grace: Span = None
    assume_status: Annotated[Assumed | None, Parameter(metavar="WORD", show_choices=False), RARE] = None

    def rules(self, not_found_messages: Sequence[str] = (), *, without_file: Rules = STRICT) -> Rules:
        # `not_found_messages` change answers, so the run is another one.
        rules = without_file if self.rules_file is None else read_rules(self.rules_file)
        if not_found_messages:
            rules = attrs.evolve(rules, not_found_messages=(*rules.not_found_messages, *not_found_messages))
        chosen = attrs.asdict(self, filter=lambda field, value: field.name != "rules_file" and value is not None)
        return attrs.evolve(rules, **chosen)

    def tell_assumed(self, columns: Container[str], streams: Streams) -> None:
        if self.assume_status is not None and "status" in columns:
            streams.warn("no status is assumed, because a column is used as the status")


@Parameter(name="*", group=Group("Previous runs", sort_key=7))
@frozen(kw_only=True)
class EarlierRunOptions:
    """
    Earlier runs, and second lookups.

    Attributes:
        previous: Folder of the previous run, which is only read. Breaks get a state and an age.
        confirm_after: Time to wait before a difference is looked up again.
        decisions: Folder of a run whose decisions count, beside those of the previous one.
        reuse: Maximum age of previous answers to use again, for rows that matched.
    """

    previous: Annotated[Path | None, Parameter(metavar="FOLDER")] = None
    confirm_after: Annotated[Seconds, RARE] = 0.0
    decisions: Annotated[Path | None, Parameter(metavar="FOLDER"), RARE] = None
    reuse: Annotated[MaxAge, RARE] = None

    def decided(self, rules: Rules, out: Path) -> Rules:
        # Whether it begins or is resumed: a decision may have been taken back in between.
        if self.decisions is not None:
            check_run(self.decisions)
        if sources := [*filter(None, (self.decisions, self.previous))]:
            carry_log(sources, out)
        return with_decisions(rules, earlier_decisions(out))


def _read_amount(_: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    digits = re.sub("[,_ ]", "", text)
    if not _AMOUNT.fullmatch(text) or len(digits) > _MAX_DIGITS:
        refuse(f"--payout must be a whole number in the unit of the service, such as 12,345,000, got {quote(text)}")
    return int(digits)


class MissingRunError(RefusalError):
    """The report is missing in *folder*."""

    folder: Path = Path()


def check_run(folder: Path, *names: str) -> None:
    """Refuse a folder without any of these files of a run: by default, the manifest and the journal."""
    if any(map(os.path.lexists, (folder / name for name in names or (MANIFEST, JOURNAL)))):
        return
    is_there = folder.is_dir() and any((folder / name).exists() for name in (MANIFEST, JOURNAL))
    message = f"{names[0]} is missing in {folder}" if is_there else f"no report found at {folder}"
    raise MissingRunError(message, folder=folder)


@Parameter(name="*", group=Group("Statement", sort_key=8))
@frozen(kw_only=True)
class StatementOptions:
    """
    The other side.

    Attributes:
        statement: Settlement report, or another list of payments, to compare with.
        statement_column: Column of a field of the statement. May be repeated.
        settles_within: Time until a payment is in the statement, such as `3d` or `2 business days`.
        payout: Amount that the bank received for the statement, such as `12,345,000`.
    """

    statement: Annotated[Path | None, Parameter(metavar="FILE")] = None
    statement_column: Annotated[Texts, Parameter(metavar="FIELD=NAME")] = ()
    settles_within: Span = None
    payout: Annotated[int | None, Parameter(converter=_read_amount, metavar="AMOUNT")] = None

    def declared(self, rules: Rules) -> Rules:
        names = [name for name, value in attrs.asdict(self).items() if value not in (None, ())]
        if self.statement is None and names:
            refuse(f"{Way(names[0]).flag} needs --statement, the list that it is about")
        columns = {**rules.statement.columns, **chosen_columns(self.statement_column, option="--statement-column")}
        rules = settling_within(rules, self.settles_within)
        rules = attrs.evolve(rules, statement=attrs.evolve(rules.statement, columns=columns))
        rules.check_zone()
        return rules

    @contextmanager
    def open(self, rules: Rules, ledger: Ledger) -> Generator[Ledger | None]:
        if self.statement is None:
            yield None
            return
        rules.check_columns(ledger.columns.used, has_statement=True)
        how = rules.statement
        statement = _opened(
            self.statement,
            "statement",
            how.kind,
            how.columns,
            ignore=how.ignore_columns,
            allow_empty=True,  # a night without a payout is usual
            dialect=how.reading,
            is_statement=True,
        )
        with statement:
            rules.check_statement(statement.columns.used)
            yield statement


def settling_within(rules: Rules, text: str | None) -> Rules:
    changes: dict[str, Any] = {} if text is None else {"settles_within": text}
    return attrs.evolve(rules, statement=attrs.evolve(rules.statement, **changes))


SEVERITY = Parameter(metavar="SEVERITY", show_choices=False)


@Parameter(name="*", group=Group("Output", sort_key=9))
@frozen(kw_only=True)
class OutputOptions:
    """
    Output and exit status.

    Attributes:
        fail_on: Least severe break with exit status 1: info, low, medium, high, critical, or `partial`: as medium, and
            something that was not compared.
        fail_on_new: Like --fail-on, but counts only new, changed and reopened breaks.
        as_json: Print `summary.json` instead of the verdict.
        quiet: Print only errors. With `--json`, also the summary.
    """

    fail_on: Annotated[Severity | Literal["partial"], SEVERITY] = Severity.MEDIUM
    fail_on_new: Annotated[Severity | None, SEVERITY] = None
    as_json: JsonFlag = False
    quiet: Flag = False

    def finish(
        self, summary: Summary, lines: Iterable[str], steps: Iterable[Call], folder: Path, streams: Streams
    ) -> int:
        if self.as_json:
            streams.write((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
        elif not self.quiet:
            streams.show(lines, steps)
        if self.fail_on_new is None:
            return summary.exit_status(self.fail_on)
        if summary.since is None:
            refuse("--fail-on-new needs a run with a previous one")
        return summary.exit_status(self.fail_on_new, only_news=True)


def check_out(out: Path, kept: Path | None, what: str = "") -> None:
    """Refuse a folder for a report that is in the one *kept*, or has a file of that name that no run has written."""
    if out.exists() and not out.is_dir():
        refuse(f"--out must be a folder, and {out} is a file", Way("out", new_path(out)))
    if kept is not None and out.resolve().is_relative_to(kept.resolve()):
        refuse(f"--out must be another folder than {kept}, {what}which is not changed", Way("out", new_path(kept)))
    if any((out / name).exists() for name in (JOURNAL, MANIFEST)):
        return
    if name := next((name for name in FORMATS if (out / name).exists()), None):
        refuse(f"{out} has a {name} that no run has written", Way("out", new_path(out)))
