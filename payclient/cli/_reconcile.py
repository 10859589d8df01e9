"""`payclient reconcile`: compare a ledger with what the service says."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cyclopts import Parameter

from payclient.cli._connection import Connection
from payclient.cli._progress import ProgressMode
from payclient.cli._reconciliation import Reconciliation
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines
from payclient.errors import ConfigurationError
from payclient.ledger import CsvLedger, LedgerError, LedgerFile
from payclient.reconcile import Bucket, Severity, Summary

EXAMPLES = """
```console
$ payclient reconcile ledger.csv --out report
$ payclient reconcile ledger.csv --out report --time-zone Asia/Jakarta --column amount=Betrag
$ payclient reconcile ledger.csv --out report --json --quiet | jq .verdict
$ zcat ledger.csv.gz | payclient reconcile - --out report --canary T0000000033KGJ0D
```

Exit status: 0 nothing to do. 1 breaks that matter, or rejected rows. 2 usage, or an unreadable ledger. 3 the key,
this address or this computer is refused. 75 incomplete, run it again. 130 interrupted.
"""

_FLAG = Parameter(negative="", show_default=False)


async def reconcile(
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Path,
    column: Annotated[tuple[str, ...], _FLAG] = (),
    time_zone: str | None = None,
    canary: str | None = None,
    fail_on: Severity = Severity.MEDIUM,
    progress: ProgressMode = ProgressMode.AUTO,
    as_json: Annotated[bool, Parameter(name="--json"), _FLAG] = False,
    quiet: Annotated[bool, _FLAG] = False,
    connection: Connection = Connection(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Compare a ledger with what the service says about each reference in it.

    Every row lands in one bucket: matched, open, break (a difference that was seen twice), unresolved (no
    trustworthy answer) or rejected (the row itself cannot be used). The report is written whole or not at all.

    Args:
        ledger: CSV file with a header, `-` for standard input. Only a reference column is needed; what else there
            is of merchant_reff, amount, fee, amount_received, status, payment_method, payment_code and expdate is
            compared.
        out: Folder for `summary.json`, `rows.jsonl` and `breaks.csv`.
        column: Which column is a field, as `field=name`, where it is not recognised; may be repeated.
        time_zone: What the service's expiry times mean, such as `Asia/Jakarta`.
        canary: A reference that is known to exist, asked first.
        fail_on: The least severe break that makes the exit status 1.
        progress: How progress is shown on standard error.
        as_json: Print `summary.json` on standard output instead of the verdict.
        quiet: Say nothing but errors; with `--json`, print that alone.
        connection: Which service is asked, and how.
        streams: Of the process.

    Returns:
        The exit status.
    """
    if str(ledger).startswith("-") and str(ledger) != "-":
        message = f"unknown option {ledger} (see payclient reconcile --help)"
        raise ConfigurationError(message)
    if str(ledger) == "-" and connection.takes_key_from_stdin:
        message = "standard input holds either the ledger or the key"
        raise ConfigurationError(message)
    zone = _zone(time_zone)
    worst = Worst()
    async with connection.client(streams, deadline=None) as client:
        with _open(streams.stdin if str(ledger) == "-" else ledger, _columns(column)) as entries:
            if not quiet:
                _tell_columns(entries, streams)
            job = Reconciliation(
                ledger=entries,
                out=out,
                client=client,
                concurrency=connection.max_concurrency,
                canary=canary,
                time_zone=zone,
                progress=ProgressMode.NONE if quiet else progress,
                streams=streams,
            )
            summary = await _carry_out(job, worst)
    if as_json:
        streams.write((out / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
    elif not quiet:
        for line in (*verdict_lines(summary, worst, time_zone=zone), *_next_steps(summary, worst, ledger, out)):
            streams.write(line)
    return summary.exit_status(fail_on)


async def _carry_out(job: Reconciliation, worst: Worst) -> Summary:
    try:
        summary = await job.carry_out(worst.add)
    except asyncio.CancelledError:
        job.streams.tell("no report was written; this version of payclient starts over when it is run again")
        raise
    for warning in job.ledger.warnings:
        job.streams.tell(f"payclient: {warning}")
    return summary


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return None if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        message = f"--time-zone: there is no time zone {name!r}; an example is Asia/Jakarta"
        raise ConfigurationError(message) from error


def _columns(choices: Sequence[str]) -> dict[str, str]:
    if unclear := [choice for choice in choices if "=" not in choice]:
        message = f"--column must be like amount=Betrag, got {unclear[0]!r}"
        raise ConfigurationError(message)
    return {field: name for field, _, name in (choice.partition("=") for choice in choices)}


def _open(ledger: LedgerFile, columns: Mapping[str, str]) -> CsvLedger:
    try:
        return CsvLedger(ledger, columns=columns)
    except LedgerError:
        raise
    except ValueError as error:  # a field that does not exist
        message = f"--column: {error}"
        raise ConfigurationError(message) from error


def _tell_columns(ledger: CsvLedger, streams: Streams) -> None:
    used = ", ".join(field if field == name else f"{field} = {name!r}" for field, name in ledger.columns.used.items())
    ignored = ", ".join(map(repr, ledger.columns.ignored))
    streams.tell(f"columns: {used or 'none'}" + (f"; not used: {ignored}" if ignored else ""))


def _next_steps(summary: Summary, worst: Worst, ledger: Path, out: Path) -> list[str]:
    """Say where everything is, and which command comes next."""
    files = f"Report: {out / 'summary.json'}, {out / 'breaks.csv'}, {out / 'rows.jsonl'}"
    if summary.buckets[Bucket.UNRESOLVED].rows:
        command = shlex.join(("payclient", "reconcile", str(ledger), "--out", str(out)))
        return ["", files, f"Next: {command}, which asks for everything again"]
    references = [row.reference for row in worst.rows() if row.reference]
    if references:
        return ["", files, f"Next: {shlex.join(('payclient', 'get', *references))}"]
    return ["", files]
