"""Options of several commands: reading and judging a ledger, and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient._escape import quote
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.ledger import Dialect, Ledger, LedgerError, LedgerFormat, open_ledger
from payclient.reconcile import STRICT, Assumed, Kinds, Rules, Severity, Summary, read_rules, with_profiles
from payclient.reconcile.nights import Recheck, with_decisions
from payclient.reconcile.rules import read_duration, read_holidays
from payclient.report import JOURNAL, carry_log, earlier_decisions

_BARE = Parameter(negative="", show_default=False)


@Parameter(name="*", group=Group("Output", sort_key=8))
@frozen(kw_only=True)
class OutputOptions:
    """
    Output and exit status.

    Attributes:
        gzip_rows: Compress `rows.jsonl` to about a tenth, as `rows.jsonl.gz`. A report that is written again stays so.
        fail_on: The least severe break that makes the exit status 1.
        fail_on_new: The same, of breaks that are new, changed or reopened since the previous run; others do not count.
        as_json: Print `summary.json` on standard output instead of the verdict.
        quiet: Print errors only; with `--json`, also the summary.
    """

    gzip_rows: Annotated[bool, _BARE] = False
    fail_on: Severity = Severity.MEDIUM
    fail_on_new: Severity | None = None
    as_json: Annotated[bool, Parameter(name="--json"), _BARE] = False
    quiet: Annotated[bool, _BARE] = False

    def write(self, lines: Sequence[str], folder: Path, streams: Streams) -> None:
        """Write *lines*, or the summary in JSON, or nothing, to standard output."""
        if self.as_json:
            streams.write((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
        elif not self.quiet:
            for line in lines:
                streams.write(line)

    def exit_status(self, summary: Summary) -> int:
        """
        Return the exit status of a run.

        Raises:
            ConfigurationError: When only news matter, and there is no previous run.
        """
        if self.fail_on_new is None:
            return summary.exit_status(self.fail_on)
        if summary.since is None:
            message = "--fail-on-new needs a previous run: name its folder with payclient reconcile --previous"
            raise ConfigurationError(message)
        return summary.exit_status(self.fail_on_new, only_news=True)


def duration_option(option: str, text: str) -> timedelta:
    """Return the duration that *text* is, as the value of an option."""
    duration = read_duration(text)
    if duration is None:
        message = f"{option} must be a duration such as '90m', '36h' or '3d', got {text!r}"
        raise ConfigurationError(message)
    return duration


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@Parameter(name="*", group=Group("Judging", sort_key=6))
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
        holidays: File with a date a line: days that are no business days. Overrides the rules file.
        cut_off: Time of the day, such as `17:00`, from which a row counts as of the next business day. Overrides the
            rules file.
        decisions: Folder of an earlier run whose decisions count. Default: that of --previous.
        confirm_after: Time to wait before a difference is looked up again, such as `10m`.
        previous: Folder of the run before. Its breaks, open and unresolved rows that the ledger does not list any more
            are looked up again, and each break says whether it is new, and since when. That folder is only read.
        reuse: Age, such as `7d`, up to which an answer of the run before is used again, for a row that matched, is the
            same in the ledger and has a final status. Default: look up every row.
        recheck: Age, such as `60d`, up to which rows that matched in earlier runs and are not in the ledger are looked
            up again. Needed in each run; the runs before remember the rows.
        sample: How many of these rows to look up. Default: all.
        seed: Of the sample.
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules")] = None
    time_zone: str | None = None
    assume_status: Assumed | None = None
    grace: str | None = None
    holidays: Path | None = None
    cut_off: str | None = None
    decisions: Path | None = None
    confirm_after: str | None = None
    previous: Path | None = None
    reuse: str | None = None
    recheck: str | None = None
    sample: int | None = None
    seed: int = 0

    def decided(self, rules: Rules, out: Path) -> Rules:
        """
        Return *rules* with what was accepted in earlier runs.

        Args:
            rules: Without decisions.
            out: Folder of the run. A new run gets the decisions, and keeps them when it is resumed.

        Raises:
            DecisionError: When the decisions were changed.
        """
        if self.decisions is not None and not self.decisions.is_dir():
            message = f"--decisions must be the folder of a run, got {self.decisions}"
            raise ConfigurationError(message)
        if not (out / JOURNAL).exists() and (source := self.decisions or self.previous) is not None:
            carry_log(source, out)
        return with_decisions(rules, earlier_decisions(out))

    def rules(self, not_found_messages: Sequence[str] = (), *, without_file: Rules = STRICT) -> Rules:
        """
        Return what was decided, with more *not_found_messages*: they change answers, so the run is another one.

        Args:
            not_found_messages: Those of the command line.
            without_file: The rules where no file is named.

        Raises:
            ConfigurationError: When an option or a line of the file cannot be used.
        """
        rules = without_file if self.rules_file is None else read_rules(self.rules_file)
        if not_found_messages:
            rules = attrs.evolve(rules, not_found_messages=(*rules.not_found_messages, *not_found_messages))
        given: dict[str, Any] = {"time_zone": self.time_zone, "assume_status": self.assume_status, "grace": self.grace}
        holidays = None if self.holidays is None else read_holidays(self.holidays)
        if calendar := _given({"holidays": holidays, "cut_off": self.cut_off}):
            given["calendar"] = attrs.evolve(rules.calendar, **calendar)
        return attrs.evolve(rules, **_given(given))

    @property
    def confirm_after_seconds(self) -> float:
        """
        Seconds to wait before the second lookup.

        Raises:
            ConfigurationError: When it is not a duration, or an option that it needs is missing.
        """
        return duration_option("--confirm-after", self.confirm_after or "0s").total_seconds()

    @property
    def max_age(self) -> timedelta | None:
        """The age up to which answers are reused; None if none are. Raises as `confirm_after_seconds`."""
        if self.reuse is None:
            return None
        if self.previous is None:
            message = "--reuse needs --previous, the folder of the run before"
            raise ConfigurationError(message)
        return duration_option("--reuse", self.reuse)

    @property
    def rechecking(self) -> Recheck | None:
        """Which rows of earlier runs are looked up again; None if none are. Raises as `confirm_after_seconds`."""
        if self.recheck is None:
            if self.sample is not None:
                message = "--sample needs --recheck, the age of the rows that it is of"
                raise ConfigurationError(message)
            return None
        if self.previous is None:
            message = "--recheck needs --previous, the folder of the run before"
            raise ConfigurationError(message)
        if self.sample is not None and self.sample < 1:
            message = f"--sample must be at least 1, got {self.sample}"
            raise ConfigurationError(message)
        return Recheck(max_age=duration_option("--recheck", self.recheck), sample=self.sample, seed=self.seed)


@Parameter(name="*", group=Group("Ledger", sort_key=5))
@frozen(kw_only=True)
class LedgerOptions:
    """
    Reading the ledger.

    Attributes:
        column: Name of the column of a field, as `field=name`, when it is not recognised. May be repeated.
        ignore_column: Column to leave unused, although it looks like money or like a field. May be repeated, and
            adds to the rules file.
        require: Fields that the ledger must have, such as `amount,status`. Adds to the rules file.
        allow_empty: Accept a ledger or a statement without rows, which may be a failed export.
        format: File format, when the name of the file does not tell.
        sheet: Sheet of an XLSX file. Default: the first.
        delimiter: Delimiter of a CSV file. Default: recognised from the header.
        profile: How a well-known program writes a ledger, such as `excel-de`. Replaces `[ledger]` of the rules file;
            the options below override single values of either.
        encoding: Encoding of a CSV or JSON Lines file, such as `cp1252`. Default: UTF-8.
        header_row: Line or row that names the columns. Default: the first that is not empty.
        decimal: Mark before the fraction of an amount: `.` or `,`.
        thousands: Mark between thousands: `.`, `,`, `space` or `apostrophe`.
        grouping: Digits between these marks: `western`, or `indian` as in 12,50,000.
        negative: How amounts below zero are written: `leading`, `trailing` as in 15-, `parentheses` as in (15) or
            `debit` as in 15 DB.
        minor_units: Decimal places that the service counts as whole units: 2 if it counts cents.
        currency_prefix: Currency before an amount, such as `Rp`.
        currency_suffix: Currency after an amount.
        date_format: How times are written, such as `%d/%m/%Y %H:%M`. May be repeated.
        null: Text that means an empty cell, such as `NULL`. May be repeated.
        debit_columns: Column with amounts below zero, next to one with those above, as `amount=Debit`. May be repeated.
        skip_totals: Leave totals rows out, instead of rejecting them.
        only_currency: Read the rows of this currency only, such as `IDR`.
        created_from: First day or time of creation of the rows that are read, such as `2026-11-01`.
        created_to: Last one; a day is meant until its end.
    """

    column: Annotated[tuple[str, ...], _BARE] = ()
    ignore_column: Annotated[tuple[str, ...], _BARE] = ()
    require: str = ""
    allow_empty: Annotated[bool, _BARE] = False
    format: LedgerFormat | None = None
    sheet: str | None = None
    delimiter: str | None = None
    profile: str | None = None
    encoding: str | None = None
    header_row: int | None = None
    decimal: str | None = None
    thousands: str | None = None
    grouping: str | None = None
    negative: str | None = None
    minor_units: int | None = None
    currency_prefix: str | None = None
    currency_suffix: str | None = None
    date_format: Annotated[tuple[str, ...], _BARE] = ()
    null: Annotated[tuple[str, ...], _BARE] = ()
    debit_columns: Annotated[tuple[str, ...], Parameter(name="--debit-column", negative="", show_default=False)] = ()
    skip_totals: Annotated[bool, _BARE] = False
    only_currency: str | None = None
    created_from: Annotated[str | None, Parameter(name="--from")] = None
    created_to: Annotated[str | None, Parameter(name="--to")] = None

    def declared(self, rules: Rules) -> Rules:
        """
        Return *rules* with what these options declare about the ledger.

        Raises:
            ConfigurationError: When an option cannot be used.
        """
        values = {each.name: getattr(self, each.name) for each in attrs.fields(Dialect)}
        given = {name: value for name, value in values.items() if value not in (None, (), False)}
        try:
            ledger = Dialect.named(**given) if self.profile else attrs.evolve(rules.ledger, **given)
        except ValueError as error:  # its message begins with the name of the option
            name, _, rest = str(error).partition(" ")
            message = f"--{name.replace('_', '-')} {rest}"
            raise ConfigurationError(message) from error
        return with_profiles(attrs.evolve(rules, ledger=ledger))

    def open(self, ledger: Path, rules: Rules, streams: Streams) -> Ledger:
        """
        Open *ledger*, or standard input for `-`, as the rules declare it; the caller closes it.

        Raises:
            LedgerError: When the ledger cannot be trusted.
            ConfigurationError: When an option does not fit the ledger, or the rules need a column that is missing.
        """
        kind = rules.lines.kind
        columns = {**rules.columns, **({} if kind is None else {"kind": kind.column}), **chosen_columns(self.column)}
        try:
            found = open_ledger(
                streams.stdin if str(ledger) == "-" else ledger,
                columns=columns or None,
                format=self.format,
                sheet=self.sheet,
                delimiter=self.delimiter,
                ignore=(*rules.ignore_columns, *self.ignore_column),
                require=[*rules.require, *filter(None, map(str.strip, self.require.split(",")))],
                allow_empty=self.allow_empty,
                dialect=rules.ledger,
                time_zone=rules.time_zone,
            )
        except LedgerError:
            raise
        except ValueError as error:  # a field that does not exist, or an option that the format does not have
            message = f"the ledger cannot be read like this: {error}"
            raise ConfigurationError(message) from error
        message = unexplained_kind(found, rules.lines.kind, "lines.kind")
        if rules.grace and found.columns.used and "created_at" not in found.columns.used:
            message = (
                "grace needs the age of each row, and no column of the ledger is read as created_at; "
                "choose one with --column created_at=NAME, or leave grace out"
            )
        if message:
            with found:  # closes it
                raise ConfigurationError(message)
        return found


def unexplained_kind(found: Ledger, kinds: Kinds | None, table: str) -> str:
    """Return the problem of a ledger whose lines have kinds that *kinds* give no meaning; empty if there is none."""
    if "kind" not in found.columns.used or kinds is not None:
        return ""
    name = quote(found.columns.used["kind"])
    return f"the column {name} is read as kind; say what its words mean in the table [{table}] of the rules file"


def chosen_columns(choices: Sequence[str], *, option: str = "--column") -> dict[str, str]:
    if unclear := [choice for choice in choices if "=" not in choice]:
        message = f"{option} must be like amount=Betrag, got {unclear[0]!r}"
        raise ConfigurationError(message)
    return {field: name for field, _, name in (choice.partition("=") for choice in choices)}
