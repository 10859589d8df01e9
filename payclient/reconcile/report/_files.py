"""Write the files of a report row by row, with the figures in `summary.json`, and replace the old ones together."""

import json
import os
from collections.abc import Collection
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, Self

from payclient.reconcile import STRICT, Row, Rules, expiry_rule, rules_as_json
from payclient.reconcile._atomic import AtomicFiles
from payclient.reconcile._codec import as_json
from payclient.reconcile._judgement.causes import Settlement, TieOut
from payclient.reconcile._judgement.records import BreakChange, PreviousRun, ReferenceRecord, SincePrevious
from payclient.reconcile._judgement.summary import About, OpenFindings, Tally
from payclient.reconcile.ledger import Ledger
from payclient.reconcile.report import model
from payclient.reconcile.report.integrity import DECISIONS, MANIFEST, manifest_as_json, read_log
from payclient.reconcile.report.wording import in_words, pattern_words


def _write_json(file: IO[str], value: dict[str, Any]) -> None:
    file.write(json.dumps(value, indent=2) + "\n")


class ReportFiles:
    """
    The report of one run, written while its rows arrive.

    Args:
        folder: Where the files go. Created if missing.
        rules: The rules of the run.
        formats: Names of the files to write. `manifest.json` is added. An older file that is not among them stays as it
            is. Default: all, but `rows.parquet` only if the extra `parquet` is installed.
        previous: The previous run. None without one. With one, there is a `history.jsonl` too.
        has_statement: Whether there is a statement, so that there is a `payouts.csv` too.

    Note:
        Use it as a context manager: `add` each row in the order of the ledger, then `finish`. Each file appears
        whole or not at all. If the block is left without `finish`, an older report stays as it is. The same rows
        give the same bytes. Memory does not grow with the rows.

    Raises:
        DecisionError: When the decisions in the folder were changed.
        ModuleNotFoundError: When a format needs a package that is not installed.
        ValueError: When a format does not exist.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        rules: Rules = STRICT,
        formats: Collection[str] | None = None,
        previous: PreviousRun | None = None,
        has_statement: bool = False,
    ) -> None:
        if formats is None:
            formats = [name for name in model.FORMATS if name != "rows.parquet" or find_spec("pyarrow")]
        if unknown := [name for name in formats if name not in model.FORMATS]:
            raise ValueError(f"formats must be some of {', '.join(model.FORMATS)}, got {unknown[0]!r}")
        needed = {"previous": previous is not None, "statement": has_statement}
        outputs = [each for each in model.OUTPUTS if needed.get(each.needs, each.name in formats)]
        self._formats = [each.name for each in outputs]
        self._rules = rules
        # Before anything is written, so that a missing extra shows at once.
        self._begin = [_imported(each) for each in outputs]
        self._folder = Path(folder)
        self._log = read_log(self._folder)
        self._replacement = AtomicFiles(self._folder, [*self._formats, MANIFEST])
        self._previous = previous
        self._worst = model.Worst()

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            new = resources.enter_context(self._replacement)
            self._tally = Tally(self._rules, self._log.latest, self._previous, new.temporary)
            resources.callback(self._tally.close)
            kept = [name for name in ("journal.sqlite", DECISIONS) if (self._folder / name).exists()]
            names = (*self._formats, MANIFEST, *kept)
            self._opening = model.Opening(new=new, names=names, decisions=self._log.latest, resources=resources)
            self._opening.on_row += [self._tally.add, self._worst.add]
            self._opening.on_gone.append(self._worst.add_gone)
            for begin in self._begin:
                begin(self._opening)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def name_run(self, run: str) -> None:
        """Name the run, before its first row: `rows.parquet` has the name in every row, or none without this."""
        self._opening.run = run

    def add(self, row: Row) -> None:
        """Write *row*."""
        for take in self._opening.on_row:
            take(row)

    def add_change(self, change: BreakChange) -> None:
        """Take the change of a break of the previous run, and write it if it is gone. After all rows."""
        self._tally.add_change(change)
        for take in () if change.now.is_present else self._opening.on_gone:
            take(change)

    def add_settled(self, record: ReferenceRecord) -> None:
        """Keep what earlier statements have of a reference without a row, for the run after this one."""
        for take in self._opening.on_settled:
            take(record)

    def finish(self, about: About, *, ledger: Ledger | None = None) -> model.Report:
        """
        Replace the old files with the new ones.

        Args:
            about: The run. Its rules are the rules of `ReportFiles`.
            ledger: The file that was read. It is checked once more.

        Raises:
            LedgerChangedError: When the ledger has changed since it was read. No file is changed then.
            TieOutError: When the sums do not tie, which is a bug of payclient. No file is changed then.
            ValueError: When *about* has other rules, or another run than was named. No file is changed then.
            OSError: When a file cannot be written. No file is changed then.
        """
        if about.rules.fingerprint != self._rules.fingerprint:
            raise ValueError("finish got other rules than ReportFiles: give both the same ones")
        if self._opening.run and about.run != self._opening.run:
            raise ValueError(f"finish got the run {about.run!r}, and the rows are of {self._opening.run!r}")
        summary = self._tally.summary(about)
        if ledger is not None:
            ledger.check_unchanged()
        report = model.Report(summary, about, self._worst)
        for write in self._opening.at_end:
            write(report)
        sealed = [self._replacement.fsync_and_hash(name) for name in self._formats]
        manifest = manifest_as_json(summary_as_json(report), sealed, self._log.head)
        _write_json(self._replacement.text(MANIFEST), manifest)
        self._replacement.commit()
        return report


def begin_summary(opening: model.Opening) -> None:
    opening.at_end.append(lambda report: _write_json(opening.new.text("summary.json"), summary_as_json(report)))


def _imported(output: model.Output) -> Any:
    try:
        return resolve_name(f"payclient.reconcile.report.{output.begin}")
    except ModuleNotFoundError as error:
        message = (
            f"{output.name} needs {error.name}: pip install 'payclient[{output.extra}]', "
            "or choose other files with formats=…"
        )
        raise ModuleNotFoundError(message, name=error.name) from error


# summary.json

SUMMARY_VERSION = 2
"""Grows when a reader of `summary.json` has to change. New names alone do not make it grow."""


def summary_as_json(report: model.Report) -> dict[str, Any]:
    """Return `summary.json`. `ledger` is null when it was not a file that we read."""
    summary, about = report.summary, report.about
    return {
        "schema": "payclient.reconcile.summary",
        "version": SUMMARY_VERSION,
        "verdict": summary.verdict.value,
        "sentence": report.says,
        "compared": {
            **_of(summary.compared, "fields"),
            "remark": report.remark,
            **_of(summary.compared, "stated", "assumed_paid", "status_left_out", "not_paid", "news"),
        },
        "completeness": report.completeness,
        "expiry": expiry_rule(about.rules.time_zone),
        **_of(summary, "rows", "lines"),
        "ignored_lines": as_json(about.ignored_lines),
        "period": as_json(summary.period),
        "left_out": model.left_out(about),
        "buckets": as_json(summary.buckets),
        "findings": as_json(summary.codes),
        "breaks_by_severity": as_json(summary.breaks),
        "open_findings": model.open_findings_as_json(summary.open_findings),
        **_of(summary, "material", "changed_during_run", "first_observed_at", "last_observed_at"),
        "tie_out": {
            **_bridge(summary.tie_out, "ledger_paid_total"),
            **_of(summary.tie_out, "service_paid_total", "residual", "rows_without_amount"),
            "money_by_status": as_json(report.states),
        },
        "settlement": _settlement(summary.settlement, about),
        "leakage": as_json(summary.leakage),
        "patterns": [
            {**_of(each, "kind", "rows", "amount", "lines"), "is_exact": True}
            | dict(zip(("sentence", "treatment"), pattern_words(each), strict=True))
            for each in summary.patterns
        ],
        "acceptances": [
            {**_of(each.accepted, "code", "reference"), **_said(each, "state")} for each in summary.acceptances
        ],
        "still_there": [_said(each, "code", "reference") for each in summary.still_there],
        "since": None if summary.since is None else _since(summary.since, summary.open_findings),
        "first_seen": [_said(each, "kind", "value", "rows", "amount") for each in summary.first_seen],
        "shown": as_json(summary.shown),
        **_of(about, "run", "judged_again", "ledger", "service"),
        "rules": {"fingerprint": about.rules.fingerprint, **rules_as_json(about.rules)},
        **_of(about, "canary", "ended_by", "payclient_version"),
    }


def _of(value: object, *names: str) -> dict[str, Any]:
    return {name: as_json(getattr(value, name)) for name in names}


def _said(value: object, *names: str) -> dict[str, Any]:
    return {**_of(value, *names), "sentence": in_words(value)}


def _since(since: SincePrevious, found: OpenFindings) -> dict[str, Any]:
    return {
        **_of(since.previous, "run", "folder", "manifest_sha256", "rows_sha256", "last_observed_at", "buckets"),
        "trend": [{"run": run, "breaks": breaks} for run, breaks in since.previous.trend_with_itself],
        "carried": as_json(since.carried),
        "breaks": {state: total.count for state, total in found.by_state.items()},
        "news_by_severity": as_json(found.news),
        **_of(since, "changed_rules", "rule_changes", "changed_by", "reused", "ledger"),
    }


def _bridge(bridge: TieOut | Settlement, first: str) -> dict[str, Any]:
    return {
        **_of(bridge, first),
        "steps": [_of(each, "step", "rows", "added", "taken_off", "amount") for each in bridge.steps],
    }


def _settlement(settlement: Settlement | None, about: About) -> dict[str, Any] | None:
    if settlement is None or about.statement is None:
        return None
    lines = ("lines", "rejected_lines", "rejected_amount", "ignored_lines", "ignored_amount", "problems")
    return {
        **_bridge(settlement, "service_paid_total"),
        "statement_total": settlement.statement.total,
        **_of(settlement, "residual", "payout", "payout_difference", "not_in_ledger"),
        **_of(settlement.statement, *lines),
        "payouts": [{**as_json(each), "residual": each.residual} for each in settlement.statement.payouts],
        "statement": as_json(about.statement.file),
    }
