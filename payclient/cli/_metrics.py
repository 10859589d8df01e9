"""`--metrics FILE`: the result of a reconciliation as a Prometheus text file, for nightly jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from payclient._atomic import AtomicFiles
from payclient.reconcile import Summary, Verdict

_PREFIX = "payclient_reconcile"
_MODE = 0o644  # unlike a report, because a collector has another user and there is no money in it


def write_metrics(path: Path, summary: Summary, *, exit_status: int, ended_at: float) -> None:
    """
    Replace *path* with the metrics of one run, whole or not at all: counts, and no money.

    Args:
        path: A file that a collector reads, such as the node exporter's.
        summary: The result.
        exit_status: Of the command.
        ended_at: Unix time in seconds, so that a job that no longer runs is noticed.

    Raises:
        OSError: When the file cannot be written.
    """
    with AtomicFiles(path.parent, [path.name]) as files:
        files.text(path.name).writelines(f"{line}\n" for line in _lines(summary, exit_status, ended_at))
        files.commit()
    path.chmod(_MODE)


def _lines(summary: Summary, exit_status: int, ended_at: float) -> Iterator[str]:
    buckets, codes = summary.buckets.items(), summary.codes.items()
    verdicts: dict[str, float] = {verdict: int(verdict is summary.verdict) for verdict in Verdict}
    yield from _metric("rows", "Ledger rows, by bucket.", "bucket", {name: total.rows for name, total in buckets})
    yield from _metric("findings", "Rows with a finding, by its code.", "code", {c: total.rows for c, total in codes})
    severities = {severity.word: count for severity, count in summary.breaks.items()}
    yield from _metric("breaks", "Breaks, by severity.", "severity", severities)
    yield from _metric("verdict", "1 for the verdict of the run.", "verdict", verdicts)
    yield from _metric("exit_status", "Exit status of the command.", "", {"": exit_status})
    yield from _metric("ended_timestamp_seconds", "When the run ended.", "", {"": ended_at})


def _metric(name: str, words: str, label: str, values: Mapping[str, float]) -> Iterator[str]:
    full = f"{_PREFIX}_{name}"
    yield f"# HELP {full} {words}"
    yield f"# TYPE {full} gauge"
    for each, value in values.items():
        labels = f'{{{label}="{each}"}}' if label else ""
        yield f"{full}{labels} {value}"
