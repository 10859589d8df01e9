"""The folder of one run: the facts noted in its journal, and its report, written from the journal alone."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import attrs
from attrs import asdict

from payclient.reconcile import Journal, Row, Rules, Summary, break_changes, replay
from payclient.reconcile.folders._past_run import JOURNAL
from payclient.reconcile.ledger import Ledger
from payclient.reconcile.report import (
    About,
    LedgerAbout,
    ReportFiles,
    StatementAbout,
    about_as_json,
    about_from_json,
    run_name,
)
from payclient.reconcile.rules import as_json, from_json

_ABOUT = "about"
_STARTED = "started"
_STATEMENT = "about the statement"


def started_at(journal: Journal, now: datetime | None = None) -> datetime | None:
    """Return the start of the run, noted as *now* if none was noted before."""
    if (noted := journal.note(_STARTED)) is None and now is not None:
        journal.set_note(_STARTED, now.isoformat())
    return now if noted is None else datetime.fromisoformat(noted)


def note_about(journal: Journal, about: About) -> str:
    """Note the facts and the name of the run in the journal; return the name, unchanged when resumed."""
    if (started := started_at(journal)) is not None:
        about = attrs.evolve(about, run=run_name(about, started))
    journal.set_note("run", about.run)
    journal.set_note(_ABOUT, json.dumps(about_as_json(about)))
    return about.run


def note_statement(journal: Journal, about: StatementAbout) -> None:
    journal.set_note(_STATEMENT, json.dumps(as_json(about)))


def about_of(journal: Journal) -> About:
    """Return the noted facts of the run; none about a ledger that was not read to its end."""
    noted = journal.note(_ABOUT)
    about = About() if noted is None else about_from_json(json.loads(noted))
    ended_by = journal.ended_by
    statement, known = journal.note(_STATEMENT), journal.statement
    return attrs.evolve(
        about,
        statement=None
        if statement is None or known is None
        else attrs.evolve(from_json(json.loads(statement), StatementAbout), totals=known.totals),
        ended_by="" if ended_by is None else ended_by.message,
        ignored_lines=journal.ignored,
        ledger_change=journal.ledger_change,
    )


def ledger_about(ledger: Ledger) -> LedgerAbout:
    return LedgerAbout(
        **asdict(ledger.fingerprint),
        format=ledger.format,
        columns=ledger.columns.used,
        ignored_columns=ledger.columns.ignored,
        warnings=ledger.warnings,
        excluded=ledger.excluded,
        unused=ledger.unused,
    )


def write_again(folder: Path, *on_row: Callable[[Row], object]) -> tuple[Summary, Rules]:
    """Write the report of *folder* again from its journal alone: the same bytes; return its summary and its rules."""
    with Journal(folder / JOURNAL, must_exist=True) as journal:
        about = about_of(journal)
        has_statement = about.statement is not None
        with ReportFiles(folder, rules=about.rules, previous=journal.previous, has_statement=has_statement) as files:
            files.name_run(about.run)
            for row in replay(journal, rules=about.rules):
                for take in (files.add, *on_row):
                    take(row)
            return finish(files, journal, about), about.rules


def finish(files: ReportFiles, journal: Journal, about: About, ledger: Ledger | None = None) -> Summary:
    """Add the journal's facts to the rows, and write the files."""
    for change in break_changes(journal, rules=about.rules, ledger_sha256=about.ledger_sha256):
        files.add_change(change)
    return files.finish(about, ledger=ledger)
