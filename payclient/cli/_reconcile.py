"""`payclient reconcile`: compare a ledger with the service."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from attrs import evolve, field, frozen
from cyclopts import Parameter
from rich.console import Console
from rich.live import Live
from rich.text import Text

from payclient import AsyncClient, Stats
from payclient import reconcile as library
from payclient._shared.escape import plural
from payclient._shared.options import STALL_TIMEOUT
from payclient._shared.remedy import Way
from payclient.cli._connection import ConnectionOptions
from payclient.cli._next import after_verdict
from payclient.cli._options import (
    EarlierRunOptions,
    JudgingOptions,
    LedgerOptions,
    OutputOptions,
    StatementOptions,
    check_out,
    check_run,
)
from payclient.cli._process import Exit, OwnStreams, Streams, refuse, status_of, stop_in_order
from payclient.cli._report import verdict_lines
from payclient.client import resolve_environment
from payclient.errors import InvalidReferenceError, PayClientError
from payclient.protocol import check_reference
from payclient.reconcile import Condition, OnProgress, Phase, Progress, Rules, folders, report
from payclient.reconcile.ledger import Entry, Ledger, RejectedEntry
from payclient.reconcile.report import StatementAbout, integrity
from payclient.reconcile.report.wording import in_words


async def reconcile(
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    out: Annotated[Path, Parameter(metavar="FOLDER")],
    canary: Annotated[str | None, Parameter(metavar="REFERENCE")] = None,
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
        ledger: CSV, JSON Lines, XLSX or Parquet file with a column of references. `-` for standard input.
        out: Folder for the journal and the report.
        canary: Reference that exists, looked up first, so that "not found" is credible.
        source: Reading the ledger.
        judging: Judging differences.
        earlier: Previous runs, and second lookups.
        other: The other side.
        output: Output and exit status.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.

    Examples:
        $ payclient reconcile ledger.csv --out report
        $ payclient reconcile ledger.csv --out runs/22 --previous runs/21 --fail-on-new medium

        Exit status: 0 nothing to do. 1 breaks of at least medium severity, rejected rows, or columns newly left out
        (--fail-on changes that). 2 usage, or an unreadable ledger. 3 no transaction was found, so key or environment
        may be wrong: name an existing reference with --canary. 3 too if the key or the address is missing or wrong,
        or this computer is refused. 75 incomplete; the same command resumes. 130 interrupted and saved.
    """
    check_out(out, earlier.previous, "the previous run, ")
    connection.check(ledger, other.statement)
    if str(ledger) == "-" and connection.takes_key_from_stdin:
        refuse("standard input is either the ledger or the key")
    if canary is not None:
        try:
            check_reference(canary)
        except InvalidReferenceError as error:
            refuse(f"--canary: {error}")
    rules = other.declared(judging.rules(connection.not_found_messages))
    previous, rules = _past_run(earlier, out, output, streams), earlier.decided(rules, out)
    async with connection.client(streams, not_found_messages=rules.not_found_messages) as client:
        with source.open(ledger, rules, streams) as entries, other.open(rules, entries) as statement:
            job = Reconciliation(
                ledger=entries,
                statement=statement,
                out=out,
                client=client,
                rules=rules,
                canary=canary,
                previous=previous,
                earlier=earlier,
                other=other,
                output=output,
                connection=connection,
                streams=streams,
            )
            judging.tell_assumed(entries.columns.used, streams)
            return await _run(job)


def _past_run(earlier: EarlierRunOptions, out: Path, output: OutputOptions, streams: Streams) -> folders.PastRun | None:
    if (previous := earlier.previous) is None:
        for flag, value in {"--fail-on-new": output.fail_on_new, "--reuse": earlier.reuse}.items():
            if value is not None:
                refuse(f"{flag} needs --previous, the folder of the previous run")
        return None
    check_run(previous, integrity.MANIFEST)
    run = folders.open_past_run(previous)
    if run.is_work_list_edited and run.note.run not in {made.run for made in integrity.read_log(previous).decisions}:
        how = "payclient decisions does that"
        streams.warn(f"{previous / integrity.WORK_LIST} was edited or moved, and its decisions are not imported: {how}")
    for what, how in folders.gaps(previous, out, earlier.decisions):
        streams.warn(f"{what}: {how}")
    return run


async def _run(job: Reconciliation) -> int:
    streams = job.streams
    sides = {"": job.ledger} if job.statement is None else {"": job.ledger, "the statement: ": job.statement}
    for of_which, ledger in sides.items():
        if not job.output.quiet:
            streams.tell(f"columns{' of the statement' * bool(of_which)}: {_columns(ledger)}")
    if job.previous is not None:
        job.previous.check_same_service(job.about(), "this run")
    try:
        done = await job.run()
    except (asyncio.CancelledError, library.StoppedError):
        again = streams.call.text() or "the same command"
        streams.tell(f"the answers so far are in {job.out / folders.JOURNAL}; to resume: {again}")
        raise
    for of_which, ledger in sides.items():
        for warning in ledger.warnings:
            streams.warn(f"{of_which}{warning}")
    lines = [
        *verdict_lines(done),
        "",
        f"Report: {job.out / 'report.html'}, and next to it report.xlsx, breaks.csv, rows.jsonl, summary.json",
        *([done.advice] if done.summary.conditions[0] in _ADVISED else []),
    ]
    steps = after_verdict(done.summary, done.worst.references, streams.call, job.out)
    return job.output.finish(done.summary, lines, steps, job.out, streams)


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


OnRow: TypeAlias = Callable[[library.Row], object]


@frozen(kw_only=True)
class Reconciliation:
    ledger: Ledger
    statement: Ledger | None = None
    out: Path
    client: AsyncClient
    rules: Rules = library.STRICT
    canary: str | None = None
    previous: folders.PastRun | None = None
    earlier: EarlierRunOptions = field(factory=EarlierRunOptions)
    other: StatementOptions = field(factory=StatementOptions)
    output: OutputOptions = field(factory=OutputOptions)
    connection: ConnectionOptions = field(factory=ConnectionOptions)
    streams: Streams
    clock: Callable[[], datetime] = library.utc_now

    async def run(self, *on_row: OnRow) -> report.Report:
        """Start or resume the run, write the report, and return it. Each *on_row* gets every row."""
        # A temporary failure makes an incomplete report. No report is written if the service refuses the caller, or the
        # ledger or the journal cannot be trusted.
        with library.Journal(self.out / folders.JOURNAL, identity=self._identity()) as journal:
            self._check_key(journal)
            self._tell_resumed(journal)
            note = None if self.previous is None else self.previous.note
            has_statement = self.statement is not None
            with report.ReportFiles(self.out, rules=self.rules, previous=note, has_statement=has_statement) as files:
                try:
                    await self._ask(journal, files, on_row)
                except PayClientError as error:
                    if status_of(error) is not Exit.AGAIN:
                        raise
                    self.streams.warn(f"the run ended early: {error}")
                about = evolve(folders.about_of(journal), rules=self.rules)
                totals = "" if about.statement is None else in_words(about.statement.totals)
                for told in (*map(in_words, about.ignored_lines), *filter(None, [totals])):
                    self.streams.warn(told)
                if self.statement is not None:
                    self.statement.check_unchanged()
                return folders.finish(files, journal, about, self.ledger)

    def _identity(self) -> dict[str, str]:
        past, age, declared = self.previous, self.earlier.reuse, library.dialect_as_json(self.rules.ledger)
        identity = {
            "service": self.client.url,
            "rules": evolve(self.rules, accepted=()).judging,  # what is accepted changes no lookup
            "statement": None if self.statement is None else "one",
            "previous": None if past is None else past.note.rows_sha256,
            "reuse": None if age is None else f"{library.duration_text(age)} of {', '.join(self.rules.final_statuses)}",
            # Missing for a plain ledger, as in earlier journals.
            "ledger": json.dumps(declared, ensure_ascii=False, sort_keys=True) if declared else None,
        }
        return {name: value for name, value in identity.items() if value is not None}

    def about(self, *earlier: str) -> report.About:
        """Return what is known before the ledger is read. Its first key may be of an *earlier* part."""
        past: list[str] = [] if self.previous is None else [self.previous.service["key_fingerprint"]]
        first, *others = dict.fromkeys((*earlier, self.client.key_fingerprint, *past))
        return report.About(
            rules=self.rules,
            base_url=self.client.url,
            environment=resolve_environment(self.connection.environment),
            key_fingerprint=first,
            other_keys=tuple(filter(None, others)),
            canary=self.canary,
        )

    def _check_key(self, journal: library.Journal) -> None:
        """Refuse a key of another merchant than the answers of an interrupted run."""
        if (good := journal.answers.known_good()) is not None:
            noted, problem = folders.about_of(journal), f"{self.out / folders.JOURNAL} cannot be resumed"
            names = [*filter(None, [noted.canary]), good]
            folders.check_same_merchant(problem, noted.key_fingerprint, lambda: names, self.about(), "this run")

    def _tell_resumed(self, journal: library.Journal) -> None:
        if self.output.quiet or not journal.is_ledger_complete:
            return
        answered, total = journal.count_answered(), plural(journal.count_references(), "reference")
        self.streams.tell(
            f"resuming {self.out / folders.JOURNAL}: answered already: {answered:,} of {total}; "
            "for new answers, choose another folder"
        )

    async def _ask(self, journal: library.Journal, files: report.ReportFiles, on_row: Iterable[OnRow]) -> None:
        past, reuse = self.previous, None
        if past is not None and self.earlier.reuse is not None:
            reuse = library.Reuse(max_age=self.earlier.reuse, answers=past.answers)
        with stop_in_order(self.streams) as stop:
            line = nullcontext() if self.output.quiet else shown(self.streams, lambda: self.client.stats)
            async with line as on_progress:
                # Without a deadline: a lookup may have to wait for its turn, and for pauses, as long as it takes.
                lookup = self.client.with_options(deadline=None).get_transaction
                rows = library.reconcile(
                    self._entries(journal, files),
                    lookup,
                    confirm=partial(lookup, fresh=True),
                    concurrency=self.connection.max_concurrency,
                    confirm_after=self.earlier.confirm_after,
                    journal=journal,
                    canary=self.canary,
                    rules=self.rules,
                    stop=stop,
                    clock=self.clock,
                    on_progress=on_progress,
                    previous=None if past is None else (past.note, past.records),
                    reuse=reuse,
                    statement=None if self.statement is None else self._lines(self.statement, journal),
                )
                async with aclosing(rows):
                    async for row in rows:
                        for take in (files.add, *on_row):
                            take(row)

    def _entries(self, journal: library.Journal, files: report.ReportFiles) -> Iterator[Entry | RejectedEntry]:
        """Yield the ledger, then note its totals, known only at its end."""
        folders.started_at(journal, self.clock())
        shown = {} if self.previous is None else self.previous.note.shown or {}
        words = library.UnknownWords(self.rules, shown.get("method", ()))
        for entry in self.ledger:
            words.add(entry)
            yield entry
        for suggestion in (*self.ledger.suggestions, *words.found()):
            self.streams.warn(in_words(suggestion))
        noted, has_found = folders.about_of(journal), journal.answers.known_good() is not None
        about = evolve(
            self.about(*[noted.key_fingerprint, *noted.other_keys] * has_found),
            ledger=folders.ledger_about(self.ledger),
            judged_again=noted.judged_again,
            run=noted.run,
        )
        before = None if self.output.quiet or self.previous is None else self.previous.note
        if about.ledger and before and about.ledger.sha256 == before.ledger_sha256:
            self.streams.warn(f"the ledger has the same bytes as in the previous run, {before.folder}")
        files.name_run(folders.note_about(journal, about))

    def _lines(self, statement: Ledger, journal: library.Journal) -> Iterator[Entry | RejectedEntry]:
        """Yield the statement, after the ledger was read to its end, and then record its lines."""
        words, lines, rejected = library.UnknownWords(self.rules), 0, 0
        for line in statement:
            words.add(line)
            lines, rejected = lines + 1, rejected + isinstance(line, RejectedEntry)
            yield line
        library.check_currencies(self.ledger, statement)
        unknown = [word for word in words.found() if word.table == "statuses"]
        for told in (*(suggestion.words("statement") for suggestion in statement.suggestions), *map(in_words, unknown)):
            self.streams.warn(f"the statement: {told}")
        unusable = f"none of {plural(lines, 'line')} can be used"
        if statement.suggestions and lines == rejected:
            raise statement.refusal(unusable)
        if unknown and lines == rejected + sum(word.rows for word in unknown):
            rules = Way("rules", dict(self.streams.call.options).get("--rules") or "rules.toml")
            first = f"write the meaning of each status under [statuses] into {rules.value}"
            refuse(f"the statement: {unusable}: no status is known", rules, first=first)
        folders.note_statement(journal, StatementAbout(file=folders.ledger_about(statement), payout=self.other.payout))


_LIVE_EVERY, _PLAIN_EVERY = 0.2, 10.0
_RATE_WINDOW = 15.0
"""The rate is measured over these seconds: enough to be steady, few enough to show a pause."""
_SILENCE = 5.0  # seconds without an answer until the line names that
_MOST = library.duration_text(timedelta(seconds=STALL_TIMEOUT))


def progress_line(progress: Progress, stats: Stats, rate: float, silent: float = 0.0) -> str:
    """Return the line *silent* seconds after the last answer."""
    is_asking, total = progress.phase in (Phase.ASKING, Phase.CONFIRMING), progress.total
    rest = None if total is None or not rate else timedelta(seconds=round((total - progress.done) / rate))
    held = progress.waiting and f"waiting {progress.waiting}"
    if is_asking and silent >= _SILENCE and (stats.last_failure or not (held or stats.paused_seconds)):
        why = f": {stats.last_failure}" * bool(stats.last_failure)
        held = f"no answer for {silent:.0f} s (gives up after {_MOST}){why}"
    parts = (
        f"{progress.phase} {progress.done:,}" + ("" if total is None else f"/{total:,}"),
        held,
        stats.paused_seconds and f"paused {stats.paused_seconds:.0f} s by the service",
        is_asking and rate and f"{rate:,.0f}/s",
        is_asking and rest is not None and f"{rest} left",
        is_asking and progress.differences and f"{progress.differences:,} differ ({progress.differences_amount:,})",
        is_asking and f"{stats.in_flight} in flight",
        progress.unresolved and f"{progress.unresolved:,} unresolved",
        stats.retries and f"retries {stats.retries:,}",
        stats.throttled and f"{stats.throttled:,} throttled",
    )
    return "; ".join(map(str, filter(None, parts)))


@asynccontextmanager
async def shown(streams: Streams, stats: Callable[[], Stats]) -> AsyncGenerator[OnProgress]:
    # The line is refreshed by the clock and not by work done, so that a pause shows.
    loop, console = asyncio.get_running_loop(), Console(file=streams.stderr, highlight=False, markup=False, emoji=False)
    is_live = console.is_terminal and not console.is_dumb_terminal
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    every = _LIVE_EVERY if is_live else _PLAIN_EVERY
    latest: Progress | None = None
    answered_at = loop.time()
    samples = deque[tuple[float, int]](maxlen=1 + max(1, round(_RATE_WINDOW / every)))

    def update(progress: Progress) -> None:
        """Take the latest. Called for each thing done, so it does next to nothing."""
        nonlocal latest, answered_at
        if latest is None or (latest.phase, latest.done) != (progress.phase, progress.done):
            answered_at = loop.time()
        if latest is None or latest.phase is not progress.phase:  # rows of an earlier run do not count
            samples.clear()
            samples.append((loop.time(), progress.done))
        latest = progress

    async def show() -> None:
        while True:
            await asyncio.sleep(every)
            if latest is None:
                continue
            samples.append((loop.time(), latest.done))
            (since, before), (now, done) = samples[0], samples[-1]
            rate = (done - before) / (now - since) if now > since else 0.0
            line = progress_line(latest, stats(), rate, now - answered_at)
            if is_live:
                live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
            else:
                streams.tell(line)

    with live if is_live else nullcontext():
        showing = asyncio.create_task(show())
        try:
            yield update
        finally:
            showing.cancel()
            await asyncio.wait([showing])
