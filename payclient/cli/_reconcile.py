"""`payclient reconcile`: compare a ledger with what the service says."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient._atomic import AtomicFiles
from payclient._config import resolve_environment
from payclient.cli._connection import ConnectionOptions
from payclient.cli._ledger import Declared, Overview, overview_lines, question_lines
from payclient.cli._options import EarlierRunOptions, JudgingOptions, OutputOptions
from payclient.cli._progress import ProgressMode
from payclient.cli._reconciliation import Reconciliation, contract_recorder
from payclient.cli._sources import LedgerOptions, StatementOptions, about_ledger, about_statement, reading_ledger
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines
from payclient.errors import ConfigurationError
from payclient.ledger import Ledger, column_names
from payclient.reconcile import Bucket, Rules, StoppedError, Summary, Verdict
from payclient.reconcile.result import EXIT_STATUSES
from payclient.report import JOURNAL, WORK_LIST, PastRun, open_past_run, read_log, rows_file, verdict_wording

EXAMPLES = f"""
```console
$ payclient reconcile ledger.csv --out report
$ payclient reconcile ledger.xlsx --out report --rules rules.toml --time-zone Asia/Jakarta
$ payclient reconcile ledger.csv --out reports/2026-11-21 --previous reports/2026-11-20 --fail-on-new medium
$ payclient reconcile ledger.csv --out reports/2026-11-22 --previous reports/2026-11-21 --reuse 7d
$ payclient reconcile ledger.csv --out reports/2026-11-22 --previous reports/2026-11-21 --recheck 60d --sample 1000
$ payclient reconcile ledger.csv --out report --dry-run
$ payclient reconcile ledger.csv --out report --json --quiet | jq .verdict
$ payclient reconcile ledger.csv --out report --statement settlement.csv --settles-within 3d --payout 12,345,000
$ zcat ledger.csv.gz | payclient reconcile - --out report --canary T0000000033KGJ0D
```

Run the same command again to resume after an interruption, or to retry unresolved rows. Then
`payclient report`, `payclient explain` and `payclient verify` work on the folder, without a network.

Exit status: 0 {EXIT_STATUSES[0]}. 1 {EXIT_STATUSES[1]}.
2 usage, or an unreadable ledger. 3 {EXIT_STATUSES[3]}; or the service refuses the key or this computer.
75 {EXIT_STATUSES[75]}. 130 interrupted and saved.
"""

_FLAG = Parameter(negative="", show_default=False)


async def reconcile(  # noqa: PLR0913  one option each, by name only
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path,
    source: LedgerOptions = LedgerOptions(),  # noqa: B008  frozen
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008  frozen
    earlier: EarlierRunOptions = EarlierRunOptions(),  # noqa: B008  frozen
    other: StatementOptions = StatementOptions(),  # noqa: B008  frozen
    canary: str | None = None,
    dry_run: Annotated[bool, _FLAG] = False,
    durable: Annotated[bool, _FLAG] = False,
    progress: ProgressMode = ProgressMode.AUTO,
    metrics: Path | None = None,
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Compare a ledger with the service, one reference at a time.

    Every row lands in one bucket: matched, open, break (a difference that was seen twice), unresolved (no trustworthy
    answer) or rejected (an unusable row). The report is written whole or not at all.

    Args:
        ledger: CSV, JSON Lines, XLSX or Parquet file, `-` for standard input. Only a reference column is required. The
            columns merchant_reff, amount, fee, amount_received, status, payment_method, payment_code and expdate are
            compared when present.
        out: Folder for the journal and the report.
        source: Reading the ledger.
        judging: Judging differences.
        earlier: Earlier runs, and second lookups.
        other: The other side.
        canary: A reference that is known to exist, looked up first.
        dry_run: Show how the ledger is read, as `payclient ledger` does, and what would be looked up; needs neither
            key nor network.
        durable: Wait for the disk after each answer, to survive a power cut.
        progress: Display of progress on standard error.
        metrics: Prometheus text file to replace at the end, for a collector; counts without money.
        output: Output and exit status.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.
    """
    _check_ledger(ledger, connection)
    rules = other.declared(source.declared(judging.rules(connection.not_found_message)))
    (confirm_after, max_age, recheck), payout = earlier.read(), other.payout_amount
    if dry_run:
        with _opened(ledger, source, other, rules, streams) as sides:
            return _show(*sides, Declared(ledger, judging.rules_file, source), connection.max_concurrency, streams)
    previous, rules = _past_run(earlier.previous, out, output, streams), earlier.decided(rules, out)
    recorder = contract_recorder(connection, previous)
    async with connection.client(streams, not_found_messages=rules.not_found_messages, profile=recorder) as client:
        with _opened(ledger, source, other, rules, streams) as (entries, statement):
            job = Reconciliation(
                ledger=entries,
                statement=statement,
                payout=payout,
                out=out,
                client=client,
                recorder=recorder,
                environment=str(resolve_environment(connection.environment)),
                concurrency=connection.max_concurrency,
                confirm_after=confirm_after,
                rules=rules,
                canary=canary,
                previous=previous,
                max_age=max_age,
                recheck=recheck,
                is_durable=durable,
                output=output,
                progress=progress,
                streams=streams,
            )
            return _tell(job, await _run(job, worst := Worst()), worst, metrics)


@contextmanager
def _opened(
    path: Path, source: LedgerOptions, other: StatementOptions, rules: Rules, streams: Streams
) -> Generator[tuple[Ledger, Ledger | None]]:
    with reading_ledger():
        opened = source.open(path, rules, streams)
    with opened as ledger, other.open(rules, ledger, allow_empty=source.allow_empty) as statement:
        yield ledger, statement


def _past_run(previous: Path | None, out: Path, output: OutputOptions, streams: Streams) -> PastRun | None:
    if previous is None:
        if output.fail_on_new is not None:
            message = "--fail-on-new needs --previous, the folder of the run before"
            raise ConfigurationError(message)
        return None
    if out.resolve().is_relative_to(previous.resolve()):
        message = f"--out must be another folder than {previous}, the previous run, which is not changed"
        raise ConfigurationError(message)
    run = open_past_run(previous)
    if run.is_work_list_edited and all(each.run != run.note.run for each in read_log(previous).decisions):
        take = shlex.join(("payclient", "decisions", "take", str(previous / WORK_LIST), "--by"))
        streams.tell(f"payclient: {previous / WORK_LIST} was edited; what it says counts once it is taken: {take} NAME")
    return run


def _show(ledger: Ledger, statement: Ledger | None, declared: Declared, concurrency: int, streams: Streams) -> int:
    overview = Overview.of(ledger)
    following = declared.following(overview) if ledger.suggestions else ""
    next_lines = [f"next: {following}"] if following else []
    streams.show([*overview_lines(overview), *next_lines, *question_lines(overview, concurrency)])
    if statement is not None:
        streams.show(["", "the statement:", *map(about_statement, overview_lines(Overview.of(statement)))])
    return 0


def _tell(job: Reconciliation, summary: Summary, worst: Worst, metrics: Path | None) -> int:
    """Print the result, write the metrics, and return the exit status."""
    lines = [*verdict_lines(summary, worst, rules=job.rules), *_next_steps(job, summary, worst)]
    job.output.write(lines, job.out, job.streams)
    status = job.output.exit_status(summary)
    if metrics is not None:
        write_metrics(metrics, summary, exit_status=status, ended_at=time.time())
    return status


def _check_ledger(ledger: Path, connection: ConnectionOptions) -> None:
    if str(ledger).startswith("-") and str(ledger) != "-":
        message = f"unknown option {ledger} (see payclient reconcile --help)"
        raise ConfigurationError(message)
    if str(ledger) == "-" and connection.takes_key_from_stdin:
        message = "standard input holds either the ledger or the key"
        raise ConfigurationError(message)


async def _run(job: Reconciliation, worst: Worst) -> Summary:
    _tell_columns({} if job.output.quiet else {"": job.ledger, " of the statement": job.statement}, job.streams)
    if job.previous is not None:
        client = job.client
        service = {"base_url": client.url, "environment": job.environment, "key_fingerprint": client.key_fingerprint}
        job.previous.check_same_service(service, "this run")
    try:
        summary = await job.run(worst.add)
    except (asyncio.CancelledError, StoppedError):
        job.streams.tell(f"the answers so far are in {job.out / JOURNAL}; to resume: {job.streams.command}")
        raise
    for warning in job.ledger.warnings:
        job.streams.tell(f"payclient: {about_ledger(warning)}")
    for warning in () if job.statement is None else job.statement.warnings:
        job.streams.tell(f"payclient: the statement: {about_statement(warning)}")
    return summary


def _tell_columns(ledgers: Mapping[str, Ledger | None], streams: Streams) -> None:
    for of_which, ledger in ledgers.items():
        if ledger is not None:
            names = column_names(ledger.columns.header)  # those of a profile need not be there
            debits = {field: name for field, name in ledger.dialect.debit_columns.items() if name in names}
            used = (
                (field if field == name else f"{field} = {name!r}")
                + (f" with debits in {debits[field]!r}" if field in debits else "")
                for field, name in ledger.columns.used.items()
            )
            ignored = ", ".join(map(repr, ledger.columns.ignored))
            told = ", ".join(used) or "none"
            streams.tell(f"columns{of_which}: {told}" + (f"; not used: {ignored}" if ignored else ""))


def _next_steps(job: Reconciliation, summary: Summary, worst: Worst) -> list[str]:
    """Say where everything is, and which command comes next."""
    beside = f"report.xlsx, breaks.csv, {rows_file(job.out).name}, summary.json"
    lines = ["", f"Report: {job.out / 'report.html'}, and beside it {beside}"]
    if summary.lacking_probe:
        lines.append(verdict_wording(summary).advice)
    elif summary.buckets[Bucket.UNRESOLVED].rows:
        lines.append(f"Next: {job.streams.command}, which asks again for what is unresolved")
    if references := [row.reference for row in worst.rows() if row.reference]:
        lines.append(f"Next: {shlex.join(('payclient', 'explain', str(job.out), references[0]))}")
    return lines


_PREFIX = "payclient_reconcile"
_MODE = 0o644  # unlike a report, because a collector has another user and there is no money in it


def write_metrics(path: Path, summary: Summary, *, exit_status: int, ended_at: float) -> None:
    """Replace *path* with the metrics of one run, whole or not at all: counts, and no money."""
    # `ended_at`, in seconds since 1970, lets a collector notice a job that no longer runs.
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
