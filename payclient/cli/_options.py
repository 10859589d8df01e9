"""Options of several commands: reading and judging a ledger, and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.reconcile import STRICT, Assumed, Rules, Severity, Summary, read_rules
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
            streams.show(lines)

    def exit_status(self, summary: Summary) -> int:
        if self.fail_on_new is None:
            return summary.exit_status(self.fail_on)
        if summary.since is None:
            message = "--fail-on-new needs a previous run: name its folder with payclient reconcile --previous"
            raise ConfigurationError(message)
        return summary.exit_status(self.fail_on_new, only_news=True)


def duration_option(option: str, text: str) -> timedelta:
    duration = read_duration(text)
    if duration is None:
        message = f"{option} must be a duration such as '90m', '36h' or '3d', got {text!r}"
        raise ConfigurationError(message)
    return duration


_JUDGING = Group("Judging", sort_key=6)
_NEEDED = {"previous": "the folder of the run before", "recheck": "the age of the rows that it is of"}


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


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
        holidays: File with a date a line: days that are no business days. Overrides the rules file.
        cut_off: Time of the day, such as `17:00`, from which a row counts as of the next business day. Overrides the
            rules file.
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules")] = None
    time_zone: str | None = None
    assume_status: Assumed | None = None
    grace: str | None = None
    holidays: Path | None = None
    cut_off: str | None = None

    def rules(self, not_found_messages: Sequence[str] = (), *, without_file: Rules = STRICT) -> Rules:
        """Return the rules of the file or *without_file*, with these options."""
        # `not_found_messages` change answers, so the run is another one.
        rules = without_file if self.rules_file is None else read_rules(self.rules_file)
        if not_found_messages:
            rules = attrs.evolve(rules, not_found_messages=(*rules.not_found_messages, *not_found_messages))
        given: dict[str, Any] = {"time_zone": self.time_zone, "assume_status": self.assume_status, "grace": self.grace}
        holidays = None if self.holidays is None else read_holidays(self.holidays)
        if calendar := _given({"holidays": holidays, "cut_off": self.cut_off}):
            given["calendar"] = attrs.evolve(rules.calendar, **calendar)
        return attrs.evolve(rules, **_given(given))


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
        recheck: Age, such as `60d`, up to which rows that matched in earlier runs and are not in the ledger are looked
            up again. Needed in each run; the runs before remember the rows.
        sample: How many of these rows to look up. Default: all.
        seed: Of the sample.
    """

    decisions: Path | None = None
    confirm_after: str | None = None
    previous: Path | None = None
    reuse: str | None = None
    recheck: str | None = None
    sample: int | None = None
    seed: int = 0

    def decided(self, rules: Rules, out: Path) -> Rules:
        """Return *rules* with what was accepted in earlier runs."""
        # A new run gets the decisions, and keeps them when it is resumed.
        if self.decisions is not None and not self.decisions.is_dir():
            message = f"--decisions must be the folder of a run, got {self.decisions}"
            raise ConfigurationError(message)
        if not (out / JOURNAL).exists() and (source := self.decisions or self.previous) is not None:
            carry_log(source, out)
        return with_decisions(rules, earlier_decisions(out))

    def read(self) -> tuple[float, timedelta | None, Recheck | None]:
        """Return the seconds before a second lookup, the age of answers to use again, and the rows to look up again."""
        for name, needed in (("reuse", "previous"), ("recheck", "previous"), ("sample", "recheck")):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                message = f"--{name} needs --{needed}, {_NEEDED[needed]}"
                raise ConfigurationError(message)
        if self.sample is not None and self.sample < 1:
            message = f"--sample must be at least 1, got {self.sample}"
            raise ConfigurationError(message)
        max_age = None if self.reuse is None else duration_option("--reuse", self.reuse)
        recheck = None if self.recheck is None else duration_option("--recheck", self.recheck)
        return (
            duration_option("--confirm-after", self.confirm_after or "0s").total_seconds(),
            max_age,
            None if recheck is None else Recheck(max_age=recheck, sample=self.sample, seed=self.seed),
        )
