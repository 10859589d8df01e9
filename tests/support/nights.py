"""Runs one after the other, each with the one before as its previous run, without a network or a real clock."""

import json
from datetime import UTC, datetime, timedelta

from attrs import evolve, frozen

from payclient import errors
from payclient.protocol import Transaction
from payclient.reconcile import STRICT, Journal, Row, Summary, break_changes, reconcile
from payclient.reconcile.folders import JOURNAL, PastRun, open_past_run
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, LedgerAbout, ReportFiles, StatementAbout
from support.reconciling import Clock, Service

FIRST = datetime(2026, 11, 20, 2, tzinfo=UTC)
FILE = LedgerAbout(name="settlement.csv", format="csv", size_bytes=0, sha256="", columns={})
FORMATS = ("summary.json", "rows.jsonl", "breaks.csv")


def entry(reference, amount=9, status="Paid", line=2, **fields):
    """Return a row of the ledger."""
    return Entry(line=line, reference=reference, amount=amount, status=status, **fields)


def paid(reference, amount=9, status="Paid", **fields):
    """Return a transaction of the service."""
    return Transaction(reference=reference, amount=amount, status=status, **fields)


@frozen
class Night:
    """What one run left behind."""

    run: PastRun
    summary: Summary
    rows: tuple[Row, ...]

    def __getitem__(self, reference):
        """Return the only row with this reference."""
        (row,) = (row for row in self.rows if row.reference == reference)
        return row

    @property
    def memory(self):
        """What `history.jsonl` says of breaks that are gone, by reference and code."""
        lines = map(json.loads, (text for _, text in self.run.memory()))
        return {(line["reference"], line["code"]): line for line in lines if "known" in line}

    @property
    def states(self):
        """The state of each break, by reference and code; of those that are gone too."""
        present = {
            (row.reference, finding.code.value): finding.history.state.value
            for row in self.rows
            for finding in row.findings
            if finding.history is not None
        }
        gone = {key: line["state"] for key, line in self.memory.items() if not line["is_old"]}
        assert not present.keys() & gone.keys()
        return present | gone


class Nights:
    """
    A folder of runs.

    Args:
        folder: Where the runs go, one folder each.
        formats: The files of each report.
    """

    def __init__(self, folder, *, formats=FORMATS):
        self._folder, self._formats, self._count = folder, formats, 0

    async def __call__(self, entries, answers, *, previous=None, rules=STRICT, name=None, service=None, **options):
        """Reconcile *entries*; a lone answer is given to every lookup of its reference, and CANARY is always there."""
        self._count += 1
        name = name or f"night-{self._count}"
        known = {reference: each if isinstance(each, list) else [each] for reference, each in answers.items()}
        before = None if previous is None else previous.run
        given = None if before is None else (before.note, before.records)
        rows = []
        with Journal(self._folder / name / JOURNAL) as journal:
            journal.set_note("run", name)
            with ReportFiles(
                self._folder / name, formats=self._formats, rules=rules, previous=None if given is None else given[0]
            ) as files:
                files.name_run(name)
                found = reconcile(
                    entries,
                    service or Service(known | {"CANARY": [paid("CANARY")]}),
                    journal=journal,
                    concurrency=1,
                    rules=rules,
                    previous=given,
                    **{"canary": "CANARY", "clock": Clock(FIRST + timedelta(days=self._count)), **options},
                )
                try:
                    async for row in found:
                        files.add(row)
                        rows.append(row)
                except errors.PayClientError:
                    pass
                for change in break_changes(journal, rules=rules):
                    files.add_change(change)
                for record in journal.settled_without_row():
                    files.add_settled(record)
                side = None if journal.statement is None else StatementAbout(file=FILE, totals=journal.statement.totals)
                report = files.finish(
                    evolve(About(rules=rules), run=name, statement=side, ledger_change=journal.ledger_change)
                )
        return Night(open_past_run(self._folder / name), report.summary, tuple(rows))
