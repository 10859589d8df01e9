"""The options that several commands share: how a ledger is read and judged, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._progress import ProgressMode
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.ledger import Ledger, LedgerError, LedgerFormat, open_ledger
from payclient.reconcile import Assumed, Rules, Severity, read_duration, read_rules

_FLAG = Parameter(negative="", show_default=False)


@Parameter(name="*", group=Group("Output", sort_key=8))
@frozen(kw_only=True)
class Output:
    """
    What is written and printed.

    Attributes:
        all_rows: Add a sheet with every row to `report.xlsx`; slow for a large ledger; `rows.jsonl` has them too.
        fail_on: The least severe break that makes the exit status 1.
        as_json: Print `summary.json` on standard output instead of the verdict.
        quiet: Say nothing but errors; with `--json`, print that alone.
    """

    all_rows: Annotated[bool, _FLAG] = False
    fail_on: Severity = Severity.MEDIUM
    as_json: Annotated[bool, Parameter(name="--json"), _FLAG] = False
    quiet: Annotated[bool, _FLAG] = False

    def write(self, lines: Sequence[str], folder: Path, streams: Streams) -> None:
        """Write *lines*, or what stands in their place, on standard output."""
        if self.as_json:
            streams.write((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
        elif not self.quiet:
            for line in lines:
                streams.write(line)

    def mode(self, progress: ProgressMode) -> ProgressMode:
        """Return how progress is shown."""
        return ProgressMode.NONE if self.quiet else progress


@Parameter(name="*", group=Group("Judging", sort_key=6))
@frozen(kw_only=True)
class Judging:
    """
    How differences are judged.

    Attributes:
        rules_file: TOML file with tolerances, status words, fees, accepted differences and more.
        time_zone: What the service's expiry times mean, such as `Asia/Jakarta` or `+07:00`; goes before the rules file.
        assume_status: What each row says where the ledger has no status column: `paid`, or `none`, with which the
            status is not compared and the verdict is never clean; goes before the rules file.
        grace: How young a row may be and still differ, such as `90m`, `24h` or `1d 12h`; goes before the rules file.
        confirm_after: How long to wait before a difference is looked up again, such as `10m`.
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules")] = None
    time_zone: str | None = None
    assume_status: Assumed | None = None
    grace: str | None = None
    confirm_after: str | None = None

    def rules(self, not_found_messages: Sequence[str]) -> Rules:
        """
        Return what was decided, with more *not_found_messages*: they change answers, so the run is another one.

        Raises:
            ConfigurationError: When an option or a line of the file cannot be used.
        """
        rules = Rules() if self.rules_file is None else read_rules(self.rules_file)
        if not_found_messages:
            rules = attrs.evolve(rules, not_found_messages=(*rules.not_found_messages, *not_found_messages))
        given: dict[str, Any] = {"time_zone": self.time_zone, "assume_status": self.assume_status, "grace": self.grace}
        return attrs.evolve(rules, **{name: value for name, value in given.items() if value is not None})

    @property
    def confirm_after_seconds(self) -> float:
        """
        How long to wait before the second lookup.

        Raises:
            ConfigurationError: When it is not a duration.
        """
        duration = read_duration(self.confirm_after or "0s")
        if duration is None:
            message = f"--confirm-after must be a duration such as '90m', '12h' or '1d 12h', got {self.confirm_after!r}"
            raise ConfigurationError(message)
        return duration.total_seconds()


@Parameter(name="*", group=Group("Ledger", sort_key=5))
@frozen(kw_only=True)
class LedgerSource:
    """
    How a ledger is read.

    Attributes:
        column: Which column is a field, as `field=name`, where it is not recognised; may be repeated.
        ignore_column: A column that need not be used, although it looks like money or like a field; may be repeated;
            adds to the rules file.
        require: Fields without which the ledger is refused, such as `amount,status`; adds to the rules file.
        allow_empty: Take a ledger without a row for one, rather than for an export that failed.
        format: What kind of file it is, where its name does not tell.
        sheet: Which sheet of an XLSX file, where it is not the first.
        delimiter: What separates the cells of a CSV file, where the header does not tell.
    """

    column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    ignore_column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    require: str = ""
    allow_empty: Annotated[bool, Parameter(negative="", show_default=False)] = False
    format: LedgerFormat | None = None
    sheet: str | None = None
    delimiter: str | None = None

    def open(self, ledger: Path, rules: Rules, streams: Streams) -> Ledger:
        """
        Open *ledger*, or standard input for `-`; the caller closes it.

        Raises:
            LedgerError: When it cannot be trusted.
            ConfigurationError: When a column cannot be chosen like this, or the rules need one that is not there.
        """
        columns = {**rules.columns, **_columns(self.column)}
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
            )
        except LedgerError:
            raise
        except ValueError as error:  # a field that does not exist, or an option that the format does not have
            message = f"the ledger cannot be read like this: {error}"
            raise ConfigurationError(message) from error
        if rules.grace and found.columns.used and "created_at" not in found.columns.used:
            message = (
                "grace needs the age of each row, and no column of the ledger is read as created_at; "
                "choose one with --column created_at=NAME, or leave grace out"
            )
            with found:  # closes it
                raise ConfigurationError(message)
        return found


def _columns(choices: Sequence[str]) -> dict[str, str]:
    if unclear := [choice for choice in choices if "=" not in choice]:
        message = f"--column must be like amount=Betrag, got {unclear[0]!r}"
        raise ConfigurationError(message)
    return {field: name for field, _, name in (choice.partition("=") for choice in choices)}
