"""
The folder of a run: written by it, written again from its journal, read by the next run, compared with another.

The files of an earlier run are read only if their checksums are right.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import attrs

from payclient._shared.escape import escape_unprintable, quote
from payclient.reconcile import Journal, changed_rules, rules_from_json
from payclient.reconcile._atomic import read_own
from payclient.reconcile._codec import as_json, from_json
from payclient.reconcile._journal.journal import break_changes, replay
from payclient.reconcile._journal.tables import verify_journal
from payclient.reconcile._judgement import records as nights
from payclient.reconcile._judgement.codes import Code, Severity, Status
from payclient.reconcile._judgement.errors import JournalError, JournalWriteError, PastRunError
from payclient.reconcile._judgement.findings import BreakState, Bucket, FindingTotal, ResolvedBy, Row
from payclient.reconcile._judgement.sides import Answer, Observation
from payclient.reconcile._judgement.summary import Compared, OpenFindings, Tally, temporary_database
from payclient.reconcile.ledger import Entry, Ledger
from payclient.reconcile.report import About, LedgerAbout, Report, ReportFiles, StatementAbout, integrity, verify
from payclient.reconcile.report import rows as report_rows
from payclient.reconcile.report.integrity import MANIFEST, WORK_LIST, Problem
from payclient.reconcile.report.model import HISTORY, about_as_json, open_findings_as_json, run_name
from payclient.reconcile.report.wording import moves

# Names that are not here are for packages above, and not public.
__all__ = ["RunDiff", "open_past_run", "write_again"]

JOURNAL = "journal.sqlite"
_WHERE = {"base_url": "address", "environment": "environment"}
_MAX_PROOFS = 10_000
"""References compared at most: a common one shows that the keys of two runs are of one merchant."""


@attrs.frozen(kw_only=True)
class PastRun:
    """The report of an earlier run. Nothing in its folder is ever changed."""

    folder: Path
    note: nights.PreviousRun
    service: Mapping[str, str]
    rows: int
    judged_run: str  # name of the run whose answers were judged again. Empty if these are new
    is_work_list_edited: bool
    files: Collection[str]  # their names, as its manifest lists them
    first_observed_at: datetime | None
    canary: str | None

    def lines(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield its rows as JSON: making a `Row` of each takes longer than reading it."""
        return ((json.loads(text), text) for text in report_rows.lines_of(self.folder / report_rows.ROWS))

    def memory(self) -> Iterator[tuple[str, bytes]]:
        """Yield the lines about references of earlier runs: breaks that it does not have, and what was settled."""
        lines = report_rows.lines_of(self.folder / HISTORY) if HISTORY in self.files else ()
        return ((json.loads(text)["reference"], text) for text in lines)

    def breaks(self, lines: Iterable[dict[str, Any]]) -> tuple[Mapping[Code, nights.BreakRecord], list[Row]]:
        """Return the breaks of a reference, and the rows. *lines* are all of its rows and of its memory."""
        found = [*lines]
        remembered = [from_json(each["known"], nights.BreakRecord) for each in found if "known" in each]
        judged = [report_rows.row_from_json(each) for each in found if "bucket" in each]
        return nights.breaks_of(judged, run=self.note.run, remembered=remembered), judged

    def records(
        self, is_listed: Callable[[str], bool], on_row: Callable[[nights.ListedRow], bool]
    ) -> Iterator[tuple[nights.ReferenceRecord, Sequence[Entry]]]:
        """Yield its records for a run after it, by reference, merged on the disk. *on_row* takes its ledger."""
        with closing(temporary_database("kept (reference TEXT, has_left INTEGER, state TEXT, text BLOB)")) as database:
            database.executemany("INSERT INTO kept VALUES (?, ?, ?, ?)", self._kept(is_listed, on_row))
            stored = database.execute("SELECT * FROM kept ORDER BY reference")
            for reference, group in groupby(stored, key=itemgetter(0)):
                yield self._record(reference, [*group], is_listed=is_listed(reference))

    def _kept(
        self, is_listed: Callable[[str], bool], on_row: Callable[[nights.ListedRow], bool]
    ) -> Iterator[tuple[str, bool, str, bytes | None]]:
        """Yield reference, whether the row has left the ledger, its state, and its line if that matters."""
        for row, text in self.lines():
            reference, side, status = row["reference"], row.get("statement"), row["status"]
            is_missed = not row["carried_from"] and (side is None or side["is_in_ledger"]) and on_row(_listed(row))
            if reference is None:
                continue
            is_now, is_settled = is_listed(reference), side is not None and side["is_settled"]
            is_open = row["bucket"] != Bucket.MATCHED or any(each.get("is_accepted") for each in row["findings"])
            has_left, state = is_missed or Code.LEFT_THE_LEDGER in _codes(row), ""
            if "was_paid" in row:
                state = Status.PAID.value
            elif row["bucket"] != Bucket.UNRESOLVED:
                state = status["service_meaning"] or status["service"] or ""
            if has_left or is_open or (is_now and is_settled):
                yield reference, has_left, state, text
            elif is_now and state:
                yield reference, False, state, None
            elif side is not None and is_settled:
                record = nights.ReferenceRecord(
                    reference=reference,
                    settled=report_rows.settled_from(side),
                    was_in_ledger=side["is_in_ledger"] or "was_in_ledger" in side,
                )
                yield reference, False, "", report_rows.memory_line(record).encode()
        yield from ((reference, False, "", text) for reference, text in self.memory())

    def _record(
        self, reference: str, found: Sequence[tuple[str, bool, str, bytes | None]], *, is_listed: bool
    ) -> tuple[nights.ReferenceRecord, Sequence[Entry]]:
        lines = [json.loads(text) for *_, text in found if text is not None]
        states = [state for _, _, state, _ in found if state]
        breaks, judged = self.breaks(lines)
        memory = next((each for each in lines if "settled" in each), dict[str, Any]())
        sides = [row.other_side for row in judged if row.other_side is not None]
        settled = next((side.settled for side in sides if side.settled), None)
        if settled is None and memory:
            settled = report_rows.settled_from(memory["settled"])
        is_paid, entries = Status.PAID in states, [entry for row in judged for entry in _entries(row)]
        is_open = any(known.is_open for known in breaks.values())
        has_left = any(has_left for _, has_left, *_ in found)
        is_carried = not is_listed and (has_left or is_open or any(row.bucket is not Bucket.MATCHED for row in judged))
        record = nights.ReferenceRecord(
            reference=reference,
            breaks=tuple(breaks.values()),
            is_paid=is_paid,
            other_state="" if is_paid or not states else states[0],
            settled=None if settled is None else attrs.evolve(settled, lines=(), before=None),
            has_left=has_left and not is_listed,
            was_rejected=is_carried and any(row.was_rejected or not _entries(row) for row in judged),
            was_in_ledger=bool(memory.get("was_in_ledger")) or any(side.was_in_ledger for side in sides),
            is_waiting=any(row.is_waiting for row in judged),
            gone_for=memory.get("gone_for", 0),
            is_in_ledger=all(side.is_in_ledger for side in sides),
            carried_from=next((row.carried_from for row in judged), ""),
        )
        return record, (entries or [_asked(reference, judged)]) if is_carried else ()

    def answers(self) -> Iterator[tuple[Sequence[Entry], Observation]]:
        """Yield its answers that a run after it may reuse."""
        for data, _ in self.lines():
            if data["bucket"] != Bucket.MATCHED or data["carried_from"] or Code.DUPLICATE_REFERENCE in _codes(data):
                continue
            row = report_rows.row_from_json(data)
            at, entries = row.confirmed_at or row.observed_at, _entries(row)
            if row.transaction is not None and at is not None and entries:
                asked_by = row.reused_from or self.note.run
                answer = Observation(answer=Answer.FOUND, at=at, transaction=row.transaction, reused_from=asked_by)
                yield entries, answer

    def found(self) -> Iterator[str]:
        """Yield the references that it found, its canary first."""
        yield from filter(None, [self.canary])
        yield from (row["reference"] for row, _ in self.lines() if row["service"] is not None)

    def check_same_service(self, other: About | Self, whose: str) -> None:
        for name, label in _WHERE.items():
            ours, theirs = (each[name] or "not recorded" for each in (self.service, other.service))
            if ours != theirs:
                message = f"its {label} is {ours!r}, but {whose} has {theirs!r}"
                raise PastRunError(f"{self.folder} cannot be compared: {message}")
        key = self.service["key_fingerprint"]
        check_same_merchant(f"{self.folder} cannot be compared", key, self.found, other, whose)


def check_same_merchant(
    problem: str, key: str, found: Callable[[], Iterable[str]], other: About | PastRun, whose: str
) -> None:
    """Refuse the *other* run, unless its key is *key*, or it has found one of the references *found* with that, too."""
    proofs = islice(other.found(), _MAX_PROOFS) if isinstance(other, PastRun) else [other.canary]
    if key == (theirs := other.service["key_fingerprint"]) or not {*proofs}.isdisjoint(found()):
        return
    keys = f"its key fingerprint is {key or 'not recorded'!r}, but {whose} has {theirs or 'not recorded'!r}"
    error = PastRunError(f"{problem}: {keys}; only a canary that both find shows that the keys are of one merchant")
    error.canary = next(iter(found()), "")
    raise error


def _codes(row: Mapping[str, Any]) -> set[str]:
    return {finding["code"] for finding in row["findings"]}


def _listed(row: Mapping[str, Any]) -> nights.ListedRow:
    lines = row.get("parts") or (row["ledger"],)
    amount = sum(each.get("amount") or 0 for each in lines)
    is_matched = row["bucket"] == Bucket.MATCHED or "was_paid" in row
    return row["reference"] or "", len(lines), amount, lines[0].get("created_at"), is_matched


def _entries(row: Row) -> list[Entry]:
    return [entry for entry in row.parts or (row.entry,) if isinstance(entry, Entry)]


def _asked(reference: str, rows: Sequence[Row]) -> Entry:
    """Return what is looked up for *rows* that cannot be used, or are not there."""
    entry = next((row.entry for row in rows), None)
    facts = {name: getattr(entry, name, None) for name in ("amount", "status")}
    stated = {name: value for name, value in facts.items() if value is not None}
    return Entry(line=entry.line if entry else 1, reference=reference, **stated)


def open_past_run(folder: Path) -> PastRun:
    """
    Check the report in *folder*, and its journal if there is one, without changing anything.

    Returns:
        The run, for `RunDiff`.

    Raises:
        PastRunError: When the report is missing, a file of it was changed, or its run has not ended.
    """
    # The work list may be edited or missing, because it is never read.
    if not folder.is_dir():
        raise PastRunError(f"no report found at {folder}")
    if problem := next(_problems(folder), ""):
        raise PastRunError(f"{folder} cannot be compared: {problem}", folder=folder)
    manifest, summary = _read(folder / MANIFEST), _read(folder / "summary.json")
    rules = {name: value for name, value in summary["rules"].items() if name != "fingerprint"}
    again, ledger, since = manifest["judged_again"], manifest["ledger"], summary["since"]
    listed = {file["name"]: file["sha256"] for file in manifest["files"]}
    return PastRun(
        folder=folder,
        note=nights.PreviousRun(
            run=manifest["run"] or folder.resolve().name,
            folder=folder.resolve().name,
            last_observed_at=report_rows.read_time(summary["last_observed_at"]),
            rules=rules_from_json(rules),
            buckets={name: total["rows"] for name, total in summary["buckets"].items()},
            trend=tuple((each["run"], each["breaks"]) for each in since["trend"]) if since else (),
            ledger_sha256=ledger["sha256"] if ledger else "",
            manifest_sha256=manifest["sha256"],
            rows_sha256=listed[report_rows.ROWS],
            shown=from_json(summary["shown"], dict[str, tuple[str, ...]]),
            open_findings=from_json(summary["open_findings"]["closing"], FindingTotal),
            stated=(*summary["compared"]["stated"], *["statement"] * bool(summary["settlement"])),
            left_out=_left_out(summary),
        ),
        service=manifest["service"],
        rows=summary["rows"],
        judged_run=again["run"] if again else "",
        is_work_list_edited=bool(verify(folder, only={WORK_LIST})),
        files=listed,
        first_observed_at=report_rows.read_time(summary["first_observed_at"]),
        canary=summary["canary"],
    )


def _left_out(summary: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what a run did not compare, of its `summary.json`."""
    side = summary["settlement"]
    files: list[Mapping[str, Any]] = [file or {} for file in (summary["ledger"], side and side["statement"])]
    unused = dict(zip(("unused", "unused_in_statement"), (file.get("unused", ()) for file in files), strict=True))
    sheets = [sheet for file in files for sheet in file.get("unread_sheets", ())]
    return from_json({**summary["compared"], **unused, "unread_sheets": sheets}, Compared).left_out


def gaps(previous: Path, out: Path, also: Path | None) -> Iterator[tuple[str, str]]:
    """Yield what is beside the *previous* run, and not known through it, with the way on. *also* has decisions."""
    ended, chain = (previous / MANIFEST).stat().st_mtime_ns, integrity.chain_of(previous)
    for journal in sorted(previous.resolve().parent.glob(f"*/{JOURNAL}")):
        folder = journal.parent
        if folder != out.resolve() and not (folder / MANIFEST).exists() and journal.stat().st_mtime_ns > ended:
            what = f"the run in '{escape_unprintable(str(folder))}' did not write its report, so nothing of it is known"
            yield what, "run its command again, and then this one with --previous and its folder"
    for folder in chain.forks:
        if folder != out.resolve():
            where = f"the run in '{escape_unprintable(str(folder))}'"
            what = f"{where} follows a run before {previous}, so its breaks are not followed here"
            yield what, f"run its ledger again, with another --out and --previous {previous}"
    known = {integrity.of_manifest(also, "run")} if also else set[str]()
    for run in sorted({each.run for each in integrity.read_log(previous).latest.values() if each.acceptance}):
        if run in chain.missing - known:
            what = f"the folder of the run {run} is not beside {previous}, so what was decided there since is not known"
            yield what, "name it with --decisions"


def _problems(folder: Path) -> Iterator[str]:
    # SQLite would put the log of a killed run into the journal, and so change the folder.
    if os.path.lexists(folder / f"{JOURNAL}-wal"):
        yield f"{JOURNAL}-wal is there, so its run is under way or was killed: let it end first"
    yield from (str(problem) for problem in verify(folder) if problem.file != WORK_LIST)
    listed = {file["name"] for file in integrity.of_manifest(folder, "files")}
    yield from (f"it was written without {name}" for name in ("summary.json", report_rows.ROWS) if name not in listed)
    yield from map(str, _problems_of_journal(folder))


def _problems_of_journal(folder: Path) -> Iterator[Problem]:
    """Yield nothing without a journal: a report may be kept without it."""
    if not os.path.lexists(folder / JOURNAL):
        return
    try:
        run, reported = verify_journal(folder / JOURNAL), integrity.of_manifest(folder, "run")
    except (JournalError, JournalWriteError) as error:
        yield Problem(JOURNAL, str(error))
        return
    if run and reported and run != reported:
        yield Problem(JOURNAL, f"it is of the run {quote(run)}, and the report of {quote(reported)}")


def problems_of(folder: Path) -> list[Problem]:
    """Return the problems of a report: its files, then the decisions, the signatures and the journal."""
    of_people = (*integrity.verify_decisions(folder), *integrity.verify_signatures(folder))
    return [*verify(folder), *of_people, *_problems_of_journal(folder)]


def _read(path: Path) -> Any:
    return json.loads(read_own(path))


# Written by its run, and again from its journal

_ABOUT = "about"
_STARTED = "started"
_STATEMENT = "about the statement"


def started_at(journal: Journal, now: datetime | None = None) -> datetime | None:
    """Return the start of the run, noted as *now* if none was noted before."""
    if (noted := journal.note(_STARTED)) is None and now is not None:
        journal.set_note(_STARTED, now.isoformat())
    return now if noted is None else datetime.fromisoformat(noted)


def note_about(journal: Journal, about: About) -> str:
    """Note the facts and the name of the run in the journal. Return the name, unchanged when resumed."""
    if not about.run and (started := started_at(journal)) is not None:
        about = attrs.evolve(about, run=run_name(about, started))
    journal.set_note("run", about.run)
    journal.set_note(_ABOUT, about_as_json(about))
    return about.run


def note_statement(journal: Journal, about: StatementAbout) -> None:
    journal.set_note(_STATEMENT, about)


def about_of(journal: Journal) -> About:
    """Return the noted facts of the run. None about a ledger that was not read to its end."""
    ended_by, known = journal.ended_by, journal.statement
    statement = None if known is None else journal.noted(_STATEMENT, StatementAbout)
    return attrs.evolve(
        journal.noted(_ABOUT, About) or About(),
        statement=None if statement is None or known is None else attrs.evolve(statement, totals=known.totals),
        ended_by="" if ended_by is None else ended_by.message,
        ignored_lines=journal.ignored,
        ledger_change=journal.ledger_change,
    )


def ledger_about(ledger: Ledger) -> LedgerAbout:
    names = ("format", "warnings", "excluded", "unused", "ignored", "unread_sheets")
    return LedgerAbout(
        **attrs.asdict(ledger.fingerprint),
        columns=ledger.columns.used,
        ignored_columns=ledger.columns.ignored,
        **{name: getattr(ledger, name) for name in names},
    )


def write_again(folder: Path, *on_row: Callable[[Row], object]) -> Report:
    """
    Write the report of *folder* again from its journal. The files have the same bytes.

    Args:
        folder: The folder of a run, with its journal.
        on_row: Called with each row, in order.

    Raises:
        JournalError: When the journal is missing, damaged or in use.
    """
    with Journal(folder / JOURNAL, must_exist=True) as journal:
        about = about_of(journal)
        has_statement = about.statement is not None
        with ReportFiles(folder, rules=about.rules, previous=journal.previous, has_statement=has_statement) as files:
            files.name_run(about.run)
            for row in replay(journal, rules=about.rules):
                for take in (files.add, *on_row):
                    take(row)
            return finish(files, journal, about)


def finish(files: ReportFiles, journal: Journal, about: About, ledger: Ledger | None = None) -> Report:
    """Add the journal's facts to the rows, and write the files."""
    for change in break_changes(journal, rules=about.rules, ledger_sha256=about.ledger_sha256):
        files.add_change(change)
    for record in journal.settled_without_row():
        files.add_settled(record)
    return files.finish(about, ledger=ledger)


# Two runs

DIFF_VERSION = 1
"""Grows when a reader of the difference has to change. New names alone do not make it grow."""

_TABLES = (
    "rows (is_later INTEGER, reference TEXT, text BLOB)",
    "changes (state TEXT, severity INTEGER, reference TEXT, code TEXT, text TEXT)",
)
_ADD_LATER = """
    INSERT INTO rows SELECT 1, ?2, ?3 WHERE ?1 OR EXISTS (SELECT 1 FROM rows WHERE reference = ?2 AND is_later = 0)
"""


class RunDiff:
    """The state of each break between two runs. A context manager that only reads both reports."""

    def __init__(self, earlier: PastRun, later: PastRun) -> None:
        earlier.check_same_service(later, str(later.folder))
        self.earlier: PastRun = earlier
        self.later: PastRun = later
        with ExitStack() as stack:
            self._database = stack.enter_context(closing(temporary_database(*_TABLES)))
            self.open_findings: OpenFindings = self._compare()
            self._close = stack.pop_all().close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def counts(self) -> Mapping[BreakState, int]:
        """The number of breaks in each state."""
        return {state: total.count for state, total in self.open_findings.by_state.items()}

    @property
    def changed_rules(self) -> tuple[str, ...]:
        """Names of the rules that differ between the runs, sorted."""
        return changed_rules(self.earlier.note.rules, self.later.note.rules)

    @property
    def verdict(self) -> str:
        """The result in a word or two: `news`, `not known` or `no news`."""
        if any(self.counts[state] for state in BreakState if state.is_news):
            return "news"
        return "not known" if self.counts[BreakState.NOT_KNOWN] else "no news"

    @property
    def is_reversed(self) -> bool:
        """Whether all answers of the later run are older than the earlier run's."""
        ended, began = self.later.note.last_observed_at, self.earlier.first_observed_at
        return ended is not None and began is not None and ended < began

    def exit_status(self, fail_on: Severity = Severity.MEDIUM) -> int:
        """Return 1 for news at least as severe as *fail_on*, else 75 for a break of unknown state, else 0."""
        if any(count for severity, count in self.open_findings.news.items() if severity >= fail_on):
            return 1
        return 75 if self.counts[BreakState.NOT_KNOWN] else 0

    def changes(self, state: BreakState, *, limit: int = -1) -> Iterator[dict[str, Any]]:
        """Yield the breaks in *state*, the most severe first, then by reference. *limit* of them unless it is -1."""
        query = "SELECT text FROM changes WHERE state = ? ORDER BY severity DESC, reference, code LIMIT ?"
        for (text,) in self._database.execute(query, (state.value, limit)):
            yield json.loads(text)

    def as_json(self) -> Iterator[str]:
        """Yield the difference as lines of one JSON object: both runs, and a list for each state."""
        head = {
            "schema": "payclient.reconcile.diff",
            "version": DIFF_VERSION,
            "sentence": moves(self.counts, self.earlier.note.folder),
            "earlier": _run_as_json(self.earlier),
            "later": _run_as_json(self.later),
            "changed_rules": list(self.changed_rules),
            "counts": {state.value: self.counts[state] for state in BreakState},
            "open_findings": open_findings_as_json(self.open_findings),
        }
        yield "{"
        yield from (f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items())
        for state in BreakState:
            yield f"  {json.dumps(state.value)}: ["
            for number, change in enumerate(self.changes(state), 1):
                yield f"    {json.dumps(change)}{',' if number < self.counts[state] else ''}"
            yield "  ]" if state is [*BreakState][-1] else "  ],"
        yield "}"

    # The comparison

    def _compare(self) -> OpenFindings:
        execute, insert = self._database.execute, self._database.executemany
        lines = ((row["reference"], text) for row, text in self.earlier.lines() if _matters(row))
        insert("INSERT INTO rows VALUES (0, ?, ?)", chain(lines, self.earlier.memory()))
        execute("CREATE INDEX by_reference ON rows (reference, is_later)")
        insert(_ADD_LATER, ((_matters(row), row["reference"], text) for row, text in self.later.lines()))
        with closing(Tally()) as tally:
            for change in self._changes():
                tally.add_change(change)
                order = change.history.state.value, int(change.now.severity), change.reference, change.now.code.value
                text = json.dumps(report_rows.change_as_json(change))
                execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (*order, text))
            return tally.open_findings()

    def _changes(self) -> Iterator[nights.BreakChange]:
        # Sides that are the same in both runs: the whole ledger, or the answers that were judged again.
        one, other = self.earlier, self.later
        is_ledger = one.note.ledger_sha256 == other.note.ledger_sha256 != ""
        times = [(run.first_observed_at, run.note.last_observed_at) for run in (one, other)]
        are_answers = other.judged_run == one.note.run and times[0] == times[1]
        unchanged = [ResolvedBy.LEDGER] * is_ledger + [ResolvedBy.SERVICE] * are_answers
        stored = self._database.execute("SELECT reference, is_later, text FROM rows ORDER BY reference, is_later")
        for reference, lines in groupby(stored, key=itemgetter(0)):
            texts: dict[int, list[bytes]] = {0: [], 1: []}
            for _, is_later, text in lines:
                texts[is_later].append(text)
            (was, before), (_, now) = (
                run.breaks(map(json.loads, texts[each])) for each, run in enumerate((one, other))
            )
            changes = nights.changes_of(
                *(reference, was, now),
                run=other.note.run,
                before=nights.observed_at(before),
                is_judged=self._is_judged,
                unchanged=unchanged,
            )
            yield from (change for change in changes if not change.is_old)

    def _is_judged(self, reference: str) -> bool:
        query = "SELECT text FROM rows WHERE reference = ? AND is_later = 1"
        buckets = {json.loads(text)["bucket"] for (text,) in self._database.execute(query, (reference,))}
        return bool(buckets) and buckets.isdisjoint((Bucket.UNRESOLVED, Bucket.REJECTED))


def _matters(row: Mapping[str, Any]) -> bool:
    is_break = row["bucket"] == Bucket.BREAK or Code.DUPLICATE_REFERENCE in _codes(row)
    return row["reference"] is not None and is_break


def _run_as_json(run: PastRun) -> Mapping[str, Any]:
    named = {name: getattr(run.note, name) for name in ("run", "folder", "manifest_sha256")}
    times = {"first_observed_at": run.first_observed_at, "last_observed_at": run.note.last_observed_at}
    return {**named, "rows": run.rows, **as_json(times)}
