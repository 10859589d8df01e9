"""`payclient reconcile`: compare a ledger with the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import attrs
from attrs import field, frozen
from cyclopts import Parameter

from payclient import AsyncClient
from payclient._shared.escape import plural, quote
from payclient._shared.remedy import Way
from payclient.cli._call import new_path
from payclient.cli._connection import ConnectionOptions
from payclient.cli._next import after_verdict, lines_of
from payclient.cli._options import (
    EarlierRunOptions,
    JudgingOptions,
    LedgerOptions,
    StatementOptions,
    check_run,
    statement_lines,
)
from payclient.cli._output import OutputOptions, check_other_folder, check_own_files, verdict_lines
from payclient.cli._progress import shown
from payclient.cli._streams import FOLDER, REFERENCE, Exit, OwnStreams, Streams, refuse, status_of, stop_in_order
from payclient.client import resolve_environment
from payclient.errors import InvalidReferenceError, PayClientError
from payclient.protocol import check_reference
from payclient.reconcile import (
    EXIT_STATUSES,
    STRICT,
    Condition,
    Journal,
    Reuse,
    Row,
    Rules,
    StoppedError,
    UnknownWords,
    dialect_as_json,
    duration_text,
    utc_now,
)
from payclient.reconcile import reconcile as judged_rows
from payclient.reconcile.folders import (
    JOURNAL,
    PastRun,
    about_of,
    finish,
    ledger_about,
    note_about,
    note_statement,
    open_past_run,
    runs_without_report,
    started_at,
)
from payclient.reconcile.ledger import Entry, Ledger, RejectedEntry
from payclient.reconcile.report import About, Report, ReportFiles
from payclient.reconcile.report.integrity import MANIFEST, WORK_LIST, read_log
from payclient.reconcile.report.model import StatementAbout
from payclient.reconcile.report.wording import in_words

EXAMPLES = f"""
$ payclient reconcile ledger.csv --out report
$ payclient reconcile ledger.csv --out runs/22 --previous runs/21 --fail-on-new medium

Exit status: 0 {EXIT_STATUSES[0]}. 1 {EXIT_STATUSES[1]}.
2 usage, or an unreadable ledger. 3 {EXIT_STATUSES[3]}; or the service refuses the key or this computer.
75 {EXIT_STATUSES[75]}. 130 interrupted and saved.
"""


async def reconcile(
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Annotated[Path, FOLDER],
    canary: Annotated[str | None, REFERENCE] = None,
    source: LedgerOptions = LedgerOptions(),  # noqa: B008  frozen
    judging: JudgingOptions = JudgingOptions(),  # noqa: B008  frozen
    earlier: EarlierRunOptions = EarlierRunOptions(),  # noqa: B008  frozen
    other: StatementOptions = StatementOptions(),  # noqa: B008  frozen
    output: OutputOptions = OutputOptions(),  # noqa: B008  frozen
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: OwnStreams,
) -> int:
    """
    Compare a ledger with the service, one reference at a time.

    A row is matched, open, a break (seen twice), unresolved (no answer to trust) or rejected (unusable). The same
    command resumes an interrupted run, and looks unresolved rows up again.

    Args:
        ledger: CSV, JSON Lines, XLSX or Parquet file with a column of references; `-` for standard input.
        out: Folder for the journal and the report.
        canary: Reference that exists, looked up first, so that "not found" is credible.
        source: Reading the ledger.
        judging: Judging differences.
        earlier: Previous runs, and second lookups.
        other: The other side.
        output: Output and exit status.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.
    """
    _check_paths(ledger, out, connection)
    if canary is not None:
        try:
            check_reference(canary)
        except InvalidReferenceError as error:
            refuse(f"--canary: {error}")
    rules = other.declared(judging.rules(connection.not_found_message))
    max_age = earlier.max_age
    previous, rules = _past_run(earlier.previous, out, output, streams), earlier.decided(rules, out)
    async with connection.client(streams, not_found_messages=rules.not_found_messages) as client:
        with source.open(ledger, rules, streams) as entries, other.open(rules, entries) as statement:
            job = Reconciliation(
                ledger=entries,
                statement=statement,
                payout=other.payout,
                out=out,
                client=client,
                environment=str(resolve_environment(connection.environment)),
                concurrency=connection.max_concurrency,
                confirm_after=earlier.confirm_after,
                rules=rules,
                canary=canary,
                previous=previous,
                max_age=max_age,
                output=output,
                streams=streams,
            )
            if judging.assume_status is not None and "status" in entries.columns.used:
                streams.tell("payclient: no status is assumed, because a column is used as the status")
            return await _run(job)


def _past_run(previous: Path | None, out: Path, output: OutputOptions, streams: Streams) -> PastRun | None:
    if previous is None:
        if output.fail_on_new is not None:
            refuse("--fail-on-new needs --previous, the folder of the previous run")
        return None
    check_other_folder(out, previous, "the previous run, ")
    check_run(previous, MANIFEST)
    run = open_past_run(previous)
    if run.is_work_list_edited and all(each.run != run.note.run for each in read_log(previous).decisions):
        how = "payclient decisions does that"
        streams.tell(f"payclient: {previous / WORK_LIST} was edited; what it says counts once it is taken: {how}")
    for folder in runs_without_report(previous, out):
        how = "run its command again, and then this one with --previous and its folder"
        streams.tell(f"payclient: the run in {quote(str(folder))} has no report, so its statement is not known: {how}")
    return run


def _check_paths(ledger: Path, out: Path, connection: ConnectionOptions) -> None:
    if out.exists() and not out.is_dir():
        refuse(f"--out must be a folder, and {out} is a file", Way("out", new_path(out)))
    check_own_files(out)
    if str(ledger) == "-" and connection.takes_key_from_stdin:
        refuse("standard input holds either the ledger or the key")


async def _run(job: Reconciliation) -> int:
    sides = {"": job.ledger, " of the statement": job.statement}
    for of_which, ledger in sides.items():
        if ledger is not None and not job.output.quiet:
            job.streams.tell(f"columns{of_which}: {_columns(ledger)}")
    if job.previous is not None:
        client = job.client
        service = {"base_url": client.url, "environment": job.environment, "key_fingerprint": client.key_fingerprint}
        job.previous.check_same_service(service, "this run")
    try:
        report = await job.run()
    except (asyncio.CancelledError, StoppedError):
        again = job.streams.call.text() or "the same command"
        job.streams.tell(f"the answers so far are in {job.out / JOURNAL}; to resume: {again}")
        raise
    for warning in job.ledger.warnings:
        job.streams.tell(f"payclient: {warning}")
    for warning in () if job.statement is None else job.statement.warnings:
        job.streams.tell(f"payclient: the statement: {warning}")
    return job.output.finish(report.summary, [*verdict_lines(report), *_next_steps(job, report)], job.out, job.streams)


def _columns(ledger: Ledger) -> str:
    debits = ledger.dialect.debit_columns
    used = ", ".join(
        (field if field == name else f"{field} = {name!r}")
        + (f" with debits in {debits[field]!r}" if field in debits else "")
        for field, name in ledger.columns.used.items()
    )
    ignored = ", ".join(map(repr, ledger.columns.ignored))
    return (used or "none") + (f"; not used: {ignored}" if ignored else "")


_ADVISED = (Condition.NOTHING_FOUND, Condition.COLUMNS_LEFT_OUT, Condition.STATEMENT_LEFT_OUT)


def _next_steps(job: Reconciliation, report: Report) -> Iterator[str]:
    yield ""
    yield f"Report: {job.out / 'report.html'}, and next to it report.xlsx, breaks.csv, rows.jsonl, summary.json"
    if report.summary.conditions[0] in _ADVISED:
        yield report.advice
    call = job.streams.call
    yield from lines_of(after_verdict(report.summary, report.worst.references, call, job.out), call)


OnRow: TypeAlias = Callable[[Row], object]


@frozen(kw_only=True)
class Reconciliation:
    ledger: Ledger
    statement: Ledger | None = None
    payout: int | None = None
    out: Path
    client: AsyncClient
    environment: str = ""
    concurrency: int
    confirm_after: float = 0.0
    rules: Rules = STRICT
    canary: str | None = None
    previous: PastRun | None = None
    max_age: timedelta | None = None
    output: OutputOptions = field(factory=OutputOptions)
    streams: Streams
    clock: Callable[[], datetime] = utc_now

    async def run(self, *on_row: OnRow) -> Report:
        """Start or resume the run, write the report, and return it; each *on_row* gets every row."""
        # A temporary failure makes an incomplete report. No report is written if the service refuses the caller, or the
        # ledger or the journal cannot be trusted.
        with Journal(self.out / JOURNAL, identity=self._identity()) as journal:
            self._tell_resumed(journal)
            note = None if self.previous is None else self.previous.note
            has_statement = self.statement is not None
            with ReportFiles(self.out, rules=self.rules, previous=note, has_statement=has_statement) as files:
                try:
                    await self._ask(journal, files, on_row)
                except PayClientError as error:
                    if status_of(error) is not Exit.AGAIN:
                        raise
                    self.streams.tell(f"payclient: the run ended early: {error}")
                about = attrs.evolve(about_of(journal), rules=self.rules)
                for ignored in about.ignored_lines:
                    self.streams.tell(f"payclient: {in_words(ignored)}")
                if about.statement is not None and (left_out := in_words(about.statement.totals)):
                    self.streams.tell(f"payclient: {left_out}")
                if self.statement is not None:
                    self.statement.check_unchanged()
                return finish(files, journal, about, self.ledger)

    def _identity(self) -> dict[str, str]:
        identity = {"service": self.client.url, "rules": self.rules.judging}
        if self.statement is not None:
            identity["statement"] = "one"
        if self.previous is not None:
            identity["previous"] = self.previous.note.rows_sha256
        if self.max_age is not None:
            identity["reuse"] = f"{duration_text(self.max_age)} of {', '.join(self.rules.final_statuses)}"
        if declared := dialect_as_json(self.rules.ledger):  # a plain ledger has none, as in earlier journals
            identity["ledger"] = json.dumps(declared, ensure_ascii=False, sort_keys=True)
        return identity

    def _tell_resumed(self, journal: Journal) -> None:
        if self.output.quiet or not journal.is_ledger_complete:
            return
        answered, total = journal.count_answered(), plural(journal.count_references(), "reference")
        self.streams.tell(
            f"resuming {self.out / JOURNAL}: answered already: {answered:,} of {total}; "
            "for new answers, choose another folder"
        )

    async def _ask(self, journal: Journal, files: ReportFiles, on_row: Iterable[OnRow]) -> None:
        reuse, before = None, None
        if self.previous is not None:
            before = self.previous.note, self.previous.records
            reuse = None if self.max_age is None else Reuse(max_age=self.max_age, answers=self.previous.answers)
        with stop_in_order(self.streams) as stop:
            line = nullcontext() if self.output.quiet else shown(self.streams, lambda: self.client.stats)
            async with line as on_progress:
                # Without a deadline: a lookup may have to wait for its turn, and for pauses, as long as it takes.
                lookup = self.client.with_options(deadline=None).get_transaction
                rows = judged_rows(
                    self._entries(journal, files),
                    lookup,
                    confirm=partial(lookup, fresh=True),
                    concurrency=self.concurrency,
                    confirm_after=self.confirm_after,
                    journal=journal,
                    canary=self.canary,
                    rules=self.rules,
                    stop=stop,
                    clock=self.clock,
                    on_progress=on_progress,
                    previous=before,
                    reuse=reuse,
                    statement=None if self.statement is None else self._lines(self.statement, journal),
                )
                async with aclosing(rows):
                    async for row in rows:
                        for take in (files.add, *on_row):
                            take(row)

    def _entries(self, journal: Journal, files: ReportFiles) -> Iterator[Entry | RejectedEntry]:
        """Yield the ledger, then note its totals, known only at its end."""
        started_at(journal, self.clock())
        shown = {} if self.previous is None else self.previous.note.shown or {}
        words = UnknownWords(self.rules, shown.get("method", ()))
        for entry in self.ledger:
            words.add(entry)
            yield entry
        for found in (*self.ledger.suggestions, *words.found()):
            self.streams.tell(f"payclient: {in_words(found)}")
        about = About(
            ledger=ledger_about(self.ledger),
            rules=self.rules,
            base_url=self.client.url,
            environment=self.environment,
            key_fingerprint=self.client.key_fingerprint,
            canary=self.canary,
            judged_again=about_of(journal).judged_again,
        )
        files.name_run(note_about(journal, about))

    def _lines(self, statement: Ledger, journal: Journal) -> Iterator[Entry | RejectedEntry]:
        """Yield the statement, and then note what was read."""
        words, lines, rejected = UnknownWords(self.rules), 0, 0
        for line in statement_lines(statement, self.ledger):
            words.add(line)
            lines, rejected = lines + 1, rejected + isinstance(line, RejectedEntry)
            yield line
        for suggestion in statement.suggestions:
            self.streams.tell(f"payclient: the statement: {suggestion.words('statement')}")
        unknown = [each for each in words.found() if each.table == "statuses"]
        for word in unknown:
            self.streams.tell(f"payclient: the statement: {in_words(word)}")
        unusable = f"none of {plural(lines, 'line')} can be used"
        if statement.suggestions and lines == rejected:
            raise statement.refusal(unusable)
        if unknown and lines == rejected + sum(word.rows for word in unknown):
            rules = Way("rules", dict(self.streams.call.options).get("--rules") or "rules.toml")
            first = f"write the meaning of each status under [statuses] into {rules.value}"
            refuse(f"the statement: {unusable}: no status is known", rules, first=first)
        note_statement(journal, StatementAbout(file=ledger_about(statement), payout=self.payout))
